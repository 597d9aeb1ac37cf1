//! A leader's view of how far each peer's log has got.

use stdx::Instant;

/// Replication progress of one peer.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// The next entry to send.
    pub next: u64,
    /// The peer's log is durable up to here.
    pub matched: u64,
    pub state: ProgressState,
    /// Send time of the newest message that the peer has answered.
    pub acked: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ProgressState {
    /// Searches for the point up to which the logs agree: one message for each heartbeat or answer.
    Probing,
    /// Sends entries as they come.
    Streaming,
    /// The owner sends a snapshot.
    Snapshot,
}

impl Progress {
    pub fn new(next: u64) -> Self {
        Self { next, matched: 0, state: ProgressState::Probing, acked: None }
    }
}
