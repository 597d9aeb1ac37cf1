//! Random OSD maps for tests of placement: everything that placement depends on.

use crate::{
    AFFINITY_DEFAULT, Epoch, OsdEntry, OsdId, OsdMap, PgId, Pool, WEIGHT_IN, osd_state, pool_flags, pool_type,
};
use crush::{CrushMap, Step};
use std::sync::Arc;
use stdx::Rng;
use wire::{EntityAddr, Sample, Utime};

impl Sample for OsdMap {
    /// A map of the OSDs of a random CRUSH map, some down, out, partly in or gone, with a pool for each rule,
    /// affinities and exceptions of every kind.
    fn sample(rng: &mut Rng) -> Self {
        let mut crush = CrushMap::sample(rng);
        if rng.chance(1, 2) {
            add_common_rule(&mut crush);
        }
        let mut map = Self { epoch: Epoch(9), ..Self::default() };
        let trouble = rng.below(3);
        for _ in 0..crush.max_devices {
            map.osds.push(osd(rng, trouble));
            map.primary_affinity.push(if rng.chance(1, 3) {
                rng.below(0x1_0001) as u32
            } else {
                AFFINITY_DEFAULT
            });
        }
        if rng.chance(1, 3) {
            map.primary_affinity.clear();
        }
        for (rule, mask) in (0..).zip(&crush.rules).filter_map(|(id, rule)| Some((id, rule.as_ref()?.mask))) {
            map.pool_max += 1;
            let pg_num = rng.range(1, 65) as u32;
            let now = Utime { sec: 1_700_000_000, nsec: 0 };
            let mut pool = Pool::replicated(rng.range(1, 7) as u8, 1, rule, pg_num, now);
            pool.ty = mask.ty;
            if pool.ty == pool_type::ERASURE {
                pool.stripe_width = 8192;
            }
            pool.pgp_num = rng.range(1, u64::from(pg_num) + 1) as u32;
            pool.flags = if rng.chance(1, 4) { 0 } else { pool_flags::HASHPSPOOL };
            map.pools.insert(i64::from(map.pool_max), pool);
            map.pool_names.insert(i64::from(map.pool_max), format!("p{}", map.pool_max));
        }
        map.crush = Arc::new(crush);
        for _ in 0..rng.below(40) {
            add_exception(rng, &mut map);
        }
        map
    }
}

/// A rule that places nearly everything: what most pools have.
fn add_common_rule(crush: &mut CrushMap) {
    let root = crush.roots()[0];
    let mask = crush::RuleMask { ruleset: 0, ty: pool_type::REPLICATED, min_size: 1, max_size: 10 };
    let steps = vec![Step::Take(root), Step::ChooseleafFirstn { n: 0, ty: 0 }, Step::Emit];
    crush.add_rule("common", mask, steps).expect("a free name and number");
}

fn osd(rng: &mut Rng, trouble: u64) -> OsdEntry {
    let addr = |port| EntityAddr::msgr2(([127, 0, 0, 1], port).into(), 7).into();
    let mut entry = OsdEntry { client_addrs: addr(6800), cluster_addrs: addr(6801), ..OsdEntry::default() };
    entry.weight = WEIGHT_IN;
    entry.state = osd_state::EXISTS | osd_state::UP;
    match rng.below(16) {
        0 | 1 if trouble > 0 => entry.state = osd_state::EXISTS,
        2 if trouble > 0 => entry.weight = 0,
        3 if trouble > 0 => entry.weight = rng.below(WEIGHT_IN.into()) as u32,
        4 if trouble > 1 => (entry.state, entry.weight) = (0, 0),
        5 if trouble > 1 => entry.state = 0, // gone, and its weight stays
        _ => {}
    }
    entry
}

fn add_exception(rng: &mut Rng, map: &mut OsdMap) {
    let pools: Vec<i64> = map.pools.keys().copied().collect();
    let Some(pool) = pools.get(rng.below(pools.len().max(1) as u64) as usize) else { return };
    let (size, pg_num) = (usize::from(map.pools[pool].size), u64::from(map.pools[pool].pg_num));
    let pg = PgId::new(*pool, rng.below(pg_num) as u32);
    let mut all: Vec<OsdId> = (0..map.max_osd()).map(OsdId).collect();
    rng.shuffle(&mut all);
    let some: Vec<OsdId> = all.iter().copied().take(size).collect();
    match rng.below(5) {
        0 => drop(map.pg_temp.insert(pg, some)),
        1 => drop(map.primary_temp.insert(pg, all[0])),
        2 => drop(map.pg_upmap.insert(pg, some)),
        _ => {
            // Most lead from a place of the PG, some from elsewhere.
            let at = map.pg_to_raw_osds(pg);
            let from = |rng: &mut Rng| match at.get(rng.below(8) as usize) {
                Some(osd) if osd.is_some() => *osd,
                _ => *rng.pick(&all),
            };
            let pairs = (0..rng.range(1, 4)).map(|_| (from(rng), *rng.pick(&all))).collect();
            map.pg_upmap_items.insert(pg, pairs);
        }
    }
}
