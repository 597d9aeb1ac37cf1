//! The owner's own requests to OSDs or metadata servers. If one stays unanswered, its daemon may be gone,
//! which only a newer map tells.

use maps::Epoch;
use std::time::Duration;
use stdx::Instant;

/// A request without an answer for this long waits for a newer map.
const STUCK: Duration = Duration::from_secs(2);

/// The oldest request without an answer, and since when it is that, under which map.
#[derive(Debug, Default)]
pub struct Stuck(Option<Oldest>);

#[derive(Debug)]
struct Oldest {
    request: u64,
    epoch: Epoch,
    since: Instant,
    told: bool,
}

impl Stuck {
    /// After each input: the oldest request without an answer, and the epoch of the map that it was sent by.
    pub fn follow(&mut self, now: Instant, oldest: Option<u64>, epoch: Epoch) {
        let same = |o: &Oldest| Some(o.request) == oldest && o.epoch == epoch;
        if !self.0.as_ref().is_some_and(same) {
            self.0 = oldest.map(|request| Oldest { request, epoch, since: now, told: false });
        }
    }

    /// The time at which [`Self::is_due`] becomes true.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.as_ref().filter(|o| !o.told).map(|o| o.since + STUCK)
    }

    /// True if a newer map should be expected ([`crate::Monc::expect`]): once for each request and map.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let due = self.deadline().is_some_and(|at| at <= now);
        if let Some(oldest) = self.0.as_mut().filter(|_| due) {
            oldest.told = true;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn a_request_that_stays_is_told_once_for_each_map() {
        let mut stuck = Stuck::default();
        stuck.follow(at(0), Some(1), Epoch(5));
        stuck.follow(at(500), Some(2), Epoch(5));
        assert_eq!(stuck.deadline(), Some(at(2500)), "the first one was answered");
        assert!(!stuck.is_due(at(2499)));
        assert!(stuck.is_due(at(2500)));
        assert!(!stuck.is_due(at(2501)) && stuck.deadline().is_none());
        stuck.follow(at(3000), Some(2), Epoch(6));
        assert!(stuck.is_due(at(5000)));
        stuck.follow(at(6000), None, Epoch(6));
        assert_eq!(stuck.deadline(), None);
    }
}
