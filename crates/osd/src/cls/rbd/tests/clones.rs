//! Parents and children.

use super::{DEEP_FLATTEN, LAYERING, NOSNAP, Object, add_snap, header, put, text, values};
use std::collections::BTreeSet;

fn parent_spec(namespace: &str) -> Vec<u8> {
    values(|w| {
        w.versioned(1, 1, |w| {
            w.put(&(7i64, text(namespace)));
            w.put(&(text("parent"), 4u64));
        });
    })
}

fn attach(o: &mut Object, overlap: u64) -> Result<Vec<u8>, i32> {
    o.call("parent_attach", [parent_spec("ns"), put(overlap)].concat())
}

fn overlap(o: &mut Object, snap: u64) -> Option<u64> {
    o.gives("parent_overlap_get", put(snap))
}

fn no_parent() -> Vec<u8> {
    values(|w| {
        w.versioned(1, 1, |w| {
            w.put(&(-1i64, text("")));
            w.put(&(text(""), NOSNAP));
        });
    })
}

#[test]
fn a_clone_shares_no_more_than_its_size() {
    let mut o = header(LAYERING);
    assert_eq!(o.call("parent_get", vec![]), Ok(no_parent()));
    assert_eq!(attach(&mut o, 0), Err(-22));
    assert_eq!(attach(&mut o, 200_000_000), Ok(vec![]));
    assert_eq!(overlap(&mut o, NOSNAP), Some(100_000_000));
    assert_eq!(attach(&mut o, 5), Err(-17));
    assert_eq!(o.call("parent_get", vec![]), Ok(parent_spec("ns")));
    let stored = values(|w| {
        w.versioned(2, 2, |w| {
            w.put(&(7i64, text("ns")));
            w.put(&(text("parent"), 4u64));
            w.put(&Some(100_000_000u64));
        });
    });
    assert_eq!(o.omap.get(&b"parent"[..]), Some(&stored));
    o.done("set_size", put(10u64));
    o.done("set_size", put(1_000u64));
    assert_eq!(overlap(&mut o, NOSNAP), Some(10));
    assert_eq!(o.call("get_parent", put(NOSNAP)), Err(-18), "it cannot tell the namespace");
    assert_eq!(o.call("remove_parent", vec![]), Err(-18));
    o.done("parent_detach", vec![]);
    assert_eq!(o.call("parent_detach", vec![]), Err(-2));
    assert_eq!(attach(&mut header(0), 5), Err(-8));
    assert_eq!(header(0).call("parent_detach", vec![]), Err(-8));
}

#[test]
fn the_old_methods_know_parents_without_a_namespace() {
    let mut o = header(LAYERING);
    let none = put(((-1i64, text("")), (NOSNAP, 0u64)));
    assert_eq!(o.call("get_parent", put(NOSNAP)), Ok(none.clone()));
    o.done("set_parent", put(((7i64, text("parent")), (4u64, 50u64))));
    assert_eq!(o.call("get_parent", put(NOSNAP)), Ok(put(((7i64, text("parent")), (4u64, 50u64)))));
    add_snap(&mut o, "s", 1).expect("added");
    o.done("set_size", put(20u64));
    assert_eq!(o.call("get_parent", put(1u64)), Ok(put(((7i64, text("parent")), (4u64, 50u64)))));
    o.done("remove_parent", vec![]);
    assert_eq!(o.call("get_parent", put(1u64)), Ok(put(((7i64, text("parent")), (4u64, 50u64)))));
    assert_eq!(o.call("remove_parent", vec![]), Err(-2));
    o.done("snapshot_remove", put(1u64));
    assert_eq!(o.call("get_parent", put(NOSNAP)), Ok(none));
}

#[test]
fn snapshots_stay_clones_unless_they_are_flattened_too() {
    for (features, stays) in [(LAYERING, true), (LAYERING | DEEP_FLATTEN, false)] {
        let mut o = header(features);
        attach(&mut o, 50).expect("attached");
        o.done("op_features_set", put((2u64, 2u64)));
        add_snap(&mut o, "s", 1).expect("added");
        assert_eq!(overlap(&mut o, 1), Some(50));
        o.done("parent_detach", vec![]);
        assert_eq!((overlap(&mut o, NOSNAP), overlap(&mut o, 1)), (None, stays.then_some(50)));
        assert_eq!(o.omap.contains_key(&b"parent"[..]), stays);
        assert_eq!(o.gives::<u64>("op_features_get", vec![]), if stays { 2 } else { 0 });
        o.done("snapshot_remove", put(1u64));
        assert!(!o.omap.contains_key(&b"parent"[..]));
        assert_eq!(o.gives::<u64>("op_features_get", vec![]), 0);
    }
}

fn child(image: &str) -> Vec<u8> {
    values(|w| {
        w.versioned(2, 1, |w| {
            w.put(&(3i64, text(image)));
            w.put(&text(""));
        });
    })
}

#[test]
fn a_snapshot_knows_its_clones() {
    let mut o = header(LAYERING);
    add_snap(&mut o, "s", 5).expect("added");
    let of = |id: u64, image: &str| [put(id), child(image)].concat();
    assert_eq!(o.call("children_list", put(5u64)), Err(-2));
    assert_eq!(o.call("child_attach", of(6, "a")), Err(-2));
    o.done("child_attach", of(5, "b"));
    o.done("child_attach", of(5, "a"));
    assert_eq!(o.call("child_attach", of(5, "a")), Err(-17));
    assert_eq!(o.call("children_list", put(5u64)), Ok([put(2u32), child("a"), child("b")].concat()));
    assert_eq!(o.gives::<u64>("op_features_get", vec![]), 1);
    assert_eq!(o.call("snapshot_remove", put(5u64)), Err(-16));
    o.done("child_detach", of(5, "a"));
    assert_eq!(o.call("child_detach", of(5, "a")), Err(-2));
    o.done("snapshot_trash_add", put(5u64));
    assert_eq!(o.call("child_attach", of(5, "c")), Err(-2), "it is in the trash");
    o.done("child_detach", of(5, "b"));
    assert_eq!(o.gives::<u64>("op_features_get", vec![]), 8);
    o.done("snapshot_remove", put(5u64));
    let keys: Vec<_> = o.omap.keys().filter(|key| key.starts_with(b"snap_children_")).collect();
    assert!(keys.is_empty(), "{keys:?}");
}

#[test]
fn old_clones_are_listed_by_their_parent() {
    let mut o = Object::default();
    let parent = put(((7u64, text("p")), 4u64));
    let with = |child: &str| [parent.clone(), put(text(child))].concat();
    assert_eq!(o.call("get_children", parent.clone()), Err(-2));
    o.done("add_child", with("b"));
    o.done("add_child", with("a"));
    assert_eq!(o.call("add_child", with("a")), Err(-17));
    let both = BTreeSet::from([text("a"), text("b")]);
    assert_eq!(o.gives::<BTreeSet<Vec<u8>>>("get_children", parent.clone()), both);
    assert_eq!(o.omap.keys().collect::<Vec<_>>(), [&parent]);
    o.done("remove_child", with("a"));
    assert_eq!(o.call("remove_child", with("a")), Err(-2));
    o.done("remove_child", with("b"));
    assert_eq!((o.call("get_children", parent), o.omap.len()), (Err(-2), 0));
}
