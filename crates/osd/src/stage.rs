//! The stages of a request, and the time spent in each.

use serde_json::{Value, json};
use std::time::Duration;
use stdx::Instant;

/// The stage of a request, named after what it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Its turn, the PG, or the recovery of its object.
    Waiting,
    /// Reads from the store.
    Loading,
    /// The lease under which we may serve reads.
    NeedsLease,
    /// The members, which replicate it.
    Replicating,
    /// Durability of what it saw.
    Durable,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Self; 5] =
        [Self::Waiting, Self::Loading, Self::NeedsLease, Self::Replicating, Self::Durable];

    /// The reason why a request in this stage waits, for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Waiting => "waiting for its turn, the PG or the object",
            Self::Loading => "reading from the store",
            Self::NeedsLease => "waiting for readable",
            Self::Replicating => "waiting for sub ops",
            Self::Durable => "waiting for what it saw to be durable",
        }
    }
}

/// Time that a request has spent in each stage.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    spent: [Duration; Stage::ALL.len()],
    since: Instant,
}

impl Waits {
    /// Begins with a request that has come now.
    pub fn begin(now: Instant) -> Self {
        Self { spent: Default::default(), since: now }
    }

    /// The time that it has been in its present stage.
    pub fn in_stage(&self, now: Instant) -> Duration {
        now.since(self.since)
    }

    /// The request leaves a stage.
    pub fn leave(&mut self, stage: Stage, now: Instant) {
        self.spent[stage as usize] += now.since(self.since);
        self.since = now;
    }

    /// Time in each stage, for people. The request is in `stage` now.
    pub fn dump(&self, stage: Stage, now: Instant) -> Value {
        let mut waits = *self;
        waits.leave(stage, now);
        let spent = Stage::ALL.iter().filter(|s| !waits.spent[**s as usize].is_zero());
        spent
            .map(|s| json!({ "event": s.text(), "duration": waits.spent[*s as usize].as_secs_f64() }))
            .collect()
    }
}
