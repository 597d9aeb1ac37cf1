//! Operations on the whole image that were asked for.

use super::api::{Operation, Reply};
use crate::error::Error;
use crate::layer::Layer;
use crate::maintain::{Step, next_step};
use crate::notify::AsyncId;
use std::collections::{BTreeMap, VecDeque};
use stdx::Instant;

/// Requests of other clients that are remembered.
const SEEN: usize = 64;

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
    /// When its progress was last told.
    pub(super) told_at: Option<Instant>,
}

impl Job {
    pub(super) fn new(operation: Operation, whose: Whose) -> Self {
        Self { operation, whose, copied: 0, shares_less: false, told_at: None }
    }

    /// What is to be done next.
    pub(super) fn step(&self, layer: &Layer) -> Step {
        next_step(layer, &self.operation, self.copied, self.shares_less)
    }

    /// True if the next step leaves all objects alone but those that it is about, so that these others may be
    /// changed meanwhile, and other operations may go first.
    pub(super) fn lets_others_go_on(&self, layer: &Layer) -> bool {
        self.operation == Operation::Flatten && matches!(self.step(layer), Step::CopyUp(_))
    }
}

/// Recent requests of other clients, which may come twice, and the results of those that have ended.
#[derive(Debug, Default)]
pub(super) struct Seen(VecDeque<(AsyncId, Option<i32>)>);

impl Seen {
    /// What is known of a request: nothing, that it is under way, or its result.
    pub(super) fn get(&self, id: AsyncId) -> Option<Option<i32>> {
        self.0.iter().find(|(of, _)| *of == id).map(|(_, result)| *result)
    }

    pub(super) fn add(&mut self, id: AsyncId) {
        self.0.push_back((id, None));
        if self.0.len() > SEEN {
            self.0.pop_front();
        }
    }

    pub(super) fn end(&mut self, id: AsyncId, result: i32) {
        self.0.iter_mut().filter(|(of, _)| *of == id).for_each(|(_, of)| *of = Some(result));
    }

    /// It was not carried out, and may be asked for again.
    pub(super) fn forget(&mut self, id: AsyncId) {
        self.0.retain(|(of, _)| *of != id);
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
