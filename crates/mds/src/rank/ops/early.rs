//! Early answers: a client is told of its own change before the change is durable. It keeps the request until
//! the safe answer comes, and repeats it if a crash loses the change.

use crate::cache::Cache;
use crate::ops::{Plan, is_replay};
use crate::rank::sessions::Session;
use crate::types::{ClientId, Lsn};
use fsfmt::{Ino, Link, Update};
use msgs::{ClientRequest, MdsOp, SetattrArgs, setattr_mask};

/// True if the answer may leave before the event is durable. What grants a range to a writer must be known to
/// a successor, and so must who works in a directory alone; what changes a size cuts objects, and a create's
/// number must be reserved.
pub(super) fn allows(session: &Session, cache: &Cache, request: &ClientRequest, plan: &Plan) -> bool {
    let is_reserved = || session.has_reserved(plan.created);
    let may_leave = match request.op {
        MdsOp::CREATE => plan.created != Ino(0) && is_reserved(),
        MdsOp::MKNOD | MdsOp::MKDIR | MdsOp::SYMLINK => is_reserved(),
        MdsOp::LINK | MdsOp::UNLINK | MdsOp::RMDIR | MdsOp::RENAME | MdsOp::RENAME_FLAGS => true,
        MdsOp::SETXATTR | MdsOp::RMXATTR => true,
        MdsOp::SETATTR => request.args.get::<SetattrArgs>().mask & setattr_mask::SIZE == 0,
        _ => false,
    };
    // Clients learn of realms when they are durable, and of nothing before that is in them.
    let is_known = plan.realm.is_none() && !plan.local.iter().any(|update| acquires(cache, update));
    may_leave && is_known && !plan.local.is_empty() && !is_replay(request)
}

/// True if an update records a client in a directory that exists already as the one that works there alone.
fn acquires(cache: &Cache, update: &Update) -> bool {
    let link = match update {
        Update::Dentry { value, .. } => value.as_ref().map(|dentry| &dentry.link),
        _ => None,
    };
    let data = match (update, link) {
        (Update::Base { inode: data }, _) | (_, Some(Link::Primary(data))) => data,
        _ => return false,
    };
    let Some(inode) = cache.inodes.get(&data.key()).filter(|inode| inode.data.is_dir()) else { return false };
    let had = |client| inode.data.ranges.get(client).is_some_and(|range| range.bits != 0);
    data.ranges.iter().any(|(client, range)| range.bits != 0 && !had(client))
}

/// The newest event of others that changed what these updates replace.
pub(super) fn replaced(cache: &Cache, client: ClientId, updates: &[Update]) -> Lsn {
    let inode = |ino| cache.inodes.get(&ino).map_or(0, |inode| inode.change.before(client));
    let of = |update: &Update| match update {
        Update::Dentry { dir, key, value } => {
            let slot = cache.slot(*dir, key);
            let old = slot.map_or(0, |slot| slot.change().before(client));
            let was = slot.and_then(|slot| slot.link(key).inode()).map_or(0, inode);
            let is = value.as_ref().map_or(0, |dentry| inode(dentry.link.ino().head()));
            old.max(was).max(is)
        }
        Update::Base { inode: data } => inode(data.key()),
        _ => 0,
    };
    updates.iter().map(of).max().unwrap_or(0)
}
