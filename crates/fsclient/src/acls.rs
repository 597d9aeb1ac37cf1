//! Operations that take several requests because of ACLs: a list in step with its mode, and lists that new
//! inodes inherit.

use crate::acl::{self, Acl};
use crate::api::{Answer, FsRequest, Ino, SetAttr};
use crate::inode::Inode;
use crate::key::InodeKey;
use crate::mds_request;
use crate::mode;
use crate::namespace::Namespace;
use crate::op::{Attempt, Step, done, fail};
use msgs::{ClientReply, MdsOp};
use wire::Errno;

impl Namespace<'_> {
    /// The default list of the directory has to be known before something is made in it.
    pub(crate) fn prepare_new(&mut self, attempt: &mut Attempt<'_>, dir: Ino) -> Option<Step> {
        let is_known = self.cache.inode(InodeKey::head(dir)).is_some_and(Inode::knows_acls);
        (!is_known).then(|| self.sessions.ask(attempt, self.cache, mds_request::look_at(dir)))
    }

    /// Sets an access list: the mode first, then the list, unless the mode says it all.
    pub(crate) fn set_acl(
        &mut self,
        attempt: &mut Attempt<'_>,
        ino: Ino,
        value: &[u8],
        kill_sgid: bool,
    ) -> Step {
        let acl = match Acl::decode(value) {
            Ok(acl) => acl,
            Err(errno) => return fail(errno),
        };
        let old = self.cache.inode(InodeKey::head(ino)).map_or(0, |inode| inode.attrs().mode());
        let kept = old & !mode::PERMISSIONS & if kill_sgid { !mode::SET_GID } else { u32::MAX };
        let set = SetAttr { mode: Some(kept | acl.mode()), ..SetAttr::default() };
        self.ask(attempt, &FsRequest::Setattr { ino, set })
    }

    /// Goes on with an operation that takes several requests. `None` if this was its last answer.
    pub(crate) fn go_on_with_acl(
        &mut self,
        attempt: &mut Attempt<'_>,
        request: &FsRequest,
        reply: &ClientReply,
    ) -> Option<Step> {
        use FsRequest as R;
        let error = Errno::from_result_code(reply.result);
        match (request, reply.op) {
            (R::Mknod { .. } | R::Mkdir { .. } | R::Create { .. }, MdsOp::GETATTR) => {
                Some(error.map_or_else(|| self.ask(attempt, request), fail))
            }
            (R::Setattr { ino, set }, MdsOp::SETATTR) if error.is_none() => {
                let attrs = self.cache.inode(InodeKey::head(*ino))?.attrs();
                let acl = Acl::decode(attrs.xattrs().get(acl::ACCESS)?).ok()?.with_mode(set.mode?);
                let (name, value) = (acl::ACCESS.to_vec(), acl.encode());
                let follow = R::Setxattr { ino: *ino, name, value, flags: 0, kill_sgid: false };
                Some(self.ask(attempt, &follow))
            }
            (R::Setxattr { ino, name, value, .. }, MdsOp::SETATTR) if error.is_none() => {
                if Acl::decode(value).is_ok_and(|acl| acl.is_minimal()) {
                    return Some(self.ask(attempt, &R::Removexattr { ino: *ino, name: name.clone() }));
                }
                Some(self.ask(attempt, request))
            }
            // There was no list before.
            (R::Setxattr { .. }, MdsOp::RMXATTR) if error == Some(Errno::ENODATA) => Some(done(Answer::Done)),
            _ => None,
        }
    }
}
