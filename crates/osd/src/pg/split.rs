//! Splits of PGs, when their pool gets more.
//!
//! Objects stay where they are: a PG is a range of keys, and its children are parts of that range. Each OSD
//! that has a copy, or remembers the PG, divides its own log, missing objects and statistics. All children
//! inherit the past. What follows is like any change of members: the interval has ended, and each PG peers
//! for itself.
//!
//! A PG's records are too long to be divided in the transaction that stores the map. That one only marks them
//! ([`MetaChange::pg_num_before`](super::meta::MetaChange::pg_num_before)), and a transaction for each PG
//! follows; a start that finds the mark continues from there.

use super::Pg;
use super::membership::{Members, grain};
use super::meta::{MetaChange, meta_key};
use super::replication::Replication;
use crate::completion::CommitFor;
use crate::core::Core;
use maps::{PgId, Spg, split_off};
use store::TxnOp;

impl Pg {
    /// Carries out a split that the newest map asks for, and gives the new PGs.
    pub fn split(&mut self, core: &mut Core) -> Vec<Self> {
        let map = core.map().clone();
        let pool = map.pools.get(&self.id.pgid.pool);
        let (Some(before), Some(pool)) = (self.local.pg_num_before(), pool) else { return Vec::new() };
        let (pg_num, grain) = (pool.pg_num, grain(self.id.pgid, before));
        let ids = split_off(self.id.pgid.seed, before, pg_num)
            .map(|seed| self.id.of(PgId::new(self.id.pgid.pool, seed)));
        let members: Vec<(Spg, Members)> =
            ids.filter_map(|id| Some((id, Members::of(id.pgid, &map)?))).collect();
        let bits = |members: &Members| u32::from(members.bits().saturating_sub(grain));
        let parts: Vec<_> = members.iter().map(|(id, members)| (*id, bits(members))).collect();
        let (mut ops, mut ours) = (Vec::new(), MetaChange::default());
        let mut children = Vec::new();
        for (local, (id, members)) in self.local.split(pg_num, &parts, &mut ours).into_iter().zip(members) {
            let members = members.of_child(&self.members);
            let replication = Replication::new(local.log().head(), self.replication.sure_to());
            // Errors that are left may be in any of them, until each has been scrubbed.
            let child = Self::of(id, members, local, self.scrub.record().clone());
            children.push(Self { leases: self.leases.of_child(), replication, ..child });
        }
        self.stats.mark_changed();
        if self.local.is_stored() {
            children.iter().for_each(|child| child.records(&mut ops));
            self.submit(core, ops, ours, CommitFor::Nothing);
        }
        children
    }

    /// The steps that store all that is known of a PG.
    pub(super) fn records(&self, ops: &mut Vec<TxnOp>) {
        ops.push(TxnOp::Remove(meta_key(self.id)));
        let mut change = MetaChange::default();
        self.local.save_all(&mut change);
        change.members(&self.members);
        change.scrub(self.scrub.record());
        change.into_ops(self.id, ops);
    }
}
