//! An operation that was carried out before: only its answer is made again.

use super::context::Cx;
use super::flags::is_async;
use super::open_flags::wanted_by_create;
use super::plan::{Extra, Plan, Reply};
use super::snap;
use crate::types::{Need, Place, Stop};
use fsfmt::{Ino, InodeKey};
use msgs::MdsOp;

/// A request that comes again after it was carried out, because its answer was lost with a former life of
/// ours: the answer is made from what is there now, which others may have changed since. It never fails.
pub(super) fn prepare(cx: &Cx<'_>, created: Ino) -> Result<Plan, Stop> {
    if cx.is_replay() {
        // The client had its answer early: it only waits for the safe one.
        return Ok(Plan::default());
    }
    let left = match cx.request.op {
        MdsOp::MKSNAP | MdsOp::RENAMESNAP => snap::lookup(cx).map(|plan| plan.reply),
        MdsOp::RMSNAP => Ok(Reply::default()),
        _ => what_is_left(cx, created),
    };
    let mut reply = match left {
        Err(Stop::Fail(_)) => Reply::default(),
        // It has been handed over since: another rank knows no more of the request.
        Err(Stop::Need(needs)) if needs.iter().any(is_elsewhere) => Reply::default(),
        other => other?,
    };
    if created.0 != 0 && cx.delegates_numbers() {
        reply.extra = Extra::Created(created);
    }
    Ok(Plan { reply, ..Plan::default() })
}

/// The inode that an executed request made or changed, and its name if that still leads there.
fn what_is_left(cx: &Cx<'_>, created: Ino) -> Result<Reply, Stop> {
    let op = cx.request.op;
    let mut reply = Reply::default();
    if cx.request.path.path.is_empty() {
        reply.target = Some(cx.resolve(&cx.request.path)?.ino);
    } else {
        let made = match op {
            MdsOp::LINK => Some(cx.resolve(&cx.request.path2)?.ino),
            _ if created.0 != 0 => Some(created.head()),
            _ => None,
        };
        if let Some(ino) = made {
            cx.inode(ino)?;
            reply.target = made;
        }
        match named(cx) {
            // The name may lead to a successor of what was removed or renamed.
            Ok((place, found)) if made.is_none() || made == found => {
                (reply.dentry, reply.target) = (Some(place), found);
            }
            Ok(_) | Err(Stop::Fail(_)) => {}
            Err(need) => return Err(need),
        }
    }
    let makes = matches!(op, MdsOp::CREATE | MdsOp::MKDIR) && created.0 != 0 && reply.target.is_some();
    reply.is_assumed = makes && is_async(cx.request);
    if let Some(ino) = reply.target
        && matches!(op, MdsOp::CREATE | MdsOp::OPEN)
        && cx.inode(ino)?.data.is_file()
    {
        reply.want = wanted_by_create(cx.request);
    }
    Ok(reply)
}

/// The request's name, and the inode that it leads to.
fn named(cx: &Cx<'_>) -> Result<(Place, Option<InodeKey>), Stop> {
    let (dir, key) = cx.parent(&cx.request.path)?;
    let found = cx.entry(dir, &key)?.inode();
    if let Some(ino) = found {
        cx.inode(ino)?;
    }
    Ok(((dir, key), found))
}

/// True if another rank has what is needed.
fn is_elsewhere(need: &Need) -> bool {
    matches!(need, Need::Remote(_) | Need::Together { .. } | Need::Sought(_))
}
