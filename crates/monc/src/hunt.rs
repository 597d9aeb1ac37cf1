//! The choice of the next monitor to try, and of the time.

use std::time::Duration;
use stdx::{Instant, Rng};
use wire::EntityAddr;

/// In the first round, a monitor that has not answered within this time is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause after the first round in which no monitor answered.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Both grow by this factor each round …
const GROWTH: u32 = 2;
/// … for this many rounds: up to 16 s a connection and 3.2 s of pause.
const MAX_GROWTHS: u32 = 5;

/// Goes round all monitors in random order, slower with each round.
#[derive(Debug)]
pub(crate) struct Hunt {
    all: Vec<EntityAddr>,
    /// Still to be tried in this round, last one first.
    left: Vec<EntityAddr>,
    rounds: u32,
}

impl Hunt {
    pub(crate) fn new(all: Vec<EntityAddr>) -> Self {
        Self { all, left: Vec::new(), rounds: 0 }
    }

    /// Other monitors from now on.
    pub(crate) fn set_all(&mut self, all: Vec<EntityAddr>) {
        self.left.retain(|addr| all.contains(addr));
        self.all = all;
    }

    /// A session is open: the next hunt begins fast again, with all monitors.
    pub(crate) fn reset(&mut self) {
        self.rounds = 0;
        self.left.clear();
    }

    /// The next monitor of this round; `None` at its end.
    pub(crate) fn next_addr(&mut self) -> Option<EntityAddr> {
        self.left.pop()
    }

    /// Begins a round. The monitor `last`, whose connection was just lost, is tried after all others.
    pub(crate) fn begin_round(&mut self, last: Option<EntityAddr>, rng: &mut Rng) {
        self.left.clone_from(&self.all);
        rng.shuffle(&mut self.left);
        if let Some(at) = self.left.iter().position(|addr| Some(*addr) == last) {
            self.left[..=at].rotate_right(1);
        }
        self.rounds += 1;
    }

    /// The deadline of a connection that is opened now.
    pub(crate) fn give_up_at(&self, now: Instant) -> Instant {
        now + CONNECT_TIMEOUT * GROWTH.pow(self.rounds.saturating_sub(1).min(MAX_GROWTHS - 1))
    }

    /// The time of the next round, random so that many clients do not come at once.
    pub(crate) fn next_round_at(&self, now: Instant, rng: &mut Rng) -> Instant {
        let pause = FIRST_PAUSE * GROWTH.pow(self.rounds.saturating_sub(1).min(MAX_GROWTHS));
        now + pause / 2 + Duration::from_nanos(rng.below(pause.as_nanos() as u64))
    }
}
