//! The target of an operation.

use crate::Request;
use maps::{Epoch, OsdId, OsdMap, PgId, PrimaryTable, Spg, osd_flags, split_off};
use msgs::osd_flag;

/// The parts of an operation that determine its placement.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Place {
    /// An object.
    Object,
    /// The PG that holds this hash.
    Hash(u32),
}

/// The PG and OSD that an operation was computed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Target {
    /// The PG, with the primary's shard.
    pub(crate) spg: Spg,
    /// The object's whole hash.
    pub(crate) hash: u32,
    /// The acting primary, or another member that may answer; `None` if the PG has none now.
    pub(crate) osd: Option<OsdId>,
    /// The pool's epoch of forced resends when the target was computed.
    pub(crate) force_resend: Epoch,
    /// The pool's number of PGs.
    pub(crate) pg_num: u32,
}

impl Target {
    /// True if an operation sent to `self` must be sent again to `new`. A PG that splits or merges forgets
    /// its requests.
    pub(crate) fn must_resend(&self, new: &Self) -> bool {
        let parts = |old: u32, new: u32| split_off(self.spg.pgid.seed, old, new).next().is_some();
        let split = parts(self.pg_num, new.pg_num) || parts(new.pg_num, self.pg_num);
        (self.spg, self.osd) != (new.spg, new.osd) || new.force_resend > self.force_resend || split
    }
}

/// Placement of PGs on one map, each computed once.
#[derive(Debug, Default)]
pub(crate) struct Placement(PrimaryTable);

impl Placement {
    /// Forgets everything: the map has changed.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The target of request number `tid` on `map`; `None` if there is no such pool.
    pub(crate) fn target(
        &mut self,
        map: &OsdMap,
        request: &Request,
        place: &Place,
        tid: u64,
    ) -> Option<Target> {
        let Request { locator, oid, .. } = request;
        let pool = map.pools.get(&locator.pool)?;
        let hash = match place {
            Place::Object => locator.hash_of(oid),
            Place::Hash(hash) => *hash,
        };
        let pg = pool.raw_pg_to_pg(PgId { pool: locator.pool, seed: hash });
        let (spg, mut osd) = self.0.primary(map, pool, pg);
        if request.is_balanced() && osd.is_some() {
            let acting: Vec<OsdId> =
                map.pg_up_acting(pg).acting.into_iter().filter(|o| o.is_some()).collect();
            osd = acting.get(tid as usize % acting.len().max(1)).copied().or(osd);
        }
        Some(Target { spg, hash, osd, force_resend: pool.last_force_op_resend, pg_num: pool.pg_num })
    }
}

/// True if the map makes an operation with these flags wait.
pub(crate) fn is_paused(map: &OsdMap, pool: i64, flags: u32) -> bool {
    let (reads, writes) = (flags & osd_flag::READ != 0, flags & osd_flag::WRITE != 0);
    let minds_full = writes && flags & (osd_flag::FULL_TRY | osd_flag::FULL_FORCE) == 0;
    map.has_flag(osd_flags::PAUSERD) && reads
        || map.has_flag(osd_flags::PAUSEWR) && writes
        || minds_full && map.is_full(pool)
}
