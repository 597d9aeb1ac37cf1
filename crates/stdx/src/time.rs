//! Time as numbers: nothing here reads a clock. `now` is sampled once when an input is taken from its
//! queue and handed down (docs/design.md, decision 7).

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds on the local monotonic clock; leases and timeouts are measured on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

/// Nanoseconds since 1970; for stamps and ticket expiry only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Wall(pub u64);

/// Both clocks, sampled together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Monotonic.
    pub mono: Instant,
    /// Wall clock.
    pub wall: Wall,
}

impl Instant {
    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Wall {
    /// Whole seconds and the nanoseconds within the second.
    pub fn split(self) -> (u64, u32) {
        (self.0 / 1_000_000_000, (self.0 % 1_000_000_000) as u32)
    }
    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(nanos(d)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(d)))
    }
}

impl Add<Duration> for Wall {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(nanos(d)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl fmt::Debug for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
