//! Measures the device, so that the monitors can compare OSDs and find a failing one.

use std::time::Duration;
use stdx::Instant;

/// Length of one measurement.
const WINDOW: Duration = Duration::from_secs(30);

/// Errors of the last one or two spans of this length are recent.
const SPAN: Duration = Duration::from_secs(300);

/// Measures how long transactions take to be durable, and counts errors.
#[derive(Debug)]
pub struct DiskHealth {
    /// Commits of this window by the binary logarithm of their microseconds.
    took: [u32; 40],
    began: Instant,
    /// Result of the previous window.
    last: Commits,
    /// Reads that the device refused, since the start.
    errors: u32,
    /// Beginning of the present span, and the errors before it and before the span that preceded it.
    span: (Option<Instant>, u32, u32),
}

/// Commits of a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Commits {
    /// Number of transactions.
    pub count: u32,
    /// Median commit time, rounded up by at most half.
    pub median: Duration,
}

impl Default for DiskHealth {
    fn default() -> Self {
        Self { took: [0; 40], began: Instant(0), last: Commits::default(), errors: 0, span: (None, 0, 0) }
    }
}

impl DiskHealth {
    /// Notes a read that the device refused.
    pub fn refused(&mut self) {
        self.errors += 1;
    }

    /// Reads that the device has refused since the start.
    pub fn errors(&self) -> u32 {
        self.errors
    }

    /// Those of the last 5 to 10 minutes.
    pub fn errors_lately(&mut self, now: Instant) -> u32 {
        let before = self.span.1;
        // What was refused before the first look is recent: the device was opened just now.
        if now.since(*self.span.0.get_or_insert(now)) >= SPAN {
            self.span = (Some(now), self.errors, before);
        }
        self.errors - self.span.2
    }

    /// Notes a durable transaction.
    pub fn committed(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let class = (u64::BITS - us.leading_zeros()) as usize;
        self.took[class.min(self.took.len() - 1)] += 1;
    }

    /// The commits of the last complete window. Transactions that have waited longer count instead: a device
    /// that hangs commits nothing.
    pub fn report(&mut self, now: Instant, oldest: Option<Duration>) -> Commits {
        if now.since(self.began) >= WINDOW {
            self.began = now;
            self.last = median(&self.took);
            self.took = [0; 40];
        }
        match oldest {
            Some(age) if age > self.last.median => Commits { count: self.last.count.max(1), median: age },
            _ => self.last,
        }
    }
}

fn median(took: &[u32]) -> Commits {
    let count = took.iter().sum();
    let mut left = count / 2;
    for (class, n) in took.iter().enumerate() {
        if left < *n {
            // Three quarters of the class's upper bound.
            let us = (1u64 << class) / 4 * 3;
            return Commits { count, median: Duration::from_micros(us) };
        }
        left -= n;
    }
    Commits::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn half_of_the_commits_of_a_window_are_slower_than_it_says() {
        let mut health = DiskHealth::default();
        let start = Instant(1_000_000_000_000);
        health.report(start, None);
        (0..60).for_each(|_| health.committed(3 * MS));
        (0..40).for_each(|_| health.committed(900 * MS));
        assert_eq!(health.report(start + 29_000 * MS, None), Commits::default(), "not yet");
        let told = health.report(start + WINDOW, None);
        assert_eq!(told.count, 100);
        assert!(told.median >= 2 * MS && told.median <= 5 * MS, "{told:?}");
        assert_eq!(health.report(start + WINDOW + MS, Some(7000 * MS)).median, 7000 * MS);
        assert_eq!(health.report(start + WINDOW + MS, Some(MS)), told);
        (0..10).for_each(|_| health.committed(900 * MS));
        let told = health.report(start + 2 * WINDOW, None);
        assert!(told.count == 10 && told.median >= 600 * MS && told.median <= 1350 * MS, "{told:?}");
        assert_eq!(health.report(start + 3 * WINDOW, None).count, 0, "nothing was written");
    }

    #[test]
    fn errors_are_recent_from_before_the_first_look_until_the_end_of_the_next_span() {
        let mut health = DiskHealth::default();
        let start = Instant(1_000_000_000_000);
        (0..12).for_each(|_| health.refused());
        assert_eq!(health.errors_lately(start), 12);
        assert_eq!(health.errors_lately(start + SPAN), 12);
        health.refused();
        assert_eq!(health.errors_lately(start + SPAN * 3 / 2), 13);
        assert_eq!(health.errors_lately(start + SPAN * 2), 1);
        assert_eq!(health.errors_lately(start + SPAN * 3), 0);
        assert_eq!(health.errors(), 13);
    }
}
