//! The builder: real maps made again, invariants under random changes, damaged bytes.

use crush::*;
use stdx::Rng;
use wire::{Reader, Writer};

fn decode(bytes: &[u8]) -> CrushMap {
    let mut r = Reader::new(bytes);
    let map = r.get().expect("decodes");
    r.finish().expect("nothing is left");
    map
}

#[test]
fn real_maps_re_encode_to_the_same_bytes() {
    for bytes in [&include_bytes!("data/default.crush")[..], include_bytes!("data/weight_set.crush")] {
        assert_eq!(Writer::encode(&decode(bytes)), bytes);
    }
}

#[test]
fn the_same_steps_make_the_same_map_as_a_real_monitor() {
    let real = decode(include_bytes!("data/default.crush"));
    let mut map = CrushMap::new_default_types();
    map.add_bucket("default", "root").expect("added");
    map.create_replicated_rule("replicated_rule", "default", "osd", None).expect("added");
    for osd in 0..3 {
        map.set_class(osd, Some("hdd")).expect("classed");
        map.place(osd, real.weight_of(osd), &[("host", "vm"), ("root", "default")]).expect("placed");
    }
    assert_eq!(map, real);
    assert_eq!(Writer::encode(&map), include_bytes!("data/default.crush"));
    let location = [("root", "default"), ("host", "vm")].map(|(t, n)| (t.to_owned(), n.to_owned()));
    assert_eq!(map.location(1), location);
}

/// Sums of weights, parents, shadow trees.
fn check(map: &CrushMap) {
    for bucket in map.buckets.iter().flatten() {
        let sum: u32 = (0..bucket.items.len()).map(|at| bucket.item_weight(at)).sum();
        assert_eq!(bucket.weight, sum, "{}", map.name(bucket.id));
        for (at, item) in bucket.items.iter().enumerate() {
            if let Some(child) = map.bucket(*item) {
                assert_eq!(child.weight, bucket.item_weight(at), "{}", map.name(*item));
                assert_eq!(map.is_shadow(child.id), map.is_shadow(bucket.id));
            } else if map.is_shadow(bucket.id) {
                assert_eq!(map.classes.get(item), map.classes.get(&bucket.id), "osd.{item}");
            }
        }
    }
    for root in map.roots() {
        let all = map.devices_below(root);
        for (class, shadow) in &map.class_buckets[&root] {
            let of_class = all.iter().filter(|(osd, _)| map.classes.get(osd) == Some(class));
            assert!(of_class.eq(&map.devices_below(*shadow)));
        }
    }
    assert_eq!(decode(&Writer::encode(map)), *map);
}

#[test]
fn random_changes_keep_the_map_whole() {
    let mut rng = Rng::from_seed(3);
    let mut map = CrushMap::new_default_types();
    map.add_bucket("default", "root").expect("added");
    map.add_bucket("other", "root").expect("added");
    map.set_class(0, Some("hdd")).expect("classed");
    map.create_replicated_rule("hdd", "default", "host", Some("hdd")).expect("added");
    let take = map.rules[0].clone();
    let (mut changed, mut refused) = (0, 0);
    for _ in 0..1500 {
        let osd = rng.below(12) as i32;
        let bucket = *rng.pick(&map.buckets.iter().flatten().map(|b| b.id).collect::<Vec<_>>());
        let weight = rng.below(0x4_0000) as u32;
        let (host, rack) = (format!("h{}", rng.below(4)), format!("r{}", rng.below(3)));
        let root = *rng.pick(&["default", "other"]);
        let class = *rng.pick(&[Some("hdd"), Some("ssd"), None]);
        let mut next = map.clone();
        let result = match rng.below(7) {
            0 => next.place(osd, weight, &[("host", &host), ("rack", &rack), ("root", root)]),
            1 => next.place(osd, weight, &[("root", root), ("host", &host)]),
            2 => next.set_class(osd, class),
            3 => next.remove(if rng.chance(1, 2) { osd } else { bucket }),
            4 => next.reweight(osd, weight),
            5 => next.move_item(if rng.chance(1, 2) { osd } else { -1 - rng.below(9) as i32 }, bucket),
            _ => next.move_to(bucket, &[("root", root)]),
        };
        match result {
            Ok(()) => (map, changed) = (next, changed + 1),
            Err(_) => refused += 1,
        }
        check(&map);
    }
    assert!(changed > 500 && refused > 100, "{changed} changes, {refused} refused");
    assert_eq!(map.rules[0], take, "the shadow that a rule starts from keeps its id");
    assert!(map.id_of("default~hdd").is_some());
}

#[test]
fn names_loops_and_what_is_in_use_are_refused() {
    let mut map = CrushMap::new_default_types();
    let root = map.add_bucket("default", "root").expect("added");
    map.place(0, WEIGHT_ONE, &[("host", "a"), ("root", "default")]).expect("placed");
    let host = map.id_of("a").expect("made");
    map.create_replicated_rule("r", "default", "host", None).expect("added");
    assert_eq!(map.add_bucket("a", "host"), Err(CrushError::Exists("a".into())));
    assert_eq!(map.add_bucket("x~y", "host"), Err(CrushError::BadName("x~y".into())));
    assert_eq!(map.add_bucket("b", "shelf"), Err(CrushError::NoType("shelf".into())));
    assert_eq!(map.move_item(root, host), Err(CrushError::Loop("default".into())));
    assert_eq!(map.remove(host), Err(CrushError::InUse("a".into())));
    assert_eq!(
        map.create_replicated_rule("s", "default", "host", Some("ssd")),
        Err(CrushError::NoClass("ssd".into()))
    );
    map.remove(0).expect("removed");
    map.remove(host).expect("removed");
    assert_eq!(map.remove(root), Err(CrushError::InUse("default".into())), "a rule starts from it");
    assert_eq!(map.rule_shares(0).len(), 0);
}

#[test]
fn damaged_bytes_never_panic() {
    let mut rng = Rng::from_seed(9);
    let whole = include_bytes!("data/weight_set.crush");
    let mut decoded = 0;
    for cut in 0..whole.len() {
        let _ = Reader::new(&whole[..cut]).get::<CrushMap>();
    }
    for _ in 0..3000 {
        let mut bytes = whole.to_vec();
        for _ in 0..rng.range(1, 4) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.u32() as u8;
        }
        if let Ok(mut map) = Reader::new(&bytes).get::<CrushMap>() {
            decoded += 1;
            // The mapper makes as many tries as the map asks for; a damaged number would only take long.
            let few = |n: &mut u32| *n = (*n).min(5);
            few(&mut map.tunables.choose_total_tries);
            few(&mut map.tunables.choose_local_tries);
            few(&mut map.tunables.choose_local_fallback_tries);
            for step in map.rules.iter_mut().flatten().flat_map(|rule| &mut rule.steps) {
                if (8..=11).contains(&step.parts().0) {
                    *step = Step::Noop;
                }
            }
            for rule in 0..3 {
                let out = map.do_rule(rule, rng.u32(), 4, &[WEIGHT_ONE; 4], map.choose_args_for(1));
                assert!(out.len() <= 4);
            }
        }
    }
    assert!(decoded > 100, "{decoded}");
}

#[test]
fn a_bucket_that_contains_itself_is_refused() {
    let mut map = CrushMap::new_default_types();
    map.add_bucket("default", "root").expect("added");
    map.place(0, WEIGHT_ONE, &[("host", "a"), ("root", "default")]).expect("placed");
    let bucket = map.bucket_mut(-2).expect("the host");
    bucket.items[0] = -1;
    let error = Reader::new(&Writer::encode(&map)).get::<CrushMap>().expect_err("refused");
    assert!(error.what.contains("contains itself"), "{error}");
}
