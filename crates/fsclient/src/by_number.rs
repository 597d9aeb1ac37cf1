//! Inodes by number alone. NFS servers ask for them by their handles: no name led here, and the kernel may
//! have forgotten the inode long ago.

use crate::api::{Answer, FsRequest, Ino};
use crate::cache::Cache;
use crate::inode::Inode;
use crate::key::InodeKey;
use crate::mds_request;
use crate::names::Name;
use crate::op::{Attempt, Stage, Step, done, fail};
use crate::sessions::Sessions;
use msgs::{ClientReply, ClientRequest, MdsOp};
use std::ops::Range;
use stdx::Now;
use wire::Errno;

/// Numbers of the directories that MDSs keep for themselves, of those that are removed among others. Ceph's
/// clients do not ask for them either.
const PRIVATE: Range<Ino> = 0x100..0x1000;

/// The owners that look-ups by number need.
pub(crate) struct ByNumber<'a> {
    pub(crate) cache: &'a mut Cache,
    pub(crate) sessions: &'a mut Sessions,
}

impl ByNumber<'_> {
    /// Attempts a look-up of a live inode, or of the directory that a live one is in.
    pub(crate) fn step(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Step {
        let reply = match attempt.take_stage() {
            Stage::Answered(reply) => Some(reply),
            _ => None,
        };
        let step = match request {
            // The number of a snapshot's state does not tell which one it is, unless that is here.
            FsRequest::LookupIno { ino } | FsRequest::LookupParent { ino }
                if !self.cache.is_number_known(*ino) || PRIVATE.contains(ino) =>
            {
                Err(Errno::ESTALE)
            }
            FsRequest::LookupParent { ino } if InodeKey::head(*ino) != InodeKey::ROOT => {
                self.parent(attempt, *ino, reply.as_deref())
            }
            // The root is its own parent.
            FsRequest::LookupIno { ino } | FsRequest::LookupParent { ino } => {
                self.inode(attempt, *ino, reply.as_deref())
            }
            _ => Err(Errno::EIO),
        };
        step.unwrap_or_else(fail)
    }

    fn inode(
        &mut self,
        attempt: &mut Attempt<'_>,
        ino: Ino,
        reply: Option<&ClientReply>,
    ) -> Result<Step, Errno> {
        let key = InodeKey::head(ino);
        let realms = self.cache.realms_around(key);
        match reply {
            None if self.cache.inode(key).is_some_and(Inode::knows_attributes) => {}
            None => return Ok(self.ask(attempt, MdsOp::LOOKUPINO, ino)),
            // It was dropped while a realm's directory was asked for.
            Some(ClientReply { op: MdsOp::GETATTR, .. }) if !self.is_here(ino) => {
                return Ok(self.ask(attempt, MdsOp::LOOKUPINO, ino));
            }
            // A realm's directory.
            Some(ClientReply { op: MdsOp::GETATTR, trace, .. }) => {
                let found = trace.target.as_ref().map(|target| target.ino);
                if found.is_none_or(|found| !realms.contains(&found)) {
                    return self.entry(key);
                }
            }
            Some(reply) if target_of(reply)? == key => {}
            Some(_) => return Err(Errno::ESTALE),
        }
        // Whoever comes by names knows the directories on the way, and their quotas. Without names, those are
        // looked at where realms begin, as they do at each quota.
        let is_unknown = |dir: &Ino| *dir > InodeKey::ROOT.ino() && *dir != ino && !self.is_here(*dir);
        match realms.into_iter().find(is_unknown) {
            Some(dir) => Ok(self.ask(attempt, MdsOp::GETATTR, dir)),
            None => self.entry(key),
        }
    }

    fn is_here(&self, ino: Ino) -> bool {
        self.cache.inode(InodeKey::head(ino)).is_some()
    }

    fn parent(
        &mut self,
        attempt: &mut Attempt<'_>,
        ino: Ino,
        reply: Option<&ClientReply>,
    ) -> Result<Step, Errno> {
        let dir = match reply {
            Some(reply) => Some(target_of(reply)?),
            None => self.believed_parent(attempt.now(), InodeKey::head(ino)),
        };
        match dir {
            Some(dir) => self.entry(dir),
            None => Ok(self.ask(attempt, MdsOp::LOOKUPPARENT, ino)),
        }
    }

    /// The directory that an inode is in, if that is known for sure: another client may have moved it.
    fn believed_parent(&self, now: Now, key: InodeKey) -> Option<InodeKey> {
        let (dir, name) = self.cache.inode(key)?.parent()?;
        let is_there = self.cache.lookup(now, *dir, name) == Name::Inode(key);
        let is_known = self.cache.inode(*dir).is_some_and(Inode::knows_attributes);
        (is_there && is_known).then_some(*dir)
    }

    /// The answer, with a reference. What has no name any more is not found, although an MDS may still have
    /// it for those who have it open.
    fn entry(&mut self, key: InodeKey) -> Result<Step, Errno> {
        let has_name = |inode: &Inode| inode.attrs().nlink() > 0 || key == InodeKey::ROOT;
        if !key.is_head() || !self.cache.inode(key).is_some_and(has_name) {
            return Err(Errno::ESTALE);
        }
        let entry = self.cache.entry_of(key).ok_or(Errno::ESTALE)?;
        Ok(done(Answer::Entry(entry)))
    }

    fn ask(&mut self, attempt: &mut Attempt<'_>, op: MdsOp, ino: Ino) -> Step {
        let caller = attempt.caller();
        let (caller_uid, caller_gid) = (caller.uid, caller.gid);
        let message = ClientRequest { op, caller_uid, caller_gid, ..mds_request::look_at(ino) };
        self.sessions.ask(attempt, self.cache, message)
    }
}

/// The inode that a reply has brought. What an MDS does not find, or has no directory for, is gone.
fn target_of(reply: &ClientReply) -> Result<InodeKey, Errno> {
    match Errno::from_result_code(reply.result) {
        // Ceph's answer for an inode that is in no directory.
        Some(Errno::ENOENT | Errno::EINVAL) => return Err(Errno::ESTALE),
        Some(errno) => return Err(errno),
        None => {}
    }
    let target = reply.trace.target.as_ref().ok_or(Errno::ESTALE)?;
    Ok(InodeKey::new(target.ino, target.snapid))
}
