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
use super::info::Info;
use super::log::Missing;
use super::membership::grain;
use super::meta::{Members, MetaChange, Stored, meta_key};
use super::range::objects_of;
use super::replication::Replication;
use crate::completion::CommitFor;
use crate::core::Core;
use maps::{PgId, split_off, stable_mod, stable_mod_mask};
use store::TxnOp;

impl Pg {
    /// Carries out a split that the newest map asks for, and gives the new PGs.
    pub fn split(&mut self, core: &mut Core) -> Vec<Self> {
        let map = core.map().clone();
        let (Some(before), Some(pool)) = (self.pg_num_before.take(), map.pools.get(&self.id.pgid.pool))
        else {
            return Vec::new();
        };
        let pg_num = pool.pg_num;
        let (grain, whole) = (grain(self.id.pgid, before), self.info.stats);
        let mut ops = Vec::new();
        let mut ours = MetaChange::default();
        let mut children = Vec::new();
        for seed in split_off(self.id.pgid.seed, before, pg_num) {
            let id = self.id.of(PgId::new(self.id.pgid.pool, seed));
            let Some(members) = Members::of(id.pgid, &map) else { continue };
            let range = objects_of(id, pg_num);
            let goes = |hash| stable_mod(hash, pg_num, stable_mod_mask(pg_num)) == seed;
            let log = self.log.split_off(goes);
            let missing: Missing =
                self.missing.range(range.0..range.1).map(|(k, v)| (k.clone(), *v)).collect();
            self.missing.retain(|object, _| !missing.contains_key(object));
            let stats = whole.part(u32::from(members.bits().saturating_sub(grain)));
            self.info.stats.lose(&stats);
            let info = Info { pgid: id, missing: missing.len() as u64, stats, ..self.info.clone() };
            let members = Members { past: self.members.past.clone(), ..members };
            // Errors that are left may be in any of them, until each has been scrubbed.
            let scrub = self.scrub.record().clone();
            let stored = Stored { info, members, log, missing, pg_num_before: None, scrub };
            let child = Self::new(id, pg_num, stored);
            if self.stored {
                ours.split(&child.log, &child.missing);
                child.records(&mut ops);
            }
            children.push(Self {
                stored: self.stored,
                leases: self.leases.of_child(),
                replication: Replication::new(child.log.head(), self.replication.sure_to()),
                ..child
            });
        }
        self.range = objects_of(self.id, pg_num);
        self.stats.mark_changed();
        if self.stored {
            self.info.missing = self.missing.len() as u64;
            ours.info(&self.info);
            self.submit(core, ops, ours, CommitFor::Nothing);
        }
        children
    }

    /// The steps that store all that is known of a PG.
    pub(super) fn records(&self, ops: &mut Vec<TxnOp>) {
        ops.push(TxnOp::Remove(meta_key(self.id)));
        let mut change = MetaChange::default();
        change.replace_log(&self.log, &self.missing);
        change.info(&self.info);
        change.members(&self.members);
        change.scrub(self.scrub.record());
        change.into_ops(self.id, ops);
    }
}
