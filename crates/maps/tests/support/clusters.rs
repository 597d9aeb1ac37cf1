//! Random clusters of 100 OSDs, changes to them, and what each change moves.

use maps::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::Rng;
use wire::Utime;

/// Copies of a PG.
const SIZE: u8 = 3;

/// One change of a cluster.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    AddOsd,
    RemoveOsd,
    ReweightOsd,
    AddRack,
}

/// All of them.
pub const CHANGES: [Change; 4] = [Change::AddOsd, Change::RemoveOsd, Change::ReweightOsd, Change::AddRack];

/// The effect of a change.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Copies that had to move: the sum of what shares grew by.
    pub least: f64,
    /// Copies that moved.
    pub moved: usize,
    /// Copies that CRUSH alone would have moved.
    pub by_crush: usize,
    /// The largest distance of an OSD from its share, in PGs, before the change and after.
    pub spread: [f64; 2],
    /// The same distance in units of the allowed one.
    pub beyond: f64,
    /// The largest distance with CRUSH alone.
    pub spread_by_crush: f64,
    /// PGs with exceptions.
    pub exceptions: usize,
}

/// 100 OSDs on 10 to 25 hosts in 4 or 5 racks, of one size or of three, with one pool.
pub fn cluster(rng: &mut Rng, pg_num: u32) -> OsdMap {
    let mut crush = crush::CrushMap::new_default_types();
    crush.add_bucket("default", "root").expect("added");
    crush.create_replicated_rule("replicated", "default", "host", None).expect("added");
    let mut map = OsdMap { epoch: Epoch(9), pool_max: 1, ..OsdMap::default() };
    let (hosts, racks, mixed) = (rng.range(10, 26) as i32, rng.range(4, 6) as i32, rng.chance(1, 2));
    for osd in 0..100 {
        let host = osd % hosts;
        let weight = if mixed { crush::WEIGHT_ONE << rng.below(3) } else { crush::WEIGHT_ONE };
        place(&mut map, &mut crush, osd, weight, &format!("h{host}"), &format!("r{}", host % racks));
    }
    map.crush = Arc::new(crush);
    map.pools.insert(1, Pool::replicated(SIZE, 2, 0, pg_num, Utime::default()));
    map.pool_names.insert(1, "p".to_owned());
    map
}

fn place(map: &mut OsdMap, crush: &mut crush::CrushMap, osd: i32, weight: u32, host: &str, rack: &str) {
    crush.place(osd, weight, &[("host", host), ("rack", rack), ("root", "default")]).expect("placed");
    let state = osd_state::EXISTS | osd_state::UP;
    map.osds.resize(map.osds.len().max(osd as usize + 1), OsdEntry::default());
    map.osds[osd as usize] = OsdEntry { state, weight: WEIGHT_IN, ..OsdEntry::default() };
}

/// Makes a change, without the exceptions that follow from it.
pub fn change(rng: &mut Rng, map: &OsdMap, change: Change) -> OsdMap {
    let mut map = map.clone();
    let mut crush = (*map.crush).clone();
    let osd = rng.below(100) as i32;
    match change {
        Change::AddOsd => {
            let host = crush.parent_of(osd).expect("it lies somewhere");
            let (host, rack) = (crush.name(host), crush.name(crush.parent_of(host).expect("a rack")));
            let weight = crush.weight_of(osd);
            place(&mut map, &mut crush, 100, weight, &host, &rack);
        }
        Change::RemoveOsd => {
            crush.remove(osd).expect("removed");
            map.osds[osd as usize] = OsdEntry::default();
        }
        Change::ReweightOsd => {
            let weight = crush.weight_of(osd);
            let weight = if rng.chance(1, 2) { weight / 2 } else { weight * 3 / 2 };
            crush.reweight(osd, weight).expect("reweighted");
        }
        Change::AddRack => {
            for osd in 100..120 {
                let host = format!("new{}", osd % 4);
                place(&mut map, &mut crush, osd, crush::WEIGHT_ONE, &host, "new");
            }
        }
    }
    map.crush = Arc::new(crush);
    map
}

/// The places of all copies.
pub fn placements(map: &OsdMap) -> BTreeMap<PgId, Vec<OsdId>> {
    map.pools[&1].pgs(1).map(|pg| (pg, map.pg_up_when_all_are_up(pg))).collect()
}

/// Puts the balancer's exceptions into the map.
pub fn apply(map: &mut OsdMap, changes: Vec<UpmapChange>) {
    for UpmapChange { pg, items } in changes {
        if items.is_empty() {
            map.pg_upmap_items.remove(&pg);
        } else {
            map.pg_upmap_items.insert(pg, items);
        }
    }
}

/// Balances a map at leisure, as far as it goes.
pub fn balance_well(map: &mut OsdMap) {
    let changes = balance(map, &BTreeMap::new(), &BalanceOptions { slack: 0.5, ..BalanceOptions::default() });
    apply(map, changes);
}

/// Balances a map whose copies are at `held`.
pub fn rebalance(map: &mut OsdMap, held: &BTreeMap<PgId, Vec<OsdId>>) {
    let changes = balance(map, held, &BalanceOptions::default());
    apply(map, changes);
}

/// The largest distance of an OSD from its share: in PGs, and in units of what is allowed.
pub fn spread(map: &OsdMap) -> (f64, f64) {
    let shares = Shares::new(map, &map.pools[&1]).expect("a rule with shares");
    let mut counts: BTreeMap<OsdId, f64> = BTreeMap::new();
    for osd in placements(map).into_values().flatten() {
        *counts.entry(osd).or_default() += 1.0;
    }
    shares.osds().fold((0.0, 0.0), |(pgs, units): (f64, f64), osd| {
        let off = (counts.get(&osd).copied().unwrap_or(0.0) - shares.of(osd)).abs();
        (pgs.max(off), units.max(off / shares.tolerance(osd)))
    })
}

fn moved(before: &BTreeMap<PgId, Vec<OsdId>>, after: &BTreeMap<PgId, Vec<OsdId>>) -> usize {
    after.iter().map(|(pg, osds)| osds.iter().filter(|osd| !before[pg].contains(osd)).count()).sum()
}

/// Balances a cluster, changes it and balances it again.
pub fn run(rng: &mut Rng, bare: &OsdMap, what: Change) -> Outcome {
    let mut map = bare.clone();
    balance_well(&mut map);
    let (before, spread_before) = (placements(&map), spread(&map).0);
    let shares = |map: &OsdMap| Shares::new(map, &map.pools[&1]).expect("a rule with shares");
    let old = shares(&map);

    let mut changed = change(&mut rng.clone(), &map, what);
    let alone = OsdMap { pg_upmap_items: BTreeMap::new(), ..changed.clone() };
    rebalance(&mut changed, &before);
    let new = shares(&changed);
    let (after, (spread_after, beyond)) = (placements(&changed), spread(&changed));
    let full = after.values().all(|osds| osds.len() == usize::from(SIZE));
    assert!(full, "every PG has all its copies");
    Outcome {
        least: new.osds().map(|osd| (new.of(osd) - old.of(osd)).max(0.0)).sum(),
        moved: moved(&before, &after),
        by_crush: moved(&placements(bare), &placements(&alone)),
        spread: [spread_before, spread_after],
        beyond,
        spread_by_crush: spread(&alone).0,
        exceptions: changed.pg_upmap_items.len(),
    }
}
