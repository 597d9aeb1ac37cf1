//! What a client that has a directory for itself does to inodes without waiting.

use super::{Inode, Promised, WriteBack};
use maps::FileLayout;
use msgs::{DentryRelease, cap};
use stdx::{Instant, Wall};

impl Inode {
    /// What asynchronous requests without an answer have promised.
    pub(crate) fn promised(&self) -> &Promised {
        &self.promised
    }

    /// A create has made this inode, with a capability that it assumes.
    pub(crate) fn promise_new(&mut self) {
        self.promised.edit(|promised| promised.set_new(true));
        self.caps.assume();
    }

    /// The last name of this inode was removed. Returns the release of `Ls` that goes with it: the answer
    /// does not tell the number of links, but the last one has gone for good. Of a directory, the right to
    /// work in it goes as well, unless unanswered removals of names in it rest on that.
    pub(crate) fn promise_removal(&mut self, wall: Wall) -> Option<DentryRelease> {
        self.promised.edit(|promised| promised.set_unlinked(true));
        self.usage.set_removed_here(true);
        self.attrs.note_unlinked(wall);
        self.stop_work();
        let gives_up = self.attrs.is_dir() && !self.promised.has_names();
        let of_dir = if gives_up { cap::DIR_ASYNC } else { 0 };
        self.caps.release(self.key.ino(), cap::LINK_SHARED | of_dir)
    }

    /// A name in this directory was given to a new inode, or removed; `is_of_dir` if that is a directory.
    pub(crate) fn promise_name(&mut self, name: &[u8], (is_given, is_of_dir): (bool, bool), wall: Wall) {
        self.promised.edit(|promised| promised.add_name(name));
        self.attrs.note_name(is_given, is_of_dir, wall);
    }

    /// The promise about a name in this directory has ended.
    pub(crate) fn end_promise_of_name(&mut self, name: &[u8]) {
        self.promised.edit(|promised| promised.remove_name(name));
    }

    /// The promise about this inode has ended. If it is broken, the next fsync or close says so.
    pub(crate) fn end_promise(&mut self, is_kept: bool) {
        if self.promised.is_new() && !is_kept {
            self.lose_all();
            self.data.edit(WriteBack::lose);
        }
        if self.promised.is_unlinked() && !is_kept {
            self.usage.set_removed_here(false);
        }
        self.promised.edit(|promised| {
            promised.set_new(false);
            promised.set_unlinked(false);
        });
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
        self.file_layout = self.is_alone(cap::DIR_CREATE).then(|| Box::new(layout.clone()));
    }

    /// The layout that new files of this directory get, if that is known.
    pub(crate) fn file_layout(&self) -> Option<&FileLayout> {
        self.file_layout.as_deref().filter(|_| self.is_alone(cap::DIR_CREATE))
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
