//! Removed snapshots. They stay in the map's queue, which tells OSDs which snapshots to trim and clients
//! which to forget, until all PGs have trimmed them.

use crate::edit::Edit;
use crate::pg_stats::PgTable;
use maps::{IntervalSet, OsdMap, Pool, SnapId};
use std::collections::BTreeMap;

/// Ranges taken out of a pool's queue in one epoch at most, Ceph's `mon_max_snap_prune_per_epoch`.
const AT_ONCE: usize = 100;

/// Removes a snapshot of a pool.
pub fn remove(edit: &mut Edit<'_>, id: i64, snap: SnapId) {
    let epoch = edit.osdmap().epoch.next();
    let pool = edit.pool(id);
    // As in Ceph, the removal takes a number of its own, so that snapshot contexts created after it are newer
    // than those created before it.
    pool.snap_seq = SnapId(pool.snap_seq.0 + 1);
    pool.snap_epoch = epoch;
    let number = pool.snap_seq;
    edit.osd().new_removed_snaps.entry(id).or_default().insert(snap.0, 1);
    // No snapshot has that number. Marking it purged keeps the purged set one range.
    edit.nacre().purged_snaps.entry(id).or_default().insert(number.0, 1);
}

/// By pool, the queued snapshots that every PG reports as trimmed.
pub(crate) fn purged_everywhere(map: &OsdMap, pgs: &PgTable) -> BTreeMap<i64, IntervalSet> {
    let pools =
        map.removed_snaps_queue.iter().filter_map(|(id, queue)| Some((*id, map.pools.get(id)?, queue)));
    let purged = pools.map(|(id, pool, queue)| (id, purged_in(id, pool, queue, pgs)));
    purged.filter(|(_, snaps)| !snaps.is_empty()).collect()
}

fn purged_in(id: i64, pool: &Pool, queue: &IntervalSet, pgs: &PgTable) -> IntervalSet {
    let mut left = queue.clone();
    for pgid in pool.pgs(id) {
        // A report from before a merge does not cover the merged PG.
        let merged = pool.last_pg_merge_meta.ready_epoch;
        let stat = pgs.pgs().get(&pgid).filter(|stat| stat.reported_epoch >= merged);
        let Some(stat) = stat else { return IntervalSet::new() };
        let mut not_here = left.clone();
        not_here.subtract(&stat.purged_snaps);
        left.subtract(&not_here);
        if left.is_empty() {
            break;
        }
    }
    let mut some = IntervalSet::new();
    left.iter().take(AT_ONCE).for_each(|(first, len)| some.insert(first, len));
    some
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::PgId;
    use peer::PgStat;
    use stdx::Instant;

    fn set(ranges: &[(u64, u64)]) -> IntervalSet {
        let mut set = IntervalSet::new();
        ranges.iter().for_each(|(first, len)| set.insert(*first, *len));
        set
    }

    #[test]
    fn a_snapshot_is_purged_when_every_pg_has_said_so() {
        let mut map = OsdMap::default();
        map.pools.insert(1, Pool::replicated(3, 2, 0, 2, Default::default()));
        map.removed_snaps_queue.insert(1, set(&[(2, 3), (9, 1)]));
        let mut pgs = PgTable::default();
        let mut report = |seed: u32, purged: &[(u64, u64)]| {
            let stat = PgStat { pgid: PgId::new(1, seed), purged_snaps: set(purged), ..PgStat::default() };
            pgs.report(Instant(0), peer::PgStats { pgs: vec![stat], ..peer::PgStats::default() });
            purged_everywhere(&map, &pgs)
        };
        assert!(report(0, &[(2, 8)]).is_empty(), "the other one has said nothing");
        assert_eq!(report(1, &[(3, 1), (9, 5)]), BTreeMap::from([(1, set(&[(3, 1), (9, 1)]))]));
    }
}
