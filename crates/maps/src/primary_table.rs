//! The primaries of one map's PGs, computed on demand and then found by index.

use crate::{OsdId, OsdMap, PgId, Pool, Spg};
use std::collections::BTreeMap;

/// The most PGs of a pool that are remembered: more than any pool has, so that a damaged map can't make us
/// allocate more.
const MAX_ENTRIES: usize = 1 << 20;

/// The acting primaries of one map's PGs. After a change of the map it has to be cleared.
#[derive(Clone, Debug, Default)]
pub struct PrimaryTable {
    pools: BTreeMap<i64, Vec<Entry>>,
}

/// A PG's primary with its shard.
#[derive(Clone, Copy, Debug, Default)]
enum Entry {
    #[default]
    Unknown,
    Nobody,
    Osd(i8, OsdId),
}

impl PrimaryTable {
    /// Forgets everything: the map has changed.
    pub fn clear(&mut self) {
        self.pools.clear();
    }

    /// The shard that clients address, and its OSD, `None` if there is none now. `pg` is one of `pool`, which
    /// is the pool of that number in `map`.
    pub fn primary(&mut self, map: &OsdMap, pool: &Pool, pg: PgId) -> (Spg, Option<OsdId>) {
        let at = pg.seed as usize;
        if at >= MAX_ENTRIES {
            return match map.primary_shard(pg) {
                Some((spg, osd)) => (spg, Some(osd)),
                None => (Spg::replicated(pg), None),
            };
        }
        let entries = self.pools.entry(pg.pool).or_default();
        if entries.len() <= at {
            entries.resize((pool.pg_num as usize).clamp(at + 1, MAX_ENTRIES), Entry::Unknown);
        }
        if matches!(entries[at], Entry::Unknown) {
            entries[at] = match map.primary_shard(pg) {
                Some((spg, osd)) => Entry::Osd(spg.shard, osd),
                None => Entry::Nobody,
            };
        }
        match entries[at] {
            Entry::Osd(shard, osd) => (Spg { pgid: pg, shard }, Some(osd)),
            Entry::Unknown | Entry::Nobody => (Spg::replicated(pg), None),
        }
    }
}
