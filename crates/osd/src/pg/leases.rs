//! The promises by which members of earlier intervals may still serve reads, and by which we may as a member.

use super::member::ActingSet;
use super::membership::{Members, up_from};
use crate::core::Core;
use maps::{Epoch, OsdId};
use stdx::Instant;

/// A promise of ours to a member of an earlier interval. It serves reads until then, unless it is known to be
/// dead.
#[derive(Clone, Copy, Debug)]
struct PriorLease {
    osd: OsdId,
    /// Incarnation of the member.
    up_from: Epoch,
    /// End of the promise on our clock.
    until: Instant,
}

/// The promises that bind a new primary, and the primary's word by which a member serves reads.
///
/// Invariant: the time to wait for never moves back, and no promise is forgotten before it is over.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    /// Our promises to members of earlier intervals.
    prior: Vec<PriorLease>,
    /// The end of the promises that others made to members of earlier intervals, as they told us.
    wait_until: Instant,
    /// Of a member that is not primary: the primary has said in this round that it is active.
    primary_serves: bool,
}

impl Leases {
    /// An interval ends whose members were these, with their incarnations: what we promised to them binds the
    /// next primary.
    pub fn remember(&mut self, core: &Core, members: impl Iterator<Item = (OsdId, Epoch)>) {
        self.prior.retain(|l| l.until > core.now().mono);
        for (osd, up_from) in members.filter(|(osd, _)| *osd != core.id()) {
            let until = core.granted_until(osd, up_from);
            if until > core.now().mono {
                self.prior.push(PriorLease { osd, up_from, until });
            }
        }
    }

    /// After a start we do not remember our promises: every member of our past may have one of the greatest
    /// length.
    pub fn assume(&mut self, core: &Core, members: &Members) {
        let until = core.now().mono + core.options().read_lease;
        let past = members.past().iter().flat_map(|i| i.acting.members());
        let mut all: Vec<OsdId> = past.chain(members.acting().members()).map(|member| member.osd).collect();
        all.sort();
        all.dedup();
        for osd in all.into_iter().filter(|o| *o != core.id()) {
            self.prior.push(PriorLease { osd, up_from: up_from(core.map(), osd), until });
        }
    }

    /// Nanoseconds for which a member of an earlier interval may still rely on our promises. Members of this
    /// interval (`acting`) do not count: the primary can't begin before they have answered it, and with that
    /// they have stopped serving.
    pub fn left(&self, core: &Core, acting: &ActingSet) -> u64 {
        let relies = |l: &&PriorLease| !core.is_gone(l.osd, l.up_from) && !acting.has_osd(l.osd);
        let open = self.prior.iter().filter(|l| l.until > core.now().mono).filter(relies);
        open.map(|l| l.until.0 - core.now().mono.0).max().unwrap_or(0)
    }

    /// A promise ends in `left` nanoseconds: nothing is served before.
    pub fn wait(&mut self, now: Instant, left: u64) {
        self.wait_until = self.wait_until.max(Instant(now.0 + left));
    }

    /// The time at which the last promise that we were told of ends.
    pub fn wait_until(&self) -> Instant {
        self.wait_until
    }

    /// True if the primary has said in this round that it is active.
    pub fn primary_serves(&self) -> bool {
        self.primary_serves
    }

    /// The primary has said so.
    pub fn note_primary_serves(&mut self) {
        self.primary_serves = true;
    }

    /// Another round begins, or another activation: the primary's word does not count any more.
    pub fn forget_primary(&mut self) {
        self.primary_serves = false;
    }

    /// Those of the PG that a new PG was split off from.
    pub fn of_child(&self) -> Self {
        Self { primary_serves: false, ..self.clone() }
    }

    /// Another PG becomes a part of this one: its promises bind this one too.
    pub fn join(&mut self, mut other: Self) {
        self.prior.append(&mut other.prior);
        self.wait_until = self.wait_until.max(other.wait_until);
    }
}
