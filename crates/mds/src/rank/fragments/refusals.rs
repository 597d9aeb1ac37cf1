//! Changes that were given up: each is tried again after a while, which is longer each time.

use fsfmt::DirFrag;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;

/// Time until the first further attempt.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// Most time between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug)]
struct Refusal {
    until: Instant,
    wait: Duration,
}

/// The fragments that could not be split, or whose parts could not be joined.
#[derive(Default)]
pub(super) struct Refusals(BTreeMap<DirFrag, Refusal>);

impl Refusals {
    /// Notes another attempt that was in vain; returns the time for which there is no further one.
    pub fn add(&mut self, dir: DirFrag, now: Instant) -> Duration {
        let wait = self.0.get(&dir).map_or(FIRST_WAIT, |last| (last.wait * 2).min(LONGEST_WAIT));
        self.0.insert(dir, Refusal { until: now + wait, wait });
        wait
    }

    /// Forgets what was in vain.
    pub fn remove(&mut self, dir: DirFrag) {
        self.0.remove(&dir);
    }

    /// True if it is too early for another attempt.
    pub fn is_refused(&self, dir: DirFrag, now: Instant) -> bool {
        self.0.get(&dir).is_some_and(|refusal| now < refusal.until)
    }

    /// Those for which it is time.
    pub fn over(&self, now: Instant) -> Vec<DirFrag> {
        self.0.iter().filter(|(_, refusal)| refusal.until <= now).map(|(dir, _)| *dir).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsfmt::Ino;

    #[test]
    fn attempts_become_rarer() {
        let dir = DirFrag::whole(Ino::ROOT);
        let (mut refusals, mut now) = (Refusals::default(), Instant(5));
        let mut waits = Vec::new();
        for _ in 0..11 {
            let wait = refusals.add(dir, now);
            assert!(refusals.is_refused(dir, now) && refusals.over(now).is_empty());
            now = now + wait;
            assert!(!refusals.is_refused(dir, now));
            assert_eq!(refusals.over(now), [dir]);
            waits.push(wait.as_secs());
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
        refusals.remove(dir);
        assert_eq!(refusals.add(dir, now), FIRST_WAIT);
    }
}
