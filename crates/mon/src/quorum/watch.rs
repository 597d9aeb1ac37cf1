//! What somebody may know who watches the messages between monitors: for checkers of the protocol.

use crate::consensus::{Entry, Message};
use crate::quorum::codec;
use node::Body;

/// What a message between monitors says of its sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It leads a term, and sent this at `sent` of its clock.
    Leads {
        /// The term.
        term: u64,
        /// Identifies the message for the answer.
        sent: u64,
        /// Whose votes count from a number of the log on: their stores.
        voters: Option<(u64, Vec<u64>)>,
    },
    /// It has heard the leader of a term.
    Hears {
        /// Its store.
        store: u64,
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
            Message::Append { term, sent, entries, .. } => {
                let with_voters = |entry: &Entry| Some((entry.at.index, entry.voters.clone()?));
                let newest = entries.iter().rev().find_map(with_voters);
                let voters = newest.map(|(index, voters)| (index, voters.keys().map(|id| id.0).collect()));
                Some(Seen::Leads { term, sent, voters })
            }
            Message::Resign { term, .. } => Some(Seen::Resigns { term }),
            Message::AppendReply { term, sent, .. } if sent != 0 => {
                Some(Seen::Hears { store: m.from, term, sent })
            }
            _ => None,
        },
        _ => None,
    }
}
