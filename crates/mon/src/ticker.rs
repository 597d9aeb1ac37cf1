//! The clock of a monitor's periodic work.

use std::time::Duration;
use stdx::Instant;

/// The time between two ticks.
const PERIOD: Duration = Duration::from_millis(500);

/// Time of the next tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ticker {
    last: Option<Instant>,
}

impl Ticker {
    /// The next tick.
    pub fn next(&self) -> Instant {
        self.last.map_or(Instant(0), |last| last + PERIOD)
    }

    /// Returns true and starts a new period if the tick is due.
    pub fn due(&mut self, now: Instant) -> bool {
        let due = now >= self.next();
        if due {
            self.last = Some(now);
        }
        due
    }
}
