//! Messages to an MDS that nobody here waits for. They gather for a moment, so that a stream of asynchronous
//! creates wakes the MDS once for several, and its answers wake the client once.
//!
//! A program that syncs each file waits for the create soon after it, and would wait for longer. So messages
//! gather only when several have followed one another for which nobody waited.

use std::time::Duration;
use stdx::Instant;

/// The most messages that gather.
const MAX_MESSAGES: usize = 32;
/// Messages in a row that nobody waits for, after which the next ones gather.
const UNAWAITED: u32 = 8;

/// Messages in the order in which they are to be sent, with their tids.
///
/// Invariant: there is a time to send them if and only if there are any.
#[derive(Debug)]
pub(crate) struct Gathered {
    time: Duration,
    messages: Vec<(u64, node::Body)>,
    due: Option<Instant>,
    /// Messages since somebody last waited, up to [`UNAWAITED`].
    unawaited: u32,
}

impl Gathered {
    /// None yet; each waits for `time` at most.
    pub(crate) fn new(time: Duration) -> Self {
        Self { time, messages: Vec::new(), due: None, unawaited: 0 }
    }

    /// Adds a message. Returns true if all are to be sent now.
    pub(crate) fn add(&mut self, now: Instant, tid: u64, body: node::Body) -> bool {
        self.messages.push((tid, body));
        let due = *self.due.get_or_insert(now + self.time);
        let gathers = self.unawaited == UNAWAITED;
        self.unawaited = (self.unawaited + 1).min(UNAWAITED);
        !gathers || due <= now || self.messages.len() >= MAX_MESSAGES
    }

    /// Somebody waits for the MDS.
    pub(crate) fn is_waited_for(&mut self) {
        self.unawaited = 0;
    }

    /// The time at which they are to be sent.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Takes all of them.
    pub(crate) fn take(&mut self) -> Vec<(u64, node::Body)> {
        self.due = None;
        std::mem::take(&mut self.messages)
    }

    /// Asserts the invariant.
    pub(crate) fn check(&self) {
        assert_eq!(self.messages.is_empty(), self.due.is_none(), "what gathers is sent in time");
    }
}
