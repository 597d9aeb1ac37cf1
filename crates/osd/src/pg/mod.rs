//! One placement group on one OSD: peering, replication, client operations, recovery.
//!
//! Reading path: [`state`] (all transitions), [`membership`] (intervals), [`peering`] (the primary),
//! [`replica`] (the others), [`client`], [`replicate`] and [`ahead`] (operations), [`backend`] (what
//! replicated and erasure-coded pools do differently), [`trim`] (snapshots that were removed),
//! [`recovery`] and [`backfill`] (copies of objects). [`local`]: our own copy.

pub mod ahead;
mod backend;
pub mod backfill;
mod backing_off;
pub mod balanced;
pub mod client;
pub mod info;
mod leases;
pub mod list;
pub mod local;
pub mod log;
pub mod member;
pub mod membership;
mod merge;
pub mod meta;
pub mod peering;
mod questions;
pub mod range;
pub mod recovery;
pub mod replica;
pub mod replicate;
mod replication;
pub mod request;
mod room;
pub mod scrub;
mod snaps;
mod split;
pub mod state;
mod stats;
pub mod status;
pub mod trim;
mod watching;

use crate::completion::CommitFor;
use crate::core::Core;
use crate::object::key_of;
use crate::watch::Watches;
use backend::{Backend, Replicated};
use backfill::Backfill;
use client::queues::RequestQueues;
use info::Notice;
use leases::Leases;
use local::LocalCopy;
use maps::{Epoch, HObject, Spg};
use member::Member;
use membership::Members;
use meta::{MetaChange, Stored};
use node::Level;
use peering::round::{PeerCopy, PeeringRound};
use recovery::Recovery;
use recovery::reservation::Reservations;
use replication::Replication;
use state::State;
use stats::Stats;
use stdx::Wall;
use store::{ObjectKey, Transaction, TxnOp};

/// One placement group.
#[derive(Debug)]
pub struct Pg {
    /// The PG, and the shard of it that we have.
    id: Spg,
    /// How its pool keeps objects.
    backend: Box<dyn Backend>,
    /// Its state.
    state: State,
    /// Time at which it entered the state.
    state_since: Wall,
    /// Membership of the PG.
    members: Members,
    /// Our own copy.
    local: LocalCopy,
    /// This round of peering.
    round: PeeringRound,
    /// Copies being compared object by object.
    backfill: Backfill,
    /// Promises by which reads are served.
    leases: Leases,
    /// Updates on their way to stable storage.
    replication: Replication,
    /// Client requests that are not answered.
    requests: RequestQueues,
    /// Watches on its objects, while we are primary.
    watches: Watches,
    /// Objects on their way.
    recovery: Recovery,
    /// Slots for recovery.
    reservations: Reservations,
    /// Removed snapshots being trimmed.
    trim: trim::SnapTrim,
    /// The comparison of all copies.
    scrub: scrub::Scrub,
    /// Not primary: data that has come for the next update.
    ahead: Option<ahead::Ahead>,
    /// Reports to the monitors.
    stats: Stats,
}

impl Pg {
    /// A PG as it was stored, or an empty one.
    pub fn new(id: Spg, pg_num: u32, stored: Stored) -> Self {
        let Stored { info, members, log, missing, pg_num_before, scrub } = stored;
        let mut local = LocalCopy::new(id, pg_num_before.unwrap_or(pg_num), info, log, missing);
        if let Some(pg_num) = pg_num_before {
            local.begin_resize(pg_num);
        }
        Self::of(id, members, local, scrub)
    }

    /// The PG whose copy here is this one.
    fn of(id: Spg, members: Members, local: LocalCopy, scrub: scrub::Record) -> Self {
        Self {
            id,
            backend: Box::new(Replicated),
            state: State::Reset,
            state_since: Wall(0),
            replication: Replication::new(local.log().head(), local.info().sure_to),
            members,
            local,
            round: PeeringRound::default(),
            backfill: Backfill::default(),
            leases: Leases::default(),
            requests: RequestQueues::default(),
            watches: Watches::default(),
            recovery: Recovery::default(),
            reservations: Reservations::default(),
            trim: trim::SnapTrim::default(),
            scrub: scrub::Scrub::new(scrub),
            ahead: None,
            stats: Stats::default(),
        }
    }

    /// A PG whose records were found when the OSD started.
    pub fn from_disk(core: &Core, id: Spg, pg_num: u32, stored: Stored) -> Self {
        let pg = Self::new(id, pg_num, stored);
        let (local, members) = (pg.local.found(), pg.members.found(id.pgid, pg_num));
        let mut pg = Self { local, members, ..pg };
        pg.leases.assume(core, &pg.members);
        pg
    }

    /// The map says when the PG was created, and that nobody wrote to it since.
    pub fn set_created(&mut self, epoch: Epoch) {
        self.local.created(epoch);
    }

    /// Maps were skipped: another OSD must tell what happened to the PG meanwhile.
    pub fn forget_creation(&mut self) {
        self.local.forget_creation();
    }

    /// The PG has changed: it is reported to the monitors soon.
    pub fn changed(&mut self, core: &mut Core) {
        self.stats.mark_changed();
        core.report_soon();
    }

    /// The monitors may not have the last report: the next one names the PG again.
    pub fn report_again(&mut self) {
        self.stats.mark_changed();
    }

    /// Takes the mark that the PG has changed since it was last reported.
    pub fn take_stats_changed(&mut self) -> bool {
        self.stats.take_changed()
    }

    /// The store's key of our shard of an object that the wire names so.
    fn key_of(&self, object: &HObject) -> ObjectKey {
        key_of(self.id.shard, object)
    }

    /// The head of a message about this PG to whoever has `shard` of it.
    pub fn head(&self, core: &Core, shard: i8) -> peer::PgHead {
        let Spg { pgid, shard: from } = self.id;
        let (epoch, interval) = (core.epoch(), self.members.interval());
        peer::PgHead { pgid: Spg { pgid, shard }, from, epoch, interval }
    }

    /// We ourselves, as one who has a shard of the PG.
    pub fn us(&self, core: &Core) -> Member {
        Member { shard: self.id.shard, osd: core.id() }
    }

    /// The primary of this interval.
    pub fn primary(&self) -> Option<Member> {
        self.members.acting().primary()
    }

    /// True if we are the primary.
    pub fn is_primary(&self, core: &Core) -> bool {
        self.primary() == Some(self.us(core))
    }

    /// Whether a copy takes part: its OSD serves the PG, or is to and is being filled while others serve it.
    pub fn takes_part(&self, member: Member) -> bool {
        self.members.acting().contains(member) || self.members.up().contains(member)
    }

    /// Copies of the others that take part.
    fn members_copies(&self) -> impl Iterator<Item = (Member, &PeerCopy)> {
        self.round.copies().filter(|(member, _)| self.takes_part(*member))
    }

    /// The others that take part.
    pub fn others(&self, core: &Core) -> Vec<Member> {
        let (acting, up) = (self.members.acting(), self.members.up());
        let to_fill = up.members().filter(|member| !acting.contains(*member));
        acting.members().chain(to_fill).filter(|member| *member != self.us(core)).collect()
    }

    /// Number of members with a complete log, which count for `min_size`.
    fn full_members(&self) -> usize {
        self.members.acting().members().filter(|member| !self.backfill.is_filling(*member)).count()
    }

    /// True if clients are served.
    pub fn is_serving(&self) -> bool {
        self.state.is_active()
            && self.full_members() >= self.members.min_size()
            && (!self.members.is_premerge() || stdx::mutants::is_active("osd_serves_before_a_merge"))
    }

    /// Enters a state; the table must have the transition.
    pub fn set_state(&mut self, core: &mut Core, next: State) {
        assert!(self.state.may_become(next), "pg {}: {} to {next} is no transition", self.id, self.state);
        if self.state != next {
            core.event(Level::Debug, "pg_state_changed", format!("pg {}: {} to {next}", self.id, self.state));
            self.state_since = core.now().wall;
            self.changed(core);
        }
        self.state = next;
        self.back_off(core);
    }

    /// Asserts what must hold between two inputs, of each owner and between them.
    pub fn check(&self) {
        self.local.check();
        self.requests.check();
        self.replication.check();
        self.round.check();
        self.backfill.check();
    }

    /// Our report to the primary.
    pub fn notice(&self, core: &Core) -> Notice {
        Notice {
            info: self.local.info().clone(),
            past: self.members.past().to_vec(),
            lease_left_ns: self.lease_left(core),
            feature_level: core.options().levels.newest,
        }
    }

    /// Nanoseconds for which a member of an earlier interval may still rely on our promises.
    pub fn lease_left(&self, core: &Core) -> u64 {
        self.leases.left(core, self.members.acting())
    }

    /// True if we may serve reads: every other member has promised within its lease that it knows of no newer
    /// interval.
    pub fn has_lease(&self, core: &Core) -> bool {
        self.members.acting().members().all(|m| m.osd == core.id() || core.lease_from(m.osd))
    }

    /// Submits changes together with what is stored of the PG.
    pub fn submit(&mut self, core: &mut Core, mut ops: Vec<TxnOp>, change: MetaChange, then: CommitFor) {
        self.local.store(change, &mut ops);
        core.submit_own(Transaction { ops }, then);
    }

    /// Stores info and membership.
    pub fn save(&mut self, core: &mut Core) {
        let mut ops = Vec::new();
        self.save_ops(&mut ops);
        self.submit(core, ops, MetaChange::default(), CommitFor::Nothing);
    }

    /// The steps that store info and membership.
    pub fn save_ops(&mut self, ops: &mut Vec<TxnOp>) {
        let mut change = MetaChange::default();
        self.local.save(&mut change);
        change.members(&self.members);
        if let Some(pg_num) = self.local.pg_num_before() {
            change.pg_num_before(pg_num);
        }
        change.into_ops(self.id, ops);
    }
}
