//! Operations on snapshots: each directory has a directory of its snapshots, `.snap`, which no listing shows.
//! Making and removing directories in it makes and removes snapshots. What is below is read-only, and is
//! found by paths from the live directory (`Cache::path`).

use crate::api::{Answer, FsRequest, Ino};
use crate::cache::Cache;
use crate::handles::Handles;
use crate::inode::{Access, Attributes, STAT_CAPS};
use crate::key::InodeKey;
use crate::mds_request::open_flag;
use crate::names::Name;
use crate::op::{Attempt, Stage, Step, done, fail};
use crate::sessions::Sessions;
use crate::xattrs;
use msgs::{ClientReply, ClientRequest, FilePath, GetattrArgs, LeaseStat, MdsOp, cap};
use std::time::Duration;
use wire::Errno;

/// The owners that operations on snapshots need.
pub(crate) struct Snapshots<'a> {
    pub(crate) cache: &'a mut Cache,
    pub(crate) handles: &'a mut Handles,
    pub(crate) sessions: &'a mut Sessions,
    /// The name of the directories of snapshots.
    pub(crate) snapdir: &'a [u8],
    pub(crate) world: xattrs::World<'a>,
}

/// True if a request is about snapshots: about something in one, or about a directory of snapshots.
pub(crate) fn concerns(cache: &Cache, snapdir: &str, request: &FsRequest) -> bool {
    use FsRequest as R;
    let is_old = |ino: &Ino| !cache.key(*ino).is_head();
    let by_name = |dir, name: &[u8]| is_old(dir) || name == snapdir.as_bytes() && !snapdir.is_empty();
    match request {
        R::Lookup { parent, name }
        | R::Mknod { parent, name, .. }
        | R::Mkdir { parent, name, .. }
        | R::Unlink { parent, name }
        | R::Rmdir { parent, name }
        | R::Symlink { parent, name, .. }
        | R::Create { parent, name, .. } => by_name(parent, name),
        R::Rename { parent, name, new_parent, new_name, .. } => {
            by_name(parent, name) || by_name(new_parent, new_name)
        }
        R::Link { ino, new_parent, new_name } => is_old(ino) || by_name(new_parent, new_name),
        R::LookupIno { ino }
        | R::LookupParent { ino }
        | R::Getattr { ino }
        | R::Setattr { ino, .. }
        | R::Readlink { ino }
        | R::Open { ino, .. }
        | R::Setxattr { ino, .. }
        | R::Getxattr { ino, .. }
        | R::Listxattr { ino }
        | R::Removexattr { ino, .. } => is_old(ino),
        _ => false,
    }
}

impl Snapshots<'_> {
    /// Attempts an operation.
    pub(crate) fn step(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Step {
        use FsRequest as R;
        let reply = match attempt.take_stage() {
            Stage::Answered(reply) => Some(reply),
            _ => None,
        };
        let reply = reply.as_deref();
        let step = match request {
            R::Lookup { parent, name } => self.lookup(attempt, self.cache.key(*parent), name, reply),
            R::Mkdir { parent, name, .. } if self.cache.key(*parent).is_snapdir() => {
                self.make(attempt, self.cache.key(*parent), name, reply)
            }
            R::Rmdir { parent, name } if self.cache.key(*parent).is_snapdir() => {
                self.remove(attempt, self.cache.key(*parent), name, reply)
            }
            R::Rename { .. } => self.rename(attempt, request, reply),
            R::LookupParent { ino } => self.parent(attempt, self.cache.key(*ino), reply),
            R::LookupIno { ino } | R::Getattr { ino } | R::Readlink { ino } | R::Open { ino, .. } => {
                self.on_inode(attempt, self.cache.key(*ino), request, reply)
            }
            R::Getxattr { ino, .. } | R::Listxattr { ino } => {
                self.on_inode(attempt, self.cache.key(*ino), request, reply)
            }
            _ => Err(self.refusal(request)),
        };
        step.unwrap_or_else(fail)
    }

    /// The error of a request that would change something.
    fn refusal(&self, request: &FsRequest) -> Errno {
        use FsRequest as R;
        let in_live = |dir: &Ino| self.cache.key(*dir).is_head();
        match request {
            R::Mknod { parent, .. } | R::Mkdir { parent, .. } | R::Symlink { parent, .. }
                if in_live(parent) =>
            {
                Errno::EEXIST
            }
            R::Create { parent, .. } if in_live(parent) => Errno::EISDIR,
            R::Link { ino, new_parent, .. } if in_live(ino) && in_live(new_parent) => Errno::EEXIST,
            R::Unlink { parent, .. } | R::Rmdir { parent, .. } if in_live(parent) => Errno::EPERM,
            _ => Errno::EROFS,
        }
    }

    fn ask(&mut self, attempt: &mut Attempt<'_>, op: MdsOp, path: FilePath) -> Step {
        self.ask_with(attempt, op, path, FilePath::default())
    }

    fn ask_with(&mut self, attempt: &mut Attempt<'_>, op: MdsOp, path: FilePath, path2: FilePath) -> Step {
        let caller = attempt.caller();
        let message = ClientRequest {
            op,
            path,
            path2,
            args: GetattrArgs { mask: STAT_CAPS }.into(),
            caller_uid: caller.uid,
            caller_gid: caller.gid,
            ..ClientRequest::default()
        };
        self.sessions.ask(attempt, self.cache, message)
    }

    fn ask_by_name(
        &mut self,
        attempt: &mut Attempt<'_>,
        op: MdsOp,
        dir: InodeKey,
        name: &[u8],
    ) -> Result<Step, Errno> {
        let path = self.cache.path_in(dir, name).ok_or(Errno::ESTALE)?;
        Ok(self.ask(attempt, op, path))
    }

    fn lookup(
        &mut self,
        attempt: &mut Attempt<'_>,
        dir: InodeKey,
        name: &[u8],
        reply: Option<&ClientReply>,
    ) -> Result<Step, Errno> {
        if dir.is_head() {
            return match self.snapdir_of(attempt, dir, reply)? {
                Ok(key) => Ok(self.entry(attempt, dir, name, key)),
                Err(step) => Ok(step),
            };
        }
        if let Some(reply) = reply {
            let key = self.found(attempt, dir, name, reply)?;
            return Ok(self.entry(attempt, dir, name, key));
        }
        if dir.is_snapdir() {
            // Nothing tells us that a snapshot has been made or removed by another client.
            return self.ask_by_name(attempt, MdsOp::LOOKUPSNAP, dir, name);
        }
        match self.cache.lookup(attempt.now(), dir, name) {
            Name::Absent => Err(Errno::ENOENT),
            Name::Inode(key) if self.cache.inode(key).is_some_and(|i| i.may(STAT_CAPS)) => {
                Ok(self.entry(attempt, dir, name, key))
            }
            _ => self.ask_by_name(attempt, MdsOp::LOOKUP, dir, name),
        }
    }

    fn entry(&mut self, attempt: &Attempt<'_>, dir: InodeKey, name: &[u8], key: InodeKey) -> Step {
        let entry = self.cache.entry(attempt.now(), dir, name, key);
        entry.map_or_else(|| fail(Errno::ESTALE), |entry| done(Answer::Entry(entry)))
    }

    fn entry_of(&mut self, key: InodeKey) -> Result<Step, Errno> {
        self.cache.entry_of(key).map(|entry| done(Answer::Entry(entry))).ok_or(Errno::ESTALE)
    }

    /// The directory that a state or a directory of snapshots is in, as far as it is here.
    fn parent(
        &mut self,
        attempt: &mut Attempt<'_>,
        key: InodeKey,
        reply: Option<&ClientReply>,
    ) -> Result<Step, Errno> {
        let parent = self.cache.inode(key).and_then(|inode| inode.parent());
        let (dir, _) = *parent.ok_or(Errno::ESTALE)?;
        if dir.is_head()
            && let Err(step) = self.snapdir_of(attempt, dir, reply)?
        {
            return Ok(step);
        }
        self.entry_of(dir)
    }

    /// The directory of snapshots of a live directory, of which the MDS may have to be asked first.
    fn snapdir_of(
        &mut self,
        attempt: &mut Attempt<'_>,
        dir: InodeKey,
        reply: Option<&ClientReply>,
    ) -> Result<Result<InodeKey, Step>, Errno> {
        check(reply)?;
        let is_known = self.cache.inode(dir).is_some_and(|inode| inode.may(STAT_CAPS));
        if !is_known && reply.is_none() {
            let path = FilePath { ino: dir.ino(), path: Vec::new() };
            return Ok(Err(self.ask(attempt, MdsOp::GETATTR, path)));
        }
        if !self.cache.inode(dir).is_some_and(|inode| inode.attrs().is_dir()) {
            return Err(Errno::ENOTDIR);
        }
        self.cache.open_snapdir(dir, self.snapdir).map(Ok).ok_or(Errno::ESTALE)
    }

    /// The state that a reply tells a name in a directory to lead to. Replies about a snapshot's own name do
    /// not repeat the name.
    fn found(
        &mut self,
        attempt: &Attempt<'_>,
        dir: InodeKey,
        name: &[u8],
        reply: &ClientReply,
    ) -> Result<InodeKey, Errno> {
        check(Some(reply))?;
        let target = reply.trace.target.as_ref().map(|target| InodeKey::new(target.ino, target.snapid));
        let is_expected = |key: &InodeKey| match dir.is_snapdir() {
            true => key.ino() == dir.ino() && !key.is_head() && !key.is_snapdir(),
            false => key.snap() == dir.snap(),
        };
        // A reply without the state that it is about is a broken peer's.
        let key = target.filter(is_expected).ok_or(Errno::EIO)?;
        if dir.is_snapdir() {
            self.cache.learn_name(attempt.now(), dir, name, Some(key), &LeaseStat::default());
        }
        Ok(key)
    }

    fn make(
        &mut self,
        attempt: &mut Attempt<'_>,
        snapdir: InodeKey,
        name: &[u8],
        reply: Option<&ClientReply>,
    ) -> Result<Step, Errno> {
        let Some(reply) = reply else {
            return self.ask_by_name(attempt, MdsOp::MKSNAP, snapdir, name);
        };
        let key = self.found(attempt, snapdir, name, reply)?;
        Ok(self.entry(attempt, snapdir, name, key))
    }

    fn remove(
        &mut self,
        attempt: &mut Attempt<'_>,
        snapdir: InodeKey,
        name: &[u8],
        reply: Option<&ClientReply>,
    ) -> Result<Step, Errno> {
        if reply.is_none() {
            return self.ask_by_name(attempt, MdsOp::RMSNAP, snapdir, name);
        }
        check(reply)?;
        if let Some(state) = self.cache.last_known(snapdir, name) {
            self.cache.forget_snapshot(state.snap());
        }
        self.cache.forget_name(snapdir, name);
        Ok(done(Answer::Done))
    }

    fn rename(
        &mut self,
        attempt: &mut Attempt<'_>,
        request: &FsRequest,
        reply: Option<&ClientReply>,
    ) -> Result<Step, Errno> {
        let FsRequest::Rename { parent, name, new_parent, new_name, flags } = request else {
            return Err(Errno::EIO);
        };
        let (from, to) = (self.cache.key(*parent), self.cache.key(*new_parent));
        match (from, to) {
            _ if from.snap() != to.snap() => return Err(Errno::EXDEV),
            // The directory of snapshots itself.
            _ if from.is_head() => return Err(Errno::EPERM),
            _ if !from.is_snapdir() => return Err(Errno::EROFS),
            _ if from != to => return Err(Errno::EXDEV),
            _ if *flags != 0 => return Err(Errno::EINVAL),
            _ => {}
        }
        let Some(reply) = reply else {
            let path = |name: &[u8]| self.cache.path_in(from, name).ok_or(Errno::ESTALE);
            let (path, path2) = (path(new_name)?, path(name)?);
            return Ok(self.ask_with(attempt, MdsOp::RENAMESNAP, path, path2));
        };
        self.found(attempt, to, new_name, reply)?;
        self.cache.forget_name(from, name);
        Ok(done(Answer::Done))
    }

    /// An operation on one inode, which is answered from its state.
    fn on_inode(
        &mut self,
        attempt: &mut Attempt<'_>,
        key: InodeKey,
        request: &FsRequest,
        reply: Option<&ClientReply>,
    ) -> Result<Step, Errno> {
        if key.is_snapdir() {
            return match self.snapdir_of(attempt, InodeKey::head(key.ino()), reply)? {
                Ok(_) => self.answer(key, request),
                Err(step) => Ok(step),
            };
        }
        // A state that was told and is not there any more is not found by its path: its snapshot is gone.
        check(reply).map_err(|errno| if errno == Errno::ENOENT { Errno::ESTALE } else { errno })?;
        if reply.is_none() && !self.cache.inode(key).is_some_and(|i| i.may(needed_for(request))) {
            let path = self.cache.path(key).ok_or(Errno::ESTALE)?;
            return Ok(self.ask(attempt, MdsOp::GETATTR, path));
        }
        self.answer(key, request)
    }

    fn answer(&mut self, key: InodeKey, request: &FsRequest) -> Result<Step, Errno> {
        use FsRequest as R;
        let inode = self.cache.inode(key).ok_or(Errno::ESTALE)?;
        let attrs = inode.attrs();
        match request {
            R::LookupIno { .. } => self.entry_of(key),
            R::Readlink { .. } => Ok(done(Answer::Data(attrs.symlink().to_vec().into()))),
            R::Getxattr { name, .. } => {
                let get = || xattrs::get(inode, name, self.world);
                xattrs::refuse(name).map_or_else(|| Ok(get()), Err)
            }
            R::Listxattr { .. } => Ok(xattrs::list(attrs)),
            R::Open { flags, .. } => {
                may_open(attrs, *flags)?;
                Ok(self.open(key, *flags))
            }
            // Directories of snapshots change with their live directories, of which nobody tells the caller.
            _ if key.is_snapdir() => {
                let attr = self.cache.inode(key).ok_or(Errno::ESTALE)?.attr();
                Ok(done(Answer::Attr(attr, Duration::ZERO)))
            }
            _ => {
                let (attr, valid) = self.cache.attributes(key).ok_or(Errno::ESTALE)?;
                Ok(done(Answer::Attr(attr, valid)))
            }
        }
    }

    /// Opens a file. The MDS need not know of it: nothing of a snapshot changes.
    fn open(&mut self, key: InodeKey, flags: u32) -> Step {
        let access = Access { reads: true, writes: false, lazy: false };
        let inode = self.cache.open_inode(key);
        inode.opened(access);
        let keep_cache = inode.has_valid_pages();
        self.cache.inode_changed(key);
        let fh = self.handles.open_file(self.cache.open_inode(key), access, flags);
        done(Answer::Opened { fh, keep_cache })
    }
}

fn check(reply: Option<&ClientReply>) -> Result<(), Errno> {
    reply.and_then(|reply| Errno::from_result_code(reply.result)).map_or(Ok(()), Err)
}

fn may_open(attrs: &Attributes, flags: u32) -> Result<(), Errno> {
    if flags & (open_flag::ACCESS | open_flag::TRUNC) != 0 {
        return Err(Errno::EROFS);
    }
    if attrs.is_dir() { Err(Errno::EISDIR) } else { Ok(()) }
}

/// The bits under which an operation needs no MDS.
fn needed_for(request: &FsRequest) -> u32 {
    match request {
        FsRequest::Open { .. } => STAT_CAPS | cap::FILE_RD,
        FsRequest::Getxattr { .. } | FsRequest::Listxattr { .. } => cap::XATTR_SHARED,
        _ => STAT_CAPS,
    }
}
