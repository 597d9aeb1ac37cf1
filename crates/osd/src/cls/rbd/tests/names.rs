//! Directories, the trash, namespaces and groups.

use super::{LAYERING, Object, header, put, text, values};
use std::collections::BTreeMap;
use wire::Utime;

#[test]
fn names_and_ids_belong_together() {
    let mut o = Object::default();
    let pair = |name: &str, id: &str| put((text(name), text(id)));
    o.done("dir_add_image", pair("a", "1"));
    assert_eq!(o.call("dir_add_image", pair("a", "2")), Err(-17));
    assert_eq!(o.call("dir_add_image", pair("b", "1")), Err(-9));
    assert_eq!(o.call("dir_add_image", pair("b", "1-")), Err(-22));
    assert_eq!(o.call("dir_add_image", pair("", "2")), Err(-22));
    o.done("dir_add_image", pair("b", "2"));
    assert_eq!(o.gives::<Vec<u8>>("dir_get_id", put(text("a"))), text("1"));
    assert_eq!(o.gives::<Vec<u8>>("dir_get_name", put(text("2"))), text("b"));
    assert_eq!(o.call("dir_get_id", put(text("c"))), Err(-2));
    let rename = |from: &str, to: &str, id: &str| put((text(from), (text(to), text(id))));
    assert_eq!(o.call("dir_rename_image", rename("a", "b", "1")), Err(-17));
    assert_eq!(o.call("dir_rename_image", rename("a", "c", "2")), Err(-116));
    assert_eq!(o.call("dir_rename_image", rename("x", "c", "1")), Err(-2));
    o.done("dir_rename_image", rename("a", "c", "1"));
    let keys: Vec<_> = o.omap.iter().map(|(k, v)| (k.as_slice(), v.as_slice())).collect();
    let wanted: [(&[u8], &[u8]); 4] = [
        (b"id_1", b"\x01\0\0\0c"),
        (b"id_2", b"\x01\0\0\0b"),
        (b"name_b", b"\x01\0\0\x002"),
        (b"name_c", b"\x01\0\0\x001"),
    ];
    assert_eq!(keys, wanted);
    assert_eq!(o.call("dir_remove_image", pair("c", "2")), Err(-116));
    o.done("dir_remove_image", pair("c", "1"));
    assert_eq!(o.call("dir_remove_image", pair("c", "1")), Err(-2));
}

#[test]
fn a_directory_is_listed_in_pages_of_any_length() {
    let mut o = Object { exists: true, ..Object::default() };
    for i in 0..2_500u32 {
        o.omap.insert(text(&format!("name_{i:04}")), put(text(&format!("i{i}"))));
        o.omap.insert(text(&format!("id_i{i}")), put(text(&format!("{i:04}"))));
    }
    let mut list = |after: &str, max: u64| -> BTreeMap<Vec<u8>, Vec<u8>> {
        o.gives("dir_list", put((text(after), max)))
    };
    assert_eq!(list("", u64::MAX).len(), 2_500);
    assert_eq!(
        list("2497", 9).into_iter().collect::<Vec<_>>(),
        [(text("2498"), text("i2498")), (text("2499"), text("i2499")),]
    );
    assert_eq!((list("", 1_001).len(), list("", 0).len()), (1_001, 0));
    assert_eq!(Object::default().call("dir_list", put((text(""), 1u64))), Err(-2));
}

#[test]
fn only_an_empty_directory_is_closed() {
    let mut o = Object::default();
    assert_eq!(o.call("dir_state_set", put(1u8)), Err(-2));
    o.done("dir_add_image", put((text("a"), text("1"))));
    assert_eq!(o.call("dir_state_assert", put(0u8)), Err(-2));
    o.done("dir_state_set", put(0u8));
    o.done("dir_state_assert", put(0u8));
    assert_eq!(o.call("dir_state_set", put(1u8)), Err(-16));
    assert_eq!(o.call("dir_state_set", put(2u8)), Err(-22));
    o.done("dir_remove_image", put((text("a"), text("1"))));
    o.done("dir_state_set", put(1u8));
    assert_eq!(o.call("dir_state_assert", put(0u8)), Err(-2));
}

#[test]
fn the_id_of_a_name_is_set_once() {
    let mut o = Object::default();
    assert_eq!(o.call("set_id", put(text("1"))), Err(-2));
    o.exists = true;
    assert_eq!(o.call("get_id", vec![]), Err(-2));
    assert_eq!(o.call("set_id", put(text("a b"))), Err(-22));
    o.done("set_id", put(text("1ab")));
    assert_eq!(o.gives::<Vec<u8>>("get_id", vec![]), text("1ab"));
    assert_eq!(o.call("set_id", put(text("2"))), Err(-17));
    o.data = vec![9, 0, 0, 0];
    assert_eq!(o.call("get_id", vec![]), Err(-5));
}

#[test]
fn images_come_and_go_through_the_trash() {
    let spec = |state: u8| {
        values(|w| {
            w.versioned(2, 1, |w| {
                w.put(&(0u8, text("image")));
                w.put(&(Utime { sec: 1, nsec: 0 }, Utime { sec: 2, nsec: 0 }));
                w.put(&state);
            });
        })
    };
    let mut o = Object::default();
    let add = |id: &str| [put(text(id)), spec(0)].concat();
    o.done("trash_add", add("1"));
    assert_eq!(o.call("trash_add", add("1")), Err(-17));
    assert_eq!(o.call("trash_add", add("")), Err(-22));
    o.done("trash_add", add("2"));
    assert_eq!(o.call("trash_get", put(text("1"))), Ok(spec(0)));
    assert_eq!(o.call("trash_get", put(text("3"))), Err(-2));
    let set = |new: u8, expected: u8| put((text("1"), (new, expected)));
    o.done("trash_state_set", set(2, 0));
    o.done("trash_state_set", set(2, 0));
    assert_eq!(o.call("trash_state_set", set(3, 1)), Err(-116));
    let list = [put(1u32), put(text("1")), spec(2)].concat();
    assert_eq!(o.call("trash_list", put((text(""), 1u64))), Ok(list));
    o.done("trash_remove", put(text("1")));
    assert_eq!(o.call("trash_remove", put(text("1"))), Err(-2));
}

#[test]
fn namespaces_are_listed_by_name() {
    let mut o = Object::default();
    for name in ["b", "a", "c"] {
        o.done("namespace_add", put(text(name)));
    }
    assert_eq!(o.call("namespace_add", put(text("a"))), Err(-17));
    let list: Vec<Vec<u8>> = o.gives("namespace_list", put((text("a"), 9u64)));
    assert_eq!(list, [text("b"), text("c")]);
    o.done("namespace_remove", put(text("b")));
    assert_eq!(o.call("namespace_remove", put(text("b"))), Err(-2));
}

fn v1(fields: Vec<u8>) -> Vec<u8> {
    values(|w| w.versioned(1, 1, |w| w.raw(&fields)))
}

#[test]
fn a_group_lists_its_images_and_an_image_knows_its_group() {
    let spec = |pool: i64, id: &str| v1(put((text(id), pool)));
    let status = |pool: i64, id: &str, state: u8| v1([spec(pool, id), put(state)].concat());
    let mut o = Object::default();
    o.done("group_image_set", status(10, "x", 1));
    o.done("group_image_set", status(2, "y", 0));
    assert_eq!(
        o.omap.keys().map(Vec::as_slice).collect::<Vec<_>>(),
        [&b"image_0000000000000002_y"[..], b"image_000000000000000a_x",]
    );
    let list = |o: &mut Object, after: Vec<u8>| o.call("group_image_list", [after, put(9u64)].concat());
    let both = [put(2u32), status(2, "y", 0), status(10, "x", 1)].concat();
    assert_eq!(list(&mut o, spec(-1, "")), Ok(both));
    assert_eq!(list(&mut o, spec(2, "y")), Ok([put(1u32), status(10, "x", 1)].concat()));
    o.done("group_image_remove", spec(2, "y"));
    assert_eq!(list(&mut o, spec(10, "x")), Ok(put(0u32)));

    let group = |id: &str| v1(put((4i64, text(id))));
    let mut o = header(LAYERING);
    assert_eq!(o.call("image_group_get", vec![]), Ok(v1(put((-1i64, text(""))))));
    assert_eq!(o.call("image_group_remove", group("g")), Err(-2));
    o.done("image_group_add", group("g"));
    o.done("image_group_add", group("g"));
    assert_eq!(o.call("image_group_add", group("h")), Err(-17));
    assert_eq!(o.call("image_group_get", vec![]), Ok(group("g")));
    assert_eq!(o.gives::<u64>("op_features_get", vec![]), 4);
    assert_eq!(o.call("image_group_remove", group("h")), Err(-9));
    o.done("image_group_remove", group("g"));
    assert_eq!(o.gives::<u64>("op_features_get", vec![]), 0);
}

#[test]
fn snapshots_of_a_group_know_their_order() {
    let image = |id: u64| v1(put((2i64, (text("i"), id))));
    let snap = |id: &str, name: &str, state: u8| {
        v1([put((text(id), text(name))), put((state, 2u32)), image(1), image(2)].concat())
    };
    let mut o = Object::default();
    o.done("group_snap_set", snap("z", "first", 0));
    o.done("group_snap_set", snap("a", "second", 0));
    assert_eq!(o.call("group_snap_set", snap("a", "second", 0)), Err(-17));
    assert_eq!(o.call("group_snap_set", snap("b", "first", 0)), Err(-17));
    assert_eq!(o.call("group_snap_set", snap("b", "", 0)), Err(-22));
    o.done("group_snap_set", snap("z", "first", 1));
    let list =
        |o: &mut Object, after: &str| o.call("group_snap_list", [snap(after, "", 0), put(9u64)].concat());
    let both = [put(2u32), snap("a", "second", 0), snap("z", "first", 1)].concat();
    assert_eq!(list(&mut o, ""), Ok(both));
    assert_eq!(list(&mut o, "b"), Ok([put(1u32), snap("z", "first", 1)].concat()));
    let orders = BTreeMap::from([(text("a"), 2u64), (text("z"), 1)]);
    assert_eq!(o.call("group_snap_list_order", put((text(""), 9u64))), Ok(put(orders)));
    assert_eq!(o.call("group_snap_get_by_id", put(text("z"))), Ok(snap("z", "first", 1)));
    o.done("group_snap_remove", put(text("z")));
    assert_eq!(o.call("group_snap_get_by_id", put(text("z"))), Err(-2));
    o.done("group_snap_remove", put(text("a")));
    assert_eq!(list(&mut o, ""), Ok(put(0u32)));
    assert_eq!(o.omap.keys().map(Vec::as_slice).collect::<Vec<_>>(), [b"snap_max_order"]);
}

#[test]
fn a_mirrored_pool_keeps_its_uuid_and_the_namespace_of_its_peers() {
    let mut o = Object::default();
    assert_eq!(o.call("mirror_remote_namespace_get", vec![]), Err(-2));
    assert_eq!(o.call("mirror_mode_set", put(1u32)), Err(-22));
    o.done("mirror_uuid_set", put(text("pool")));
    o.done("mirror_remote_namespace_set", put(text("theirs")));
    o.done("mirror_mode_set", put(1u32));
    assert_eq!(o.call("mirror_uuid_set", put(text("other"))), Err(-22));
    assert_eq!(o.call("mirror_remote_namespace_set", put(text("other"))), Err(-22));
    assert_eq!(o.gives::<Vec<u8>>("mirror_remote_namespace_get", vec![]), text("theirs"));
    o.done("mirror_mode_set", put(0u32));
    assert_eq!(o.omap.len(), 0);
}
