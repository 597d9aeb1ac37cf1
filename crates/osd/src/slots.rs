//! How many PGs one OSD fills at a time (`osd_max_backfills`): slots for those that it is primary of, and others for those whose
//! copy here is filled. Who asks first of the most urgent ones is first.

use maps::PgId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Slots of one kind.
#[derive(Debug, Default)]
pub struct Slots {
    held: BTreeSet<PgId>,
    /// By urgency, then by arrival.
    waiting: BTreeMap<(Reverse<u8>, u64), PgId>,
    arrivals: u64,
}

impl Slots {
    /// A PG wants one. Asking again changes nothing.
    pub fn ask(&mut self, pgid: PgId, urgency: u8) {
        if !self.held.contains(&pgid) && !self.waiting.values().any(|waits| *waits == pgid) {
            self.arrivals += 1;
            self.waiting.insert((Reverse(urgency), self.arrivals), pgid);
        }
    }

    /// A PG wants none any more. `true` where another may have its slot.
    pub fn release(&mut self, pgid: PgId) -> bool {
        self.waiting.retain(|_, waits| *waits != pgid);
        self.held.remove(&pgid)
    }

    /// Who gets one now, where there are so many.
    pub fn grant(&mut self, count: usize) -> Vec<PgId> {
        let mut granted = Vec::new();
        while self.held.len() < count
            && let Some((_, pgid)) = self.waiting.pop_first()
        {
            self.held.insert(pgid);
            granted.push(pgid);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_is_first_then_who_came_first() {
        let pg = |seed| PgId::new(1, seed);
        let mut slots = Slots::default();
        slots.ask(pg(1), 1);
        assert_eq!(slots.grant(1), [pg(1)]);
        slots.ask(pg(1), 1);
        slots.ask(pg(2), 1);
        slots.ask(pg(3), 1);
        slots.ask(pg(4), 3);
        assert_eq!(slots.grant(1), []);
        assert!(slots.release(pg(1)));
        assert!(!slots.release(pg(2)), "it had none");
        assert_eq!(slots.grant(1), [pg(4)]);
        assert_eq!(slots.grant(3), [pg(3)], "there are more now");
    }
}
