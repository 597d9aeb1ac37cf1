//! Numbers of PGs on their way to what they are to be: first a pool's PGs split, all at once, which moves nothing; then their
//! places follow, a few at a time, while little else moves (Ceph: the manager's `adjust_pgs`).

use crate::balancer::Settings;
use crate::edit::Edit;
use crate::mon::Mon;
use crate::pgstat::PgTable;
use crate::storage::Storage;
use maps::{OsdMap, PgId, Pool, split_off, stable_mod, stable_mod_mask};
use peer::pg_state;
use std::time::Duration;
use stdx::Now;

/// Between two looks, which visit every PG of a pool that changes.
const PERIOD: Duration = Duration::from_secs(1);

/// The next step of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Its PGs become so many.
    Split(u32),
    /// So many places are used.
    Spread(u32),
}

impl<S: Storage> Mon<S> {
    /// Takes pools a step further, at the leader.
    pub(crate) fn tick_pg_num(&mut self, now: Now) {
        if self.log.is_proposing() || now.mono.since(self.soft.pg_num_at) < PERIOD {
            return;
        }
        self.soft.pg_num_at = now.mono;
        let map = self.log.tail().osdmap().clone();
        let settings = Settings::of(&self.view(now));
        for (id, pool) in &map.pools {
            let Some(step) = next_step(&map, (*id, pool), &self.soft.pgs, &settings) else { continue };
            match step {
                Step::Split(pg_num) => {
                    self.edit(now, |edit| split(edit, (*id, pool), pg_num));
                }
                Step::Spread(pgp_num) => {
                    let (unrest, moved) = (
                        self.soft.balancer.unrest(&map, &self.soft.pgs, &settings),
                        moved(*id, pool, pgp_num),
                    );
                    if unrest.is_some() {
                        continue;
                    }
                    let elsewhere = displaced(&map, *id, pgp_num, &moved);
                    self.soft.balancer.note_moves(elsewhere, map.epoch.next());
                    self.edit(now, |edit| spread(edit, (*id, pool), pgp_num, &moved));
                }
            }
            // One at a time: what it moves counts for the next.
            return;
        }
    }
}

/// What a pool needs next to come to its target, where it may go on.
fn next_step(map: &OsdMap, (id, pool): (i64, &Pool), pgs: &PgTable, settings: &Settings) -> Option<Step> {
    if pool.pg_num < pool.pg_num_target {
        let active = |pg: PgId| {
            pgs.pgs().get(&pg).is_some_and(|stat| {
                stat.state & (pg_state::ACTIVE | pg_state::PEERING | pg_state::STALE) == pg_state::ACTIVE
            })
        };
        return pool.pgs(id).all(active).then_some(Step::Split(pool.pg_num_target));
    }
    let most = pool.pgp_num_target.min(pool.pg_num);
    if pool.pgp_num >= most {
        return None;
    }
    let all: usize = map.pools.values().map(|p| p.pg_num as usize).sum();
    let room = (all as f64 * settings.misplaced) as u32;
    Some(Step::Spread(pool.pgp_num.saturating_add(room.max(1)).min(most)))
}

/// The PGs whose places change where so many are used.
fn moved(id: i64, pool: &Pool, pgp_num: u32) -> Vec<PgId> {
    let place = |seed: u32, n: u32| stable_mod(seed, n, stable_mod_mask(n));
    pool.pgs(id).filter(|pg| place(pg.seed, pool.pgp_num) != place(pg.seed, pgp_num)).collect()
}

/// Which of these PGs get other OSDs then: only those have something to report.
fn displaced(map: &OsdMap, id: i64, pgp_num: u32, moved: &[PgId]) -> Vec<PgId> {
    let mut next = map.clone();
    next.pools.entry(id).and_modify(|pool| pool.pgp_num = pgp_num);
    for pg in moved {
        next.pg_upmap.remove(pg);
        next.pg_upmap_items.remove(pg);
    }
    let differs = |pg: &PgId| map.pg_up_acting(*pg).up != next.pg_up_acting(*pg).up;
    moved.iter().copied().filter(differs).collect()
}

/// Splits a pool's PGs. What makes an exception of a PG does so of those that it becomes: they stay together for now.
fn split(edit: &mut Edit<'_>, (id, old): (i64, &Pool), pg_num: u32) {
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

/// Gives PGs that share a place places of their own, without exceptions.
fn spread(edit: &mut Edit<'_>, (id, old): (i64, &Pool), pgp_num: u32, moved: &[PgId]) {
    let map = edit.osdmap();
    for pg in moved {
        if map.pg_upmap.contains_key(pg) {
            edit.osd().old_pg_upmap.insert(*pg);
        }
        if map.pg_upmap_items.contains_key(pg) {
            edit.osd().old_pg_upmap_items.insert(*pg);
        }
    }
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
        let step = |map: &OsdMap, pgs: &PgTable| next_step(map, (1, &map.pools[&1]), pgs, &settings);
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
        map.pools.get_mut(&1).expect("there").pg_num = 8;
        assert_eq!(step(&map, &pgs), Some(Step::Spread(5)));
        map.pools.get_mut(&1).expect("there").pgp_num = 8;
        assert_eq!(step(&map, &pgs), None);
    }
}
