//! The balancer at work: the leader looks at each pool whose placement has changed, a few PGs at each tick,
//! and puts exceptions to CRUSH into the map, a few at a time, while nothing else is moving.

use crate::pg_stats::PgTable;
use maps::{
    BalanceOptions, Epoch, OsdId, OsdMap, PgId, PoolBalance, UpmapChange, osd_flags, osd_state, release,
};
use peer::pg_state;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, Now, Wall};

/// PGs mapped by CRUSH in one tick, which takes some ten milliseconds.
const PGS_AT_ONCE: usize = 2048;

/// Copies considered for a move in one tick.
const EFFORT: usize = 1_000_000;

/// Interval between checks for quiet, which visit every PG.
const QUIET_PERIOD: Duration = Duration::from_secs(2);

/// Settings of the balancer, from `ceph balancer on|off|mode` and options.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Settings {
    pub active: bool,
    pub mode: String,
    /// Maximum number of changes at a time.
    pub changes: usize,
    /// Maximum fraction of misplaced objects.
    pub misplaced: f64,
}

impl Settings {
    fn may_move(&self) -> bool {
        self.active && self.mode == "upmap"
    }
}

/// Inputs of the placement that all pools share.
#[derive(Clone, PartialEq, Debug, Default)]
struct Common {
    crush: Arc<crush::CrushMap>,
    /// Weight and state bits (exists, up) of each OSD.
    osds: Vec<(u32, u32)>,
    may_move: bool,
    changes: usize,
}

/// Further inputs of one pool's placement.
#[derive(Clone, PartialEq, Debug, Default)]
struct Key {
    generation: u64,
    pg_num: u32,
    pgp_num: u32,
    size: u8,
    rule: u8,
    items: Vec<(PgId, Vec<(OsdId, OsdId)>)>,
    explicit: Vec<(PgId, Vec<OsdId>)>,
}

/// Volatile state of the balancer; a new leader starts from nothing.
#[derive(Debug, Default)]
pub(crate) struct Balancer {
    common: Common,
    /// Number of changes of `common`.
    generation: u64,
    /// Epoch of the map that `keys` belong to.
    epoch: Epoch,
    keys: BTreeMap<i64, Key>,
    /// Pools without remaining work.
    settled: BTreeMap<i64, Key>,
    work: Option<(i64, Key, PoolBalance)>,
    plan: Option<(i64, Key, Vec<UpmapChange>)>,
    /// PGs changed last, and the epoch of that change.
    moved: (Vec<PgId>, Epoch),
    quiet_at: Option<Instant>,
    /// Start of its last search for something to do.
    started: Option<Wall>,
    /// Outcome of that search, in Ceph's words.
    result: String,
    /// True if everything is balanced.
    is_even: bool,
}

/// The next change of the map.
pub(crate) enum Step {
    Nothing,
    /// Useless exceptions, to be removed at once.
    Clean(Vec<UpmapChange>),
    /// Moves are ready and wait for quiet.
    Ready,
}

impl Balancer {
    /// Takes a new map into account.
    pub fn follow(&mut self, map: &OsdMap, settings: &Settings) {
        let is_same = self.common.may_move == settings.may_move() && self.common.changes == settings.changes;
        if self.epoch == map.epoch && is_same {
            return;
        }
        self.epoch = map.epoch;
        let bits = osd_state::EXISTS | osd_state::UP;
        let common = Common {
            crush: map.crush.clone(),
            osds: map.osds.iter().map(|o| (o.weight, o.state & bits)).collect(),
            may_move: settings.may_move(),
            changes: settings.changes,
        };
        if common != self.common {
            self.generation += 1;
            self.common = common;
        }
        // PGs that are to be merged must lie together: exceptions would keep them apart.
        let pools =
            map.pools.iter().filter(|(_, pool)| pool.pg_num_target.min(pool.pg_num_pending) >= pool.pg_num);
        self.keys = pools.map(|(id, pool)| (*id, self.key(map, *id, pool))).collect();
        self.settled.retain(|id, _| map.pools.contains_key(id));
        let is_current = |keys: &BTreeMap<i64, Key>, id: &i64, key: &Key| keys.get(id) == Some(key);
        self.work = self.work.take().filter(|(id, key, _)| is_current(&self.keys, id, key));
        self.plan = self.plan.take().filter(|(id, key, _)| is_current(&self.keys, id, key));
    }

    fn key(&self, map: &OsdMap, id: i64, pool: &maps::Pool) -> Key {
        let all = PgId::new(id, 0)..=PgId::new(id, u32::MAX);
        Key {
            generation: self.generation,
            pg_num: pool.pg_num,
            pgp_num: pool.pgp_num,
            size: pool.size,
            rule: pool.crush_rule,
            items: map.pg_upmap_items.range(all.clone()).map(|(pg, i)| (*pg, i.clone())).collect(),
            explicit: map.pg_upmap.range(all).map(|(pg, o)| (*pg, o.clone())).collect(),
        }
    }

    /// Examines pools that are not settled, as far as one tick allows.
    pub fn think(&mut self, now: Now, map: &Arc<OsdMap>, settings: &Settings) -> Step {
        if self.plan.is_some() {
            return Step::Ready;
        }
        let mut left = PGS_AT_ONCE;
        while left > 0 {
            if self.work.is_none() {
                let open = self.keys.iter().find(|(id, key)| self.settled.get(id) != Some(key));
                let Some((id, key)) = open.map(|(id, key)| (*id, key.clone())) else {
                    self.is_even = settings.may_move();
                    return Step::Nothing;
                };
                let Some(begun) = PoolBalance::new(map.clone(), id) else { return Step::Nothing };
                (self.started, self.is_even) = (Some(now.wall), false);
                self.work = Some((id, key, begun));
            }
            let Some((id, key, mut work)) = self.work.take() else { return Step::Nothing };
            left = work.look(left);
            if left == 0 {
                self.work = Some((id, key, work));
                return Step::Nothing;
            }
            let idle = work.idle();
            if !idle.is_empty() {
                return Step::Clean(idle);
            }
            let options = BalanceOptions { max_moves: settings.changes, effort: EFFORT, slack: 1.0 };
            let moves = if settings.may_move() { work.moves(&options) } else { Vec::new() };
            if !moves.is_empty() {
                self.plan = Some((id, key, moves));
                return Step::Ready;
            }
            self.settled.insert(id, key);
            if settings.may_move() {
                self.result = "Unable to find further optimization, or pool(s) pg_num is decreasing, \
                               or distribution is already perfect"
                    .into();
                // That took its time.
                return Step::Nothing;
            }
        }
        Step::Nothing
    }

    /// Start of its last search for something to do.
    pub fn started(&self) -> Option<Wall> {
        self.started
    }

    /// Outcome of that search, in Ceph's words.
    pub fn result(&self) -> &str {
        &self.result
    }

    /// True if nothing is left to move.
    pub fn is_even(&self) -> bool {
        self.is_even
    }

    /// Takes the planned moves once nothing else moves.
    pub fn take_plan_when_quiet(
        &mut self,
        now: Now,
        map: &OsdMap,
        pgs: &PgTable,
        settings: &Settings,
    ) -> Option<Vec<UpmapChange>> {
        if self.quiet_at.is_some_and(|at| now.mono.since(at) < QUIET_PERIOD) {
            return None;
        }
        self.quiet_at = Some(now.mono);
        self.started = Some(now.wall);
        let unrest = match map.require_min_compat_client < release::LUMINOUS {
            true => Some("min_compat_client must be luminous or newer for pg-upmap".to_owned()),
            false => self.unrest(map, pgs, settings),
        };
        if let Some(why) = unrest {
            self.result = why;
            return None;
        }
        let (_, _, changes) = self.plan.take()?;
        self.result = "Optimization plan created successfully".into();
        self.note_moves(changes.iter().map(|c| c.pg).collect(), map.epoch.next());
        Some(changes)
    }

    /// Notes that PGs move from this epoch on.
    pub fn note_moves(&mut self, pgs: Vec<PgId>, epoch: Epoch) {
        self.moved = (pgs, epoch);
    }

    /// The reason, in Ceph's words, why no further data should start to move now.
    pub fn unrest(&self, map: &OsdMap, pgs: &PgTable, settings: &Settings) -> Option<String> {
        if map.flags & (osd_flags::NOREBALANCE | osd_flags::NOBACKFILL) != 0 {
            return Some("norebalance or nobackfill is set; try again later".into());
        }
        let all: usize = map.pools.values().map(|p| p.pg_num as usize).sum();
        let ratio = |n: usize| n as f64 / all.max(1) as f64;
        let unknown = all.saturating_sub(pgs.pgs().len());
        if unknown > 0 {
            return Some(format!("Some PGs ({:.6}) are unknown; try again later", ratio(unknown)));
        }
        let count = |bad: &dyn Fn(u64) -> bool| pgs.pgs().values().filter(|pg| bad(pg.state)).count();
        let degraded = count(&|s| s & (pg_state::DEGRADED | pg_state::UNDERSIZED) != 0);
        let sum = pgs.total();
        if degraded > 0 || sum.num_objects_degraded > 0 {
            let part = sum.num_objects_degraded as f64 / sum.num_object_copies.max(1) as f64;
            return Some(format!("Some objects ({part:.6}) are degraded; try again later"));
        }
        let inactive =
            count(&|s| s & pg_state::ACTIVE == 0 || s & (pg_state::STALE | pg_state::PEERING) != 0);
        if inactive > 0 {
            return Some(format!("Some PGs ({:.6}) are inactive; try again later", ratio(inactive)));
        }
        // PGs without an object count too: otherwise all would move at once if there is little data.
        let remapped = ratio(count(&|s| s & (pg_state::REMAPPED | pg_state::BACKFILLING) != 0));
        let objects = sum.num_objects_misplaced as f64 / sum.num_object_copies.max(1) as f64;
        let misplaced = objects.max(remapped);
        if misplaced >= settings.misplaced && misplaced > 0.0 {
            let most = settings.misplaced;
            return Some(format!(
                "Too many objects ({misplaced:.6} > {most:.6}) are misplaced; try again later"
            ));
        }
        // The last changes must show up in reports first.
        let (moved, since) = &self.moved;
        let exists = |pg: &&PgId| map.pools.get(&pg.pool).is_some_and(|p| pg.seed < p.pg_num);
        let unseen = moved.iter().filter(exists).filter(|pg| !pgs.is_seen(**pg, *since)).count();
        (unseen > 0).then(|| format!("Some PGs ({:.6}) are unknown; try again later", ratio(unseen)))
    }
}
