//! What asynchronous requests promise, in the cache.

use super::Cache;
use crate::inode::{Inode, STAT_CAPS};
use crate::key::InodeKey;
use crate::promise::Promise;
use maps::MdsRank;
use msgs::{DentryRelease, InodeStat, LeaseStat, cap};
use std::time::Duration;
use stdx::Now;

/// The time for which a client that changes a directory wants to go on: that of Linux.
const WORKS_FOR: Duration = Duration::from_secs(60);

impl Cache {
    /// The directory, if this client may give the free name to a new file without waiting, as far as the
    /// directory is concerned.
    pub(crate) fn may_create(&self, dir: InodeKey, name: &[u8]) -> Option<&Inode> {
        let dir = self.inodes.get(&dir).filter(|dir| dir.is_alone(cap::DIR_CREATE))?;
        let is_free = self.names.is_absent_by_right(dir, name) && !dir.promised().has_name(name);
        (is_free && dir.attrs().nlink() > 0).then_some(dir)
    }

    /// The inode of a name that this client may remove without waiting: its only one. A directory (`as_dir`)
    /// is one in which nobody else can make a name, and that has none; the last may have been removed by
    /// requests that are not answered yet, after which an MDS of ours carries this one out.
    pub(crate) fn may_remove(&self, dir: InodeKey, name: &[u8], as_dir: bool) -> Option<InodeKey> {
        let dir = self.inodes.get(&dir).filter(|dir| dir.is_alone(cap::DIR_UNLINK))?;
        let key = self.names.primary_by_right(dir, name)?;
        let inode = self.inodes.get(&key).filter(|inode| inode.may(STAT_CAPS))?;
        let (attrs, promised) = (inode.attrs(), inode.promised());
        if promised.is_new() || promised.is_unlinked() {
            return None;
        }
        let may_go = if as_dir { self.is_removable_dir(inode) } else { attrs.nlink() == 1 };
        (may_go && attrs.is_dir() == as_dir).then_some(key)
    }

    /// True if a directory is empty and stays so, and has no snapshots: who makes one takes `Fx` from it.
    fn is_removable_dir(&self, dir: &Inode) -> bool {
        let has_realm = dir.caps().cap().is_none_or(|cap| cap.realm() == dir.key().ino());
        dir.is_alone(cap::DIR_OPS) && !has_realm && self.names.is_empty_by_right(dir)
    }

    /// A create gives a name to a new inode: takes both as if an MDS had told of them.
    pub(crate) fn promise_create(&mut self, now: Now, rank: MdsRank, promise: &Promise, made: &InodeStat) {
        let (dir, name) = promise.name();
        let key = self.learn_inode(rank, made);
        let is_primary = LeaseStat { mask: LeaseStat::PRIMARY_LINK, ..LeaseStat::default() };
        self.learn_name(now, dir, name, Some(key), &is_primary);
        self.open_inode(key).promise_new();
        self.open_inode(key).made_here();
        self.promise_name(now, promise, true);
    }

    /// An unlink or rmdir removes the last name of an inode. Returns what its client releases with it.
    pub(crate) fn promise_removal(&mut self, now: Now, promise: &Promise) -> Option<DentryRelease> {
        let (dir, name) = promise.name();
        self.note_removed(dir, name);
        self.promise_name(now, promise, false);
        self.inode_changed(promise.inode());
        self.inodes.get_mut(&promise.inode())?.promise_removal(now.wall)
    }

    fn promise_name(&mut self, now: Now, promise: &Promise, is_given: bool) {
        let (dir, name) = promise.name();
        let is_of_dir = self.inodes.get(&promise.inode()).is_some_and(|inode| inode.attrs().is_dir());
        if let Some(inode) = self.inodes.get_mut(&dir) {
            inode.promise_name(name, (is_given, is_of_dir), now.wall);
            self.settle_later(dir);
        }
    }

    /// A promise is kept, or broken: then the name is not believed any more. What the answer says is learnt
    /// after that.
    pub(crate) fn end_promise(&mut self, promise: &Promise, is_kept: bool) {
        let ((dir, name), key) = (promise.name(), promise.inode());
        if let Some(inode) = self.inodes.get_mut(&dir) {
            inode.end_promise_of_name(name);
            self.inode_changed(dir);
        }
        if let Some(inode) = self.inodes.get_mut(&key) {
            inode.end_promise(is_kept);
            self.inode_changed(key);
        }
        if !is_kept {
            self.forget_name(dir, name);
        }
    }

    /// A create is answered: if the answer brings no capability on the new inode, because others have removed
    /// it since, none is held.
    pub(crate) fn drop_assumed(&mut self, made: InodeKey) {
        if let Some(inode) = self.inodes.get_mut(&made).filter(|inode| inode.caps().is_assumed()) {
            inode.lose_all();
            self.inode_changed(made);
        }
    }

    /// The layout of files in a new directory is that of the one that it is made in. Does nothing for a file.
    pub(crate) fn note_layout_of_new_dir(&mut self, parent: InodeKey, dir: InodeKey) {
        let layout = self.inodes.get(&parent).and_then(|parent| parent.file_layout().cloned());
        if let Some((inode, layout)) = self.inodes.get_mut(&dir).filter(|i| i.attrs().is_dir()).zip(layout) {
            inode.note_file_layout(&layout);
        }
    }

    /// This client changes names in a directory: for a while, it wants to do so without waiting.
    pub(crate) fn note_work(&mut self, now: Now, dir: InodeKey) {
        if let Some(inode) = self.inodes.get_mut(&dir).filter(|inode| inode.attrs().is_dir()) {
            inode.work_until(now.mono + WORKS_FOR);
            self.work_ends_at.note(dir, now.mono + WORKS_FOR);
            self.settle_later(dir);
        }
    }

    /// Ends that wish in directories where this client has changed nothing for a while.
    pub(crate) fn end_work(&mut self, now: Now) {
        while let Some(dir) = self.work_ends_at.take_due(now.mono) {
            let Some(inode) = self.inodes.get_mut(&dir) else { continue };
            match inode.stop_old_work(now.mono) {
                Some(until) => self.work_ends_at.note(dir, until),
                None => self.settle_later(dir),
            }
        }
    }

    /// True if a change of a name is promised.
    pub(crate) fn is_promised(&self, dir: InodeKey, name: &[u8]) -> bool {
        self.inodes.get(&dir).is_some_and(|dir| dir.promised().has_name(name))
    }
}
