//! Which monitor to try next, and when.

use std::time::Duration;
use stdx::{Instant, Rng};
use wire::EntityAddr;

/// A monitor that has not answered after this long, in the first round, is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause after the first round in which no monitor answered.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Both grow by this factor each round …
const GROWTH: u32 = 2;
/// … for so many rounds: up to 16 s a connection and 3.2 s of pause.
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

    /// A session was made: the next hunt begins fast again, with all monitors.
    pub(crate) fn reset(&mut self) {
        self.rounds = 0;
        self.left.clear();
    }

    /// The next monitor of this round; `None` where the round is over.
    pub(crate) fn next_addr(&mut self) -> Option<EntityAddr> {
        self.left.pop()
    }

    /// Begins a round. The monitor `last`, which has just been lost, is tried when no other one has answered.
    pub(crate) fn begin_round(&mut self, last: Option<EntityAddr>, rng: &mut Rng) {
        self.left.clone_from(&self.all);
        rng.shuffle(&mut self.left);
        if let Some(at) = self.left.iter().position(|addr| Some(*addr) == last) {
            self.left[..=at].rotate_right(1);
        }
        self.rounds += 1;
    }

    /// Until when a connection begun now may take.
    pub(crate) fn give_up_at(&self, now: Instant) -> Instant {
        now + CONNECT_TIMEOUT * GROWTH.pow(self.rounds.saturating_sub(1).min(MAX_GROWTHS - 1))
    }

    /// When the next round may begin. Random, so that many clients do not come at once.
    pub(crate) fn next_round_at(&self, now: Instant, rng: &mut Rng) -> Instant {
        let pause = FIRST_PAUSE * GROWTH.pow(self.rounds.saturating_sub(1).min(MAX_GROWTHS));
        now + pause / 2 + Duration::from_nanos(rng.below(pause.as_nanos() as u64))
    }
}
