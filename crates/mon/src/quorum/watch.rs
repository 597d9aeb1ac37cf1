//! What somebody may know who watches the messages between monitors: for checkers of the protocol.

use super::codec;
use crate::consensus::{Message, Timing};
use node::Body;
use std::time::Duration;

/// What a message between monitors says of its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It leads a term, and sent this at `sent` of its clock.
    Leads {
        /// The term.
        term: u64,
        /// Identifies the message for the answer.
        sent: u64,
    },
    /// It has heard the leader of a term.
    Hears {
        /// The term.
        term: u64,
        /// Of the leader's message.
        sent: u64,
    },
    /// It led a term, and leads it no more.
    Resigns {
        /// The term.
        term: u64,
    },
    /// It hands a client's message on to the leader.
    HandsOn {
        /// The message's number.
        tid: u64,
    },
}

/// What a message says of its sender; `None` where it is none of these.
pub fn seen(body: &Body) -> Option<Seen> {
    match body {
        Body::Peer(peer::Body::MonForward(m)) => Some(Seen::HandsOn { tid: m.msg.tid }),
        Body::Peer(peer::Body::MonRaft(m)) => match codec::decode(&m.payload).ok()? {
            Message::Append { term, sent, .. } => Some(Seen::Leads { term, sent }),
            Message::Resign { term, .. } => Some(Seen::Resigns { term }),
            Message::AppendReply { term, sent, .. } if sent != 0 => Some(Seen::Hears { term, sent }),
            _ => None,
        },
        _ => None,
    }
}

/// For how long a leader answers reads after what a quorum has heard was sent.
pub fn read_lease() -> Duration {
    Timing::default().lease
}
