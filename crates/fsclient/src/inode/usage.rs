//! The local users of an inode: references, open files, reads under way, waiting operations.

use crate::key::OpId;
use std::collections::BTreeSet;
use stdx::Rare;

/// The access that an open file has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    /// Writes may be buffered under `Fl`.
    pub(crate) lazy: bool,
}

/// Local users. An inode without any may be forgotten.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// References that local callers hold.
    lookups: u64,
    /// A local caller has taken the last name away.
    is_removed_here: bool,
    /// Open files that read.
    readers: u32,
    /// Open files that write.
    writers: u32,
    /// Lazy ones among the open files.
    lazy: u32,
    /// Reads under way, which need `Fr` until they end.
    reads: u32,
    /// Operations to try again when something about the inode changes.
    waiters: Rare<BTreeSet<OpId>>,
    /// The time of the last use, as a count: the least recently used are trimmed first.
    used_at: u64,
}

impl Usage {
    pub(crate) fn add_lookups(&mut self, count: u64) {
        self.lookups = self.lookups.saturating_add(count);
    }

    pub(crate) fn forget_lookups(&mut self, count: u64) {
        self.lookups = self.lookups.saturating_sub(count);
    }

    pub(super) fn set_removed_here(&mut self, is_removed: bool) {
        self.is_removed_here = is_removed;
    }

    /// True if a local caller has taken the last name away. Then the kernel has no name for the inode, and
    /// refers to it only as long as it is in use, if by nothing else then by a descriptor of `O_PATH`.
    pub(super) fn is_removed_here(&self) -> bool {
        self.is_removed_here
    }

    pub(super) fn opened(&mut self, access: Access) {
        self.readers += u32::from(access.reads);
        self.writers += u32::from(access.writes);
        self.lazy += u32::from(access.lazy);
    }

    pub(super) fn closed(&mut self, access: Access) {
        self.readers -= u32::from(access.reads);
        self.writers -= u32::from(access.writes);
        self.lazy -= u32::from(access.lazy);
    }

    /// The access of all open files together.
    pub(crate) fn access(&self) -> Access {
        Access { reads: self.readers > 0, writes: self.writers > 0, lazy: self.lazy > 0 }
    }

    pub(super) fn start_read(&mut self) {
        self.reads += 1;
    }

    pub(super) fn end_read(&mut self) {
        self.reads -= 1;
    }

    /// True if local callers hold references.
    pub(crate) fn is_referenced(&self) -> bool {
        self.lookups > 0
    }

    pub(super) fn is_reading(&self) -> bool {
        self.reads > 0
    }

    /// True if no file is open and no read under way; references and waiters do not count.
    pub(super) fn is_closed(&self) -> bool {
        self.readers + self.writers + self.reads == 0
    }

    /// True if nobody uses the inode, but for references.
    pub(super) fn is_unused(&self) -> bool {
        self.is_closed() && self.waiters.is_empty()
    }

    /// References that local callers hold.
    pub(crate) fn lookups(&self) -> u64 {
        self.lookups
    }

    pub(crate) fn wait(&mut self, op: OpId) {
        self.waiters.edit(|waiters| waiters.insert(op));
    }

    /// True if operations wait for something about the inode to change.
    pub(super) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    pub(crate) fn take_waiters(&mut self) -> BTreeSet<OpId> {
        self.waiters.edit(std::mem::take)
    }

    pub(crate) fn set_used_at(&mut self, used_at: u64) {
        self.used_at = used_at;
    }

    pub(crate) fn used_at(&self) -> u64 {
        self.used_at
    }
}
