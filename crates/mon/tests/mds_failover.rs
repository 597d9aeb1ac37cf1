//! Metadata servers that fall silent, die, or only lose their session, and the standbys that take over.

mod support;

use maps::MdsState;
use node::{CloseReason, ConnId, Input, Output};
use std::collections::BTreeMap;
use std::time::Duration;
use support::{FS, Rig, osdmap, report_clean, three_osds};

/// A cluster whose file system is served by mds.a (7001); its OSDs' and its server's sessions.
fn served() -> (Rig, Vec<ConnId>, ConnId) {
    let (mut rig, osds) = three_osds();
    FS.iter().for_each(|c| drop(rig.ok(c)));
    let a = rig.boot_mds("a", 7001);
    rig.beacon(a, "a", 7001, 2, MdsState::ACTIVE);
    (rig, osds, a)
}

fn stat(rig: &mut Rig) -> String {
    rig.ok(r#"{"prefix":"mds stat"}"#)
}

fn status(rig: &mut Rig) -> serde_json::Value {
    rig.json(r#"{"prefix":"health"}"#)["status"].clone()
}

#[test]
fn a_standby_takes_over_when_the_active_one_is_silent() {
    let (mut rig, ..) = served();
    let b = rig.boot_mds("b", 7002);
    let mut seq = 2;
    let mut pass = |rig: &mut Rig, halves: u64| {
        for _ in 0..halves {
            rig.pass(Duration::from_millis(500));
            seq += 1;
            rig.beacon(b, "b", 7002, seq, MdsState::STANDBY);
        }
    };
    pass(&mut rig, 5);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active} 1 up:standby\n");
    pass(&mut rig, 2);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=b=up:replay}\n", "after 3 s");
    assert!(osdmap(&mut rig).is_blocklisted(&support::osd_addrs(900, 7001).0[0]));
}

/// The connection that the monitor opens now, which no answer has come to yet.
fn dialled(rig: &mut Rig) -> Vec<(ConnId, wire::EntityAddr)> {
    let is_dial = |o: &mut Output<node::Never>| matches!(o, Output::Connect { .. });
    let dials: Vec<_> = rig.outs.extract_if(.., is_dial).collect();
    let of = |o| match o {
        Output::Connect { conn, to } => (conn, to.addr),
        _ => unreachable!("filtered"),
    };
    dials.into_iter().map(of).collect()
}

fn ended(rig: &mut Rig, conn: ConnId, reason: CloseReason) {
    rig.input(Input::Closed { conn, reason });
}

#[test]
fn a_server_whose_process_refuses_connections_is_replaced_at_once() {
    let (mut rig, _, a) = served();
    rig.boot_mds("b", 7002);
    assert_eq!(dialled(&mut rig), []);
    rig.close(a);
    let [(probe, addr)] = dialled(&mut rig)[..] else { panic!("one server has lost its session") };
    assert_eq!(addr, support::osd_addrs(900, 7001).0[0]);
    // The process is going: its sockets close one after the other.
    ended(&mut rig, probe, CloseReason::Lost);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active} 1 up:standby\n");
    rig.pass(Duration::from_millis(100));
    let [(probe, _)] = dialled(&mut rig)[..] else { panic!("it is asked again") };
    ended(&mut rig, probe, CloseReason::Refused);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=b=up:replay}\n");
    assert!(osdmap(&mut rig).is_blocklisted(&addr));
    rig.pass(Duration::from_secs(1));
    assert_eq!(dialled(&mut rig), [], "nobody lacks a session");
}

#[test]
fn a_server_that_only_lost_its_session_keeps_its_rank() {
    let (mut rig, _, a) = served();
    rig.boot_mds("b", 7002);
    rig.close(a);
    let [(probe, _)] = dialled(&mut rig)[..] else { panic!("one server has lost its session") };
    // It is back before the answer, which was about somebody else's socket.
    let a = rig.connect("mds.a", "allow profile mds", 7001);
    rig.beacon(a, "a", 7001, 3, MdsState::ACTIVE);
    ended(&mut rig, probe, CloseReason::Refused);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active} 1 up:standby\n");
    rig.close(a);
    let [(probe, _)] = dialled(&mut rig)[..] else { panic!("it has lost its session again") };
    rig.input(Input::Connected { conn: probe, peer: support::peer_of_probe() });
    let closes = |o: &Output<node::Never>| matches!(o, Output::Close { conn } if *conn == probe);
    assert!(rig.outs.iter().any(closes), "it lives, and nothing is asked of it");
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active} 1 up:standby\n");
}

#[test]
fn the_standby_that_takes_over_is_one_that_lives() {
    let (mut rig, _, a) = served();
    let b = rig.boot_mds("b", 7002);
    rig.boot_mds("c", 7003);
    // The host of both has lost its power.
    rig.close(b);
    rig.close(a);
    let probes = dialled(&mut rig);
    let probe = probes.iter().find(|(_, addr)| addr.nonce == 7001).expect("a is dialled").0;
    ended(&mut rig, probe, CloseReason::Refused);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=c=up:replay} 1 up:standby\n");
}

#[test]
fn health_misses_a_standby_once_there_was_one() {
    let (mut rig, conns, _) = served();
    let map = osdmap(&mut rig);
    report_clean(&mut rig, &conns, &map);
    rig.pass(Duration::from_secs(1));
    assert_eq!(status(&mut rig), "HEALTH_OK", "nobody asked for one");
    let b = rig.boot_mds("b", 7002);
    assert_eq!(status(&mut rig), "HEALTH_OK");
    // It leaves before the monitor looks at its servers again.
    rig.beacon(b, "b", 7002, 2, MdsState::NULL);
    let detail = rig.ok(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(
        detail.contains("MDS_INSUFFICIENT_STANDBY: insufficient standby MDS daemons available"),
        "{detail}"
    );
    assert!(detail.contains("have 0; want 1 more"), "{detail}");
    rig.ok(r#"{"prefix":"fs set","fs_name":"cephfs","var":"standby_count_wanted","val":"0"}"#);
    assert_eq!(status(&mut rig), "HEALTH_OK");
}

#[test]
fn without_a_standby_a_silent_mds_keeps_its_rank_and_is_shown_as_laggy() {
    let (mut rig, _, a) = served();
    rig.pass(Duration::from_secs(60));
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active(laggy or crashed)}\n");
    let health = rig.json(r#"{"prefix":"health","detail":"detail"}"#);
    for code in ["MDS_ALL_DOWN", "FS_DEGRADED", "FS_WITH_FAILED_MDS", "MDS_UP_LESS_THAN_MAX"] {
        assert!(!health["checks"][code].is_null(), "{code}: {health}");
    }
    rig.close(a);
    let [(probe, _)] = dialled(&mut rig)[..] else { panic!("it has lost its session") };
    ended(&mut rig, probe, CloseReason::Refused);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active(laggy or crashed)}\n", "dead, and nobody is there");
    rig.boot_mds("b", 7002);
    rig.pass(Duration::from_millis(500));
    assert_eq!(stat(&mut rig), "cephfs:1 {0=b=up:replay}\n", "now there is somebody");
}

#[test]
fn a_standby_follows_the_rank_where_that_is_allowed_and_is_the_first_to_take_over() {
    let (mut rig, _, a) = served();
    rig.boot_mds("c", 7002);
    let set = |on: bool| {
        format!(r#"{{"prefix":"fs set","fs_name":"cephfs","var":"allow_standby_replay","val":"{on}"}}"#)
    };
    rig.ok(&set(true));
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active} 1 up:standby-replay\n");
    // If both were idle, this one would be the first.
    let b = rig.boot_mds("b", 7000);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active} 1 up:standby 1 up:standby-replay\n");
    let info = rig.json(r#"{"prefix":"fs get","fs_name":"cephfs"}"#)["mdsmap"]["info"]["gid_7002"].clone();
    assert_eq!((&info["state"], &info["rank"]), (&"up:standby-replay".into(), &0.into()));
    rig.close(a);
    let [(probe, _)] = dialled(&mut rig)[..] else { panic!("one server has lost its session") };
    ended(&mut rig, probe, CloseReason::Refused);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=c=up:replay} 1 up:standby\n", "who follows knows most");
    // A rank that is being taken over has nobody to be followed yet.
    rig.pass(Duration::from_millis(500));
    assert_eq!(stat(&mut rig), "cephfs:1 {0=c=up:replay} 1 up:standby\n");
    let c = rig.connect("mds.c", "allow profile mds", 7002);
    for (seq, state) in [MdsState::RECONNECT, MdsState::REJOIN, MdsState::ACTIVE].into_iter().enumerate() {
        rig.beacon(c, "c", 7002, 2 + seq as u64, state);
    }
    rig.beacon(b, "b", 7000, 2, MdsState::STANDBY);
    rig.pass(Duration::from_millis(500));
    assert_eq!(stat(&mut rig), "cephfs:1 {0=c=up:active} 1 up:standby-replay\n");
    let codes = rig.json(r#"{"prefix":"health"}"#)["checks"].clone();
    assert!(codes.get("MDS_INSUFFICIENT_STANDBY").is_none(), "{codes}");
    // One that may follow no more starts over. It wrote nothing, so nobody has to refuse it.
    rig.ok(&set(false));
    assert_eq!(stat(&mut rig), "cephfs:1 {0=c=up:active}\n");
    assert!(!osdmap(&mut rig).is_blocklisted(&support::osd_addrs(900, 7000).0[0]));
}

/// The newest map of metadata servers that a session was sent: name and address of each.
fn told(rig: &mut Rig, to: ConnId) -> Vec<(String, wire::EntityAddr)> {
    let map = rig.sent(to).into_iter().rev().find_map(|msg| match msg.body {
        node::Body::Client(msgs::Body::MdsMap(m)) => wire::Reader::new(&m.map).get::<maps::MdsMap>().ok(),
        _ => None,
    });
    let map = map.expect("a map");
    map.mds_info.values().map(|info| (info.name.clone(), info.addrs.0[0])).collect()
}

#[test]
fn who_is_replaced_by_a_daemon_of_its_name_is_told_where_that_is() {
    let (mut rig, _, a) = served();
    // Another standby takes the rank, so the newcomer is in no file system's map.
    rig.boot_mds("b", 7002);
    rig.boot_mds("a", 7009);
    let newcomer = [("a".to_owned(), support::osd_addrs(900, 7009).0[0])];
    rig.beacon(a, "a", 7001, 3, MdsState::ACTIVE);
    assert_eq!(told(&mut rig, a), newcomer, "the answer to its beacon");
    rig.outs.clear();
    let next = rig.connect("mds.a", "allow profile mds", 7001);
    let mut want = msgs::MonSubscribe::default();
    want.what.insert("mdsmap".into(), msgs::SubscribeItem::default());
    rig.send(next, 0, msgs::Body::from(want));
    assert_eq!(told(&mut rig, next), newcomer, "the map that it subscribes to");
}

/// Clients open sessions with them, and claim what came to them from one that has died.
#[test]
fn each_rank_names_the_others_as_those_that_it_may_hand_something_over_to() {
    let (mut rig, ..) = served();
    let targets = |rig: &mut Rig| {
        let fs = rig.json(r#"{"prefix":"fs get","fs_name":"cephfs"}"#)["mdsmap"].clone();
        let of = |info: &serde_json::Value| (info["rank"].as_i64(), info["export_targets"].clone());
        let all: BTreeMap<_, _> = fs["info"].as_object().expect("an object").values().map(of).collect();
        all.into_values().collect::<Vec<_>>()
    };
    assert_eq!(targets(&mut rig), [serde_json::json!([])]);
    for (name, gid) in [("b", 7002), ("c", 7003)] {
        rig.boot_mds(name, gid);
    }
    rig.ok(r#"{"prefix":"fs set","fs_name":"cephfs","var":"max_mds","val":"3"}"#);
    assert_eq!(targets(&mut rig), [[1, 2], [0, 2], [0, 1]].map(|others| serde_json::json!(others)));
}

#[test]
fn ranks_beyond_max_mds_stop_one_after_the_other_and_start_again() {
    let (mut rig, ..) = served();
    let standbys = [("b", 7002), ("c", 7003)].map(|(name, gid)| (name, gid, rig.boot_mds(name, gid)));
    let set = |rig: &mut Rig, most: u32| {
        let json = serde_json::json!({
            "prefix": "fs set", "fs_name": "cephfs", "var": "max_mds", "val": most.to_string(),
        });
        rig.ok(&json.to_string());
    };
    set(&mut rig, 3);
    let [(_, _, b), (_, _, c)] = standbys;
    rig.beacon(b, "b", 7002, 2, MdsState::ACTIVE);
    rig.beacon(c, "c", 7003, 2, MdsState::ACTIVE);
    assert_eq!(stat(&mut rig), "cephfs:3 {0=a=up:active,1=b=up:active,2=c=up:active}\n");

    set(&mut rig, 1);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active,1=b=up:active,2=c=up:stopping}\n");
    rig.beacon(c, "c", 7003, 3, MdsState::ACTIVE);
    let expected = "cephfs:1 {0=a=up:active,1=b=up:active,2=c=up:stopping}\n";
    assert_eq!(stat(&mut rig), expected, "a late beacon changes nothing");

    // Its successor stops it when it serves.
    let again = rig.boot_mds("c", 7004);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active,1=b=up:active,2=c=up:replay}\n");
    for (seq, state) in [MdsState::RECONNECT, MdsState::REJOIN, MdsState::ACTIVE].into_iter().enumerate() {
        rig.beacon(again, "c", 7004, seq as u64 + 2, state);
    }
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active,1=b=up:active,2=c=up:stopping}\n");
    rig.beacon(again, "c", 7004, 9, MdsState::STOPPED);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active,1=b=up:stopping}\n");
    rig.beacon(b, "b", 7002, 3, MdsState::STOPPED);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active}\n");
    let fs = rig.json(r#"{"prefix":"fs get","fs_name":"cephfs"}"#)["mdsmap"].clone();
    assert_eq!((&fs["stopped"], &fs["in"]), (&serde_json::json!([1, 2]), &serde_json::json!([0])));
    let blocklist = osdmap(&mut rig);
    assert!(!blocklist.is_blocklisted(&support::osd_addrs(900, 7002).0[0]), "it has left by itself");

    rig.boot_mds("b", 7005);
    assert_eq!(stat(&mut rig), "cephfs:1 {0=a=up:active} 1 up:standby\n");
    set(&mut rig, 2);
    assert_eq!(stat(&mut rig), "cephfs:2 {0=a=up:active,1=b=up:starting}\n");
}
