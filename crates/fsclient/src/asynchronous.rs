//! Changes of names that do not wait for an MDS (docs/adr/0017-asynchronous-creates.md).
//!
//! In a directory that this client has for itself it knows which names are free, and nobody else looks at
//! them before it has given the directory up. So it can carry out there by itself: create, unlink, and, at a
//! server of ours, mkdir and rmdir. The request that it sends is a *promise*. A directory is given up when
//! all promises in it are answered.

use crate::api::{Answer, Caller, FsRequest};
use crate::inode::Inode;
use crate::key::InodeKey;
use crate::mds_request::{self, open_flag};
use crate::mode;
use crate::namespace::Namespace;
use crate::op::{Attempt, Step, done};
use crate::promise::Promise;
use maps::{MdsRank, SnapId};
use msgs::{ClientRequest, InodeStat, InodeStatCap, MkdirArgs, OpenArgs, cap, request_flag};
use stdx::Now;
use wire::Timespec;

impl Namespace<'_> {
    /// Carries a request out here, if it is one that need not wait for an MDS.
    pub(crate) fn promise(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Option<Step> {
        use FsRequest as R;
        let (R::Create { parent, name, .. }
        | R::Unlink { parent, name }
        | R::Mkdir { parent, name, .. }
        | R::Rmdir { parent, name }) = request
        else {
            return None;
        };
        let dir = InodeKey::head(*parent);
        if self.cache.is_promised(dir, name) {
            // An MDS need not keep the order of requests about a name.
            self.cache.open_inode(dir).wait(attempt.op());
            return Some(Step::Wait);
        }
        let rank = self.cache.inode(dir)?.caps().cap()?.auth_rank();
        let is_of_dir = matches!(request, R::Mkdir { .. } | R::Rmdir { .. });
        if is_of_dir && !self.sessions.takes_async_dirs(rank) {
            return None;
        }
        match request {
            R::Create { mode, flags, .. } => {
                let flags = flags | open_flag::EXCL;
                let create = R::Create { parent: *parent, name: name.clone(), mode: *mode, flags };
                let key = self.promise_inode(attempt, rank, (dir, name), &create)?;
                Some(self.created(attempt.now(), *parent, name, Some(key), flags))
            }
            R::Mkdir { .. } => {
                let key = self.promise_inode(attempt, rank, (dir, name), request)?;
                self.note_empty(dir, key);
                Some(self.answer_entry(attempt.now(), *parent, name, Some(key)))
            }
            _ => self.promise_removal(attempt, rank, (dir, name), request),
        }
    }

    /// Makes a file or directory here, under a number that `rank` has delegated.
    fn promise_inode(
        &mut self,
        attempt: &mut Attempt<'_>,
        rank: MdsRank,
        (dir, name): (InodeKey, &[u8]),
        request: &FsRequest,
    ) -> Option<InodeKey> {
        let (now, caller) = (attempt.now(), attempt.caller());
        let parent = self.cache.may_create(dir, name)?;
        let message = mds_request::build(self.cache, self.osdmap.epoch, &caller, request).ok()?;
        // What it inherits, an MDS tells.
        let is_full = parent.file_layout().is_some_and(|layout| self.osdmap.is_full(layout.pool));
        if !message.data.is_empty() || is_full {
            return None;
        }
        let mut made = match request {
            FsRequest::Mkdir { .. } => dir_in(parent, now, &caller, message.args.get::<MkdirArgs>().mode)?,
            _ => file_in(parent, now, &caller, message.args.get::<OpenArgs>().mode)?,
        };
        made.ino = self.sessions.take_number(self.cache, rank, &message)?;
        let key = InodeKey::head(made.ino);
        let promise = Promise::Create { name: (dir, name.to_vec()), inode: key };
        self.cache.promise_create(now, rank, &promise, &made);
        let message = ClientRequest { ino: made.ino, flags: message.flags | request_flag::ASYNC, ..message };
        self.sessions.send_promise(now, rank, message, promise, attempt.out());
        Some(key)
    }

    fn promise_removal(
        &mut self,
        attempt: &mut Attempt<'_>,
        rank: MdsRank,
        (dir, name): (InodeKey, &[u8]),
        request: &FsRequest,
    ) -> Option<Step> {
        let inode = self.cache.may_remove(dir, name, matches!(request, FsRequest::Rmdir { .. }))?;
        let caller = attempt.caller();
        let mut message = mds_request::build(self.cache, self.osdmap.epoch, &caller, request).ok()?;
        if !self.sessions.takes_promises(self.cache, rank, &message) {
            return None;
        }
        let promise = Promise::Remove { name: (dir, name.to_vec()), inode };
        message.flags |= request_flag::ASYNC;
        message.releases.extend(self.cache.promise_removal(attempt.now(), &promise));
        self.sessions.send_promise(attempt.now(), rank, message, promise, attempt.out());
        Some(done(Answer::Done))
    }

    /// Notes that names in a directory are about to be changed, and tells its MDS that this client wants to
    /// do so without waiting.
    pub(crate) fn note_work(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) {
        use FsRequest as R;
        let (R::Create { parent, .. }
        | R::Unlink { parent, .. }
        | R::Mkdir { parent, .. }
        | R::Rmdir { parent, .. }) = request
        else {
            return;
        };
        let dir = InodeKey::head(*parent);
        self.cache.note_work(attempt.now(), dir);
        self.sessions.send_cap_message(attempt.now(), self.cache, dir, attempt.out());
    }

    /// Notes the layout that a file in a directory was given.
    pub(crate) fn note_layout(&mut self, dir: InodeKey, file: InodeKey) {
        let Some(layout) = self.cache.inode(file).map(|file| file.attrs().layout().clone()) else { return };
        if let Some(dir) = self.cache.inode_mut(dir) {
            dir.note_file_layout(&layout);
        }
    }

    /// Notes that a directory is new: it has no names, and the layout of the one that it is in.
    pub(crate) fn note_empty(&mut self, parent: InodeKey, dir: InodeKey) {
        if let Some(dir) = self.cache.inode_mut(dir) {
            dir.set_names_complete();
        }
        self.cache.note_layout_of_new_dir(parent, dir);
    }
}

/// A new inode in a directory as its MDS will describe it, without number, kind and capability.
fn inode_in(dir: &Inode, now: Now, caller: &Caller) -> InodeStat {
    let (attr, time) = (dir.attr(), Timespec::from(now.wall));
    InodeStat {
        snapid: SnapId::HEAD,
        uid: caller.uid,
        gid: if attr.mode & mode::SET_GID != 0 { attr.gid } else { caller.gid },
        nlink: 1,
        ctime: time,
        mtime: time,
        atime: time,
        btime: time,
        ..InodeStat::default()
    }
}

/// The capability that is assumed on a new inode in a directory: these bits, wanted and held.
fn assumed_in(dir: &Inode, bits: u32, wanted: u32) -> Option<InodeStatCap> {
    let realm = dir.caps().cap()?.realm();
    Some(InodeStatCap {
        caps: bits,
        wanted,
        cap_id: cap::ASSUMED_ID,
        realm,
        flags: 1,
        ..InodeStatCap::default()
    })
}

/// A new file. `None` if too little is known.
fn file_in(dir: &Inode, now: Now, caller: &Caller, bits: u32) -> Option<InodeStat> {
    let layout = dir.file_layout()?;
    Some(InodeStat {
        mode: mode::FILE | bits & mode::CHANGEABLE,
        layout: layout.into(),
        pool_ns: layout.pool_ns.clone(),
        max_size: layout.stripe_unit.into(),
        truncate_seq: 1,
        truncate_size: u64::MAX,
        inline_version: msgs::INLINE_NONE,
        cap: assumed_in(dir, cap::ASSUMED, cap::ASSUMED)?,
        ..inode_in(dir, now, caller)
    })
}

/// A new directory. Names in it wait for the answer: it brings the right to work there.
fn dir_in(dir: &Inode, now: Now, caller: &Caller, bits: u32) -> Option<InodeStat> {
    let inherited = dir.attr().mode & mode::SET_GID;
    Some(InodeStat {
        mode: mode::DIR | bits & mode::CHANGEABLE | inherited,
        cap: assumed_in(dir, cap::ASSUMED_OF_DIR, 0)?,
        ..inode_in(dir, now, caller)
    })
}
