//! Quotas: limits of trees, which clients observe. What is used is known some seconds late, as in Ceph.

use crate::api::{FsRequest, Ino};
use crate::cache::Cache;
use crate::key::InodeKey;
use crate::mds_request::{self, open_flag};
use crate::names::Name;
use crate::namespace::Namespace;
use crate::op::{Attempt, Step, fail};
use msgs::{ClientReply, ClientRequest, MdsOp};
use wire::Errno;

impl Namespace<'_> {
    /// Has an MDS describe what a request names and is not here: which quotas concern it is known by its
    /// realm. What was `looked_at` for that is not asked for again, nor what is named before it.
    pub(crate) fn look_for_quotas(
        &mut self,
        attempt: &mut Attempt<'_>,
        request: &FsRequest,
        looked_at: Option<Ino>,
    ) -> Option<Step> {
        let named = limited(request);
        let after = |ino| named.iter().position(|other| *other == Some(ino)).map_or(named.len(), |at| at + 1);
        let mut rest = named[looked_at.map_or(0, after)..].iter().flatten().copied();
        let ino = rest.find(|ino| self.cache.lacks_quotas_of(InodeKey::head(*ino)))?;
        let message = ClientRequest { op: MdsOp::LOOKUPINO, ..mds_request::look_at(ino) };
        Some(self.sessions.ask(attempt, self.cache, message))
    }

    /// The inode that an MDS has described because of quotas. `None` if this is another answer: that an inode
    /// is gone ends the operation, whatever it was looked at for.
    pub(crate) fn looked_at(reply: &ClientReply) -> Option<Ino> {
        let is_found = reply.op == MdsOp::LOOKUPINO && reply.result >= 0;
        reply.trace.target.as_ref().filter(|_| is_found).map(|target| target.ino)
    }

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

/// The inodes on which it depends whether a quota allows a request.
fn limited(request: &FsRequest) -> [Option<Ino>; 2] {
    use FsRequest as R;
    match request {
        R::Create { parent: dir, .. }
        | R::Mknod { parent: dir, .. }
        | R::Mkdir { parent: dir, .. }
        | R::Symlink { parent: dir, .. }
        | R::Link { new_parent: dir, .. } => [Some(*dir), None],
        R::Setattr { ino, set } if set.size.is_some() && set.mode.is_none() => [Some(*ino), None],
        R::Rename { parent, new_parent, .. } if parent != new_parent => [Some(*parent), Some(*new_parent)],
        _ => [None, None],
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
            let [from, to] = [*parent, *new_parent].map(InodeKey::head);
            let is_known = !cache.lacks_quotas_of(from) && !cache.lacks_quotas_of(to);
            (is_known && cache.quota_root(from) != cache.quota_root(to)).then_some(Errno::EXDEV)
        }
        _ => None,
    }
}
