//! Operations on names and inodes: each is at most one request to an MDS, and none if a capability answers
//! it.

use crate::acl;
use crate::api::{Answer, Attr, FsRequest, Ino, SetAttr};
use crate::cache::Cache;
use crate::handles::Handles;
use crate::inode::{Access, Inode, STAT_CAPS};
use crate::key::InodeKey;
use crate::mds_request::{self, is_remote, open_flag};
use crate::mode;
use crate::names::Name;
use crate::op::{Attempt, Stage, Step, done, fail};
use crate::privileges::{self, Dropping};
use crate::sessions::Sessions;
use crate::xattrs;
use maps::OsdMap;
use msgs::{ClientReply, ClientRequest, CreatedInode, MdsOp, cap, rename_flag};
use std::time::Duration;
use stdx::{Instant, Now};
use wire::{Errno, Reader};

/// The longest name of one component, as in Linux.
const NAME_MAX: usize = 255;

/// The owners that operations on names and inodes need.
pub(crate) struct Namespace<'a> {
    pub(crate) cache: &'a mut Cache,
    pub(crate) handles: &'a mut Handles,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) osdmap: &'a OsdMap,
    /// The number of this client.
    pub(crate) client: u64,
    /// Creates and unlinks may be answered before an MDS has done them.
    pub(crate) asynchronous: bool,
}

impl Namespace<'_> {
    /// Attempts an operation.
    pub(crate) fn step(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Step {
        let stage = attempt.take_stage();
        // A truncation that waited for something has looked at the inode before.
        let (mut is_told, mut exists) = (matches!(stage, Stage::Sized), false);
        let mut looked_at = None;
        if let Stage::Answered(reply) = stage {
            looked_at = Self::looked_at(&reply);
            match (self.privileges_dropped(request, &reply), Self::looked_up(request, &reply)) {
                (Some(Err(errno)), _) | (_, Some(Err(errno))) => return fail(errno),
                (Some(Ok(())), _) => is_told = true,
                (_, Some(Ok(()))) => exists = true,
                (None, None) if looked_at.is_some() => {}
                (None, None) => return self.answered(attempt, request, &reply),
            }
        }
        self.note_change(attempt, request, Inode::change_begins);
        let refused_or_known = refuse(request, self.sessions.renames_with_flags())
            .map(fail)
            .or_else(|| (!is_told && !exists).then(|| self.look_for_quotas(attempt, request, looked_at))?)
            .or_else(|| self.refused_by_quota(attempt, request, exists))
            .or_else(|| self.answer_from_cache(attempt, request))
            .or_else(|| self.drop_privileges(attempt, request, is_told))
            .or_else(|| self.prepare(attempt, request));
        if let Some(step) = refused_or_known {
            self.note_lookup(attempt, request);
            return step;
        }
        let promised = if self.asynchronous {
            self.note_work(attempt, request);
            self.promise(attempt, request)
        } else {
            None
        };
        match promised {
            Some(Step::Done(reply)) => {
                self.note_change(attempt, request, Inode::change_ends);
                return Step::Done(reply);
            }
            Some(Step::Wait) => return Step::Wait,
            None => {}
        }
        self.ask(attempt, request)
    }

    fn answered(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest, reply: &ClientReply) -> Step {
        if let Some(step) = self.go_on_with_acl(attempt, request, reply) {
            return step;
        }
        self.note_change(attempt, request, Inode::change_ends);
        self.note_lookup(attempt, request);
        self.answer(attempt, request, reply)
    }

    /// Drops a file's privileges before its size or its owner changes.
    fn drop_privileges(
        &mut self,
        attempt: &mut Attempt<'_>,
        request: &FsRequest,
        is_told: bool,
    ) -> Option<Step> {
        // Who sets a mode as well, and so may look for the list that follows it, relies on what is known.
        let sets_mode = |set: &SetAttr| set.mode.is_some();
        let is_told = is_told || matches!(request, FsRequest::Setattr { set, .. } if sets_mode(set));
        let (ino, bits, is_carried) = match request {
            FsRequest::Setattr { ino, set } if set.size.or(set.uid.or(set.gid).map(u64::from)).is_some() => {
                (ino, set.kill_suidgid, true)
            }
            FsRequest::Open { ino, flags, kill_suidgid } if flags & open_flag::TRUNC != 0 => {
                (ino, *kill_suidgid, false)
            }
            _ => return None,
        };
        let dropping = Dropping { bits, is_carried, is_told };
        privileges::drop_before(self.cache, self.sessions, attempt, InodeKey::head(*ino), dropping)
    }

    /// Takes the answer to a request that dropped privileges, or looked for them. `None` if it is another.
    fn privileges_dropped(&mut self, request: &FsRequest, reply: &ClientReply) -> Option<Result<(), Errno>> {
        let ino = match (request, reply.op) {
            (FsRequest::Setattr { ino, set }, MdsOp::GETATTR) if set.mode.is_none() => ino,
            (FsRequest::Setattr { ino, .. }, MdsOp::RMXATTR)
            | (FsRequest::Open { ino, .. }, MdsOp::GETATTR | MdsOp::RMXATTR | MdsOp::SETATTR) => ino,
            _ => return None,
        };
        Some(privileges::dropped(self.cache, InodeKey::head(*ino), reply))
    }

    /// Asks an MDS for what a request is about.
    pub(crate) fn ask(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Step {
        match mds_request::build(self.cache, self.osdmap.epoch, &attempt.caller(), request) {
            Ok(mut message) => {
                self.give_up_link_count(attempt, request, &mut message);
                self.note_removal(request, true);
                self.sessions.ask(attempt, self.cache, message)
            }
            Err(errno) => fail(errno),
        }
    }

    fn world(&self) -> xattrs::World<'_> {
        xattrs::World { osdmap: self.osdmap, client: self.client }
    }

    fn known(&self, ino: Ino) -> Option<&Inode> {
        self.cache.inode(InodeKey::head(ino))
    }

    /// The answer without asking, if there is one.
    fn answer_from_cache(&mut self, attempt: &Attempt<'_>, request: &FsRequest) -> Option<Step> {
        match request {
            FsRequest::Lookup { parent, name } => {
                let (now, dir) = (attempt.now(), InodeKey::head(*parent));
                match self.cache.lookup(now, dir, name) {
                    Name::Absent => Some(self.absent(now, dir, name)),
                    Name::Inode(key) if self.cache.inode(key).is_some_and(Inode::knows_attributes) => {
                        self.cache.entry(now, dir, name, key).map(|entry| done(Answer::Entry(entry)))
                    }
                    _ => None,
                }
            }
            FsRequest::Getattr { ino } if self.is_guarded(*ino, attempt.caller().pid) => {
                self.cache.open_inode(InodeKey::head(*ino)).wait(attempt.op());
                Some(Step::Wait)
            }
            FsRequest::Getattr { ino } => {
                self.known(*ino).filter(|i| i.knows_attributes())?;
                self.cache.attributes(InodeKey::head(*ino)).map(|(a, valid)| done(Answer::Attr(a, valid)))
            }
            FsRequest::Readlink { ino } => {
                let inode = self.known(*ino).filter(|i| !i.attrs().symlink().is_empty())?;
                Some(readlink(inode))
            }
            FsRequest::Open { ino, flags, .. } if flags & open_flag::TRUNC == 0 => {
                let inode = self.known(*ino).filter(|i| i.attrs().is_file())?;
                inode.may(needed_for(*flags)).then(|| self.opened(*ino, *flags))
            }
            FsRequest::Getxattr { ino, name } => {
                let inode = self.known(*ino).filter(|i| xattrs::is_known(i, name))?;
                Some(xattrs::get(inode, name, self.world()))
            }
            FsRequest::Listxattr { ino } => {
                let inode = self.known(*ino).filter(|i| i.may(cap::XATTR_SHARED))?;
                Some(xattrs::list(inode.attrs()))
            }
            _ => None,
        }
    }

    /// Does what must be done before an MDS is asked: changes that it does not know come first.
    fn prepare(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Option<Step> {
        let truncation = SetAttr { size: Some(0), ..SetAttr::default() };
        match request {
            FsRequest::Mknod { parent, .. }
            | FsRequest::Mkdir { parent, .. }
            | FsRequest::Create { parent, .. } => self.prepare_new(attempt, *parent),
            FsRequest::Setxattr { ino, name, value, kill_sgid, .. } if name == acl::ACCESS => {
                Some(self.prepare_acl(attempt, *ino, value, *kill_sgid))
            }
            FsRequest::Setattr { ino, set } => self.prepare_setattr(attempt, *ino, set),
            FsRequest::Open { ino, flags, .. } if flags & open_flag::TRUNC != 0 => {
                self.prepare_setattr(attempt, *ino, &truncation)
            }
            _ => None,
        }
    }

    /// Cuts buffered data off beyond a new size, and has everything else that the MDS does not know flushed
    /// first.
    pub(crate) fn prepare_setattr(&mut self, attempt: &Attempt<'_>, ino: Ino, set: &SetAttr) -> Option<Step> {
        let key = InodeKey::head(ino);
        let inode = self.cache.inode_mut(key)?;
        // An ACL follows the mode.
        let is_alone = set.mode.is_none() || !inode.may_have_acl();
        if is_alone && inode.set_here(set, attempt.now().wall) {
            inode.told_own_change();
            let attr = inode.attr();
            self.cache.note_dirty(attempt.now(), key);
            self.cache.inode_changed(key);
            return Some(done(told_for_no_time(attr)));
        }
        if let Some(size) = set.size {
            inode.truncate_buffered(size);
        }
        let sets_times = set.mtime.is_some() || set.atime.is_some();
        let waits = (set.size.is_some() || sets_times) && inode.has_unflushed();
        if waits {
            inode.wait_for_sync(attempt.op());
        }
        if waits || set.size.is_some() {
            self.cache.settle_later(key);
        }
        waits.then_some(Step::Wait)
    }

    fn is_guarded(&mut self, dir: Ino, pid: u32) -> bool {
        let key = InodeKey::head(dir);
        self.cache.inode_mut(key).is_some_and(|inode| inode.is_guarded_from(pid))
    }

    /// Notes the answer to a lookup: the caller may hold the directory, and ask for its attributes next.
    fn note_lookup(&mut self, attempt: &Attempt<'_>, request: &FsRequest) {
        let FsRequest::Lookup { parent, .. } = request else { return };
        let key = InodeKey::head(*parent);
        if let Some(inode) = self.cache.inode_mut(key) {
            inode.name_answered(attempt.caller().pid);
        }
    }

    /// Notes a change of names in the directories that a request changes.
    fn note_change(
        &mut self,
        attempt: &Attempt<'_>,
        request: &FsRequest,
        note: impl Fn(&mut Inode, Instant, u32),
    ) {
        for dir in changed_dirs(request).into_iter().flatten() {
            let key = InodeKey::head(dir);
            if let Some(inode) = self.cache.inode_mut(key) {
                note(inode, attempt.now().mono, attempt.caller().pid);
                self.cache.settle_later(key);
            }
        }
    }

    /// Gives up `Ls` on an inode of which a name goes away: the answer does not tell the new number of links,
    /// which is to be known when it is 0. It goes with the request if it can, or the MDS would have to ask
    /// for it first.
    fn give_up_link_count(
        &mut self,
        attempt: &mut Attempt<'_>,
        request: &FsRequest,
        message: &mut ClientRequest,
    ) {
        let Some(key) = self.removed_inode(request) else { return };
        let Some(rank) = self.cache.inode(key).and_then(|i| Some(i.caps().cap()?.auth_rank())) else {
            return;
        };
        let goes_along = self.sessions.is_asked_next(self.cache, rank, message);
        let Some(inode) = self.cache.inode_mut(key) else { return };
        match goes_along.then(|| inode.release_link_count()).flatten() {
            Some(release) => message.releases.push(release),
            None => {
                inode.give_up_link_count();
                self.sessions.send_cap_message(attempt.now(), self.cache, key, attempt.out());
            }
        }
        self.cache.inode_changed(key);
    }

    /// The inode of which a request takes a name away.
    fn removed_inode(&self, request: &FsRequest) -> Option<InodeKey> {
        let (FsRequest::Unlink { parent: dir, name }
        | FsRequest::Rmdir { parent: dir, name }
        | FsRequest::Rename { new_parent: dir, new_name: name, .. }) = request
        else {
            return None;
        };
        self.cache.last_known(InodeKey::head(*dir), name)
    }

    /// Notes that a local caller takes the last name of a file away, or that it could not.
    fn note_removal(&mut self, request: &FsRequest, is_removed: bool) {
        let exchanges = matches!(request, FsRequest::Rename { flags, .. } if *flags == rename_flag::EXCHANGE);
        if let Some(key) = self.removed_inode(request).filter(|_| !exchanges)
            && let Some(inode) = self.cache.inode_mut(key).filter(|inode| inode.attrs().nlink() <= 1)
        {
            inode.set_removed_here(is_removed);
        }
    }

    fn answer(&mut self, attempt: &Attempt<'_>, request: &FsRequest, reply: &ClientReply) -> Step {
        use FsRequest as R;
        let (now, is_repeat) = (attempt.now(), attempt.is_repeat());
        if let Some(errno) = Errno::from_result_code(reply.result) {
            self.note_removal(request, false);
            self.correct_names(request, errno);
            return fail(errno);
        }
        let target = reply.trace.target.as_ref().map(|t| InodeKey::new(t.ino, t.snapid));
        match request {
            R::Lookup { parent: dir, name }
            | R::Mknod { parent: dir, name, .. }
            | R::Symlink { parent: dir, name, .. }
            | R::Link { new_parent: dir, new_name: name, .. } => self.answer_entry(now, *dir, name, target),
            R::Mkdir { parent, name, .. } => {
                // A directory that is new has no names. That of a repeated request may be old.
                if let Some(key) = target.filter(|_| !is_repeat) {
                    self.note_empty(InodeKey::head(*parent), key);
                }
                self.answer_entry(now, *parent, name, target)
            }
            R::Unlink { parent, name } | R::Rmdir { parent, name } => {
                // The reply tells what has the name now: it may have been made again since.
                if reply.trace.dentry.is_none() {
                    self.cache.forget_name(InodeKey::head(*parent), name);
                }
                done(Answer::Done)
            }
            R::Rename { .. } => self.renamed(now, request, target, is_repeat),
            R::Open { ino, .. } if target != Some(InodeKey::head(*ino)) => fail(Errno::ESTALE),
            R::Open { ino, flags, .. } => self.opened(*ino, *flags),
            R::Create { parent, name, flags, .. } => {
                // A repeated request may have made it long ago.
                let made = Reader::new(&reply.extra).get().map(|made: CreatedInode| InodeKey::head(made.ino));
                let new = target.filter(|key| !is_repeat && made == Ok(*key));
                if let Some(inode) = new.and_then(|key| self.cache.inode_mut(key)) {
                    inode.made_here();
                }
                self.created(now, *parent, name, target, *flags)
            }
            R::Getattr { ino } | R::Setattr { ino, .. } if target != Some(InodeKey::head(*ino)) => {
                fail(Errno::ESTALE)
            }
            R::Setattr { ino, set } => self.attributes_set(now, *ino, set),
            R::Getxattr { name, .. } if is_remote(name) => xattrs::told(&reply.extra),
            _ => self.answer_from_inode(request),
        }
    }

    /// The answer that the reply has brought into the cache.
    fn answer_from_inode(&mut self, request: &FsRequest) -> Step {
        use FsRequest as R;
        let (R::Getattr { ino } | R::Readlink { ino } | R::Getxattr { ino, .. } | R::Listxattr { ino }) =
            request
        else {
            return done(Answer::Done);
        };
        let Some(inode) = self.known(*ino) else { return fail(Errno::ESTALE) };
        match request {
            R::Readlink { .. } => readlink(inode),
            R::Getxattr { name, .. } => xattrs::get(inode, name, self.world()),
            R::Listxattr { .. } => xattrs::list(inode.attrs()),
            _ => match self.cache.attributes(InodeKey::head(*ino)) {
                Some((attr, valid)) => done(Answer::Attr(attr, valid)),
                None => fail(Errno::ESTALE),
            },
        }
    }

    fn attributes_set(&mut self, now: Now, ino: Ino, set: &SetAttr) -> Step {
        let key = InodeKey::head(ino);
        let Some(inode) = self.cache.inode_mut(key) else { return fail(Errno::ESTALE) };
        inode.owner_set(set, now.wall);
        inode.told_own_change();
        let attr = inode.attr();
        self.cache.settle_later(key);
        done(told_for_no_time(attr))
    }

    fn renamed(&mut self, now: Now, request: &FsRequest, target: Option<InodeKey>, is_repeat: bool) -> Step {
        let FsRequest::Rename { parent, name, new_parent, new_name, flags } = request else {
            return fail(Errno::EIO);
        };
        let (from, to) = (InodeKey::head(*parent), InodeKey::head(*new_parent));
        self.cache.move_told_name(now, (from, name), (to, new_name));
        if let Some(dir) = self.cache.inode_mut(from).filter(|_| from != to) {
            dir.note_outdated();
        }
        if *flags == rename_flag::EXCHANGE {
            // The reply does not tell what the first name leads to now.
            self.cache.move_told_name(now, (to, new_name), (from, name));
            self.cache.forget_name(from, name);
        } else if (new_parent, new_name) != (parent, name) {
            // Between two names of one inode a rename does nothing, and the first name stays.
            let inode = target.and_then(|key| self.cache.inode(key));
            let moved = inode.is_some_and(|i| i.attrs().is_dir() || i.attrs().nlink() == 1);
            if moved && !is_repeat {
                self.cache.note_removed(from, name);
            } else {
                self.cache.forget_name(from, name);
            }
        }
        done(Answer::Done)
    }

    /// An error of the MDS contradicts a name that is believed here.
    fn correct_names(&mut self, request: &FsRequest, errno: Errno) {
        use FsRequest as R;
        match (request, errno) {
            (R::Unlink { parent, name } | R::Rmdir { parent, name }, Errno::ENOENT)
            | (R::Rename { parent, name, .. }, Errno::ENOENT)
            | (R::Create { parent, name, .. } | R::Mkdir { parent, name, .. }, Errno::EEXIST)
            | (R::Lookup { parent, name }, _) => self.cache.forget_name(InodeKey::head(*parent), name),
            _ => {}
        }
    }

    /// The answer that a name does not exist.
    fn absent(&mut self, now: Now, dir: InodeKey, name: &[u8]) -> Step {
        match self.cache.tell_name(now, dir, name) {
            Duration::ZERO => fail(Errno::ENOENT),
            valid => done(Answer::Absent(valid)),
        }
    }

    pub(crate) fn answer_entry(&mut self, now: Now, dir: Ino, name: &[u8], key: Option<InodeKey>) -> Step {
        // A reply without the inode that it is about is a broken peer's.
        match key.and_then(|key| self.cache.entry(now, InodeKey::head(dir), name, key)) {
            Some(entry) => done(Answer::Entry(entry)),
            None => fail(Errno::EIO),
        }
    }

    fn add_handle(&mut self, key: InodeKey, flags: u32) -> u64 {
        let mode = flags & open_flag::ACCESS;
        let writes = mode == open_flag::WRONLY || mode == open_flag::RDWR;
        let access = Access { reads: mode != open_flag::WRONLY, writes, lazy: false };
        self.cache.open_inode(key).opened(access);
        self.cache.inode_changed(key);
        self.handles.open_file(self.cache.open_inode(key), access, flags)
    }

    fn opened(&mut self, ino: Ino, flags: u32) -> Step {
        let key = InodeKey::head(ino);
        if self.cache.inode(key).is_none() {
            return fail(Errno::ESTALE);
        }
        let fh = self.add_handle(key, flags);
        // Pages pending invalidation predate a re-granted capability (a restarted MDS re-grants what we
        // lost).
        let keep_cache = self.cache.open_inode(key).has_valid_pages();
        done(Answer::Opened { fh, keep_cache })
    }

    pub(crate) fn created(
        &mut self,
        now: Now,
        dir: Ino,
        name: &[u8],
        key: Option<InodeKey>,
        flags: u32,
    ) -> Step {
        let Some(inode) = key.and_then(|key| self.cache.inode(key)) else { return fail(Errno::EIO) };
        let key = inode.key();
        // Without `O_EXCL` the MDS returns what has the name. Only a file is opened: for others the caller
        // looks again, and follows.
        if let Some(errno) = not_a_file(inode) {
            self.cache.inode_changed(key);
            return fail(errno);
        }
        self.note_layout(InodeKey::head(dir), key);
        let Some(entry) = self.cache.entry(now, InodeKey::head(dir), name, key) else {
            return fail(Errno::EIO);
        };
        let fh = self.add_handle(key, flags);
        done(Answer::Created { entry, fh })
    }
}

/// The answer to a change of attributes. Linux does not notice if a withdrawal overtakes it.
fn told_for_no_time(attr: Attr) -> Answer {
    Answer::Attr(attr, Duration::ZERO)
}

/// The directories whose names a request changes.
fn changed_dirs(request: &FsRequest) -> [Option<Ino>; 2] {
    use FsRequest as R;
    match request {
        R::Mknod { parent, .. }
        | R::Mkdir { parent, .. }
        | R::Unlink { parent, .. }
        | R::Rmdir { parent, .. }
        | R::Symlink { parent, .. }
        | R::Create { parent, .. }
        | R::Link { new_parent: parent, .. } => [Some(*parent), None],
        R::Rename { parent, new_parent, .. } => {
            [Some(*parent), (new_parent != parent).then_some(*new_parent)]
        }
        _ => [None; 2],
    }
}

/// The error of a request that no MDS is asked.
fn refuse(request: &FsRequest, renames_with_flags: bool) -> Option<Errno> {
    use FsRequest as R;
    let (noreplace, exchange) = (rename_flag::NOREPLACE, rename_flag::EXCHANGE);
    match request {
        R::Rename { flags, .. } if *flags != 0 && *flags != noreplace && *flags != exchange => {
            Some(Errno::EINVAL)
        }
        // A server of Ceph can't do that atomically.
        R::Rename { flags, .. } if *flags != 0 && !renames_with_flags => Some(Errno::EINVAL),
        R::Lookup { name, .. }
        | R::Mknod { name, .. }
        | R::Mkdir { name, .. }
        | R::Unlink { name, .. }
        | R::Rmdir { name, .. }
        | R::Symlink { name, .. }
        | R::Create { name, .. }
        | R::Link { new_name: name, .. }
        | R::Rename { new_name: name, .. } => (name.len() > NAME_MAX).then_some(Errno::ENAMETOOLONG),
        R::Setxattr { name, .. } | R::Removexattr { name, .. } | R::Getxattr { name, .. } => {
            xattrs::refuse(name)
        }
        _ => None,
    }
}

fn readlink(inode: &Inode) -> Step {
    done(Answer::Data(inode.attrs().symlink().to_vec().into()))
}

/// The error of opening by name what is no file.
fn not_a_file(inode: &Inode) -> Option<Errno> {
    match inode.attrs().mode() & mode::FORMAT {
        _ if inode.attrs().is_file() => None,
        _ if inode.attrs().is_dir() => Some(Errno::EISDIR),
        mode::SYMLINK => Some(Errno::ELOOP),
        _ => Some(Errno::EEXIST),
    }
}

/// The capability bits under which opening with `flags` needs no MDS.
fn needed_for(flags: u32) -> u32 {
    match flags & open_flag::ACCESS {
        open_flag::WRONLY => STAT_CAPS | cap::FILE_WR | cap::FILE_BUFFER,
        open_flag::RDWR => STAT_CAPS | cap::FILE_RD | cap::FILE_CACHE | cap::FILE_WR | cap::FILE_BUFFER,
        _ => STAT_CAPS | cap::FILE_RD | cap::FILE_CACHE,
    }
}
