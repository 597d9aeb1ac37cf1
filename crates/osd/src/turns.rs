//! The order in which an OSD turns to its PGs.

use maps::Spg;
use std::time::Duration;
use stdx::Instant;

/// Whose turn it is, and when the next search for one is.
///
/// Invariant: a PG that had a turn at recovery comes after all others.
#[derive(Debug, Default)]
pub struct Turns {
    /// The PG that last had a turn at recovery.
    recovered_last: Spg,
    /// Time of the next search for PGs that are due for scrub.
    scrub_look_at: Instant,
}

impl Turns {
    /// Puts PGs in the order in which they may recover.
    pub fn to_recover(&self, pgs: impl Iterator<Item = Spg>) -> Vec<Spg> {
        let (had_theirs, next): (Vec<_>, Vec<_>) = pgs.partition(|id| *id <= self.recovered_last);
        [next, had_theirs].concat()
    }

    /// A PG has had its turn at recovery.
    pub fn recovered(&mut self, pgid: Spg) {
        self.recovered_last = pgid;
    }

    /// True once in each period `every`: it is time to search for PGs that are due for scrub.
    pub fn is_scrub_look_due(&mut self, now: Instant, every: Duration) -> bool {
        let due = now >= self.scrub_look_at;
        if due {
            self.scrub_look_at = now + every;
        }
        due
    }
}
