//! The leader's read lease, and the voters' promise that it rests on.
//!
//! A voter that hears a leader votes for nobody else for [`Timing::election_min`]. A leader counts its lease
//! from the moment at which it *sent* the newest message that a quorum has answered, and the lease is
//! shorter: while it lasts, no other leader can have been elected, so what this one has committed is all
//! there is to read.

use crate::consensus::raft::{Raft, Role, Timing};
use std::time::Duration;
use stdx::Instant;

/// Duration of the lease, counted from the sending of a message that a quorum has heard.
pub fn read_lease() -> Duration {
    Timing::default().lease
}

impl Raft {
    /// End of the lease; `None` if it may not answer reads at all.
    pub fn lease_until(&self) -> Option<Instant> {
        let Role::Leader(l) = &self.role else { return None };
        if self.is_alone() {
            return Some(Instant(u64::MAX));
        }
        let acked = self.quorum_value(|id| match id == self.own {
            true => Some(Instant(u64::MAX)),
            false => l.peers.get(&id).and_then(|p| p.acked),
        });
        acked.map(|at| at + self.timing.lease)
    }

    /// True if a read of the committed state now sees everything that anybody was ever told.
    pub fn may_read(&self, now: Instant) -> bool {
        let lease = self.lease_until().is_some_and(|until| now < until);
        self.is_active() && (lease || stdx::mutants::is_active("mon_reads_without_lease"))
    }

    /// True if the leader that this voter last heard may still rely on its promise not to vote.
    pub(super) fn is_loyal(&self, now: Instant) -> bool {
        if stdx::mutants::is_active("mon_votes_during_lease") {
            return false;
        }
        match self.role {
            Role::Leader(_) => self.lease_until().is_some_and(|until| now < until),
            _ => now < self.loyal_until,
        }
    }
}
