//! Managers that announce themselves, fall silent, or are failed by command; and what clients are told.

mod support;

use maps::{Gid, MgrMap};
use node::ConnId;
use std::time::Duration;
use support::{Rig, osdmap, three_osds};
use wire::{AddrType, EntityAddr, EntityType, Reader};

/// The address of a manager's own client.
fn own_client(gid: u64) -> EntityAddr {
    EntityAddr { ty: AddrType::ANY, nonce: gid as u32 + 1, addr: Some(([127, 0, 0, 1], 0).into()) }
}

fn beacon_of(name: &str, gid: u64) -> peer::MgrBeacon {
    peer::MgrBeacon {
        fsid: support::fsid(),
        gid: Gid(gid),
        name: name.to_owned(),
        addrs: support::osd_addrs(700, gid as u32),
        available: true,
        clients: vec![own_client(gid)],
        metadata: [("hostname".to_owned(), "h".to_owned())].into(),
        ..peer::MgrBeacon::default()
    }
}

fn manager(rig: &mut Rig, name: &str, gid: u64) -> ConnId {
    // It has the name of its metadata server.
    let who = format!("mds.{name}");
    let conn = rig.connect_as(EntityType::MGR, &who, "allow profile mds", gid);
    rig.send(conn, 0, peer::Body::from(beacon_of(name, gid)));
    rig.commit();
    conn
}

/// The active manager and the number of standbys.
fn stat(rig: &mut Rig) -> (String, u64) {
    let stat = rig.json(r#"{"prefix":"mgr stat"}"#);
    (stat["active_name"].as_str().unwrap_or_default().to_owned(), stat["num_standby"].as_u64().unwrap_or(99))
}

fn subscribe(rig: &mut Rig, start: u64) -> ConnId {
    let conn = rig.connect("client.x", "allow r", 9000);
    let mut want = msgs::MonSubscribe::default();
    want.what.insert("mgrmap".into(), msgs::SubscribeItem { start, flags: 0 });
    rig.send(conn, 0, msgs::Body::from(want));
    conn
}

fn maps_of(rig: &mut Rig, conn: ConnId) -> Vec<MgrMap> {
    let map = |msg: node::Msg| match msg.body {
        node::Body::Client(msgs::Body::MgrMap(m)) => Reader::new(&m.map.0).get().ok(),
        _ => None,
    };
    rig.sent(conn).into_iter().filter_map(map).collect()
}

#[test]
fn the_first_manager_is_active_and_clients_hear_of_each_change() {
    let (mut rig, _) = three_osds();
    let client = subscribe(&mut rig, 0);
    let first = maps_of(&mut rig, client);
    assert_eq!((first.len(), first[0].epoch.0, first[0].active_gid), (1, 2, Gid(0)));
    assert!(!rig.ok(r#"{"prefix":"get_command_descriptions"}"#).contains("subvolume"));
    manager(&mut rig, "a", 7001);
    manager(&mut rig, "b", 7002);
    assert_eq!(stat(&mut rig), ("a".into(), 1));
    let maps = maps_of(&mut rig, client);
    let last = maps.last().expect("a map");
    assert_eq!((last.active_gid, last.available, last.standbys.len()), (Gid(7001), true, 1));
    assert!(rig.ok(r#"{"prefix":"get_command_descriptions"}"#).contains("subvolume"));
    let metadata = rig.json(r#"{"prefix":"mgr metadata","who":"b"}"#);
    assert_eq!((&metadata["name"], &metadata["hostname"]), (&"b".into(), &"h".into()));
    assert!(rig.ok(r#"{"prefix":"status"}"#).contains("mgr: a(active"));
}

#[test]
fn one_whose_session_ended_is_replaced_and_its_clients_are_shut_out() {
    let (mut rig, _) = three_osds();
    let a = manager(&mut rig, "a", 7001);
    manager(&mut rig, "b", 7002);
    rig.close(a);
    rig.pass(Duration::from_millis(1500));
    assert_eq!(stat(&mut rig), ("a".into(), 1), "it may only look for another monitor");
    rig.pass(Duration::from_millis(1000));
    assert_eq!(stat(&mut rig), ("b".into(), 0));
    let map = osdmap(&mut rig);
    assert!(map.is_blocklisted(&own_client(7001)) && !map.is_blocklisted(&own_client(7002)));
    manager(&mut rig, "a", 7003);
    assert_eq!(stat(&mut rig), ("b".into(), 1), "who is active stays so");
}

#[test]
fn one_that_comes_back_in_time_stays_active() {
    let (mut rig, _) = three_osds();
    let a = manager(&mut rig, "a", 7001);
    manager(&mut rig, "b", 7002);
    rig.close(a);
    rig.pass(Duration::from_millis(1500));
    manager(&mut rig, "a", 7001);
    rig.pass(Duration::from_secs(5));
    assert_eq!(stat(&mut rig), ("a".into(), 1));
}

#[test]
fn one_that_is_silent_is_replaced_after_the_grace() {
    let (mut rig, _) = three_osds();
    manager(&mut rig, "a", 7001);
    let b = manager(&mut rig, "b", 7002);
    let pass = |rig: &mut Rig| {
        rig.pass(Duration::from_secs(2));
        rig.send(b, 0, peer::Body::from(beacon_of("b", 7002)));
    };
    (0..14).for_each(|_| pass(&mut rig));
    assert_eq!(stat(&mut rig).0, "a");
    (0..2).for_each(|_| pass(&mut rig));
    assert_eq!(stat(&mut rig), ("b".into(), 0));
}

#[test]
fn a_command_lets_another_one_take_over() {
    let (mut rig, _) = three_osds();
    manager(&mut rig, "a", 7001);
    manager(&mut rig, "b", 7002);
    rig.ok(r#"{"prefix":"mgr fail"}"#);
    assert_eq!(stat(&mut rig), ("b".into(), 0));
    rig.ok(r#"{"prefix":"mgr fail","who":"b"}"#);
    assert_eq!(stat(&mut rig), (String::new(), 0));
    rig.ok(r#"{"prefix":"mgr fail"}"#);
}

#[test]
fn its_absence_is_a_warning_only_where_there_are_file_systems() {
    let (mut rig, _) = three_osds();
    let has = |rig: &mut Rig| rig.ok(r#"{"prefix":"health","detail":"detail"}"#).contains("MGR_DOWN");
    let a = manager(&mut rig, "a", 7001);
    rig.close(a);
    rig.pass(Duration::from_secs(3));
    assert!(!has(&mut rig), "nobody needs one");
    for pool in ["meta", "data"] {
        rig.ok(&format!(r#"{{"prefix":"osd pool create","pool":"{pool}","pg_num":8}}"#));
    }
    rig.ok(r#"{"prefix":"fs new","fs_name":"f","metadata":"meta","data":"data"}"#);
    assert!(has(&mut rig));
    manager(&mut rig, "a", 7002);
    assert!(!has(&mut rig));
}

#[test]
fn who_is_no_manager_is_not_put_into_the_map() {
    let (mut rig, _) = three_osds();
    let as_client = rig.connect_as(EntityType::CLIENT, "mds.a", "allow profile mds", 7001);
    let without_caps = rig.connect_as(EntityType::MGR, "mds.a", "allow r", 7002);
    let with_another_name = rig.connect_as(EntityType::MGR, "mds.b", "allow profile mds", 7003);
    for conn in [as_client, without_caps, with_another_name] {
        rig.send(conn, 0, peer::Body::from(beacon_of("a", 7001)));
    }
    let conn = rig.connect_as(EntityType::MGR, "mds.a", "allow profile mds", 7004);
    let strange = peer::MgrBeacon { fsid: wire::Uuid([9; 16]), ..beacon_of("a", 7004) };
    rig.send(conn, 0, peer::Body::from(strange));
    rig.commit();
    assert_eq!(stat(&mut rig), (String::new(), 0));
}
