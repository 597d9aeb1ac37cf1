//! Consensus among monitors: Raft as a pure state machine (docs/adr/0008).
//!
//! The inputs of [`Raft`] are the time, messages, proposals and completed writes. Its outputs are
//! [`Effect`]s, and changes to be written, which the owner fetches by [`Raft::take_unsaved`]. It knows
//! nothing of disks, of connections and of the meaning of entries.
//!
//! From the paper (Ongaro, "Consensus: Bridging Theory and Practice"): elections and replication (3), one
//! voter added or removed at a time (4), snapshots (5), and from 6.4 and 9.6: pre-vote, a leader that steps
//! down when it does not hear from a quorum, and a lease under which it answers reads.
//!
//! Invariants:
//! - A vote is durable before it is sent: [`Raft::held`](raft::Raft) messages go out in `saved`.
//! - An entry counts for a voter only once it is durable there: `matched` in a reply never exceeds what was
//!   saved.
//! - A leader commits by counting only entries of its own term, and serves reads only after one of those was
//!   committed.
//! - A voter that heard from a leader votes for nobody else for [`Timing::election_min`]. The leader's lease
//!   is shorter, and starts when the leader *sent* the message that a quorum answered. A voter that has just
//!   started behaves as if it had heard from a leader at that moment.
//! - A leader gives up its lease before it announces that it resigns. A voter accepts a resignation only from
//!   its own leader in the same term.
//! - A voter is a *store*, not a monitor's name: a monitor that lost its store becomes a new voter, so nobody
//!   votes against a promise that it has forgotten.

mod election;
mod entries;
mod lease;
mod progress;
mod raft;
mod replicate;
#[cfg(test)]
mod tests;
mod voter;
mod wire_form;

pub use entries::{Entry, Position, Voters};

pub use lease::read_lease;

#[cfg(test)]
pub use raft::Unsaved;
pub use raft::{Effect, Raft, Restored, Timing};
pub use voter::VoterId;
pub use wire_form::Message;
