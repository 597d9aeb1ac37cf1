//! Capabilities on inodes that were dropped here, until their MDS is told.
//!
//! The MDS needs to know at once only if it waits for one of them or the inode has no name any more, so that
//! its space is to be freed. Of the others it hears together, after as long as Linux's client waits: a client
//! that makes a file for each that it drops, for many ranks, would otherwise send each of them a message for
//! each file. Until then a revocation is answered at once, and a capability that the MDS gives again is newer
//! than what the release names, so that it stays.

use maps::MdsRank;
use msgs::CapReleaseItem;
use std::time::Duration;
use stdx::Instant;

/// The longest time until the MDS is told.
const TELL_AFTER: Duration = Duration::from_secs(5);
/// The number of capabilities of which it is told sooner.
const MAX_ITEMS: usize = 64;

/// A capability that is given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    pub(crate) rank: MdsRank,
    pub(crate) item: CapReleaseItem,
    /// The MDS waits for it, or has something to do once it has it.
    pub(crate) is_awaited: bool,
}

impl Release {
    /// Of a capability that the MDS waits for.
    pub(crate) fn soon(rank: MdsRank, item: CapReleaseItem) -> Self {
        Self { rank, item, is_awaited: true }
    }

    /// Of one that nobody waits for.
    pub(crate) fn later(rank: MdsRank, item: CapReleaseItem) -> Self {
        Self { rank, item, is_awaited: false }
    }
}

/// Capabilities of one rank that it need not be told of yet.
///
/// Invariant: there is a time to tell of them if and only if there are any.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    items: Vec<CapReleaseItem>,
    due: Option<Instant>,
}

impl Releases {
    /// Adds one. Returns true if there are enough to tell of.
    pub(crate) fn add(&mut self, now: Instant, item: CapReleaseItem) -> bool {
        self.items.push(item);
        self.due.get_or_insert(now + TELL_AFTER);
        self.items.len() >= MAX_ITEMS
    }

    /// The time at which the MDS is to be told.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Takes all of them.
    pub(crate) fn take(&mut self) -> Vec<CapReleaseItem> {
        self.due = None;
        std::mem::take(&mut self.items)
    }

    /// Asserts the invariant.
    pub(crate) fn check(&self) {
        assert_eq!(self.items.is_empty(), self.due.is_none(), "capabilities are given back in time");
    }
}
