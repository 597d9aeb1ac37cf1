//! Mirroring.

use super::{Object, header, put, text, values};
use std::collections::{BTreeMap, BTreeSet};
use wire::Utime;

fn mirrored_pool() -> Object {
    let mut o = Object::default();
    o.done("mirror_uuid_set", put(text("pool")));
    o.done("mirror_mode_set", put(1u32));
    o
}

fn peer(uuid: &str, site: &str, client: &str, direction: u8) -> Vec<u8> {
    values(|w| {
        w.versioned(2, 1, |w| {
            w.put(&((text(uuid), text(site)), (text(client), -1i64)));
            w.put(&((direction, text("theirs")), Utime::default()));
        });
    })
}

#[test]
fn peers_are_told_apart_by_uuid_site_and_pool() {
    let mut o = mirrored_pool();
    let add = |o: &mut Object, peer: Vec<u8>| o.call("mirror_peer_add", peer);
    assert_eq!(add(&mut o, peer("u", "s", "", 0)), Err(-22));
    assert_eq!(add(&mut o, peer("pool", "s", "c", 0)), Err(-22), "the pool's own");
    assert_eq!(add(&mut o, peer("u", "s", "c", 1)), Err(-22), "such peers add themselves");
    assert_eq!(add(&mut o, peer("u", "s", "c", 0)), Ok(vec![]));
    assert_eq!(add(&mut o, peer("u", "t", "c", 0)), Err(-116));
    assert_eq!(add(&mut o, peer("v", "s", "c", 0)), Err(-17));
    assert_eq!(add(&mut o, peer("v", "t", "c", 0)), Err(-17), "the same pool");
    assert_eq!(o.call("mirror_mode_set", put(0u32)), Err(-16));
    assert_eq!(o.call("mirror_peer_list", vec![]), Ok([put(1u32), peer("u", "s", "c", 0)].concat()));
    o.done("mirror_peer_ping", put(((text("renamed"), text("theirs")), 1u8)));
    let key = o.omap.get(&b"mirror_peer_u"[..]).expect("the peer");
    assert!(key.windows(7).any(|w| w == b"renamed"), "{key:?}");
    o.done("mirror_peer_ping", put(((text("new"), text("other")), 1u8)));
    assert_eq!(o.omap.keys().filter(|key| key.starts_with(b"mirror_peer_")).count(), 2);
    assert_eq!(Object::default().call("mirror_peer_ping", put(((text("s"), text("m")), 1u8))), Err(-22));
}

fn image(global: &str, state: u8) -> Vec<u8> {
    values(|w| w.versioned(2, 1, |w| w.put(&(text(global), (state, 0u8)))))
}

fn report(state: u8) -> Vec<u8> {
    values(|w| w.versioned(1, 1, |w| w.put(&((state, text("why")), (Utime::default(), true)))))
}

#[test]
fn images_have_one_global_id_and_reports_while_they_are_mirrored() {
    let mut o = mirrored_pool();
    let set = |o: &mut Object, id: &str, image: Vec<u8>| {
        o.call("mirror_image_set", [put(text(id)), image].concat())
    };
    assert_eq!(set(&mut o, "a", image("A", 0)), Err(-2));
    assert_eq!(set(&mut o, "a", image("A", 1)), Ok(vec![]));
    assert_eq!(set(&mut o, "a", image("B", 1)), Err(-22));
    assert_eq!(set(&mut o, "b", image("A", 1)), Err(-17));
    assert_eq!(o.call("mirror_image_get", put(text("a"))), Ok(image("A", 1)));
    assert_eq!(o.gives::<Vec<u8>>("mirror_image_get_image_id", put(text("A"))), text("a"));
    let list = BTreeMap::from([(text("a"), text("A"))]);
    assert_eq!(o.call("mirror_image_list", put((text(""), 9u64))), Ok(put(list)));

    assert_eq!(o.call("mirror_image_status_get", put(text("A"))), Err(-2));
    o.done("mirror_image_status_set", [put(text("none")), report(4)].concat());
    o.done("mirror_image_status_set", [put(text("A")), report(4)].concat());
    assert!(!o.omap.contains_key(&b"status_global_none"[..]) && o.omap.contains_key(&b"status_global_A"[..]));
    // Nobody watches the object, so the report's daemon is gone.
    let unknown = BTreeMap::from([(0u8, 1i32)]);
    assert_eq!(o.call("mirror_image_status_get_summary", vec![]), Ok(put(unknown)));
    assert_eq!(o.call("mirror_image_instance_get", put(text("A"))), Err(-116));
    o.done("mirror_image_status_remove_down", vec![]);
    assert!(!o.omap.contains_key(&b"status_global_A"[..]));

    assert_eq!(o.call("mirror_image_remove", put(text("a"))), Err(-16));
    assert_eq!(set(&mut o, "a", image("A", 0)), Ok(vec![]));
    o.done("mirror_image_remove", put(text("a")));
    assert!(o.omap.keys().all(|key| key.starts_with(b"mirror_")), "{:?}", o.omap);
}

#[test]
fn a_mirrored_snapshot_knows_who_needs_it_and_how_much_is_copied() {
    let namespace = |state: u8, complete: bool, peers: &[&str], copied: u64| {
        let peers: BTreeSet<Vec<u8>> = peers.iter().map(|peer| text(peer)).collect();
        values(|w| {
            w.versioned(1, 1, |w| {
                w.put(&(3u32, (state, complete)));
                w.put(&(peers, text("")));
                w.put(&((3u64, copied), BTreeMap::from([(1u64, 2u64)])));
            });
        })
    };
    let mut o = header(1);
    let add = |name: &str, id: u64, namespace: Vec<u8>| [put((text(name), id)), namespace].concat();
    o.done("snapshot_add", put((text("user"), 1u64)));
    o.done("snapshot_add", add("primary", 2, namespace(0, false, &["m", "n"], 0)));
    o.done("snapshot_add", add("copy", 3, namespace(2, false, &["m"], 0)));
    let unlink = |o: &mut Object, id: u64, peer: &str| {
        o.call("mirror_image_snapshot_unlink_peer", put((id, text(peer))))
    };
    assert_eq!(
        [unlink(&mut o, 1, "m"), unlink(&mut o, 2, "x"), unlink(&mut o, 9, "m")],
        [Err(-22), Err(-2), Err(-2)]
    );
    assert_eq!(unlink(&mut o, 2, "m"), Ok(vec![]));
    for id in [2u64, 3] {
        o.done("mirror_image_snapshot_set_copy_progress", put((id, (true, 77u64))));
    }
    assert_eq!(o.call("get_snapshot_namespace", put(2u64)), Ok(namespace(0, true, &["n"], 0)));
    assert_eq!(o.call("get_snapshot_namespace", put(3u64)), Ok(namespace(2, true, &["m"], 77)));
}
