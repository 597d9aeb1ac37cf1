//! How often something happens: a count that decays, and is brought up to date only when it is used. So it
//! costs nothing while nothing happens.

use stdx::Instant;

/// The part of a count that is lost in a second: half of it in five, as with the popularity of directories.
const LOST: f64 = std::f64::consts::LN_2 / 5.0;

/// See the module's comment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    count: f64,
    /// The time at which `count` was right.
    at: Instant,
}

impl Rate {
    /// It has happened once more.
    pub fn note(&mut self, now: Instant) {
        *self = Self { count: self.at_time(now) + 1.0, at: now };
    }

    /// How often it happens in a second.
    pub fn per_second(&self, now: Instant) -> f64 {
        self.at_time(now) * LOST
    }

    fn at_time(&self, now: Instant) -> f64 {
        self.count * (-LOST * now.since(self.at).as_secs_f64()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_steady_rate_is_told_and_an_old_one_forgotten() {
        let (mut rate, mut now) = (Rate::default(), Instant(0));
        for _ in 0..6000 {
            now = now + Duration::from_millis(10);
            rate.note(now);
        }
        assert!((rate.per_second(now) - 100.0).abs() < 1.0, "{}", rate.per_second(now));
        let half = rate.per_second(now + Duration::from_secs(5));
        assert!((half - 50.0).abs() < 1.0, "{half}");
        assert!(rate.per_second(now + Duration::from_secs(120)) < 0.01);
    }
}
