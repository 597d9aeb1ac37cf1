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

#[cfg(test)]
mod tests {
    use super::*;
    use maps::PgId;

    #[test]
    fn who_had_a_turn_comes_last() {
        let pgs: Vec<Spg> = (0..4).map(|seed| Spg::replicated(PgId::new(1, seed))).collect();
        let mut turns = Turns::default();
        assert_eq!(turns.to_recover(pgs.iter().copied()), pgs);
        turns.recovered(pgs[1]);
        assert_eq!(turns.to_recover(pgs.iter().copied()), [pgs[2], pgs[3], pgs[0], pgs[1]]);
    }

    #[test]
    fn there_is_one_search_in_a_period() {
        let (mut turns, every) = (Turns::default(), Duration::from_secs(1));
        let due = [0, 0, 999, 1000, 1500, 3000, 3999].map(|ms| {
            let now = Instant(0) + Duration::from_millis(ms);
            turns.is_scrub_look_due(now, every)
        });
        assert_eq!(due, [true, false, false, true, false, true, false]);
    }
}
