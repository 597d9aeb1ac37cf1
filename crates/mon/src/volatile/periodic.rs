//! The clock of a duty that is done once in a period.

use std::time::Duration;
use stdx::Instant;

/// The last time that a duty was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Periodic {
    last: Instant,
}

impl Periodic {
    /// True once `period` has passed since the duty was done.
    pub fn is_due(&self, now: Instant, period: Duration) -> bool {
        now.since(self.last) >= period
    }

    /// Notes that the duty was done.
    pub fn done(&mut self, now: Instant) {
        self.last = now;
    }

    /// Makes the duty due at once.
    pub fn hurry(&mut self) {
        self.last = Instant(0);
    }
}
