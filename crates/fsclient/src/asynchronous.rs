//! Creates and unlinks that do not wait for an MDS (docs/adr/0017-asynchronous-creates.md).
//!
//! In a directory that this client has for itself it knows which names are free, and nobody else looks at
//! them before it has given the directory up. So it can answer a create or an unlink by itself; the request
//! that it sends is a *promise*. A directory is given up when all promises in it are answered.

use crate::api::{Answer, Caller, FsRequest};
use crate::inode::Inode;
use crate::key::InodeKey;
use crate::mds_request::{self, open_flag};
use crate::mode;
use crate::namespace::Namespace;
use crate::op::{Attempt, Step, done};
use crate::promise::Promise;
use maps::SnapId;
use msgs::{ClientRequest, InodeStat, InodeStatCap, OpenArgs, cap, request_flag};
use stdx::Now;
use wire::Timespec;

impl Namespace<'_> {
    /// Carries a request out here, if it is one that need not wait for an MDS.
    pub(crate) fn promise(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Option<Step> {
        let (FsRequest::Create { parent, name, .. } | FsRequest::Unlink { parent, name }) = request else {
            return None;
        };
        let dir = InodeKey::head(*parent);
        if self.cache.is_promised(dir, name) {
            // An MDS need not keep the order of requests about a name.
            self.cache.open_inode(dir).wait(attempt.op());
            return Some(Step::Wait);
        }
        match request {
            FsRequest::Create { mode, flags, .. } => self.promise_create(attempt, (dir, name), *mode, *flags),
            _ => self.promise_unlink(attempt, request, (dir, name)),
        }
    }

    fn promise_create(
        &mut self,
        attempt: &mut Attempt<'_>,
        (dir, name): (InodeKey, &[u8]),
        mode: u32,
        flags: u32,
    ) -> Option<Step> {
        let (now, caller) = (attempt.now(), attempt.caller());
        let flags = flags | open_flag::EXCL;
        let create = FsRequest::Create { parent: dir.ino(), name: name.to_vec(), mode, flags };
        let parent = self.cache.may_create(dir, name)?;
        let message = mds_request::build(self.cache, self.osdmap.epoch, &caller, &create).ok()?;
        // What it inherits, an MDS tells.
        if !message.data.is_empty() || self.osdmap.is_full(parent.file_layout()?.pool) {
            return None;
        }
        let mode = message.args.get::<OpenArgs>().mode;
        let (rank, mut file) = (parent.caps().cap()?.auth_rank(), file_in(parent, now, &caller, mode)?);
        file.ino = self.sessions.take_number(self.cache, rank, &message)?;
        let key = InodeKey::head(file.ino);
        let promise = Promise::Create { name: (dir, name.to_vec()), file: key };
        self.cache.promise_create(now, rank, &promise, &file);
        let message = ClientRequest { ino: file.ino, flags: message.flags | request_flag::ASYNC, ..message };
        self.sessions.send_promise(now, rank, message, promise, attempt.out());
        Some(self.created(now, dir.ino(), name, Some(key), flags))
    }

    fn promise_unlink(
        &mut self,
        attempt: &mut Attempt<'_>,
        request: &FsRequest,
        (dir, name): (InodeKey, &[u8]),
    ) -> Option<Step> {
        let inode = self.cache.may_unlink(dir, name)?;
        let rank = self.cache.inode(dir)?.caps().cap()?.auth_rank();
        let caller = attempt.caller();
        let mut message = mds_request::build(self.cache, self.osdmap.epoch, &caller, request).ok()?;
        if !self.sessions.takes_promises(self.cache, rank, &message) {
            return None;
        }
        let promise = Promise::Unlink { name: (dir, name.to_vec()), inode };
        message.flags |= request_flag::ASYNC;
        message.releases.extend(self.cache.promise_unlink(attempt.now(), &promise));
        self.sessions.send_promise(attempt.now(), rank, message, promise, attempt.out());
        Some(done(Answer::Done))
    }

    /// Notes that names in a directory are about to be changed, and tells its MDS that this client wants to
    /// do so without waiting.
    pub(crate) fn note_work(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) {
        use FsRequest as R;
        let (R::Create { parent, .. } | R::Unlink { parent, .. } | R::Mkdir { parent, .. }) = request else {
            return;
        };
        let dir = InodeKey::head(*parent);
        self.cache.note_work(attempt.now(), dir);
        self.sessions.send_cap_message(self.cache, dir, attempt.out());
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
        let layout = self.cache.inode(parent).and_then(|parent| parent.file_layout().cloned());
        if let Some(dir) = self.cache.inode_mut(dir) {
            dir.set_names_complete();
            layout.iter().for_each(|layout| dir.note_file_layout(layout));
        }
    }
}

/// A new file in a directory as its MDS will describe it, without its number. `None` if too little is known.
fn file_in(dir: &Inode, now: Now, caller: &Caller, bits: u32) -> Option<InodeStat> {
    let (layout, attr, time) = (dir.file_layout()?, dir.attr(), Timespec::from(now.wall));
    let realm = dir.caps().cap()?.realm();
    Some(InodeStat {
        snapid: SnapId::HEAD,
        mode: mode::FILE | bits & mode::CHANGEABLE,
        uid: caller.uid,
        gid: if attr.mode & mode::SET_GID != 0 { attr.gid } else { caller.gid },
        nlink: 1,
        ctime: time,
        mtime: time,
        atime: time,
        btime: time,
        layout: layout.into(),
        pool_ns: layout.pool_ns.clone(),
        max_size: layout.stripe_unit.into(),
        truncate_seq: 1,
        truncate_size: u64::MAX,
        inline_version: msgs::INLINE_NONE,
        cap: InodeStatCap {
            caps: cap::ASSUMED,
            wanted: cap::ASSUMED,
            cap_id: cap::ASSUMED_ID,
            realm,
            flags: 1,
            ..InodeStatCap::default()
        },
        ..InodeStat::default()
    })
}
