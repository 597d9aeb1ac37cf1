//! An observer's view of the messages between monitors, for checkers of the protocol.

use crate::consensus::{Entry, Message};
use crate::quorum::codec;
use node::Body;

/// A message's statement about its sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It leads a term, and sent the message at `sent` by its own clock.
    Leads {
        /// Term that it leads.
        term: u64,
        /// Identifies the message for the answer.
        sent: u64,
        /// Stores whose votes count, and the index from which they do.
        voters: Option<(u64, Vec<u64>)>,
    },
    /// It has heard the leader of a term.
    Hears {
        /// Its store.
        store: u64,
        /// Term of that leader.
        term: u64,
        /// `sent` of the leader's message.
        sent: u64,
    },
    /// It led a term and no longer does.
    Resigns {
        /// Term that it resigns.
        term: u64,
    },
    /// It forwards a client's message to the leader.
    HandsOn {
        /// The message's number.
        tid: u64,
    },
}

/// The statement of a message about its sender; `None` if it makes none.
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
