//! The total of buffered writes over all files, and who waits for it to shrink.

use crate::key::{InodeKey, OpId};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Instant, Now};

/// The longest that written data stay here when nobody asks for them to leave.
pub(crate) const WRITE_BACK_AFTER: Duration = Duration::from_secs(2);

/// Buffered bytes of the client.
///
/// Invariants: `bytes` is the sum of what the files in `since` count; `by_age` has what `since` has.
#[derive(Debug)]
pub(crate) struct BufferTotal {
    limit: u64,
    bytes: u64,
    /// Files with buffered writes or unflushed attributes, with the time since when.
    since: BTreeMap<InodeKey, Instant>,
    by_age: BTreeSet<(Instant, InodeKey)>,
    /// Writers that wait for buffered bytes to leave.
    space_waiters: BTreeSet<OpId>,
}

impl BufferTotal {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            bytes: 0,
            since: BTreeMap::new(),
            by_age: BTreeSet::new(),
            space_waiters: BTreeSet::new(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if writers have to wait.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.bytes > self.limit
    }

    /// True if every file should write back now.
    pub(crate) fn is_crowded(&self) -> bool {
        self.bytes > self.limit / 2
    }

    /// Replaces a file's former count. Returns the writers that may go on.
    pub(crate) fn recount(&mut self, (before, now): (u64, u64)) -> BTreeSet<OpId> {
        self.bytes = self.bytes - before + now;
        if self.is_over_limit() { BTreeSet::new() } else { std::mem::take(&mut self.space_waiters) }
    }

    /// Has a writer wait until the total is below the limit.
    pub(crate) fn wait_for_space(&mut self, op: OpId) {
        self.space_waiters.insert(op);
    }

    /// A file has something to write back from now on, unless it has since longer.
    pub(crate) fn note_dirty(&mut self, now: Now, key: InodeKey) {
        if let Entry::Vacant(place) = self.since.entry(key) {
            place.insert(now.mono);
            self.by_age.insert((now.mono, key));
        }
    }

    /// A file has nothing to write back.
    pub(crate) fn note_clean(&mut self, key: InodeKey) {
        if let Some(at) = self.since.remove(&key) {
            self.by_age.remove(&(at, key));
        }
    }

    /// True if a file has been dirty for long enough.
    pub(crate) fn is_due(&self, now: Now, key: InodeKey) -> bool {
        self.since.get(&key).is_some_and(|at| now.mono >= *at + WRITE_BACK_AFTER)
    }

    /// Takes the files that have been dirty for long enough; each is due again after the same time.
    pub(crate) fn take_due(&mut self, now: Now) -> Vec<InodeKey> {
        let is_due = |(at, _): &(Instant, InodeKey)| now.mono >= *at + WRITE_BACK_AFTER;
        let due: Vec<InodeKey> = self.by_age.iter().copied().take_while(is_due).map(|(_, key)| key).collect();
        for key in &due {
            self.note_clean(*key);
            self.note_dirty(now, *key);
        }
        due
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.by_age.first().map(|(at, _)| *at + WRITE_BACK_AFTER)
    }

    /// Asserts the invariant.
    pub(crate) fn check(&self, counted: impl Fn(InodeKey) -> u64) {
        let sum: u64 = self.since.keys().map(|key| counted(*key)).sum();
        assert_eq!(self.bytes, sum, "the total of buffered bytes");
        assert_eq!(self.since.len(), self.by_age.len(), "files by age");
    }

    #[cfg(test)]
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }
}
