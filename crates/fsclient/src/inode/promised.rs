//! What asynchronous requests without an answer have promised about an inode.

use super::Inode;
use maps::FileLayout;
use msgs::{DentryRelease, cap};
use std::collections::BTreeSet;
use stdx::{Instant, Wall};

/// Promises about one inode.
///
/// Invariant: of a name there is at most one, since whoever wants another waits for its answer.
#[derive(Debug, Default)]
pub(crate) struct Promised {
    /// A create has made it: no MDS knows it yet.
    is_new: bool,
    /// An unlink has removed its last name.
    is_unlinked: bool,
    /// Names in this directory that were given or removed.
    names: BTreeSet<Vec<u8>>,
}

impl Promised {
    pub(super) fn set_new(&mut self, is_new: bool) {
        self.is_new = is_new;
    }

    pub(super) fn set_unlinked(&mut self, is_unlinked: bool) {
        self.is_unlinked = is_unlinked;
    }

    pub(super) fn add_name(&mut self, name: &[u8]) {
        let is_first = self.names.insert(name.to_vec());
        assert!(is_first, "a name is promised once");
    }

    pub(super) fn remove_name(&mut self, name: &[u8]) {
        self.names.remove(name);
    }

    /// True if no MDS knows the inode yet: it is told nothing of it.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    pub(crate) fn is_unlinked(&self) -> bool {
        self.is_unlinked
    }

    /// True if a name in this directory is promised.
    pub(crate) fn has_name(&self, name: &[u8]) -> bool {
        self.names.contains(name)
    }

    /// True if names in this directory are promised: only this client knows its times and counts.
    pub(crate) fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// True if there is any promise.
    pub(crate) fn is_any(&self) -> bool {
        self.is_new || self.is_unlinked || self.has_names()
    }
}

impl Inode {
    /// What asynchronous requests without an answer have promised.
    pub(crate) fn promised(&self) -> &Promised {
        &self.promised
    }

    /// A create has made this inode, with a capability that it assumes.
    pub(crate) fn promise_new(&mut self) {
        self.promised.set_new(true);
        self.caps.assume();
    }

    /// An unlink has removed the last name of this inode. Returns the release of `Ls` that goes with it: the
    /// answer does not tell the number of links, but the last one has gone for good.
    pub(crate) fn promise_unlinked(&mut self, wall: Wall) -> Option<DentryRelease> {
        self.promised.set_unlinked(true);
        self.attrs.note_unlinked(wall);
        self.caps.release(self.key.ino(), cap::LINK_SHARED)
    }

    /// A name in this directory was given to a new file, or removed.
    pub(crate) fn promise_name(&mut self, name: &[u8], is_given: bool, wall: Wall) {
        self.promised.add_name(name);
        self.attrs.note_name(is_given, wall);
    }

    /// The promise about a name in this directory has ended.
    pub(crate) fn end_promise_of_name(&mut self, name: &[u8]) {
        self.promised.remove_name(name);
    }

    /// The promise about this inode has ended. If it is broken, the next fsync or close says so.
    pub(crate) fn end_promise(&mut self, is_kept: bool) {
        if self.promised.is_new() && !is_kept {
            self.lose_all();
            self.data.lose();
        }
        self.promised.set_new(false);
        self.promised.set_unlinked(false);
    }

    /// This client changes names in this directory: it wants to do so without waiting, until `until`.
    pub(crate) fn work_until(&mut self, until: Instant) {
        self.works_until = Some(until);
    }

    /// Ends that wish.
    pub(crate) fn stop_work(&mut self) {
        self.works_until = None;
    }

    /// Ends that wish if its time has come. Returns the time if it has not.
    pub(crate) fn stop_old_work(&mut self, now: Instant) -> Option<Instant> {
        self.works_until = self.works_until.filter(|until| now < *until);
        self.works_until
    }

    /// Notes the layout that a new file of this directory was given.
    pub(crate) fn note_file_layout(&mut self, layout: &FileLayout) {
        self.file_layout = self.is_alone(cap::DIR_CREATE).then(|| layout.clone());
    }

    /// The layout that new files of this directory get, if that is known.
    pub(crate) fn file_layout(&self) -> Option<&FileLayout> {
        self.file_layout.as_ref().filter(|_| self.is_alone(cap::DIR_CREATE))
    }

    /// Forgets that layout if another may be set meanwhile.
    pub(super) fn update_file_layout(&mut self) {
        if !self.is_alone(cap::DIR_CREATE) {
            self.file_layout = None;
        }
    }

    /// True if this client alone changes names in this directory, and by `bit` does so without waiting.
    pub(crate) fn is_alone(&self, bit: u32) -> bool {
        self.may(cap::FILE_SHARED | cap::FILE_EXCL | bit)
            || works_without_right() && self.may(cap::FILE_SHARED)
    }
}

/// A planted fault: names are changed without waiting in directories that others may change.
fn works_without_right() -> bool {
    stdx::mutants::is_active("client_works_without_right")
}
