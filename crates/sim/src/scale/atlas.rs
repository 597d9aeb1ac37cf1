//! OSD maps and what they mean for PGs, worked out once for all stand-ins: 10,000 copies of a map of 10,000
//! OSDs fit into no memory. Each stand-in still has to be given every step by a monitor; it only shares what
//! it makes of it.

use maps::{Epoch, OsdId, OsdMap, OsdMapIncremental, PgId};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::Buf;
use wire::Reader;

/// Eras kept; one that a late stand-in asks for beyond them is worked out again.
const KEPT: usize = 160;

/// One epoch of the OSD map.
pub(super) struct Era {
    pub map: OsdMap,
    /// The incremental to this epoch, if the map was not sent in full.
    incremental: Option<Buf>,
    pub placement: Rc<Placement>,
}

/// Placement of all PGs.
#[derive(Default)]
pub(super) struct Placement {
    rows: Vec<Rc<Row>>,
    /// By OSD: the rows that it is in, as member of the acting or the up set.
    by_osd: Vec<Vec<u32>>,
}

/// Placement of one PG.
#[derive(PartialEq, Eq)]
pub(super) struct Row {
    pub pgid: PgId,
    pub up: Vec<OsdId>,
    /// The primary first.
    pub acting: Vec<OsdId>,
    pub size: u8,
    min_size: u8,
    up_from: Vec<Epoch>,
    /// Epoch since which the fields above are unchanged.
    pub interval: Epoch,
}

impl Placement {
    /// The PGs of an OSD.
    pub fn of(&self, osd: OsdId) -> impl Iterator<Item = &Rc<Row>> {
        let rows = usize::try_from(osd.0).ok().and_then(|at| self.by_osd.get(at));
        rows.into_iter().flatten().map(|at| &self.rows[*at as usize])
    }
}

/// All epochs that stand-ins are at, or nearly.
#[derive(Default)]
pub(super) struct Atlas {
    eras: BTreeMap<Epoch, Rc<Era>>,
}

impl Atlas {
    /// The epoch after `from`, to which `bytes` lead.
    pub fn step(&mut self, from: &Rc<Era>, bytes: &Buf) -> Rc<Era> {
        let epoch = from.map.epoch.next();
        if let Some(known) = self.eras.get(&epoch) {
            return known.clone();
        }
        let inc: OsdMapIncremental = Reader::new(bytes).get().expect("a monitor's incremental decodes");
        let mut map = from.map.clone();
        map.apply(&inc).expect("a monitor's incremental applies");
        let placement = match moves(&inc) {
            true => Rc::new(place(&map, &from.placement)),
            false => from.placement.clone(),
        };
        self.keep(Era { map, incremental: Some(bytes.clone()), placement })
    }

    /// The incrementals that lead from one epoch to another, if all of them are kept.
    pub fn between(&self, has: Epoch, newest: Epoch) -> Option<BTreeMap<Epoch, Buf>> {
        let steps = (has.0 + 1..=newest.0).map(Epoch);
        steps.map(|epoch| Some((epoch, self.eras.get(&epoch)?.incremental.clone()?))).collect()
    }

    /// An epoch in full.
    pub fn full(&mut self, epoch: Epoch, bytes: &[u8]) -> Rc<Era> {
        if let Some(known) = self.eras.get(&epoch) {
            return known.clone();
        }
        let map: OsdMap = Reader::new(bytes).get().expect("a monitor's map decodes");
        let placement = Rc::new(place(&map, &Placement::default()));
        self.keep(Era { map, incremental: None, placement })
    }

    fn keep(&mut self, era: Era) -> Rc<Era> {
        let era = Rc::new(era);
        self.eras.insert(era.map.epoch, era.clone());
        if self.eras.len() > KEPT {
            self.eras.pop_first();
        }
        era
    }
}

/// True if an incremental may move PGs or begin new intervals.
fn moves(inc: &OsdMapIncremental) -> bool {
    let osds = [inc.new_state.len(), inc.new_up_client.len(), inc.new_weight.len(), inc.crush.len()];
    let pgs = [inc.new_pg_temp.len(), inc.new_primary_temp.len(), inc.new_primary_affinity.len()];
    let exceptions = [
        inc.new_pg_upmap.len() + inc.old_pg_upmap.len(),
        inc.new_pg_upmap_items.len() + inc.old_pg_upmap_items.len(),
        inc.new_pg_upmap_primaries.len() + inc.old_pg_upmap_primaries.len(),
    ];
    let pools = [inc.new_pools.len(), inc.old_pools.len()];
    osds.iter().chain(&pgs).chain(&exceptions).chain(&pools).any(|n| *n > 0)
}

fn place(map: &OsdMap, old: &Placement) -> Placement {
    let mut known = old.rows.iter().peekable();
    let mut rows = Vec::new();
    let mut by_osd = vec![Vec::new(); usize::try_from(map.max_osd()).unwrap_or(0)];
    for (id, pool) in &map.pools {
        for pgid in pool.pgs(*id) {
            while known.peek().is_some_and(|row| row.pgid < pgid) {
                known.next();
            }
            let row = row(map, pool, pgid);
            let same = known.peek().filter(|old| old.pgid == pgid && is_same(old, &row));
            let row = same.map_or_else(|| Rc::new(row), |old| Rc::clone(old));
            let mut members: Vec<OsdId> = row.acting.iter().chain(&row.up).copied().collect();
            members.sort_unstable();
            members.dedup();
            for osd in members {
                by_osd[osd.0 as usize].push(rows.len() as u32);
            }
            rows.push(row);
        }
    }
    Placement { rows, by_osd }
}

fn row(map: &OsdMap, pool: &maps::Pool, pgid: PgId) -> Row {
    let placed = map.pg_up_acting(pgid);
    let mut acting: Vec<OsdId> = placed.acting.into_iter().filter(|o| o.is_some()).collect();
    if let Some(at) = acting.iter().position(|o| Some(*o) == placed.acting_primary) {
        acting[..=at].rotate_right(1);
    }
    let up_from = acting.iter().map(|o| map.osd(*o).map_or(Epoch(0), |o| o.info.up_from)).collect();
    let up = placed.up.into_iter().filter(|o| o.is_some()).collect();
    let (size, min_size, interval) = (pool.size, pool.min_size, map.epoch);
    Row { pgid, up, acting, size, min_size, up_from, interval }
}

/// True if `new` begins no interval.
fn is_same(old: &Row, new: &Row) -> bool {
    let of = |row: &Row| (row.size, row.min_size);
    of(old) == of(new) && old.up == new.up && old.acting == new.acting && old.up_from == new.up_from
}
