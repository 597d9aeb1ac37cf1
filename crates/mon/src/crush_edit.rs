//! The monitor's operations on the CRUSH map: the first map, locations of items, placement of devices. The
//! changes themselves are implemented in `crush`, which keeps sums of weights, shadow trees of device classes
//! and weight sets consistent.

use crush::{CrushError, CrushMap};
use std::collections::BTreeMap;

/// The map of a new cluster: root `default` and rule `replicated_rule`, which spreads copies over buckets of
/// type `failure_domain` (0 for OSDs).
pub fn initial(failure_domain: u16) -> CrushMap {
    let mut map = CrushMap::new_default_types();
    map.add_bucket("default", "root").expect("an empty map has room");
    let domain = map.types.get(&i32::from(failure_domain)).cloned().unwrap_or_else(|| "host".into());
    map.create_replicated_rule("replicated_rule", "default", &domain, None).expect("its root was made");
    map
}

/// The location of an item: pairs of type name and bucket name, from its parent up.
pub fn location(map: &CrushMap, item: i32) -> Vec<(String, String)> {
    let mut out = map.location(item);
    out.reverse();
    out
}

/// The weight that an item's parent gives it.
pub fn weight(map: &CrushMap, item: i32) -> Option<u32> {
    map.parent_of(item).map(|_| map.weight_of(item))
}

/// Puts a device with `weight` at `location` (type to name), creating missing buckets. If the device is
/// elsewhere, it is moved.
pub fn place(
    map: &mut CrushMap,
    item: i32,
    weight: u32,
    wanted: &BTreeMap<String, String>,
) -> Result<(), CrushError> {
    let pairs: Vec<(&str, &str)> = wanted.iter().map(|(t, n)| (t.as_str(), n.as_str())).collect();
    map.place(item, weight, &pairs)
}

/// Device class of an item; empty if it has none.
pub fn class(map: &CrushMap, item: i32) -> &str {
    map.class_name_of(item).unwrap_or_default()
}

/// The devices below an item, in order of number.
pub fn devices(map: &CrushMap, item: i32) -> Vec<i32> {
    map.devices_below(item).into_keys().collect()
}

/// The root that a rule takes first.
pub fn rule_root(map: &CrushMap, rule: u32) -> Option<i32> {
    map.rule(rule)?.steps.iter().find_map(|s| if let crush::Step::Take(id) = s { Some(*id) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(t, n)| ((*t).to_owned(), (*n).to_owned())).collect()
    }

    #[test]
    fn placing_makes_missing_buckets_and_sums_weights() {
        let mut map = initial(1);
        for osd in 0..3 {
            let host = if osd < 2 { "h1" } else { "h2" };
            place(&mut map, osd, 0x1_0000, &at(&[("host", host), ("root", "default")])).expect("fits");
        }
        assert_eq!(map.bucket(-1).expect("root").weight, 0x3_0000);
        assert_eq!(weight(&map, map.id_of("h1").expect("made")), Some(0x2_0000));
        assert_eq!(location(&map, 2), [("host".into(), "h2".into()), ("root".into(), "default".into())]);
        assert_eq!((map.max_devices, map.roots(), devices(&map, -1)), (3, vec![-1], vec![0, 1, 2]));
    }

    #[test]
    fn moving_and_removing_keep_the_sums() {
        let mut map = initial(0);
        place(&mut map, 0, 100, &at(&[("host", "h1"), ("root", "default")])).expect("fits");
        place(&mut map, 0, 70, &at(&[("host", "h2"), ("root", "default")])).expect("fits");
        assert_eq!(weight(&map, map.id_of("h1").expect("stays")), Some(0));
        assert_eq!(map.bucket(-1).expect("root").weight, 70);
        map.remove(0).expect("is there");
        assert_eq!((map.bucket(-1).expect("root").weight, map.id_of("osd.0")), (0, None));
        assert!(place(&mut map, 1, 1, &at(&[("shelf", "s")])).is_err());
    }

    #[test]
    fn grows_beyond_the_first_slots() {
        let mut map = initial(1);
        for i in 0..20 {
            place(&mut map, i, 1, &at(&[("host", &format!("h{i}")), ("root", "default")])).expect("fits");
        }
        assert_eq!(devices(&map, -1).len(), 20);
        assert_eq!(map.bucket(-1).expect("root").weight, 20);
    }
}
