//! The balancer: every OSD within one PG or 1 % of its share, failure domains kept, hardly more moved than
//! needed.

#[path = "support/clusters.rs"]
mod clusters;

use clusters::{CHANGES, Change, apply, cluster, placements, rebalance, run, spread};
use maps::*;
use std::collections::{BTreeMap, BTreeSet};
use stdx::Rng;

fn all() -> BalanceOptions {
    BalanceOptions::default()
}

#[test]
fn a_change_moves_at_most_a_tenth_more_than_it_must() {
    for seed in 0..3 {
        let mut rng = Rng::from_seed(seed);
        let map = cluster(&mut rng, 1024);
        for change in CHANGES {
            let outcome = run(&mut rng, &map, change);
            // With few PGs on each OSD, the last one of each weighs more than a tenth of a small change.
            let allowed = outcome.least * 1.1 + if matches!(change, Change::AddRack) { 0.0 } else { 12.0 };
            assert!(outcome.moved as f64 <= allowed, "seed {seed}, {change:?}: {outcome:?}");
            assert!(
                outcome.moved < outcome.by_crush && outcome.exceptions > 0,
                "seed {seed}, {change:?}: {outcome:?}"
            );
            assert!(outcome.beyond <= 1.0, "seed {seed}, {change:?}: {outcome:?}");
            assert!(
                outcome.spread_by_crush > 4.0 * outcome.spread[1],
                "seed {seed}, {change:?}: {outcome:?}"
            );
        }
    }
}

/// Checks that copies of each PG are on different hosts, and that exceptions have their intended effect.
fn check_domains(map: &OsdMap) {
    for (pg, osds) in placements(map) {
        let hosts: BTreeSet<i32> = osds.iter().filter_map(|osd| map.crush.parent_of(osd.0)).collect();
        assert_eq!(hosts.len(), usize::from(map.pools[&1].size), "{pg}: {osds:?}");
    }
}

#[test]
fn a_balanced_map_stays_as_it_is() {
    let mut map = cluster(&mut Rng::from_seed(5), 1024);
    assert!(spread(&map).1 > 5.0);
    rebalance(&mut map, &BTreeMap::new());
    assert!(spread(&map).1 <= 1.0, "{:?}", spread(&map));
    check_domains(&map);
    assert_eq!(balance(&map, &BTreeMap::new(), &all()), []);
    assert_eq!(balance(&map, &placements(&map), &all()), []);
}

#[test]
fn moves_are_limited_and_each_limited_step_helps() {
    let mut map = cluster(&mut Rng::from_seed(6), 512);
    let mut steps = 0;
    loop {
        let changes =
            balance(&map, &BTreeMap::new(), &BalanceOptions { max_moves: 10, ..BalanceOptions::default() });
        assert!(changes.len() <= 10);
        if changes.is_empty() {
            break;
        }
        apply(&mut map, changes);
        steps += 1;
        assert!(steps < 200);
    }
    assert!(steps > 3 && spread(&map).1 <= 1.0, "{steps} steps, {:?}", spread(&map));
}

#[test]
fn erasure_coded_pools_are_balanced_position_by_position() {
    let mut map = cluster(&mut Rng::from_seed(8), 512);
    let mut crush = (*map.crush).clone();
    let rule = crush.create_erasure_rule("coded", "default", "host", None).expect("added") as u8;
    map.crush = std::sync::Arc::new(crush);
    let pool = map.pools.get_mut(&1).expect("the pool");
    (pool.ty, pool.crush_rule, pool.size) = (pool_type::ERASURE, rule, 6);
    let before = placements(&map);
    rebalance(&mut map, &BTreeMap::new());
    assert!(spread(&map).1 <= 1.0, "{:?}", spread(&map));
    check_domains(&map);
    let after = placements(&map);
    let stayed = before.iter().map(|(pg, osds)| osds.iter().zip(&after[pg]).filter(|(a, b)| a == b).count());
    assert!(stayed.sum::<usize>() > 512 * 6 * 3 / 4, "most shards keep their position");
    // After a change, shards stay where they are.
    let mut changed = clusters::change(&mut Rng::from_seed(1), &map, Change::RemoveOsd);
    rebalance(&mut changed, &after);
    assert!(spread(&changed).1 <= 1.0, "{:?}", spread(&changed));
    check_domains(&changed);
}

#[test]
fn two_racks_of_two_hosts_keep_their_form() {
    use crush::Step;
    let mut map = cluster(&mut Rng::from_seed(11), 512);
    let mut crush = (*map.crush).clone();
    let (root, rack, host) = (crush.roots()[0], 3, 1);
    let steps = vec![
        Step::Take(root),
        Step::ChooseFirstn { n: 2, ty: rack },
        Step::ChooseleafFirstn { n: 2, ty: host },
        Step::Emit,
    ];
    let mask = crush::RuleMask { ruleset: 0, ty: 1, min_size: 1, max_size: 10 };
    let rule = crush.add_rule("two-by-two", mask, steps).expect("added") as u8;
    map.crush = std::sync::Arc::new(crush);
    let pool = map.pools.get_mut(&1).expect("the pool");
    (pool.crush_rule, pool.size) = (rule, 4);
    let before = spread(&map).1;
    rebalance(&mut map, &BTreeMap::new());
    assert!(spread(&map).1 < before / 2.0, "{:?} after {before}", spread(&map));
    check_domains(&map);
    for (pg, osds) in placements(&map) {
        let mut racks: BTreeMap<i32, usize> = BTreeMap::new();
        for osd in &osds {
            let rack = map.crush.parent_of(osd.0).and_then(|host| map.crush.parent_of(host)).expect("a rack");
            *racks.entry(rack).or_default() += 1;
        }
        assert!(racks.values().eq([2, 2].iter()), "{pg}: {racks:?}");
    }
}

#[test]
fn osds_that_are_down_or_weigh_nothing_get_nothing() {
    let mut map = cluster(&mut Rng::from_seed(7), 512);
    map.osds[3].state = osd_state::EXISTS;
    map.osds[4].weight = 0;
    let changes = balance(&map, &BTreeMap::new(), &all());
    assert!(!changes.is_empty());
    let to: BTreeSet<OsdId> = changes.iter().flat_map(|c| &c.items).map(|(_, to)| *to).collect();
    assert!(!to.contains(&OsdId(3)) && !to.contains(&OsdId(4)), "{to:?}");
    let shares = Shares::new(&map, &map.pools[&1]).expect("shares");
    assert_eq!(shares.of(OsdId(4)), 0.0);
    let sum: f64 = shares.osds().map(|osd| shares.of(osd)).sum();
    assert!((sum - 512.0 * 3.0).abs() < 1e-6, "{sum}");
}

#[test]
fn a_pool_looked_at_in_parts_comes_to_the_same() {
    let map = cluster(&mut Rng::from_seed(3), 512);
    let options = BalanceOptions { max_moves: 20, ..BalanceOptions::default() };
    let mut parts = PoolBalance::new(std::sync::Arc::new(map.clone()), 1).expect("a pool");
    let looks = (1..).take_while(|_| parts.look(100) == 0).count();
    assert_eq!((looks, parts.idle()), (5, Vec::new()));
    assert_eq!(parts.moves(&options), balance(&map, &BTreeMap::new(), &options));
    assert!(PoolBalance::new(std::sync::Arc::new(map), 2).is_none());
}

#[test]
fn thinking_has_an_end_where_nothing_helps() {
    let mut map = cluster(&mut Rng::from_seed(13), 256);
    let options = BalanceOptions { effort: 50, ..BalanceOptions::default() };
    let some = balance(&map, &BTreeMap::new(), &options);
    assert!(some.len() <= 50 && some.len() < balance(&map, &BTreeMap::new(), &all()).len());
    // Two failure domains for three copies: CRUSH leaves a place empty, which no exception can fill.
    map.pools.get_mut(&1).expect("the pool").size = 30;
    let mut parts = PoolBalance::new(std::sync::Arc::new(map), 1).expect("a pool");
    assert!(parts.look(1000) > 0);
    assert_eq!(parts.moves(&all()), []);
}
