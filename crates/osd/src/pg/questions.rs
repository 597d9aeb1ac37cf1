//! Questions that the rest of the OSD asks about a PG. None of them gives a part of it away to be changed.

use super::Pg;
use super::info::Info;
use super::membership::Members;
use super::request::ClientOp;
use super::state::State;
use maps::Spg;
use stdx::Instant;
use store::ObjectKey;

impl Pg {
    /// The PG, and the shard of it that this OSD has.
    pub fn id(&self) -> Spg {
        self.id
    }

    /// The keys of its objects: from the first to the second, exclusive.
    pub fn range(&self) -> &(ObjectKey, ObjectKey) {
        self.local.range()
    }

    /// The present state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Info of our copy.
    pub fn info(&self) -> &Info {
        self.local.info()
    }

    /// The members, by the newest map that the PG has acted on.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// True if anything of the PG is stored here.
    pub fn is_stored(&self) -> bool {
        self.local.is_stored()
    }

    /// The pool's number of PGs before a split or merge that has not been carried out.
    pub fn pg_num_before(&self) -> Option<u32> {
        self.local.pg_num_before()
    }

    /// Number of this round of peering.
    pub fn round(&self) -> u64 {
        self.round.number()
    }

    /// Requests that are not answered, in order of arrival.
    pub fn requests(&self) -> impl Iterator<Item = &ClientOp> {
        self.requests.iter()
    }

    /// Objects and bytes that were recovered under this copy's lead.
    #[cfg(test)]
    pub fn recovered(&self) -> (u64, u64) {
        self.stats.recovered()
    }

    /// The time at which a new round of peering begins because a connection was lost.
    pub fn repeer_at(&self) -> Option<Instant> {
        self.round.repeer_at()
    }

    /// The end of the present pause in trimming.
    pub fn trim_paused_until(&self) -> Option<Instant> {
        self.trim.paused_until()
    }

    /// The end of the present pause in scrubbing.
    pub fn scrub_paused_until(&self) -> Option<Instant> {
        self.scrub.paused_until()
    }
}

#[cfg(test)]
impl Pg {
    /// The objects that our copy lacks.
    pub fn missing(&self) -> &super::log::Missing {
        self.local.missing()
    }

    /// Log of our copy.
    pub fn log(&self) -> &super::log::PgLog {
        self.local.log()
    }

    /// The primary's knowledge of another copy.
    pub fn copy(&self, osd: maps::OsdId) -> Option<&super::PeerCopy> {
        self.round.copy(super::Member { osd, shard: self.id.shard })
    }

    /// Objects on their way.
    pub fn recovery(&self) -> &super::recovery::Recovery {
        &self.recovery
    }

    /// The standing of our reservations.
    pub fn reservation(&self) -> &crate::pg::recovery::reservation::Reservation {
        self.reservations.standing()
    }

    /// The standing of scrub.
    pub fn scrub(&self) -> &super::scrub::Scrub {
        &self.scrub
    }

    /// Watches of our objects.
    pub fn watches(&self) -> &crate::watch::Watches {
        &self.watches
    }

    /// Data that has come for the next update.
    pub fn preship(&self) -> Option<&super::ahead::Ahead> {
        self.ahead.as_ref()
    }
}
