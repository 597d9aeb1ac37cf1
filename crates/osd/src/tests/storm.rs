//! Random failures: whatever happens, each append that was acknowledged is there exactly once, in its place,
//! on all replicas.

use super::cluster::{Cluster, POOL, append};
use maps::Epoch;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Rng;

const SEEDS: u64 = 24;
const OBJECTS: u64 = 6;

/// What the monitors do meanwhile.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    Nothing,
    Splits,
    /// PGs get other OSDs.
    Moves,
    /// PGs split and are merged again.
    Merges,
}

/// Whether PGs were merged.
fn storm(seed: u64, change: Change) -> bool {
    let mut rng = Rng::from_seed(seed);
    let osds = if change == Change::Moves { 5 } else { 3 };
    let mut c = Cluster::new(osds, 3, 2, 2);
    for from in (0..osds).chain([100, 101]) {
        for to in (0..osds).chain([100, 101]) {
            c.latency.insert((from, to), rng.range(200_000, 4_000_000));
        }
    }
    c.rescue = true;
    if change == Change::Merges {
        // All in one place.
        c.set_pg_num(4, 1);
        c.tends_merges = true;
    }
    if rng.chance(1, 2) {
        // Short logs: copies soon have to be compared object by object.
        (c.options.log_entries, c.options.log_entries_total) = ((4, 4), 4);
    }
    let mut model: BTreeMap<String, String> = BTreeMap::new();
    for step in 0..40 {
        let (name, text) = (format!("o{}", rng.below(OBJECTS)), format!("{step},"));
        let tid = 10_000 + step;
        let (alive, _) = c.alive();
        if let Some(primary) = c.acting(&name).first().filter(|p| alive.contains(p)) {
            c.send_op(*primary, Some(tid), &name, vec![append(&text)]);
        }
        c.run(Duration::from_micros(rng.below(9_000)));
        misfortune(&mut c, &mut rng);
        match change {
            Change::Splits if c.pg_num() < 12 && rng.chance(1, 10) => {
                let pg_num = c.pg_num() + rng.range(1, 4) as u32;
                let places = if rng.chance(1, 2) { pg_num } else { 2 };
                c.set_pg_num(pg_num, places);
            }
            Change::Merges
                if c.pg_num() < 6 && rng.chance(1, 12) && c.map.pools[&POOL].pg_num_pending == c.pg_num() =>
            {
                let pg_num = c.pg_num() + rng.range(1, 4) as u32;
                c.set_pg_num(pg_num, 1);
            }
            Change::Merges if c.pg_num() > 1 && rng.chance(1, 4) => c.try_merge(),
            Change::Moves if rng.chance(1, 6) => {
                let mut homes: Vec<usize> = (0..osds).collect();
                rng.shuffle(&mut homes);
                let name = format!("o{}", rng.below(OBJECTS));
                c.place(c.pgid(&name), &homes[..3]);
            }
            _ => {}
        }
        c.run(Duration::from_micros(rng.below(3_000)));
        while c.alive().0.len() < osds - 1 {
            let (_, dead) = c.alive();
            c.start(*rng.pick(&dead));
        }
        let reply = c.finish(tid, &name, vec![append(&text)]);
        assert_eq!(reply.result, 0, "seed {seed} step {step}");
        model.entry(name).or_default().push_str(&text);
    }
    for osd in c.alive().1 {
        c.start(osd);
    }
    c.run(Duration::from_secs(1));
    for (name, content) in &model {
        assert_eq!(c.read(name).as_ref(), Ok(content), "seed {seed} {name}");
    }
    // Found again when its holder came back.
    c.complaints.retain(|text| !text.contains("object_unfound"));
    c.check();
    c.map.pools[&POOL].last_pg_merge_meta.ready_epoch != Epoch(0)
}

pub fn misfortune(c: &mut Cluster, rng: &mut Rng) {
    let (alive, dead) = c.alive();
    match rng.below(10) {
        0 | 1 => c.kill(*rng.pick(&alive)),
        2 | 3 if !dead.is_empty() => c.start(*rng.pick(&dead)),
        4 => c.break_links(*rng.pick(&alive), *rng.pick(&alive)),
        5 if rng.chance(1, 3) => {
            alive.iter().for_each(|osd| c.kill(*osd));
            c.run(Duration::from_millis(rng.below(50)));
            c.alive().1.iter().for_each(|osd| c.start(*osd));
        }
        // The monitor is wrong about one that lives.
        6 if rng.chance(1, 3) => c.mark_down(*rng.pick(&alive), false),
        _ => {}
    }
}

fn seeds() -> std::ops::Range<u64> {
    let only = std::env::var("OSD_SEED").ok().and_then(|s| s.parse().ok());
    let many = std::env::var("OSD_SEEDS").ok().and_then(|s| s.parse().ok());
    only.map_or(0..many.unwrap_or(SEEDS), |s: u64| s..s + 1)
}

#[test]
fn acknowledged_appends_survive_any_order_of_failures() {
    seeds().for_each(|seed| assert!(!storm(seed, Change::Nothing)));
}

#[test]
fn acknowledged_appends_survive_failures_while_pgs_split() {
    seeds().for_each(|seed| assert!(!storm(seed, Change::Splits)));
}

#[test]
fn acknowledged_appends_survive_failures_while_pgs_are_merged() {
    let (merged, all) = (seeds().filter(|seed| storm(*seed, Change::Merges)).count(), seeds().count());
    assert!(merged > all / 2, "in {merged} of {all}");
}

#[test]
fn acknowledged_appends_survive_failures_while_pgs_move() {
    seeds().for_each(|seed| assert!(!storm(seed, Change::Moves)));
}
