//! Rate limits of log lines that strangers can cause. The log gets some of them, counters count all.

use std::time::Duration;
use stdx::Instant;

/// The most lines at once.
const BURST: u32 = 20;
/// Interval between lines once the burst is used up.
const EVERY: Duration = Duration::from_secs(1);

/// A bucket that lines are taken from.
#[derive(Debug)]
pub(crate) struct LineLimit {
    left: u32,
    filled_at: Instant,
    dropped: u64,
}

impl Default for LineLimit {
    fn default() -> Self {
        Self { left: BURST, filled_at: Instant::default(), dropped: 0 }
    }
}

impl LineLimit {
    /// The number of lines dropped since the last one, if a line may be written now.
    pub(crate) fn take(&mut self, now: Instant) -> Option<u64> {
        while self.left < BURST && self.filled_at + EVERY <= now {
            self.left += 1;
            self.filled_at = self.filled_at + EVERY;
        }
        if self.left == BURST {
            self.filled_at = now;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Some(std::mem::take(&mut self.dropped))
            }
            None => {
                self.dropped += 1;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_some_lines_and_says_how_many_are_missing() {
        let mut limit = LineLimit::default();
        let at = |s: u64| Instant(1_000_000_000_000) + Duration::from_secs(s);
        let written = (0..1000).filter(|_| limit.take(at(0)).is_some()).count();
        assert_eq!(written, 20);
        assert_eq!(limit.take(at(1)), Some(980));
        assert_eq!(limit.take(at(1)), None);
        assert_eq!(limit.take(at(2)), Some(1));
        let written = (0..1000).filter(|_| limit.take(at(1000)).is_some()).count();
        assert_eq!(written, 20, "no more than at first, however long it was quiet");
    }
}
