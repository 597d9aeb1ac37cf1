//! Changes to the hierarchy of a CRUSH map: straw2 buckets only, weights kept consistent up to the roots.

use crush::{Bucket, BucketData, CrushMap, Rule, RuleMask, Step};
use std::collections::BTreeMap;

/// The types of a new map, by number; Ceph's.
const TYPES: [&str; 12] =
    ["osd", "host", "chassis", "rack", "row", "pdu", "pod", "room", "datacenter", "zone", "region", "root"];
/// Type number of roots.
const ROOT: u16 = 11;
/// Slots of buckets in a new map; doubled when they are used up.
const FIRST_SLOTS: usize = 8;

/// The map of a new cluster: root `default` and rule `replicated_rule`, which spreads copies over buckets of type
/// `failure_domain` (0 for OSDs).
pub fn initial(failure_domain: u16) -> CrushMap {
    let mut map = CrushMap::default();
    map.types = (0..).zip(TYPES.map(str::to_owned)).collect();
    map.buckets = vec![None; FIRST_SLOTS];
    let root = add_bucket(&mut map, "default", ROOT);
    let ty = i32::from(failure_domain);
    let choose = if ty == 0 { Step::ChooseFirstn { n: 0, ty } } else { Step::ChooseleafFirstn { n: 0, ty } };
    map.rules.push(Some(Rule {
        mask: RuleMask { ruleset: 0, ty: maps::pool_type::REPLICATED, min_size: 1, max_size: 10 },
        steps: vec![Step::Take(root), choose, Step::Emit],
    }));
    map.rule_names.insert(0, "replicated_rule".into());
    map
}

/// A new empty bucket.
fn add_bucket(map: &mut CrushMap, name: &str, ty: u16) -> i32 {
    let slot = map.buckets.iter().position(Option::is_none).unwrap_or(map.buckets.len());
    if slot == map.buckets.len() {
        map.buckets.resize((slot * 2).max(FIRST_SLOTS), None);
    }
    let id = -1 - slot as i32;
    map.buckets[slot] = Some(Bucket::straw2(id, ty));
    map.names.insert(id, name.to_owned());
    id
}

/// The bucket that holds an item.
pub fn parent(map: &CrushMap, item: i32) -> Option<i32> {
    map.buckets.iter().flatten().find(|b| b.items.contains(&item)).map(|b| b.id)
}

/// Where an item is: type name to bucket name, from its parent up.
pub fn location(map: &CrushMap, item: i32) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut at = item;
    while let Some(up) = parent(map, at) {
        let ty = map.bucket(up).map_or(0, |b| i32::from(b.ty));
        let name = |names: &BTreeMap<i32, String>, id| names.get(&id).cloned().unwrap_or_default();
        out.push((name(&map.types, ty), name(&map.names, up)));
        at = up;
    }
    out
}

/// The weight that an item's parent gives it.
pub fn weight(map: &CrushMap, item: i32) -> Option<u32> {
    let bucket = map.bucket(parent(map, item)?)?;
    bucket.items.iter().position(|i| *i == item).map(|i| bucket.item_weight(i))
}

/// Puts an item with `weight` into the bucket that `location` (type to name) names; buckets that are missing are made.
/// The lowest type is the parent; each further one holds the one below. An item that is elsewhere is moved.
pub fn place(
    map: &mut CrushMap,
    item: i32,
    name: &str,
    weight: u32,
    wanted: &BTreeMap<String, String>,
) -> Result<(), String> {
    let mut path: Vec<(i32, &str)> = Vec::new();
    for (ty, bucket) in wanted {
        let number =
            map.type_of(ty).filter(|n| *n > 0).ok_or_else(|| format!("there is no CRUSH type `{ty}`"))?;
        path.push((number, bucket));
    }
    path.sort_unstable();
    if path.is_empty() {
        return Err("a location needs at least one type=name pair".into());
    }
    remove_from_parent(map, item);
    map.names.insert(item, name.to_owned());
    map.max_devices = map.max_devices.max(item + 1);
    let (mut child, mut child_weight) = (item, weight);
    for (ty, bucket) in path {
        let (id, is_new) = match map.id_of(bucket) {
            Some(id) if map.bucket(id).is_some_and(|b| i32::from(b.ty) == ty) => (id, false),
            Some(_) => return Err(format!("`{bucket}` is not a bucket of the type that was given")),
            None => (add_bucket(map, bucket, ty as u16), true),
        };
        link(map, id, child, child_weight);
        if !is_new && parent(map, id).is_some() {
            return Ok(()); // the rest of the way is there already
        }
        child = id;
        child_weight = map.bucket(id).map_or(0, |b| b.weight);
    }
    Ok(())
}

fn link(map: &mut CrushMap, bucket: i32, item: i32, weight: u32) {
    if map.bucket(bucket).is_some_and(|b| b.items.contains(&item)) {
        return;
    }
    if let Some(b) = map.bucket_mut(bucket) {
        b.items.push(item);
        if let BucketData::Straw2 { item_weights } = &mut b.data {
            item_weights.push(weight);
        }
    }
    settle_weights(map, bucket);
}

/// Sets an item's weight; `false` where it is nowhere.
pub fn set_weight(map: &mut CrushMap, item: i32, weight: u32) -> bool {
    let Some(up) = parent(map, item) else { return false };
    if let Some(b) = map.bucket_mut(up)
        && let Some(i) = b.items.iter().position(|x| *x == item)
        && let BucketData::Straw2 { item_weights } = &mut b.data
    {
        item_weights[i] = weight;
    }
    settle_weights(map, up);
    true
}

/// Makes a bucket's weight the sum of its items', and so on upwards.
fn settle_weights(map: &mut CrushMap, bucket: i32) {
    let Some(b) = map.bucket_mut(bucket) else { return };
    let sum = (0..b.items.len()).fold(0u32, |sum, i| sum.saturating_add(b.item_weight(i)));
    b.weight = sum;
    set_weight(map, bucket, sum);
}

fn remove_from_parent(map: &mut CrushMap, item: i32) {
    let Some(up) = parent(map, item) else { return };
    if let Some(b) = map.bucket_mut(up)
        && let Some(i) = b.items.iter().position(|x| *x == item)
    {
        b.items.remove(i);
        if let BucketData::Straw2 { item_weights } = &mut b.data {
            item_weights.remove(i);
        }
    }
    settle_weights(map, up);
}

/// Forgets a device.
pub fn remove(map: &mut CrushMap, item: i32) {
    remove_from_parent(map, item);
    map.names.remove(&item);
    map.classes.remove(&item);
}

/// Sets a device's class, making the class where it is new.
pub fn set_class(map: &mut CrushMap, item: i32, class: &str) {
    let id = map.class_of(class).unwrap_or_else(|| {
        let id = (0..).find(|i| !map.class_names.contains_key(i)).expect("numbers do not end");
        map.class_names.insert(id, class.to_owned());
        id
    });
    map.classes.insert(item, id);
}

/// The name of a device's class, empty where it has none.
pub fn class(map: &CrushMap, item: i32) -> &str {
    map.classes.get(&item).and_then(|c| map.class_names.get(c)).map_or("", String::as_str)
}

/// Buckets that no bucket holds, shadow buckets left out, ascending from -1.
pub fn roots(map: &CrushMap) -> Vec<i32> {
    let shadow = |id: i32| map.names.get(&id).is_some_and(|n| n.contains('~'));
    map.buckets
        .iter()
        .flatten()
        .map(|b| b.id)
        .filter(|id| parent(map, *id).is_none() && !shadow(*id))
        .collect()
}

/// The devices below an item, in order of number.
pub fn devices(map: &CrushMap, item: i32) -> Vec<i32> {
    if item >= 0 {
        return vec![item];
    }
    let items = map.bucket(item).map(|b| b.items.clone()).unwrap_or_default();
    let mut out: Vec<i32> = items.into_iter().flat_map(|i| devices(map, i)).collect();
    out.sort_unstable();
    out
}

/// The root that a rule takes first.
pub fn rule_root(map: &CrushMap, rule: u32) -> Option<i32> {
    map.rule(rule)?.steps.iter().find_map(|s| if let Step::Take(id) = s { Some(*id) } else { None })
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
            place(
                &mut map,
                osd,
                &format!("osd.{osd}"),
                0x1_0000,
                &at(&[("host", host), ("root", "default")]),
            )
            .expect("fits");
        }
        assert_eq!(map.bucket(-1).expect("root").weight, 0x3_0000);
        assert_eq!(weight(&map, map.id_of("h1").expect("made")), Some(0x2_0000));
        assert_eq!(location(&map, 2), [("host".into(), "h2".into()), ("root".into(), "default".into())]);
        assert_eq!((map.max_devices, roots(&map), devices(&map, -1)), (3, vec![-1], vec![0, 1, 2]));
    }

    #[test]
    fn moving_and_removing_keep_the_sums() {
        let mut map = initial(0);
        place(&mut map, 0, "osd.0", 100, &at(&[("host", "h1"), ("root", "default")])).expect("fits");
        place(&mut map, 0, "osd.0", 70, &at(&[("host", "h2"), ("root", "default")])).expect("fits");
        assert_eq!(weight(&map, map.id_of("h1").expect("stays")), Some(0));
        assert_eq!(map.bucket(-1).expect("root").weight, 70);
        remove(&mut map, 0);
        assert_eq!((map.bucket(-1).expect("root").weight, map.id_of("osd.0")), (0, None));
        assert!(place(&mut map, 1, "osd.1", 1, &at(&[("shelf", "s")])).is_err());
        assert!(place(&mut map, 1, "osd.1", 1, &at(&[("rack", "default")])).is_err(), "default is a root");
    }

    #[test]
    fn grows_beyond_the_first_slots() {
        let mut map = initial(1);
        for i in 0..20 {
            place(
                &mut map,
                i,
                &format!("osd.{i}"),
                1,
                &at(&[("host", &format!("h{i}")), ("root", "default")]),
            )
            .expect("fits");
        }
        assert_eq!(devices(&map, -1).len(), 20);
        assert_eq!(map.bucket(-1).expect("root").weight, 20);
    }

    #[test]
    fn classes_are_numbered_as_they_come() {
        let mut map = initial(1);
        set_class(&mut map, 0, "ssd");
        set_class(&mut map, 1, "hdd");
        set_class(&mut map, 2, "ssd");
        assert_eq!((class(&map, 2), class(&map, 1), class(&map, 9)), ("ssd", "hdd", ""));
        assert_eq!(map.class_names.len(), 2);
    }
}
