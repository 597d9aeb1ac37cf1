//! Merges of PGs, when their pool gets fewer.
//!
//! Before a merge the monitors stop requests to both (`premerge`) until both are clean on the same OSDs. The
//! map that merges them records their newest updates. Objects stay where they are: the PG's range of keys
//! becomes wider. An OSD with exactly both copies has a complete copy of the result; its log starts at a
//! version that follows from those two alone. Any other copy lacks something that no log names, so it is
//! backfilled, and never counts as an authority.
//!
//! As with splits, the transaction that stores the map only marks the PGs, and a start that finds a mark
//! continues. The source's records are removed in the transaction that stores the target's.

use super::Pg;
use super::info::{Info, merge_past, trim_past};
use super::log::PgLog;
use super::meta::{Members, Stored, meta_key};
use super::range::objects_of;
use super::replication::Replication;
use super::scrub::Scrub;
use crate::completion::CommitFor;
use crate::core::Core;
use maps::{EVersion, MergeMeta, Pool, Spg};
use node::Level;
use store::{Transaction, TxnOp};

impl Pg {
    /// Merges the local copies of a PG and of those that the newest map merges into it; some may not be here.
    /// `None` if no copy is here and this OSD is no member.
    pub fn merge(core: &mut Core, id: Spg, target: Option<Self>, sources: Vec<Self>) -> Option<Self> {
        let map = core.map().clone();
        let pool = map.pools.get(&id.pgid.pool)?;
        let members = Members::of(id.pgid, &map)?;
        let whole = is_whole(pool, target.as_ref(), &sources);
        let meta =
            knows(pool, target.as_ref().into_iter().chain(&sources)).then_some(&pool.last_pg_merge_meta);
        let mut gone: Vec<TxnOp> = Vec::new();
        let mut pg =
            target.unwrap_or_else(|| Self::new(id, pool.pg_num, Stored { members, ..Stored::default() }));
        let mut logs = vec![std::mem::take(&mut pg.log)];
        for mut source in sources {
            pg.leases.join(std::mem::take(&mut source.leases));
            if !source.stored {
                continue;
            }
            gone.push(TxnOp::Remove(meta_key(source.id)));
            pg.take_over(&source);
            logs.push(source.log);
        }
        pg.pg_num_before = None;
        pg.stats.mark_changed();
        pg.range = objects_of(id, pool.pg_num);
        if !pg.stored {
            pg.log = logs.swap_remove(0);
            return pg.takes_part(pg.us(core)).then_some(pg);
        }
        if let Some(MergeMeta { last_epoch_started, last_epoch_clean, .. }) = meta {
            let history = &mut pg.info.history;
            history.last_epoch_started = history.last_epoch_started.max(*last_epoch_started);
            history.last_epoch_clean = history.last_epoch_clean.max(*last_epoch_clean);
            trim_past(&mut pg.members.past, history.last_epoch_clean);
        }
        pg.missing.clear();
        pg.refused_is_settled();
        pg.info.incomplete = !whole;
        if whole {
            let head = first_version(&pool.last_pg_merge_meta);
            pg.log = PgLog::merged(logs, head, core.log_keep());
            pg.replication = Replication::new(pg.log.head(), head);
            pg.info.last_epoch_started = pg.info.last_epoch_started.max(pg.info.history.last_epoch_started);
        } else {
            core.event(Level::Info, "merged_copy_not_whole", format!("pg {id}"));
            pg.log = PgLog::default();
            pg.replication = Replication::default();
            pg.scrub = Scrub::default();
        }
        pg.info.sure_to = pg.replication.sure_to();
        pg.take_log_ends(0);
        pg.records(&mut gone);
        core.submit_own(Transaction { ops: gone }, CommitFor::Nothing);
        Some(pg)
    }

    /// Takes over the knowledge of a PG that becomes a part of this one.
    fn take_over(&mut self, source: &Self) {
        merge_past(&mut self.members.past, &source.members.past);
        if !self.stored {
            let pgid = self.id;
            let mut info = Info { pgid, ..source.info.clone() };
            info.history.merge(&self.info.history);
            (self.info, self.scrub, self.stored) = (info, Scrub::new(source.scrub.record().clone()), true);
            return;
        }
        // Each of the two was clean at its own time, both were at the earlier one.
        let clean = self.info.history.last_epoch_clean.min(source.info.history.last_epoch_clean);
        self.info.history.merge(&source.info.history);
        self.info.history.last_epoch_clean = clean;
        self.info.last_epoch_started = self.info.last_epoch_started.max(source.info.last_epoch_started);
        self.info.last_user_version = self.info.last_user_version.max(source.info.last_user_version);
        self.info.stats.gain(&source.info.stats);
        self.scrub.join(&source.scrub);
    }
}

/// True if the map records exactly the merge for which these PGs are marked.
fn knows<'a>(pool: &Pool, mut pgs: impl Iterator<Item = &'a Pg>) -> bool {
    let is_last = pool.last_pg_merge_meta.source_pgid.seed == pool.pg_num;
    is_last && pgs.all(|pg| pg.pg_num_before == Some(pool.pg_num + 1))
}

/// True if the copies together hold every update that was acknowledged to either PG: they are at exactly the
/// versions that were reported as ready to merge.
fn is_whole(pool: &Pool, target: Option<&Pg>, sources: &[Pg]) -> bool {
    let meta = &pool.last_pg_merge_meta;
    let (Some(target), [source]) = (target, sources) else { return false };
    let is_at = |pg: &Pg, version| {
        pg.stored && !pg.info.incomplete && pg.missing.is_empty() && pg.info.last_update == version
    };
    knows(pool, [target, source].into_iter())
        && source.id.pgid == meta.source_pgid
        && is_at(target, meta.target_version)
        && is_at(source, meta.source_version)
}

/// Behind all that either of the PGs was ever asked, and before anything that they will be asked as one:
/// those who were ready said so in an epoch in which neither took requests. The same at all OSDs, whichever
/// maps they have missed.
fn first_version(meta: &MergeMeta) -> EVersion {
    EVersion::new(meta.ready_epoch, meta.source_version.version + meta.target_version.version + 1)
}
