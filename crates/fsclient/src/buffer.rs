//! The total of buffered writes over all files, and who waits for it to shrink.

use crate::deadlines::Deadlines;
use crate::key::{InodeKey, OpId};
use std::collections::BTreeSet;
use std::time::Duration;
use stdx::{Instant, Now};

/// The longest that written data stay here when nobody asks for them to leave.
pub(crate) const WRITE_BACK_AFTER: Duration = Duration::from_secs(2);
/// The time for which data of a file stay that nobody writes any more: many a file is removed soon after, and
/// those of several files leave together.
pub(crate) const WRITE_BACK_CLOSED_AFTER: Duration = Duration::from_secs(1);
/// Files that were closed in the same interval are written back at once.
pub(crate) const CLOSED_TOGETHER: Duration = Duration::from_millis(25);

/// Buffered bytes of the client.
///
/// Invariant: `bytes` is the sum of what the files in `due_at` count.
#[derive(Debug)]
pub(crate) struct BufferTotal {
    limit: u64,
    bytes: u64,
    /// Files with buffered writes or unflushed attributes, and when these leave at the latest.
    due_at: Deadlines<InodeKey>,
    /// Writers that wait for buffered bytes to leave.
    space_waiters: BTreeSet<OpId>,
}

impl BufferTotal {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, bytes: 0, due_at: Deadlines::default(), space_waiters: BTreeSet::new() }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if the writer of a file that has `own` buffered bytes has to wait. What a few files fill leaves
    /// room for the others, so that nobody waits for somebody else's large file.
    pub(crate) fn is_full_for(&self, own: u64) -> bool {
        let is_large = own > self.limit / 16;
        self.bytes > if is_large { self.limit_of_large() } else { self.limit }
    }

    /// The total beyond which writers of large files wait.
    fn limit_of_large(&self) -> u64 {
        self.limit / 4 * 3
    }

    /// True if every file should write back now.
    pub(crate) fn is_crowded(&self) -> bool {
        self.bytes > self.limit / 2
    }

    /// Replaces a file's former count. Returns the writers that may go on.
    pub(crate) fn recount(&mut self, (before, now): (u64, u64)) -> BTreeSet<OpId> {
        self.bytes = self.bytes - before + now;
        if self.bytes > self.limit_of_large() {
            BTreeSet::new()
        } else {
            std::mem::take(&mut self.space_waiters)
        }
    }

    /// Has a writer wait until there is space for large files too.
    pub(crate) fn wait_for_space(&mut self, op: OpId) {
        self.space_waiters.insert(op);
    }

    /// A file has something to write back from now on, unless it has since longer.
    pub(crate) fn note_dirty(&mut self, now: Now, key: InodeKey) {
        self.due_at.note(key, now.mono + WRITE_BACK_AFTER);
    }

    /// A file that has something to write back is not written any more.
    pub(crate) fn note_closed(&mut self, now: Now, key: InodeKey) {
        let (at, step) = (now.mono + WRITE_BACK_CLOSED_AFTER, CLOSED_TOGETHER.as_nanos() as u64);
        self.due_at.bring_forward(key, Instant(at.0.next_multiple_of(step)));
    }

    /// A file has nothing to write back.
    pub(crate) fn note_clean(&mut self, key: InodeKey) {
        self.due_at.remove(key);
    }

    /// True if a file has been dirty for long enough.
    pub(crate) fn is_due(&self, now: Now, key: InodeKey) -> bool {
        self.due_at.is_due(now.mono, key)
    }

    /// Takes the files that have been dirty for long enough; each is due again after the same time.
    pub(crate) fn take_due(&mut self, now: Now) -> Vec<InodeKey> {
        let due: Vec<InodeKey> = std::iter::from_fn(|| self.due_at.take_due(now.mono)).collect();
        due.iter().for_each(|key| self.note_dirty(now, *key));
        due
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due_at.first()
    }

    /// Asserts the invariant.
    pub(crate) fn check(&self, counted: impl Fn(InodeKey) -> u64) {
        let sum: u64 = self.due_at.keys().map(counted).sum();
        assert_eq!(self.bytes, sum, "the total of buffered bytes");
    }

    #[cfg(test)]
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_leaves_room_for_small_ones() {
        let mut total = BufferTotal::new(160);
        total.recount((0, 120));
        assert!(!total.is_full_for(120) && !total.is_full_for(1));
        total.recount((0, 1));
        assert!(total.is_full_for(120) && !total.is_full_for(1));
        total.recount((0, 40));
        assert!(total.is_full_for(1), "the limit is everybody's");
        total.wait_for_space(OpId::new(1));
        assert!(total.recount((120, 80)).is_empty());
        assert_eq!(total.recount((80, 79)), BTreeSet::from([OpId::new(1)]));
    }
}
