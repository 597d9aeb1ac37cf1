//! Coming back after an eviction: when, and how often.
//!
//! An evicted client is on the blocklist, by its address and nonce. It gives up all that it held, takes
//! another nonce and begins as a new client. Whoever is evicted again soon waits for longer each time.

use maps::OsdMap;
use std::collections::BTreeSet;
use std::time::Duration;
use stdx::Instant;
use wire::EntityAddr;

/// The pause before the second return; the first one comes at once.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(64);
/// Who was there for as long as this returns at once.
const CALM: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    /// As far as is known, nobody has evicted this client.
    #[default]
    There,
    /// It is cut off, and begins anew at this time.
    Away(Instant),
    /// The new instance waits for the map in which its predecessor is refused.
    Returning,
}

/// Where a client is on its way back.
#[derive(Debug, Default)]
pub(crate) struct Comeback {
    phase: Phase,
    /// The addresses by which others know this instance: more than one if it has several networks.
    ours: BTreeSet<EntityAddr>,
    /// The last pause, and when it began.
    last: Option<(Duration, Instant)>,
}

impl Comeback {
    /// Somebody knows this instance by this address.
    pub(crate) fn known_as(&mut self, addr: EntityAddr) {
        self.ours.insert(addr);
    }

    /// True if a map shows that the OSDs refuse this instance, and it does not know yet.
    pub(crate) fn is_refused_by(&self, map: &OsdMap) -> bool {
        !matches!(self.phase, Phase::Away(_)) && self.ours.iter().any(|addr| map.is_blocklisted(addr))
    }

    /// True unless this client is cut off or on its way back.
    pub(crate) fn is_there(&self) -> bool {
        self.phase == Phase::There
    }

    /// This instance is cut off. Returns the pause before the next one; `None` if that was known.
    pub(crate) fn cut_off(&mut self, now: Instant) -> Option<Duration> {
        if matches!(self.phase, Phase::Away(_)) {
            return None;
        }
        let pause = match self.last {
            Some((last, at)) if now < at + last + CALM => (last * 2).clamp(FIRST_PAUSE, MAX_PAUSE),
            _ => Duration::ZERO,
        };
        (self.phase, self.last) = (Phase::Away(now + pause), Some((pause, now)));
        Some(pause)
    }

    /// The end of the pause.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if let Phase::Away(at) = self.phase { Some(at) } else { None }
    }

    /// Begins the next instance, if the pause is over. Nobody knows it yet.
    pub(crate) fn begins(&mut self, now: Instant) -> bool {
        let begins = self.deadline().is_some_and(|at| at <= now);
        if begins {
            self.phase = Phase::Returning;
            self.ours.clear();
        }
        begins
    }

    /// Ends the return once the new instance may go on. Returns true if it did.
    pub(crate) fn ends(&mut self, may_go_on: bool) -> bool {
        let ends = self.phase == Phase::Returning && may_go_on;
        if ends {
            self.phase = Phase::There;
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant(1_000_000_000_000) + Duration::from_secs(s)
    }

    #[test]
    fn who_is_evicted_again_and_again_waits_for_longer_each_time() {
        let mut comeback = Comeback::default();
        let mut now = at(0);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            let pause = comeback.cut_off(now).expect("it was there");
            assert_eq!(comeback.cut_off(now), None, "that is known");
            pauses.push(pause.as_secs());
            if !pause.is_zero() {
                assert!(!comeback.begins(now));
            }
            now = comeback.deadline().expect("a pause");
            assert!(comeback.begins(now) && !comeback.begins(now));
            assert!(!comeback.ends(false) && comeback.ends(true));
        }
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 64, 64, 64]);
        let calm = now + MAX_PAUSE + CALM;
        assert_eq!(comeback.cut_off(calm), Some(Duration::ZERO));
    }

    #[test]
    fn a_blocklist_concerns_the_instance_that_it_names() {
        let mut comeback = Comeback::default();
        let addr = |nonce| EntityAddr::parse(&format!("any:10.0.0.1:0/{nonce}")).expect("an address");
        let mut map = OsdMap::default();
        map.blocklist.insert(addr(7), Default::default());
        comeback.known_as(addr(8));
        assert!(!comeback.is_refused_by(&map));
        comeback.known_as(addr(7));
        assert!(comeback.is_refused_by(&map) && comeback.is_there());
        comeback.cut_off(at(0));
        assert!(!comeback.is_refused_by(&map), "it knows");
        assert!(comeback.begins(at(0)));
        comeback.known_as(addr(9));
        assert!(!comeback.is_refused_by(&map) && !comeback.is_there());
        // All of its host.
        map.blocklist.insert(addr(0), Default::default());
        assert!(comeback.is_refused_by(&map));
        assert_eq!(comeback.cut_off(at(1)), Some(FIRST_PAUSE), "although it has not come back yet");
    }
}
