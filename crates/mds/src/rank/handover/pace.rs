//! How much clients are told of at once when what they hold has moved.

use std::time::Duration;

/// Time between two looks at what a migration waits for.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// The share of `handover_part` that clients are told of at once, however busy the server is.
const LEAST_SHARE: usize = 16;

/// How much clients are told of at once. Every other look tells them of a part; the look after it sees how
/// long that took, and comes late if it was too much. So a busy server has a third of its time for requests.
#[derive(Default)]
pub(in crate::rank) struct Pace {
    at_once: usize,
    /// The last look told of a part.
    has_told: bool,
}

impl Pace {
    /// Returns whether a look that comes this late tells of a part, which has `most` inodes at most.
    pub fn tells(&mut self, late: Duration, most: usize) -> bool {
        if self.has_told {
            let next = if late > LOOK_INTERVAL / 2 { self.at_once / 2 } else { self.at_once * 2 };
            self.at_once = next.clamp((most / LEAST_SHARE).max(1), most.max(1));
        }
        self.has_told = !self.has_told;
        self.has_told
    }

    /// The inodes of a part.
    pub fn at_once(&self) -> usize {
        self.at_once.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Instant;

    /// Tells for a second, on a server that takes so long for each inode. Returns how many it told of, and
    /// the time that is left for all else.
    fn second_of(each: Duration) -> (usize, Duration) {
        let (mut pace, mut look_at, mut told, mut left) = (Pace::default(), Instant(0), 0, Duration::ZERO);
        let mut now = look_at;
        while now.since(Instant(0)) < Duration::from_secs(1) {
            left += look_at.since(now);
            now = now.max(look_at);
            let tells = pace.tells(now.since(look_at), 500);
            look_at = now + LOOK_INTERVAL;
            if tells {
                told += pace.at_once();
                now = now + each * pace.at_once() as u32;
            }
        }
        (told, left)
    }

    #[test]
    fn a_busy_server_tells_less_at_once() {
        let (told, left) = second_of(Duration::from_micros(1));
        assert!(told > 45_000 && left > Duration::from_millis(900), "{told}, {left:?}");
        let (told, left) = second_of(Duration::from_micros(100));
        assert!(told > 4_000 && left > Duration::from_millis(333), "{told}, {left:?}");
    }
}
