//! PG numbers of pools on their way to their targets (Ceph: the manager's `adjust_pgs`).
//!
//! To grow, a pool first splits its PGs, all at once, which moves no data. Their placements follow
//! (`pgp_num`), a few at a time, while little else moves. To shrink, placements come first, so that PGs to be
//! merged lie on the same OSDs. Then the last PG is merged into the one from which a split would have made
//! it, and so on.
//!
//! A merge takes two maps. The first (`pg_num_pending`) begins an interval in which the two PGs take no
//! requests. Once both are clean in it, their newest updates are known and cannot change; the second map
//! records them ([`maps::MergeMeta`]) and lowers `pg_num`. Clients wait meanwhile, so a merge that takes too
//! long is cancelled.

use crate::domain::balancer::Settings;
use crate::edit::Edit;
use crate::pg_stats::PgTable;
use maps::{MergeMeta, OsdId, OsdMap, PgId, Pool, UpActing, split_off, stable_mod, stable_mod_mask};
use peer::{PgStat, pg_state};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;

/// Interval between checks, which visit every PG of a pool that changes.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// PGs to be merged must be ready within this time, because their clients wait.
const READY_WITHIN: Duration = Duration::from_secs(6);

/// A merge that was not ready in time is tried again after this long.
const AGAIN_AFTER: Duration = Duration::from_secs(20);

/// The next step of a pool.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Step {
    /// Split to this number of PGs.
    Split(u32),
    /// Use this number of placements.
    Spread(u32),
    /// Remove the exceptions of these PGs, so that both are where CRUSH wants them, which is the same place.
    Gather([PgId; 2]),
    /// Stop requests to the last PG and its merge target (`pg_num_pending`).
    Prepare,
    /// Cancel the merge and serve requests again.
    TakeBack,
    /// Merge them.
    Merge(Box<MergeMeta>),
}

/// Merges in progress, by pool.
#[derive(Debug, Default)]
pub(crate) struct MergeWaits {
    by_pool: BTreeMap<i64, Wait>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    /// The merge in progress, by the number of PGs that it leaves, and its start.
    since: Option<(u32, Instant)>,
    /// Earliest start of the next merge, after one was cancelled.
    not_before: Instant,
}

impl MergeWaits {
    /// Forgets pools that are gone.
    pub fn follow(&mut self, map: &OsdMap) {
        self.by_pool.retain(|id, _| map.pools.contains_key(id));
    }

    /// Time since a pool's merge was prepared; zero if none is.
    pub fn waited(&mut self, now: Instant, id: i64, pool: &Pool) -> Duration {
        let wait = self.by_pool.entry(id).or_default();
        let left = pool.pg_num_pending;
        if left >= pool.pg_num {
            wait.since = None;
            return Duration::ZERO;
        }
        if wait.since.is_none_or(|(of, _)| of != left) {
            wait.since = Some((left, now));
        }
        wait.since.map_or(Duration::ZERO, |(_, since)| now.since(since))
    }

    /// True if a pool may begin a merge.
    pub fn may_begin(&self, now: Instant, id: i64) -> bool {
        self.by_pool.get(&id).is_none_or(|wait| wait.not_before <= now)
    }

    /// Notes that a merge was cancelled: the pool waits before the next one.
    pub fn put_off(&mut self, now: Instant, id: i64) {
        self.by_pool.entry(id).or_default().not_before = now + AGAIN_AFTER;
    }
}

/// The next step of a pool towards its target, if one is possible now.
pub(crate) fn next_step(
    map: &OsdMap,
    (id, pool): (i64, &Pool),
    pgs: &PgTable,
    settings: &Settings,
    waited: Duration,
) -> Option<Step> {
    if pool.pg_num_pending < pool.pg_num {
        return pending_step(map, (id, pool), pgs, waited);
    }
    if pool.pg_num < pool.pg_num_target {
        return all_active((id, pool), pgs).then_some(Step::Split(pool.pg_num_target));
    }
    let places = pool.pgp_num_target.min(pool.pg_num_target).clamp(1, pool.pg_num);
    let all: usize = map.pools.values().map(|p| p.pg_num as usize).sum();
    let room = ((all as f64 * settings.misplaced) as u32).max(1);
    match pool.pgp_num.cmp(&places) {
        Ordering::Less => Some(Step::Spread(pool.pgp_num.saturating_add(room).min(places))),
        Ordering::Greater => Some(Step::Spread(pool.pgp_num.saturating_sub(room).max(places))),
        Ordering::Equal if pool.pg_num > pool.pg_num_target => merge_step(map, (id, pool), pgs),
        Ordering::Equal => None,
    }
}

fn all_active((id, pool): (i64, &Pool), pgs: &PgTable) -> bool {
    let bits = pg_state::ACTIVE | pg_state::PEERING | pg_state::STALE;
    let active = |pg: PgId| pgs.pgs().get(&pg).is_some_and(|stat| stat.state & bits == pg_state::ACTIVE);
    pool.pgs(id).all(active)
}

/// The last of `left + 1` PGs, and the one that it merges into when `left` remain.
fn pair(id: i64, left: u32) -> [PgId; 2] {
    [PgId::new(id, left), PgId::new(id, stable_mod(left, left, stable_mod_mask(left)))]
}

/// The OSDs of two PGs, if both are on the same ones, where CRUSH wants them, and complete.
fn together(map: &OsdMap, pool: &Pool, pair: &[PgId; 2]) -> Option<UpActing> {
    let [source, target] = pair.map(|pg| map.pg_up_acting(pg));
    let is_whole = source.acting == source.up
        && source.acting.len() == usize::from(pool.size)
        && source.acting.iter().all(|osd| map.is_up(*osd));
    (source == target && is_whole).then_some(source)
}

/// True if the last report of a PG came from the primary of these OSDs, and all were in their present
/// incarnation at that time.
fn speaks_for(map: &OsdMap, placed: &UpActing, stat: &PgStat) -> bool {
    let sorted = |osds: &[OsdId]| {
        let mut osds = osds.to_vec();
        osds.sort();
        osds
    };
    stat.state & pg_state::STALE == 0
        && stat.acting.first().copied() == placed.acting_primary
        && sorted(&stat.acting) == sorted(&placed.acting)
        && placed
            .acting
            .iter()
            .all(|osd| map.osd(*osd).is_some_and(|o| o.info.up_from <= stat.reported_epoch))
}

/// Begins a merge if both PGs are clean and in the same place. The PG of the previous merge must be active:
/// the map holds the ready state of the last merge only, and OSDs may have missed the maps before.
fn merge_step(map: &OsdMap, (id, pool): (i64, &Pool), pgs: &PgTable) -> Option<Step> {
    let pair = pair(id, pool.pg_num - 1);
    let is_exception = |pg: &PgId| {
        map.pg_upmap.contains_key(pg)
            || map.pg_upmap_items.contains_key(pg)
            || map.pg_upmap_primaries.contains_key(pg)
            || map.primary_temp.contains_key(pg)
    };
    if pair.iter().any(is_exception) {
        return Some(Step::Gather(pair));
    }
    let placed = together(map, pool, &pair)?;
    let clean = |pg: &PgId| {
        pgs.pgs().get(pg).is_some_and(|stat| {
            let bits = pg_state::ACTIVE | pg_state::CLEAN;
            stat.state & bits == bits && speaks_for(map, &placed, stat)
        })
    };
    let moves = pair.iter().any(|pg| map.pg_temp.contains_key(pg));
    (pair.iter().all(clean) && !moves && all_active((id, pool), pgs)).then_some(Step::Prepare)
}

/// Completes or cancels a merge.
fn pending_step(map: &OsdMap, (id, pool): (i64, &Pool), pgs: &PgTable, waited: Duration) -> Option<Step> {
    let pair = pair(id, pool.pg_num - 1);
    let wanted = pool.pg_num_pending == pool.pg_num - 1 && pool.pg_num_target < pool.pg_num;
    let Some(placed) = together(map, pool, &pair).filter(|_| wanted) else { return Some(Step::TakeBack) };
    let ready = pair.map(|pg| {
        let stat = pgs.pgs().get(&pg).filter(|stat| speaks_for(map, &placed, stat))?;
        let bits = pg_state::PREMERGE | pg_state::PEERED | pg_state::CLEAN;
        // The report must belong to this merge and not to a cancelled one: cancelling changed the pool.
        (stat.state & bits == bits && stat.reported_epoch >= pool.last_change).then_some(stat)
    });
    let [Some(source), Some(target)] = ready else {
        return (waited > READY_WITHIN).then_some(Step::TakeBack);
    };
    let both = source.reported_epoch.min(target.reported_epoch);
    Some(Step::Merge(Box::new(MergeMeta {
        source_pgid: pair[0],
        ready_epoch: source.reported_epoch.max(target.reported_epoch),
        last_epoch_started: both,
        last_epoch_clean: both,
        source_version: source.version,
        target_version: target.version,
    })))
}

pub(crate) fn set_pending(edit: &mut Edit<'_>, id: i64, left: u32) {
    let epoch = edit.osdmap().epoch.next();
    let pool = edit.pool(id);
    pool.pg_num_pending = left;
    // Clients from before Nautilus do not know that this begins an interval.
    pool.last_force_op_resend_prenautilus = epoch;
}

pub(crate) fn take_back(edit: &mut Edit<'_>, (id, old): (i64, &Pool)) {
    set_pending(edit, id, old.pg_num);
    let name = edit.osdmap().pool_name(id);
    edit.notes.push(format!("pool '{name}': PGs were not ready to be merged, {} stay for now", old.pg_num));
}

/// Merges the last PG of a pool into another one. Nothing in the map may refer to it afterwards, because a
/// later split may create a PG of the same name.
pub(crate) fn merge(edit: &mut Edit<'_>, id: i64, meta: MergeMeta) {
    let source = meta.source_pgid;
    set_pending(edit, id, source.seed);
    drop_exceptions(edit, &[source]);
    let pool = edit.pool(id);
    (pool.pg_num, pool.last_pg_merge_meta) = (source.seed, meta);
    let [_, target] = pair(id, source.seed);
    let name = edit.osdmap().pool_name(id);
    edit.notes.push(format!("pool '{name}': PG {source} merged into {target}"));
}

fn drop_upmaps(edit: &mut Edit<'_>, pgs: &[PgId]) {
    let map = edit.osdmap();
    for pg in pgs {
        if map.pg_upmap.contains_key(pg) {
            edit.osd().old_pg_upmap.insert(*pg);
        }
        if map.pg_upmap_items.contains_key(pg) {
            edit.osd().old_pg_upmap_items.insert(*pg);
        }
    }
}

/// Removes all exceptions to CRUSH for these PGs.
pub(crate) fn drop_exceptions(edit: &mut Edit<'_>, pgs: &[PgId]) {
    drop_upmaps(edit, pgs);
    let map = edit.osdmap();
    for pg in pgs {
        if map.pg_upmap_primaries.contains_key(pg) {
            edit.osd().old_pg_upmap_primaries.insert(*pg);
        }
        if map.primary_temp.contains_key(pg) {
            edit.osd().new_primary_temp.insert(*pg, OsdId(-1));
        }
        if map.pg_temp.contains_key(pg) {
            edit.osd().new_pg_temp.insert(*pg, Vec::new());
        }
    }
}

/// The PGs whose placement changes if `pgp_num` placements are used.
pub(crate) fn moved(id: i64, pool: &Pool, pgp_num: u32) -> Vec<PgId> {
    let place = |seed: u32, n: u32| stable_mod(seed, n, stable_mod_mask(n));
    pool.pgs(id).filter(|pg| place(pg.seed, pool.pgp_num) != place(pg.seed, pgp_num)).collect()
}

/// Those of `moved` that get other OSDs; only these have something to report.
pub(crate) fn displaced(map: &OsdMap, id: i64, pgp_num: u32, moved: &[PgId]) -> Vec<PgId> {
    let mut next = map.clone();
    next.pools.entry(id).and_modify(|pool| pool.pgp_num = pgp_num);
    for pg in moved {
        next.pg_upmap.remove(pg);
        next.pg_upmap_items.remove(pg);
    }
    let differs = |pg: &PgId| map.pg_up_acting(*pg).up != next.pg_up_acting(*pg).up;
    moved.iter().copied().filter(differs).collect()
}

/// Splits a pool's PGs. An exception of a PG is copied to its children: they stay together for now.
pub(crate) fn split(edit: &mut Edit<'_>, (id, old): (i64, &Pool), pg_num: u32) {
    let map = edit.osdmap();
    for parent in old.pgs(id) {
        for seed in split_off(parent.seed, old.pg_num, pg_num) {
            let child = PgId::new(id, seed);
            if let Some(osds) = map.pg_upmap.get(&parent) {
                edit.osd().new_pg_upmap.insert(child, osds.clone());
            }
            if let Some(items) = map.pg_upmap_items.get(&parent) {
                edit.osd().new_pg_upmap_items.insert(child, items.clone());
            }
        }
    }
    let pool = edit.pool(id);
    (pool.pg_num, pool.pg_num_pending) = (pg_num, pg_num);
    let name = map.pool_name(id);
    edit.notes.push(format!("pool '{name}': {} PGs split into {pg_num}", old.pg_num));
}

/// Gives PGs that share a placement their own, without exceptions.
pub(crate) fn spread(edit: &mut Edit<'_>, (id, old): (i64, &Pool), pgp_num: u32, moved: &[PgId]) {
    let map = edit.osdmap();
    drop_upmaps(edit, moved);
    edit.pool(id).pgp_num = pgp_num;
    let name = map.pool_name(id);
    edit.notes.push(format!(
        "pool '{name}': {} PGs move, pgp_num is {} to {pgp_num}",
        moved.len(),
        old.pgp_num
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_of_split_pgs_move_when_places_are_added() {
        let mut pool = Pool::replicated(3, 2, 0, 16, Default::default());
        pool.pgp_num = 4;
        let seeds = |n| moved(1, &pool, n).iter().map(|pg| pg.seed).collect::<Vec<_>>();
        assert_eq!(seeds(5), [4, 12], "what was at place 0");
        assert_eq!(seeds(16), (4..16).collect::<Vec<_>>());
    }

    #[test]
    fn a_pool_splits_once_it_is_active_and_spreads_then() {
        let mut pool = Pool::replicated(3, 2, 0, 4, Default::default());
        (pool.pg_num_target, pool.pgp_num_target) = (8, 8);
        let mut map = OsdMap::default();
        map.pools.insert(1, pool.clone());
        let settings = Settings { misplaced: 0.05, ..Settings::default() };
        let mut pgs = PgTable::default();
        let step =
            |map: &OsdMap, pgs: &PgTable| next_step(map, (1, &map.pools[&1]), pgs, &settings, Duration::ZERO);
        assert_eq!(step(&map, &pgs), None, "nobody knows how its PGs are");
        let stat = |seed, state| peer::PgStat { pgid: PgId::new(1, seed), state, ..Default::default() };
        let report = |seed, state, seq| peer::PgStats {
            pgs: vec![peer::PgStat { reported_seq: seq, ..stat(seed, state) }],
            ..Default::default()
        };
        for seed in 0..4 {
            let state = if seed == 2 { pg_state::PEERING } else { pg_state::ACTIVE };
            pgs.report(stdx::Instant(0), report(seed, state, 1));
        }
        assert_eq!(step(&map, &pgs), None, "one peers");
        pgs.report(stdx::Instant(0), report(2, pg_state::ACTIVE | pg_state::CLEAN, 2));
        assert_eq!(step(&map, &pgs), Some(Step::Split(8)));
        let raised = map.pools.get_mut(&1).expect("there");
        (raised.pg_num, raised.pg_num_pending) = (8, 8);
        assert_eq!(step(&map, &pgs), Some(Step::Spread(5)));
        map.pools.get_mut(&1).expect("there").pgp_num = 8;
        assert_eq!(step(&map, &pgs), None);
    }
}
