//! Quotas: limits of trees, which clients observe. What is used is known some seconds late, as in Ceph.

use crate::api::FsRequest;
use crate::cache::Cache;
use crate::key::InodeKey;
use wire::Errno;

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
