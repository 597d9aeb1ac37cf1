//! Quotas: limits of trees, which clients observe. What is used is known some seconds late, as in Ceph.

use crate::api::FsRequest;
use crate::cache::Cache;
use crate::key::InodeKey;
use crate::mds_request::open_flag;
use crate::names::Name;
use crate::namespace::Namespace;
use crate::op::{Attempt, Step, fail};
use msgs::{ClientReply, MdsOp};
use wire::Errno;

impl Namespace<'_> {
    /// Refuses what a quota does not allow. A file that `O_CREAT` would only open may be opened: whether it
    /// `exists` is asked first, if it is not known.
    pub(crate) fn refused_by_quota(
        &mut self,
        attempt: &mut Attempt<'_>,
        request: &FsRequest,
        exists: bool,
    ) -> Option<Step> {
        let errno = refusal(self.cache, request)?;
        let (parent, name) = match request {
            FsRequest::Create { parent, name, flags, .. } if flags & open_flag::EXCL == 0 => (*parent, name),
            _ => return Some(fail(errno)),
        };
        match self.cache.lookup(attempt.now(), InodeKey::head(parent), name) {
            _ if exists => None,
            Name::Inode(_) => None,
            Name::Absent => Some(fail(errno)),
            Name::Unknown => Some(self.ask(attempt, &FsRequest::Lookup { parent, name: name.clone() })),
        }
    }

    /// Takes the answer to the question whether a file exists. `None` if it is another.
    pub(crate) fn looked_up(request: &FsRequest, reply: &ClientReply) -> Option<Result<(), Errno>> {
        let is_asked = matches!(request, FsRequest::Create { .. }) && reply.op == MdsOp::LOOKUP;
        is_asked.then(|| match Errno::from_result_code(reply.result) {
            None => Ok(()),
            Some(Errno::ENOENT) => Err(Errno::EDQUOT),
            Some(errno) => Err(errno),
        })
    }
}

/// The error of an operation on names or inodes that a quota does not allow.
fn refusal(cache: &Cache, request: &FsRequest) -> Option<Errno> {
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
