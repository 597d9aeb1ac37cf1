//! Files that nobody here wants any more while their MDSs believe that somebody does: when these are told.
//!
//! Many a file is opened again soon after it was closed, or another message about it says so along with the
//! rest, or its capability is given back: then the MDS need not be told by a message of its own. Until it is,
//! a revocation gets the right answer, so nobody waits longer.

use crate::deadlines::Deadlines;
use crate::key::InodeKey;
use std::collections::BTreeSet;
use std::time::Duration;
use stdx::{Instant, Now};

/// How long an MDS is not told: as long as Linux's client waits at least (`caps_wanted_delay_min`).
const TELL_AFTER: Duration = Duration::from_secs(5);
/// Those that were closed in the same interval are told together.
const TOLD_TOGETHER: Duration = Duration::from_millis(100);

/// Unwanted files and when their MDSs are told at the latest.
#[derive(Debug, Default)]
pub(crate) struct Unwanted {
    told_at: Deadlines<InodeKey>,
    /// Those whose time has come, until they are settled.
    due: BTreeSet<InodeKey>,
}

impl Unwanted {
    /// An inode was settled: notes whether its MDS believes that somebody here wants it although nobody does.
    /// If the MDS could not be told, it is later.
    pub(crate) fn note(&mut self, now: Now, key: InodeKey, is_unwanted: bool) {
        self.due.remove(&key);
        if is_unwanted {
            let (at, step) = (now.mono + TELL_AFTER, TOLD_TOGETHER.as_nanos() as u64);
            self.told_at.note(key, Instant(at.0.next_multiple_of(step)));
        } else {
            self.told_at.remove(key);
        }
    }

    /// True if it is time to tell the MDS of this inode.
    pub(crate) fn is_due(&self, key: InodeKey) -> bool {
        self.due.contains(&key)
    }

    /// The inodes of which their MDSs are to be told now: they are to be settled.
    pub(crate) fn take_due(&mut self, now: Now) -> &BTreeSet<InodeKey> {
        self.due.extend(std::iter::from_fn(|| self.told_at.take_due(now.mono)));
        &self.due
    }

    /// The time at which the next is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.told_at.first()
    }
}
