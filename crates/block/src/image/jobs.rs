//! Operations on the whole image that were asked for.

use super::api::Operation;
use crate::notify::AsyncId;

/// Who hears of the end of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Whose {
    /// A caller's request.
    Caller(u64),
    /// Another client, by a message.
    Peer(AsyncId),
    /// Another client, by the answer to its notification.
    Notifier(u64),
}

/// An operation that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Job {
    pub(super) operation: Operation,
    pub(super) whose: Whose,
    /// Objects before this one have the parent's data, as far as the operation needs it.
    pub(super) copied: u64,
}

impl Job {
    pub(super) fn new(operation: Operation, whose: Whose) -> Self {
        Self { operation, whose, copied: 0 }
    }
}
