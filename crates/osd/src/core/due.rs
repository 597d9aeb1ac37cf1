//! Work for the whole OSD that a PG or a message has made due. [`Osd::settle`](crate::osd::Osd) does it
//! before the outputs of the input leave.

use std::collections::BTreeSet;

/// One kind of work, in the order in which it is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Due {
    /// Reservations were asked for or released: grant the free ones.
    Reservations,
    /// Transfers have ended, or the pace allows more: start the next ones.
    Recovery,
    /// PGs may be able to trim removed snapshots.
    Trim,
    /// PGs may be due for a scrub.
    Scrub,
    /// A PG of ours has changed: report to the monitor soon.
    Report,
}

impl Due {
    /// All kinds, in the order in which they are done.
    pub const ALL: [Self; 5] = [Self::Reservations, Self::Recovery, Self::Trim, Self::Scrub, Self::Report];
}

/// The work that is due. Each kind is in it at most once: doing it once serves everyone who asked.
#[derive(Debug, Default)]
pub struct DueQueue {
    kinds: BTreeSet<Due>,
}

impl DueQueue {
    /// Makes a kind of work due.
    pub fn push(&mut self, due: Due) {
        self.kinds.insert(due);
    }

    /// Takes a kind off the queue; `true` if it was due.
    pub fn take(&mut self, due: Due) -> bool {
        self.kinds.remove(&due)
    }

    /// True if nothing is due.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}
