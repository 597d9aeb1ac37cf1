//! Quotas: limits of trees, which clients observe. What is used is known some seconds late, as in Ceph.

use crate::api::{Answer, FsRequest, Ino, Statfs};
use crate::cache::Cache;
use crate::inode::Attributes;
use crate::key::InodeKey;
use crate::op::{Attempt, Stage, Step, done};
use crate::sessions::Sessions;
use msgs::{ClientRequest, FilePath, GetattrArgs, MdsOp, cap};
use wire::Errno;

/// The units of a statfs answer: as Ceph's clients report, and for small quotas.
const BLOCK: u64 = 4 << 20;
const SMALL_BLOCK: u64 = 4096;

/// The error of an operation on names or inodes that a quota does not allow.
pub(crate) fn refusal(cache: &Cache, request: &FsRequest) -> Option<Errno> {
    use FsRequest as R;
    match request {
        R::Create { parent: dir, .. }
        | R::Mknod { parent: dir, .. }
        | R::Mkdir { parent: dir, .. }
        | R::Symlink { parent: dir, .. }
        | R::Link { new_parent: dir, .. } => {
            if matches!(request, R::Link { .. }) && stdx::mutants::is_active("client_links_beyond_quotas") {
                return None;
            }
            cache.exceeds_files(InodeKey::head(*dir)).then_some(Errno::EDQUOT)
        }
        R::Setattr { ino, set } => {
            let (key, size) = (InodeKey::head(*ino), set.size?);
            let grows = cache.inode(key).is_some_and(|inode| size > inode.attrs().size());
            (grows && cache.exceeds_bytes(key, size)).then_some(Errno::EDQUOT)
        }
        // What moves to another tree would have to be counted first: programs then copy it.
        R::Rename { parent, new_parent, .. } if parent != new_parent => {
            let root = |dir: &u64| cache.quota_root(InodeKey::head(*dir));
            (root(parent) != root(new_parent)).then_some(Errno::EXDEV)
        }
        _ => None,
    }
}

/// statfs(2) of a mount whose root has a quota of bytes: that, and what is used of it. The MDS is asked for
/// the latter first. `None` if there is no such quota.
pub(crate) fn statfs(
    cache: &Cache,
    sessions: &mut Sessions,
    attempt: &mut Attempt<'_>,
    root: Ino,
) -> Option<Step> {
    let root = cache.inode(InodeKey::head(root)).filter(|root| root.attrs().quota().max_bytes > 0)?;
    match attempt.take_stage() {
        Stage::New => {
            let path = FilePath { ino: root.key().ino(), path: Vec::new() };
            let args = GetattrArgs { mask: cap::PIN | cap::FILE_SHARED }.into();
            let message = ClientRequest { op: MdsOp::GETATTR, path, args, ..ClientRequest::default() };
            Some(sessions.ask(attempt, cache, message))
        }
        // Whether it could tell or not: what is known is better than nothing.
        Stage::Answered(_) => Some(done(Answer::Statfs(statfs_of(root.attrs())))),
        stage => Some(attempt.wait_at(stage)),
    }
}

fn statfs_of(root: &Attributes) -> Statfs {
    let most = root.quota().max_bytes;
    let block = if most < BLOCK { SMALL_BLOCK } else { BLOCK };
    let (blocks, used) = (most / block, root.rbytes() / block);
    let (files, free_files) = files_of(root, most.saturating_sub(root.rbytes()));
    Statfs { block: block as u32, blocks, free: blocks.saturating_sub(used), files, free_files }
}

/// All files and the free ones of a statfs answer, with so many free bytes.
pub(crate) fn files_of(root: &Attributes, free_bytes: u64) -> (u64, u64) {
    let (used, most) = (root.recursive_entries(), root.quota().max_files);
    let free = if most > 0 { most.saturating_sub(used) } else { free_bytes / SMALL_BLOCK };
    (used.saturating_add(free), free)
}
