//! Operations on the whole image that were asked for.

use super::api::{Operation, Reply};
use crate::error::Error;
use crate::notify::AsyncId;
use std::collections::BTreeMap;

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
    /// The image shares no more with its parent than it will after the operation, and others know that.
    pub(super) shares_less: bool,
}

impl Job {
    pub(super) fn new(operation: Operation, whose: Whose) -> Self {
        Self { operation, whose, copied: 0, shares_less: false }
    }
}

/// Operations that have ended, by a number of their own: the watchers of the header are being told.
#[derive(Debug, Default)]
pub(super) struct Announcing {
    of: BTreeMap<u64, (Whose, Result<Reply, Error>)>,
    last: u64,
}

impl Announcing {
    /// Adds an operation. Returns its number.
    pub(super) fn add(&mut self, whose: Whose, reply: Result<Reply, Error>) -> u64 {
        self.last += 1;
        self.of.insert(self.last, (whose, reply));
        self.last
    }

    /// All watchers know, or have been waited for long enough.
    pub(super) fn end(&mut self, number: u64) -> Option<(Whose, Result<Reply, Error>)> {
        self.of.remove(&number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}
