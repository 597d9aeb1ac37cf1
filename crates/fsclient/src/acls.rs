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
use msgs::{ClientReply, MdsOp, cap};
use wire::Errno;

impl Namespace<'_> {
    /// The default list of the directory has to be known before something is made in it.
    pub(crate) fn prepare_new(&mut self, attempt: &mut Attempt<'_>, dir: Ino) -> Option<Step> {
        let is_known = self.cache.inode(InodeKey::head(dir)).is_some_and(Inode::knows_acls);
        (!is_known).then(|| self.sessions.ask(attempt, self.cache, mds_request::look_at(dir)))
    }

    /// Sets an access list, once the mode is known of which the list says only a part.
    pub(crate) fn prepare_acl(
        &mut self,
        attempt: &mut Attempt<'_>,
        ino: Ino,
        value: &[u8],
        kill_sgid: bool,
    ) -> Step {
        let owner_bits = cap::AUTH_SHARED | cap::AUTH_EXCL;
        let inode = self.cache.inode(InodeKey::head(ino));
        if inode.is_some_and(|inode| inode.caps().issued().has_any(owner_bits)) {
            return self.set_acl(attempt, ino, value, kill_sgid);
        }
        if let Err(errno) = Acl::decode(value) {
            return fail(errno);
        }
        self.sessions.ask(attempt, self.cache, mds_request::look_at(ino))
    }

    /// Sets an access list: the mode first, then the list, unless the mode says it all. That may need no
    /// request: `cp -a` sets such a list on each file that it has made.
    fn set_acl(&mut self, attempt: &mut Attempt<'_>, ino: Ino, value: &[u8], kill_sgid: bool) -> Step {
        let acl = match Acl::decode(value) {
            Ok(acl) => acl,
            Err(errno) => return fail(errno),
        };
        let Some(inode) = self.cache.inode(InodeKey::head(ino)) else { return fail(Errno::ESTALE) };
        let old = inode.attrs().mode();
        let kept = old & !mode::PERMISSIONS & if kill_sgid { !mode::SET_GID } else { u32::MAX };
        let set = SetAttr { mode: Some(kept | acl.mode()), ..SetAttr::default() };
        if acl.is_minimal() && matches!(self.prepare_setattr(attempt, ino, &set), Some(Step::Done(Ok(_)))) {
            return done(Answer::Done);
        }
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
            // A server of Ceph tells the lists only with the right to keep them.
            (R::Setattr { ino, set }, MdsOp::SETATTR) if error.is_none() && set.mode.is_some() => {
                let tells_lists = reply.trace.target.as_ref().is_some_and(|stat| !stat.xattrs.is_empty());
                let inode = self.cache.inode(InodeKey::head(*ino));
                if !tells_lists && !inode.is_some_and(Inode::knows_acls) {
                    return Some(self.sessions.ask(attempt, self.cache, mds_request::look_at(*ino)));
                }
                self.rewrite_acl(attempt, *ino, set)
            }
            (R::Setattr { ino, set }, MdsOp::GETATTR) if error.is_none() => {
                self.rewrite_acl(attempt, *ino, set)
            }
            (R::Setxattr { ino, value, kill_sgid, .. }, MdsOp::GETATTR) if error.is_none() => {
                Some(self.set_acl(attempt, *ino, value, *kill_sgid))
            }
            (R::Setxattr { ino, name, value, .. }, MdsOp::SETATTR) if error.is_none() => {
                if Acl::decode(value).is_ok_and(|acl| acl.is_minimal()) {
                    let inode = self.cache.inode(InodeKey::head(*ino));
                    if inode.is_some_and(|inode| !inode.may_have_acl()) {
                        return Some(done(Answer::Done));
                    }
                    return Some(self.ask(attempt, &R::Removexattr { ino: *ino, name: name.clone() }));
                }
                Some(self.ask(attempt, request))
            }
            // There was no list before.
            (R::Setxattr { .. }, MdsOp::RMXATTR) if error == Some(Errno::ENODATA) => Some(done(Answer::Done)),
            _ => None,
        }
    }

    /// Has the access list of an inode follow its new mode. `None` if it has none.
    fn rewrite_acl(&mut self, attempt: &mut Attempt<'_>, ino: Ino, set: &SetAttr) -> Option<Step> {
        let attrs = self.cache.inode(InodeKey::head(ino))?.attrs();
        let acl = Acl::decode(attrs.xattrs().get(acl::ACCESS)?).ok()?.with_mode(set.mode?);
        let (name, value) = (acl::ACCESS.to_vec(), acl.encode());
        let follow = FsRequest::Setxattr { ino, name, value, flags: 0, kill_sgid: false };
        Some(self.ask(attempt, &follow))
    }
}
