//! Consensus among monitors: Raft as a pure state machine (docs/adr/0007).
//!
//! [`Raft`] is told the time, messages, proposals and what has become durable; it answers with [`Effect`]s
//! and keeps what is still to be written for [`Raft::take_unsaved`]. It knows nothing of disks, connections
//! and what entries mean.
//!
//! From the paper (Ongaro, "Consensus: Bridging Theory and Practice"): elections and replication (3), one
//! voter added or removed at a time (4), snapshots (5), and from 6.4 and 9.6: pre-vote, a leader that steps
//! down when it does not hear from a quorum, and a lease under which it answers reads.
//!
//! What must hold, and where it is kept:
//! - A vote is durable before it is told: [`Raft::held`](raft::Raft) messages go out in `saved`.
//! - An entry counts for a voter only once it is durable there: replies say `matched`, which is never beyond
//!   what was saved.
//! - A leader commits by counting only entries of its own term, and reads only after one of those was
//!   committed.
//! - A voter that heard from a leader votes for nobody else for [`Timing::election_min`]; the leader's lease,
//!   counted from when it *sent* what a quorum answered, is shorter. A voter that has just started behaves as
//!   if it had heard at that moment.
//! - A leader that resigns has given its lease up before it says so; only of its own leader, and of that
//!   term, a voter believes it.
//! - A voter is a *store*, not a monitor's name: one that lost its store is somebody else and votes for
//!   nothing it has forgotten.

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
