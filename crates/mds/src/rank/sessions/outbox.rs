//! The messages to one client that wait for the journal.
//!
//! They leave in the order in which they were decided, each when the events of others that it shows are
//! durable. What only says that something of the client's own is durable ([`Outbox::confirm`]) stands outside
//! of this order: nothing else waits for it.

use super::replies::Asked;
use crate::types::Lsn;
use msgs::{Body, ClientReply};
use std::collections::VecDeque;

/// A message in order.
#[derive(Debug)]
struct Message {
    /// The event that must be durable before.
    after: Lsn,
    tid: u64,
    what: What,
    /// The request that it answers.
    asked: Option<Asked>,
}

#[derive(Debug)]
enum What {
    Body(Body),
    /// The answer to a request: unsafe before this event of its own is durable.
    Answer(Lsn, Box<ClientReply>),
}

/// The messages to one client.
///
/// Invariants: confirmations are in the order of their events; an answer leaves before its confirmation is
/// queued.
#[derive(Default, Debug)]
pub(super) struct Outbox {
    ordered: VecDeque<Message>,
    confirmations: VecDeque<(Lsn, u64, Body)>,
}

impl Outbox {
    /// Queues a message that shows events up to `after`; the answer to a request says so (`asked`).
    pub fn push(&mut self, after: Lsn, (tid, asked): (u64, Option<Asked>), body: Body) {
        self.ordered.push_back(Message { after, tid, what: What::Body(body), asked });
    }

    /// Queues an answer that shows events of others up to `after`, and the client's event `own`.
    pub fn push_answer(&mut self, (after, own): (Lsn, Lsn), (tid, asked): (u64, Asked), answer: ClientReply) {
        let what = What::Answer(own, Box::new(answer));
        self.ordered.push_back(Message { after, tid, what, asked: Some(asked) });
    }

    /// Queues a message that says that the client's events up to `lsn` are durable.
    pub fn confirm(&mut self, lsn: Lsn, tid: u64, body: Body) {
        let at = self.confirmations.partition_point(|(other, ..)| *other <= lsn);
        self.confirmations.insert(at, (lsn, tid, body));
    }

    /// The next message that may leave, with the request that it is the first answer to.
    pub fn next(&mut self, durable: Lsn) -> Option<(u64, Body, Option<Asked>)> {
        let durable = if answers_before_journal() { Lsn::MAX } else { durable };
        if self.ordered.front().is_some_and(|m| m.after <= durable) {
            let Message { tid, what, asked, .. } = self.ordered.pop_front()?;
            return Some((tid, self.leave(durable, tid, what), asked));
        }
        if self.confirmations.front().is_none_or(|(lsn, ..)| *lsn > durable) {
            return None;
        }
        self.confirmations.pop_front().map(|(_, tid, body)| (tid, body, None))
    }

    fn leave(&mut self, durable: Lsn, tid: u64, what: What) -> Body {
        match what {
            What::Body(body) => body,
            What::Answer(own, mut answer) => {
                answer.safe = own <= durable;
                if !answer.safe {
                    let (op, mdsmap_epoch) = (answer.op, answer.mdsmap_epoch);
                    let safe = ClientReply { op, mdsmap_epoch, safe: true, ..ClientReply::default() };
                    self.confirm(own, tid, safe.into());
                }
                Body::from(*answer)
            }
        }
    }

    /// Number of messages that wait.
    pub fn len(&self) -> usize {
        self.ordered.len() + self.confirmations.len()
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty() && self.confirmations.is_empty()
    }

    /// True if all that waits does so for events after `durable`.
    pub fn waits_for(&self, durable: Lsn) -> bool {
        !self.is_empty()
            && self.ordered.front().is_none_or(|m| m.after > durable)
            && self.confirmations.front().is_none_or(|(lsn, ..)| *lsn > durable)
    }
}

/// Planted fault: answers leave before their events are durable.
fn answers_before_journal() -> bool {
    stdx::mutants::is_active("mds_answers_before_journal")
}
