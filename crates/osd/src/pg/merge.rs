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
use super::membership::Members;
use super::meta::{Stored, meta_key};
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
        let mut parts = Vec::new();
        for mut source in sources {
            pg.leases.join(std::mem::take(&mut source.leases));
            if !source.local.is_stored() {
                continue;
            }
            gone.push(TxnOp::Remove(meta_key(source.id)));
            pg.members.learn_past(source.members.past());
            match pg.local.is_stored() || !parts.is_empty() {
                true => pg.scrub.join(&source.scrub),
                false => pg.scrub = Scrub::new(source.scrub.record().clone()),
            }
            parts.push(source.local);
        }
        pg.stats.mark_changed();
        if !pg.local.is_stored() && parts.is_empty() {
            pg.local.end_resize(pool.pg_num);
            return pg.takes_part(pg.us(core)).then_some(pg);
        }
        let head = whole.then(|| first_version(&pool.last_pg_merge_meta));
        pg.local.merge(parts, pool.pg_num, head, meta, core.log_keep());
        if meta.is_some() {
            pg.members.trim_past(pg.local.info().history.last_epoch_clean);
        }
        if let Some(head) = head {
            pg.replication = Replication::new(head, head);
        } else {
            core.event(Level::Info, "merged_copy_not_whole", format!("pg {id}"));
            pg.replication = Replication::default();
            pg.scrub = Scrub::default();
        }
        pg.records(&mut gone);
        core.submit_own(Transaction { ops: gone }, CommitFor::Nothing);
        Some(pg)
    }
}

/// True if the map records exactly the merge for which these PGs are marked.
fn knows<'a>(pool: &Pool, mut pgs: impl Iterator<Item = &'a Pg>) -> bool {
    let is_last = pool.last_pg_merge_meta.source_pgid.seed == pool.pg_num;
    is_last && pgs.all(|pg| pg.local.pg_num_before() == Some(pool.pg_num + 1))
}

/// True if the copies together hold every update that was acknowledged to either PG: they are at exactly the
/// versions that were reported as ready to merge.
fn is_whole(pool: &Pool, target: Option<&Pg>, sources: &[Pg]) -> bool {
    let meta = &pool.last_pg_merge_meta;
    let (Some(target), [source]) = (target, sources) else { return false };
    let is_at = |pg: &Pg, version| {
        let info = pg.local.info();
        pg.local.is_stored()
            && !info.incomplete
            && pg.local.missing().is_empty()
            && info.last_update == version
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
