//! How far a leader has brought each peer.

use stdx::Instant;

/// How far one peer is.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// The next entry to send.
    pub next: u64,
    /// Durable there up to here.
    pub matched: u64,
    pub state: ProgressState,
    /// When the newest message that it has answered was sent.
    pub acked: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ProgressState {
    /// Looks for where the logs agree: one message with each heartbeat or answer.
    Probing,
    /// Entries are sent as they come.
    Streaming,
    /// The owner sends a snapshot.
    Snapshot,
}

impl Progress {
    pub fn new(next: u64) -> Self {
        Self { next, matched: 0, state: ProgressState::Probing, acked: None }
    }
}
