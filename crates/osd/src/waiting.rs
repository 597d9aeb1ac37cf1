//! Messages that wait for a newer map.

use maps::Epoch;
use node::{ConnId, Msg};
use std::collections::{BTreeSet, VecDeque};
use stdx::Instant;

/// A message that waits.
#[derive(Debug)]
pub struct Held {
    /// The map that it waits for.
    pub epoch: Epoch,
    /// The connection that it came on.
    pub conn: ConnId,
    /// The waiting message.
    pub msg: Msg,
    /// Time at which a client's message is given up. OSDs name no maps that do not exist.
    pub until: Option<Instant>,
}

/// Messages about newer maps than ours, in order of arrival.
#[derive(Debug, Default)]
pub struct Waiting {
    held: VecDeque<Held>,
    /// Connections with a waiting message: later messages on them wait too.
    conns: BTreeSet<ConnId>,
}

impl Waiting {
    /// Keeps a message.
    pub fn keep(&mut self, held: Held) {
        self.conns.insert(held.conn);
        self.held.push_back(held);
    }

    /// Takes all messages, to check them again.
    pub fn take(&mut self) -> VecDeque<Held> {
        self.conns.clear();
        std::mem::take(&mut self.held)
    }

    /// True if a message of this connection waits: those behind it wait too.
    pub fn holds(&self, conn: ConnId) -> bool {
        self.conns.contains(&conn)
    }

    /// True if no message waits.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Forgets a closed connection.
    pub fn forget(&mut self, conn: ConnId) {
        self.held.retain(|held| held.conn != conn);
        self.conns.remove(&conn);
    }

    /// The first client's message that has waited too long.
    pub fn overdue(&self, now: Instant) -> Option<&Held> {
        let first = self.held.iter().find(|held| held.until.is_some())?;
        first.until.is_some_and(|until| until <= now).then_some(first)
    }

    /// Time at which [`Self::overdue`] has a result.
    pub fn deadline(&self) -> Option<Instant> {
        self.held.iter().find_map(|held| held.until)
    }
}
