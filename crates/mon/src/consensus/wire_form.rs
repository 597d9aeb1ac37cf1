//! Messages among voters about elections and entries.

use crate::consensus::entries::{Entry, Position};

/// A message between voters. Terms are the sender's, except in a [`Message::PreVote`] and its granted reply:
/// there it is the term that the sender would begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Asks whether the receiver would vote for the sender. Neither side promises anything.
    PreVote { term: u64, last: Position },
    /// Answer to a `PreVote`.
    PreVoteReply { term: u64, granted: bool },
    /// Asks for a vote.
    Vote { term: u64, last: Position },
    /// Answer to a `Vote`.
    VoteReply { term: u64, granted: bool },
    /// The leader's entries after `prev`; without entries it is a heartbeat.
    Append {
        term: u64,
        prev: Position,
        /// The leader's commit index.
        commit: u64,
        /// The leader's monotonic clock, in nanoseconds; comes back in the reply.
        sent: u64,
        entries: Vec<Entry>,
    },
    /// The answer; sent again when more has become durable.
    AppendReply {
        term: u64,
        /// `sent` of the message that this answers; 0 if it answers none.
        sent: u64,
        /// True if the follower's log contains `prev`.
        agrees: bool,
        /// If it agrees: the log is durable and equal to the leader's up to here. Else the index to try next.
        matched: u64,
    },
    /// The sender no longer leads: nobody owes it anything, and one voter is asked to stand at once.
    Resign {
        term: u64,
        /// True if the receiver is the voter that should stand.
        stand: bool,
    },
}

impl Message {
    /// Term of the message.
    pub fn term(&self) -> u64 {
        match self {
            Self::PreVote { term, .. }
            | Self::PreVoteReply { term, .. }
            | Self::Vote { term, .. }
            | Self::VoteReply { term, .. }
            | Self::Append { term, .. }
            | Self::AppendReply { term, .. }
            | Self::Resign { term, .. } => *term,
        }
    }
}
