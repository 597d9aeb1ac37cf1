//! Placement against osdmaptool of Ceph 16.2: exceptions, affinities, OSDs that are down or out, holes.
//! `NACRE_OSD_MAPS=200 cargo test -p maps --test placement` checks that many random maps (`OsdMap::sample`).

use maps::*;
use std::collections::BTreeMap;
use std::process::Command;
use stdx::Rng;
use wire::{Reader, Sample, Utime, Writer};

/// A map of 12 OSDs on 4 hosts with one replicated and one erasure-coded pool, with exceptions at random.
fn map(rng: &mut Rng) -> OsdMap {
    let mut crush = crush::CrushMap::new_default_types();
    crush.add_bucket("default", "root").expect("added");
    let mut map = OsdMap { epoch: Epoch(9), pool_max: 2, ..OsdMap::default() };
    for osd in 0..12 {
        let host = format!("h{}", osd % 4);
        crush.set_class(osd, Some(if osd < 8 { "hdd" } else { "ssd" })).expect("classed");
        let weight = rng.range(0x8000, 0x2_0000) as u32;
        crush.place(osd, weight, &[("host", &host), ("root", "default")]).expect("placed");
        let addr = |port| wire::EntityAddr::msgr2(([127, 0, 0, 1], port).into(), 7).into();
        let mut entry =
            OsdEntry { client_addrs: addr(6800), cluster_addrs: addr(6801), ..OsdEntry::default() };
        entry.state = osd_state::EXISTS | if rng.chance(1, 6) { 0 } else { osd_state::UP };
        entry.weight = if rng.chance(1, 6) { rng.below(3) as u32 * 0x6000 } else { WEIGHT_IN };
        map.osds.push(entry);
        map.primary_affinity.push(if rng.chance(1, 3) {
            rng.below(0x1_0000) as u32
        } else {
            AFFINITY_DEFAULT
        });
    }
    crush.create_replicated_rule("replicated", "default", "host", None).expect("added");
    crush.create_erasure_rule("coded", "default", "osd", Some("hdd")).expect("added");
    map.crush = std::sync::Arc::new(crush);
    let now = Utime { sec: 1_700_000_000, nsec: 0 };
    map.pools.insert(1, Pool::replicated(3, 2, 0, 48, now));
    let coded = Pool { ty: pool_type::ERASURE, stripe_width: 8192, ..Pool::replicated(4, 3, 1, 33, now) };
    map.pools.insert(2, coded);
    map.pool_names = [(1, "rep".to_owned()), (2, "ec".to_owned())].into();
    let osd = |rng: &mut Rng| OsdId(rng.below(12) as i32);
    for _ in 0..12 {
        let pool = rng.range(1, 3) as i64;
        let pg = PgId::new(pool, rng.below(33) as u32);
        let size = if pool == 1 { 3 } else { 4 };
        let mut all: Vec<OsdId> = (0..12).map(OsdId).collect();
        rng.shuffle(&mut all);
        match rng.below(4) {
            0 => drop(map.pg_temp.insert(pg, all[..size].to_vec())),
            1 => drop(map.primary_temp.insert(pg, osd(rng))),
            2 => drop(map.pg_upmap.insert(pg, all[..size].to_vec())),
            _ => {
                let pairs = (0..3).map(|_| (osd(rng), osd(rng))).collect();
                map.pg_upmap_items.insert(pg, pairs);
            }
        }
    }
    map
}

/// `[1,2,NONE], p1` behind `key (`.
fn parse(line: &str, key: &str) -> (Vec<OsdId>, Option<OsdId>) {
    let id = |text: &str| if text == "NONE" { OsdId::NONE } else { OsdId(text.parse().expect("a number")) };
    let (_, rest) = line.split_once(&format!("{key} ([")).expect("the key");
    let (list, rest) = rest.split_once("], p").expect("a list");
    let (primary, _) = rest.split_once(')').expect("a primary");
    let osds = list.split(',').filter(|t| !t.is_empty()).map(id).collect();
    (osds, Some(id(primary)).filter(|osd| osd.0 >= 0))
}

/// Compares with the output of `osdmaptool --test-map-pgs-dump-all`: `1.0 raw ([1], p1) up ([1], p1) acting
/// ([1], p1)`, and with that of `--test-map-pgs-dump`: `1.0 [1] 1`. Returns the number of PGs.
fn check_with_osdmaptool(what: &str, map: &OsdMap) -> usize {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("map");
    std::fs::write(&file, Writer::encode(map)).expect("written");
    let run = |option: &str| {
        let out = Command::new("osdmaptool").arg(&file).arg(option).output().expect("runs");
        assert!(out.status.success(), "{what}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("text")
    };
    let mut acting = BTreeMap::new();
    for line in run("--test-map-pgs-dump-all").lines().filter(|line| line.contains(" raw ([")) {
        let pg = line.split_whitespace().next().and_then(PgId::parse).expect("a PG");
        let ours = map.pg_up_acting(pg);
        assert_eq!(map.pg_to_raw_osds(pg), parse(line, "raw").0, "{what}: {line}");
        assert_eq!((ours.up, ours.up_primary), parse(line, "up"), "{what}: {line}");
        assert_eq!(
            (&ours.acting, ours.acting_primary),
            (&parse(line, "acting").0, parse(line, "acting").1),
            "{what}: {line}"
        );
        acting.insert(pg, (ours.acting, ours.acting_primary));
    }
    let mut short = 0;
    for line in run("--test-map-pgs-dump").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        if let [pg, osds, primary] = fields[..]
            && let Some(pg) = PgId::parse(pg)
        {
            let list = format!(" acting ({osds}, p{primary})");
            assert_eq!(parse(&list, "acting"), acting[&pg], "{what}: {line}");
            short += 1;
        }
    }
    assert_eq!(short, acting.len(), "{what}");
    check_crush(what, map, &file);
    short
}

/// Ceph, when it has decoded the map, writes the CRUSH map inside as we do.
fn check_crush(what: &str, map: &OsdMap, file: &std::path::Path) {
    let out = file.with_extension("crush");
    let run = Command::new("osdmaptool").arg(file).arg("--export-crush").arg(&out).output().expect("runs");
    assert!(run.status.success(), "{what}: {}", String::from_utf8_lossy(&run.stderr));
    assert!(std::fs::read(out).expect("written") == Writer::encode(&*map.crush), "{what}: another CRUSH map");
}

/// True if Ceph's tools are installed, which is required if `CI` is set.
fn have_osdmaptool() -> bool {
    let installed = Command::new("osdmaptool").arg("--version").output().is_ok();
    assert!(installed || std::env::var_os("CI").is_none(), "osdmaptool is missing: install ceph-base");
    installed
}

#[test]
fn agrees_with_osdmaptool_where_it_is_installed() {
    let mut rng = Rng::from_seed(21);
    for n in 0..6 {
        let map = map(&mut rng);
        if have_osdmaptool() {
            assert_eq!(check_with_osdmaptool(&format!("map {n}"), &map), 81);
        }
    }
}

/// Each map from its own seed, so that one that differs can be made again alone.
#[test]
fn agrees_with_osdmaptool_on_random_maps() {
    let number = |variable: &str, default: u64| {
        std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
    };
    let (maps, first) = (number("NACRE_OSD_MAPS", 12), number("NACRE_OSD_SEED", 1));
    let mut pgs = 0;
    for seed in first..first + maps {
        let map = OsdMap::sample(&mut Rng::from_seed(seed));
        assert_eq!(Reader::new(&Writer::encode(&map)).get::<OsdMap>().as_ref(), Ok(&map), "seed {seed}");
        if have_osdmaptool() {
            let checked = check_with_osdmaptool(&format!("seed {seed}"), &map);
            assert_eq!(checked, map.pools.values().map(|pool| pool.pg_num as usize).sum::<usize>());
            pgs += checked;
        }
    }
    println!("{maps} OSD maps from seed {first}: {pgs} PGs, none differs");
}

#[test]
fn prints_as_osdmaptool_prints_it_where_that_is_installed() {
    let mut map = map(&mut Rng::from_seed(2));
    // EIO is a flag newer than 16.2.
    map.pools.get_mut(&1).expect("a pool").flags = ((1 << 18) - 1) & !pool_flags::EIO;
    // Full and nearly full are flags of pools since Luminous, and not printed.
    let named = osd_flags::NAMES.iter().filter(|(bit, _)| *bit > osd_flags::FULL);
    map.flags = named.clone().map(|(bit, _)| bit).sum();
    map.osds[0].state = (1 << 13) - 1;
    let (flags, states) = (map.pools[&1].flags_string(), map.osds[0].state_names().join(","));
    let map_flags = named.map(|(_, name)| *name).collect::<Vec<_>>().join(",");
    let bytes = Writer::encode(&map);
    assert_eq!(Reader::new(&bytes).get::<OsdMap>(), Ok(map));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("map");
    std::fs::write(&file, &bytes).expect("written");
    if let Ok(out) = Command::new("osdmaptool").arg(&file).arg("--print").output() {
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        for names in [flags, states, map_flags] {
            assert!(text.contains(&names), "no {names} in {text}");
        }
        assert!(text.contains("pool 1 'rep' replicated size 3 min_size 2"), "{text}");
        assert!(
            text.contains("max_osd 12") && text.contains("v2:127.0.0.1:6800/7 v2:127.0.0.1:6801/7"),
            "{text}"
        );
    }
}

#[test]
fn objects_go_where_real_clients_look_for_them() {
    // rados and `ceph osd map` of 16.2 gave these.
    assert_eq!(ceph_str_hash_rjenkins(b"foo"), 0x7fc1_f406);
    assert_eq!(stable_mod(0x7fc1_f406, 8, stable_mod_mask(8)), 6);
    assert_eq!(stable_mod(7, 6, stable_mod_mask(6)), 3);
    let locator = ObjectLocator { key: b"foo".to_vec(), ..ObjectLocator::new(1, "") };
    assert_eq!(locator.hash_of(b"bar"), 0x7fc1_f406);
}
