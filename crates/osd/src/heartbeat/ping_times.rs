//! Round trips of pings to one peer, averaged as Ceph does it: over the last minute, and over the last 5 and
//! 15 of them.

use std::collections::VecDeque;
use std::time::Duration;
use stdx::Instant;

/// What one average is over; those of longer times are means of these.
const MINUTE: Duration = Duration::from_secs(60);

/// The longest time that is averaged, in minutes.
const MOST: usize = 15;

/// The round trips of one peer.
///
/// Invariant: no minute without an answer is kept.
#[derive(Debug, Default)]
pub(super) struct PingTimes {
    /// Beginning of the minute under way, and number and sum of its round trips in microseconds.
    began: Option<Instant>,
    count: u64,
    sum_us: u64,
    /// Averages of the last minutes, the latest first.
    minutes: VecDeque<u32>,
}

impl PingTimes {
    /// Notes the round trip of a ping that was answered now.
    pub fn answered(&mut self, now: Instant, took: Duration) {
        let began = *self.began.get_or_insert(now);
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if now.since(began) >= MINUTE {
            self.minutes.push_front(u32::try_from(self.sum_us / self.count).unwrap_or(u32::MAX));
            self.minutes.truncate(MOST);
            (self.began, self.count, self.sum_us) = (Some(now), 0, 0);
        }
    }

    /// Averages over the last minute, 5 and 15 minutes, in microseconds; `None` in the first minute.
    pub fn averages_us(&self) -> Option<[u32; 3]> {
        let over = |minutes: usize| {
            let sum: u64 = self.minutes.iter().take(minutes).map(|us| u64::from(*us)).sum();
            let mean = sum.checked_div(self.minutes.len().min(minutes) as u64)?;
            u32::try_from(mean).ok()
        };
        Some([over(1)?, over(5)?, over(MOST)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_of_the_last_minutes() {
        let mut times = PingTimes::default();
        let mut now = Instant(7);
        let mut minute = |times: &mut PingTimes, ms: u64| {
            for _ in 0..60 {
                times.answered(now, Duration::from_millis(ms));
                now = now + Duration::from_secs(1);
            }
        };
        minute(&mut times, 2000);
        assert_eq!(times.averages_us(), None, "its first minute ends with the next ping");
        minute(&mut times, 0);
        let [one, five, fifteen] = times.averages_us().expect("a minute");
        assert_eq!((one, five), (fifteen, one));
        assert!((1_900_000..2_000_000).contains(&one), "{one}");
        (0..4).for_each(|_| minute(&mut times, 0));
        let [one, five, fifteen] = times.averages_us().expect("five minutes");
        assert_eq!((one, five), (0, fifteen));
        assert!((380_000..400_000).contains(&five), "{five}");
        (0..3).for_each(|_| minute(&mut times, 0));
        let [_, five, fifteen] = times.averages_us().expect("eight minutes");
        assert!(five == 0 && fifteen > 0, "{five} {fifteen}");
        (0..15).for_each(|_| minute(&mut times, 0));
        assert_eq!(times.averages_us(), Some([0, 0, 0]));
    }
}
