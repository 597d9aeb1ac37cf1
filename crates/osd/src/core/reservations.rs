//! Slots that limit how many PGs one OSD recovers or backfills at a time (`osd_max_backfills`). The most
//! urgent PGs come first, and among those the earliest.

use maps::Spg;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Reservations of one kind.
#[derive(Debug, Default)]
pub struct Reservations {
    held: BTreeSet<Spg>,
    /// Waiting PGs by urgency, then by arrival.
    waiting: BTreeMap<(Reverse<u8>, u64), Spg>,
    arrivals: u64,
}

impl Reservations {
    /// Requests a slot for a PG. A repeated request changes nothing.
    pub fn ask(&mut self, pgid: Spg, urgency: u8) {
        if !self.held.contains(&pgid) && !self.waiting.values().any(|waits| *waits == pgid) {
            self.arrivals += 1;
            self.waiting.insert((Reverse(urgency), self.arrivals), pgid);
        }
    }

    /// Releases a PG's slot or request. Returns true if it held a slot, which another may have now.
    pub fn release(&mut self, pgid: Spg) -> bool {
        self.waiting.retain(|_, waits| *waits != pgid);
        self.held.remove(&pgid)
    }

    /// Grants free slots, of `count` in all; returns the PGs that got one.
    pub fn grant(&mut self, count: usize) -> Vec<Spg> {
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
    use maps::PgId;

    #[test]
    fn the_most_urgent_is_first_then_who_came_first() {
        let pg = |seed| Spg::replicated(PgId::new(1, seed));
        let mut reservations = Reservations::default();
        reservations.ask(pg(1), 1);
        assert_eq!(reservations.grant(1), [pg(1)]);
        reservations.ask(pg(1), 1);
        reservations.ask(pg(2), 1);
        reservations.ask(pg(3), 1);
        reservations.ask(pg(4), 3);
        assert_eq!(reservations.grant(1), []);
        assert!(reservations.release(pg(1)));
        assert!(!reservations.release(pg(2)), "it had none");
        assert_eq!(reservations.grant(1), [pg(4)]);
        assert_eq!(reservations.grant(3), [pg(3)], "there are more now");
    }
}
