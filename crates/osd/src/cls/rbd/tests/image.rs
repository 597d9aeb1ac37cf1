//! The header of an image.

use super::{DEEP_FLATTEN, LAYERING, NOSNAP, NOW, Object, add_snap, header, put, text, values};
use std::collections::BTreeMap;
use wire::Utime;

const STRIPING: u64 = 1 << 1;
const OBJECT_MAP: u64 = 1 << 3;
const DATA_POOL: u64 = 1 << 7;
const OPERATIONS: u64 = 1 << 8;

fn create(features: u64, prefix: &str, data_pool: Option<i64>) -> Result<Vec<u8>, i32> {
    let input = values(|w| {
        w.put(&10u64);
        w.put(&22u8);
        w.put(&features);
        w.put(&text(prefix));
        data_pool.iter().for_each(|pool| w.put(pool));
    });
    Object::default().call("create", input)
}

#[test]
fn a_header_is_created_once_with_features_that_are_known() {
    assert_eq!(create(LAYERING, "p", None), Ok(vec![]));
    assert_eq!(create(1 << 12, "p", None), Err(-38));
    assert_eq!(create(LAYERING, "", None), Err(-22));
    assert_eq!(create(OPERATIONS, "p", None), Err(-22));
    assert_eq!(create(DATA_POOL, "p", None), Err(-22));
    assert_eq!(create(LAYERING, "p", Some(3)), Err(-22));
    assert_eq!(create(DATA_POOL, "p", Some(3)), Ok(vec![]));
    let mut o = header(LAYERING);
    let again = values(|w| {
        w.put(&((1u64, 22u8), (0u64, text("p"))));
    });
    assert_eq!(o.call("create", again), Err(-17));
    assert_eq!(o.gives::<Vec<u8>>("get_object_prefix", vec![]), text("rbd_data.1"));
    assert_eq!(o.gives::<i64>("get_data_pool", vec![]), -1);
    assert_eq!(o.value::<u64>("snap_seq"), Some(0));
    for method in ["get_create_timestamp", "get_access_timestamp", "get_modify_timestamp"] {
        assert_eq!(o.gives::<Utime>(method, vec![]), Utime { sec: NOW as u32, nsec: 0 });
    }
}

#[test]
fn sizes_are_of_the_image_or_of_a_snapshot() {
    let mut o = header(LAYERING);
    assert_eq!(o.gives::<(u8, u64)>("get_size", put(NOSNAP)), (22, 100_000_000));
    add_snap(&mut o, "s", 4).expect("added");
    o.done("set_size", put(5u64));
    assert_eq!(o.gives::<(u8, u64)>("get_size", put(NOSNAP)), (22, 5));
    assert_eq!(o.gives::<(u8, u64)>("get_size", put(4u64)), (22, 100_000_000));
    assert_eq!(o.call("get_size", put(5u64)), Err(-2));
    assert_eq!(Object::default().call("get_size", put(NOSNAP)), Err(-2));
    assert_eq!(Object::default().call("set_size", put(1u64)), Err(-2));
}

#[test]
fn features_that_a_client_must_know_are_named() {
    let mut o = header(LAYERING | OBJECT_MAP | DEEP_FLATTEN);
    let all = LAYERING | OBJECT_MAP | DEEP_FLATTEN;
    assert_eq!(o.gives::<(u64, u64)>("get_features", put(NOSNAP)), (all, all));
    assert_eq!(o.gives::<(u64, u64)>("get_features", put((NOSNAP, true))), (all, LAYERING));
    let mut set = |new: u64, mask: u64| o.call("set_features", put((new, mask)));
    assert_eq!(set(0, OBJECT_MAP), Ok(vec![]));
    assert_eq!(set(0, DEEP_FLATTEN), Ok(vec![]));
    assert_eq!(set(DEEP_FLATTEN, DEEP_FLATTEN), Err(-22), "it can only be disabled");
    assert_eq!(set(0, LAYERING), Err(-22));
    assert_eq!(set(OPERATIONS, OPERATIONS), Err(-22));
    assert_eq!(set(1 << 40, 1 << 40), Ok(vec![]), "unknown ones are ignored");
    assert_eq!(o.value::<u64>("features"), Some(LAYERING));
    assert_eq!(o.gives::<u64>("get_all_features", vec![]), 0xfff);
}

#[test]
fn operation_features_show_in_the_features() {
    let mut o = header(LAYERING);
    assert_eq!(o.gives::<u64>("op_features_get", vec![]), 0);
    o.done("op_features_set", put((5u64, 5u64)));
    assert_eq!(
        (o.value::<u64>("features"), o.value::<u64>("op_features")),
        (Some(LAYERING | OPERATIONS), Some(5))
    );
    o.done("op_features_set", put((0u64, 15u64)));
    assert_eq!(
        (o.value::<u64>("features"), o.omap.contains_key(&b"op_features"[..])),
        (Some(LAYERING), false)
    );
    assert_eq!(o.call("op_features_set", put((16u64, 16u64))), Err(-22));
}

#[test]
fn flags_are_of_the_image_and_of_each_snapshot() {
    let mut o = header(LAYERING);
    o.done("set_flags", put((3u64, 1u64)));
    add_snap(&mut o, "s", 2).expect("added");
    o.done("set_flags", put((2u64, (2u64, 2u64))));
    assert_eq!(o.gives::<u64>("get_flags", put(NOSNAP)), 1);
    assert_eq!(o.gives::<u64>("get_flags", put(2u64)), 3);
    assert_eq!(o.call("get_flags", put(9u64)), Err(-2));
}

#[test]
fn stripes_fit_into_objects() {
    let mut o = header(STRIPING);
    assert_eq!(o.gives::<(u64, u64)>("get_stripe_unit_count", vec![]), (1 << 22, 1));
    assert_eq!(o.call("set_stripe_unit_count", put((3u64, 2u64))), Err(-22));
    assert_eq!(o.call("set_stripe_unit_count", put((0u64, 2u64))), Err(-22));
    o.done("set_stripe_unit_count", put((65_536u64, 4u64)));
    assert_eq!(o.gives::<(u64, u64)>("get_stripe_unit_count", vec![]), (65_536, 4));
    assert_eq!(header(LAYERING).call("get_stripe_unit_count", vec![]), Err(-8));
}

#[test]
fn metadata_are_listed_in_pages() {
    let mut o = header(LAYERING);
    let pairs: BTreeMap<Vec<u8>, Vec<u8>> =
        (0..70).map(|i| (text(&format!("k{i:02}")), text(&i.to_string()))).collect();
    o.done("metadata_set", put(&pairs));
    let list = |o: &mut Object, after: &str, max: u64| {
        o.gives::<BTreeMap<Vec<u8>, Vec<u8>>>("metadata_list", put((text(after), max)))
    };
    assert_eq!(list(&mut o, "", 0).len(), 64);
    assert_eq!(list(&mut o, "k63", 100).into_keys().next(), Some(text("k64")));
    assert_eq!(list(&mut o, "", 2).len(), 2);
    assert_eq!(o.gives::<Vec<u8>>("metadata_get", put(text("k07"))), text("7"));
    o.done("metadata_remove", put(text("k07")));
    assert_eq!(o.call("metadata_get", put(text("k07"))), Err(-2));
    assert_eq!(Object::default().call("metadata_remove", put(text("k"))), Err(-2));
}

#[test]
fn a_migration_shows_in_the_features_until_it_is_removed() {
    let spec = |end: u8| {
        values(|w| {
            w.versioned(2, 1, |w| {
                w.put(&(end, 7i64));
                w.put(&((text("ns"), text("image")), text("id")));
                w.put(&(BTreeMap::from([(1u64, 2u64)]), 100u64));
                w.put(&((true, false), (2u8, text("why"))));
                w.put(&0u8);
            });
        })
    };
    let mut o = header(LAYERING);
    assert_eq!(o.call("migration_get", vec![]), Err(-22));
    o.done("migration_set", spec(1));
    assert_eq!(o.value::<u64>("features"), Some(LAYERING | 1 << 9));
    assert_eq!(o.call("migration_set", spec(1)), Err(-17));
    assert_eq!(o.call("migration_get", vec![]), Ok(spec(1)));
    o.done("migration_set_state", put((4u8, text("why"))));
    assert_eq!(o.call("migration_get", vec![]).map(|spec| spec[spec.len() - 9]), Ok(4));
    o.done("migration_remove", vec![]);
    assert_eq!((o.value::<u64>("features"), o.omap.contains_key(&b"migration"[..])), (Some(LAYERING), false));
}
