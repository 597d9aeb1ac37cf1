//! Snapshots, of both formats of images.

use super::{LAYERING, NOSNAP, NOW, Object, add_snap, header, put, text, values};
use wire::{Reader, Utime};

/// A namespace as clients encode it.
fn namespace(kind: u32, body: &[u8]) -> Vec<u8> {
    values(|w| {
        w.versioned(1, 1, |w| {
            w.put(&kind);
            w.raw(body);
        });
    })
}

#[test]
fn a_snapshot_is_stored_as_ceph_stores_it() {
    let mut o = header(LAYERING);
    add_snap(&mut o, "one", 0x1f).expect("added");
    let wanted = values(|w| {
        w.versioned(8, 8, |w| {
            w.put(&(0x1fu64, text("one")));
            w.put(&(100_000_000u64, 0u8));
            w.put(&0u64);
            w.raw(&namespace(0, b""));
            w.put(&Utime { sec: NOW as u32, nsec: 0 });
            w.put(&(0u32, None::<u64>));
        });
    });
    assert_eq!(o.omap.get(&b"snapshot_000000000000001f"[..]), Some(&wanted));
    let info = values(|w| {
        w.versioned(1, 1, |w| {
            w.put(&0x1fu64);
            w.raw(&namespace(0, b""));
            w.put(&(text("one"), 100_000_000u64));
            w.put(&(Utime { sec: NOW as u32, nsec: 0 }, 0u32));
        });
    });
    assert_eq!(o.call("snapshot_get", put(0x1fu64)), Ok(info));
    assert_eq!(o.call("get_snapshot_namespace", put(0x1fu64)), Ok(namespace(0, b"")));
    assert_eq!(o.call("snapshot_get", put(NOSNAP)), Err(-22));
    assert_eq!(o.call("get_snapshot_name", put(2u64)), Err(-2));
}

#[test]
fn ids_rise_and_names_differ_within_a_namespace() {
    let mut o = header(LAYERING);
    assert_eq!(add_snap(&mut o, "a", 5), Ok(vec![]));
    assert_eq!(add_snap(&mut o, "b", 4), Err(-116));
    assert_eq!(add_snap(&mut o, "b", 5), Err(-17));
    assert_eq!(add_snap(&mut o, "a", 6), Err(-17));
    assert_eq!(add_snap(&mut o, "b", u64::MAX - 1), Err(-22));
    let in_group = values(|w| {
        w.put(&(text("a"), 7u64));
        w.raw(&namespace(1, &put((3i64, (text("g"), text("s"))))));
    });
    assert_eq!(o.call("snapshot_add", in_group), Ok(vec![]));
    let unknown = values(|w| {
        w.put(&(text("c"), 9u64));
        w.raw(&namespace(77, b""));
    });
    assert_eq!(o.call("snapshot_add", unknown), Err(-22));
    assert_eq!(o.gives::<(u64, Vec<u64>)>("get_snapcontext", vec![]), (7, vec![7, 5]));
    o.done("snapshot_rename", put((5u64, text("z"))));
    assert_eq!(o.gives::<Vec<u8>>("get_snapshot_name", put(5u64)), text("z"));
    assert_eq!(o.call("snapshot_rename", put((5u64, text("z")))), Err(-17));
    assert_eq!(o.call("snapshot_rename", put((6u64, text("y")))), Err(-2));
    assert_eq!(o.call("snapshot_rename", put((7u64, text("y")))), Err(-22), "not a user's");
}

#[test]
fn a_protected_snapshot_stays() {
    let mut o = header(LAYERING);
    add_snap(&mut o, "a", 5).expect("added");
    assert_eq!(o.gives::<u8>("get_protection_status", put(5u64)), 0);
    o.done("set_protection_status", put((5u64, 2u8)));
    assert_eq!(o.gives::<u8>("get_protection_status", put(5u64)), 2);
    assert_eq!(o.call("snapshot_remove", put(5u64)), Err(-16));
    assert_eq!(o.call("snapshot_trash_add", put(5u64)), Err(-16));
    assert_eq!(o.call("set_protection_status", put((5u64, 3u8))), Err(-22));
    assert_eq!(o.call("set_protection_status", put((NOSNAP, 2u8))), Err(-22));
    o.done("set_protection_status", put((5u64, 0u8)));
    o.done("snapshot_remove", put(5u64));
    assert_eq!(o.call("snapshot_remove", put(5u64)), Err(-2));
    assert_eq!(o.gives::<(u64, Vec<u64>)>("get_snapcontext", vec![]), (5, vec![]));
    assert_eq!(header(0).call("set_protection_status", put((5u64, 0u8))), Err(-8));
}

#[test]
fn a_snapshot_in_the_trash_has_another_name_and_a_feature() {
    let mut o = header(LAYERING);
    add_snap(&mut o, "a", 5).expect("added");
    add_snap(&mut o, "b", 6).expect("added");
    o.done("snapshot_trash_add", put(5u64));
    o.done("snapshot_trash_add", put(6u64));
    assert_eq!(o.call("snapshot_trash_add", put(5u64)), Err(-17));
    let names = [5u64, 6].map(|id| o.gives::<Vec<u8>>("get_snapshot_name", put(id)));
    assert!(names[0] != names[1] && names[0].len() == 36, "{names:?}");
    assert_eq!(o.call("get_snapshot_namespace", put(5u64)), Ok(namespace(2, &put((text("a"), 0u32)))));
    assert_eq!(o.gives::<u64>("op_features_get", vec![]), 8);
    o.done("snapshot_remove", put(5u64));
    assert_eq!(o.gives::<u64>("op_features_get", vec![]), 8);
    o.done("snapshot_remove", put(6u64));
    assert_eq!(o.gives::<u64>("op_features_get", vec![]), 0);
}

#[test]
fn the_number_of_snapshots_can_be_limited() {
    let mut o = header(LAYERING);
    assert_eq!(o.gives::<u64>("snapshot_get_limit", vec![]), u64::MAX);
    o.done("snapshot_set_limit", put(2u64));
    add_snap(&mut o, "a", 1).expect("added");
    add_snap(&mut o, "b", 2).expect("added");
    assert_eq!(add_snap(&mut o, "c", 3), Err(-122));
    assert_eq!(o.call("snapshot_set_limit", put(1u64)), Err(-34));
    o.done("snapshot_set_limit", put(u64::MAX));
    assert_eq!(o.gives::<u64>("snapshot_get_limit", vec![]), u64::MAX);
}

/// A header of format 1.
fn old_header() -> Object {
    let mut data = b"<<< Rados Block Device Image >>>\n".to_vec();
    data.resize(80, 0);
    data.extend(4096u64.to_le_bytes());
    data.resize(112, 0);
    Object { exists: true, data, ..Object::default() }
}

#[test]
fn old_images_keep_snapshots_in_their_data() {
    let mut o = old_header();
    let empty = o.data.clone();
    o.done("snap_add", put((text("a"), 3u64)));
    o.done("snap_add", put((text("bc"), 5u64)));
    assert_eq!(o.call("snap_add", put((text("a"), 6u64))), Err(-17));
    assert_eq!(o.call("snap_add", put((text("d"), 4u64))), Err(-116));
    let list = o.call("snap_list", vec![]).expect("a list");
    let wanted = values(|w| {
        w.put(&(5u64, 2u32));
        w.put(&((5u64, 4096u64), text("bc")));
        w.put(&((3u64, 4096u64), text("a")));
    });
    assert_eq!(list, wanted);
    assert_eq!(o.data[112..], [put((5u64, 4096u64)), put((3u64, 4096u64)), b"bc\0a\0".to_vec()].concat());
    o.done("snap_rename", put((3u64, text("x"))));
    assert_eq!(o.call("snap_rename", put((4u64, text("y")))), Err(-2));
    o.done("snap_remove", put(text("bc")));
    assert_eq!(o.call("snap_remove", put(text("a"))), Err(-2));
    o.done("snap_remove", put(text("x")));
    assert_eq!((&o.data[..88], &o.data[96..]), (&empty[..88], &empty[96..]));
    assert_eq!(Reader::new(&o.data[88..]).get::<u64>().ok(), Some(5), "the newest there ever was");
    let mut short = Object { exists: true, ..Object::default() };
    assert_eq!(short.call("snap_list", vec![]), Err(-22));
    o.data[96] = 200;
    assert_eq!(o.call("snap_list", vec![]), Err(-5));
}
