//! Which operations others carry out for this client, and when they are to be asked: `delegating.rs` does
//! that.

use crate::notify::{AsyncId, ClientId};
use stdx::Instant;

/// Operations that others carry out, or are asked to; all are [`crate::Operation::Flatten`].
#[derive(Debug, Default)]
pub(super) struct Delegated {
    of: Vec<One>,
    last: u64,
}

/// An operation for a caller.
#[derive(Debug)]
pub(super) struct One {
    id: AsyncId,
    pub(super) caller: u64,
    /// The owner is asked then; at once if there is no time.
    pub(super) ask_at: Option<Instant>,
    pub(super) asking: bool,
}

impl Delegated {
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// When something is to be done about one.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.of.iter().filter(|one| !one.asking).filter_map(|one| one.ask_at).min()
    }

    /// Forgets all. Returns the callers.
    pub(super) fn clear(&mut self) -> Vec<u64> {
        self.of.drain(..).map(|one| one.caller).collect()
    }

    /// Adds one, for a caller of this client.
    pub(super) fn add(&mut self, client: ClientId, caller: u64) {
        self.last += 1;
        let id = AsyncId { client, request: self.last };
        self.of.push(One { id, caller, ask_at: None, asking: false });
    }

    /// One that the owner is to be asked for now.
    pub(super) fn begin_asking(&mut self, now: Instant) -> Option<AsyncId> {
        let due = |one: &&mut One| !one.asking && one.ask_at.is_none_or(|at| at <= now);
        let one = self.of.iter_mut().find(due)?;
        one.asking = true;
        Some(one.id)
    }

    pub(super) fn get(&mut self, id: AsyncId) -> Option<&mut One> {
        self.of.iter_mut().find(|one| one.id == id)
    }

    /// Forgets one.
    pub(super) fn take(&mut self, id: AsyncId) -> Option<One> {
        let i = self.of.iter().position(|one| one.id == id)?;
        Some(self.of.remove(i))
    }
}
