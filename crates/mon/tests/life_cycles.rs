//! OSDs and metadata servers come, fail, are replaced.

mod support;

use maps::{MdsRank, MdsState, OsdId};
use node::Output;
use std::time::Duration;
use support::{FS, Rig, boot, osdmap, report_clean, three_osds};

fn failure(reporter: i32, target: i32, nonce: u32, refused: bool) -> peer::OsdFailure {
    peer::OsdFailure {
        reporter: OsdId(reporter),
        target: OsdId(target),
        target_addrs: boot(target, nonce).addrs,
        refused,
        failed_for_s: 20,
        ..peer::OsdFailure::default()
    }
}

#[test]
fn a_new_osd_gets_a_place_a_weight_and_a_class() {
    let (mut rig, _) = three_osds();
    let map = osdmap(&mut rig);
    assert!((0..3).all(|id| map.is_up(OsdId(id)) && map.is_in(OsdId(id))));
    assert_eq!(map.osd(OsdId(1)).expect("there").state_names(), ["exists", "up"]);
    let tree = rig.json(r#"{"prefix":"osd tree"}"#);
    let nodes = tree["nodes"].as_array().expect("a list");
    assert_eq!(nodes.len(), 5, "root, host, three OSDs");
    assert_eq!(nodes[4]["device_class"], "ssd");
    assert_eq!(nodes[1]["name"], "host1");
    let text = rig.ok(r#"{"prefix":"osd tree"}"#);
    assert!(text.lines().nth(3).expect("a row").contains("ssd  0.01953          osd.0"), "{text}");
}

#[test]
fn a_refused_connection_marks_down_and_dead_at_once() {
    let (mut rig, conns) = three_osds();
    let mut want = msgs::MonSubscribe::default();
    want.what.insert("nacremap".into(), msgs::SubscribeItem { start: 0, flags: 0 });
    rig.send(conns[0], 0, msgs::Body::from(want));
    rig.sent(conns[0]);
    let up_from = osdmap(&mut rig).osd(OsdId(2)).expect("there").info.up_from;
    rig.send(conns[0], 0, peer::Body::from(failure(0, 2, 102, true)));
    let map = osdmap(&mut rig);
    assert!(map.is_down(OsdId(2)) && map.is_in(OsdId(2)));
    let told = rig.sent(conns[0]);
    let node::Body::Peer(peer::Body::NacreMap(nacre)) = &told[0].body else { panic!("our own map") };
    assert!(nacre.map.is_dead(OsdId(2), up_from) && nacre.map.epoch == map.epoch);
}

#[test]
fn a_silent_osd_needs_two_reporters_and_a_withdrawn_report_does_not_count() {
    let (mut rig, conns) = three_osds();
    rig.send(conns[0], 0, peer::Body::from(failure(0, 2, 102, false)));
    assert!(osdmap(&mut rig).is_up(OsdId(2)));
    rig.send(
        conns[0],
        0,
        peer::Body::from(peer::OsdFailure { alive_again: true, ..failure(0, 2, 102, false) }),
    );
    rig.send(conns[1], 0, peer::Body::from(failure(1, 2, 102, false)));
    assert!(osdmap(&mut rig).is_up(OsdId(2)));
    rig.send(conns[0], 0, peer::Body::from(failure(0, 2, 102, false)));
    assert!(osdmap(&mut rig).is_down(OsdId(2)));
}

#[test]
fn a_report_that_is_not_repeated_holds_no_more() {
    let (mut rig, conns) = three_osds();
    rig.send(conns[0], 0, peer::Body::from(failure(0, 2, 102, false)));
    rig.pass(Duration::from_secs(6));
    rig.send(conns[1], 0, peer::Body::from(failure(1, 2, 102, false)));
    assert!(osdmap(&mut rig).is_up(OsdId(2)), "nobody else has seen it silent since");
    rig.pass(Duration::from_secs(1));
    rig.send(conns[1], 0, peer::Body::from(failure(1, 2, 102, false)));
    rig.send(conns[0], 0, peer::Body::from(failure(0, 2, 102, false)));
    assert!(osdmap(&mut rig).is_down(OsdId(2)));
}

/// Ceph's clients ask for one map, and would ask for the next only after 10 s without an answer.
#[test]
fn who_asked_for_one_map_long_ago_is_told_that_an_osd_is_gone() {
    let (mut rig, conns) = three_osds();
    let client = rig.connect("client.x", "allow r", 7000);
    let mut want = msgs::MonSubscribe::default();
    want.what.insert("osdmap".into(), msgs::SubscribeItem { start: 0, flags: msgs::SUBSCRIBE_ONCE });
    rig.send(client, 0, msgs::Body::from(want));
    assert_eq!(rig.sent(client).len(), 1);
    rig.pass(Duration::from_secs(60));
    rig.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert_eq!(rig.sent(client).len(), 0, "of other changes it is not told");
    rig.send(conns[0], 0, peer::Body::from(failure(0, 2, 102, true)));
    let told = rig.sent(client);
    let [msg] = &told[..] else { panic!("{told:?}") };
    let node::Body::Client(msgs::Body::OsdMap(maps)) = &msg.body else { panic!("{msg:?}") };
    assert_eq!(maps.incrementals.len(), 2, "with what came before");
    // On a new session it asks for nothing that it has.
    let again = rig.connect("client.x", "allow r", 7000);
    let mut want = msgs::MonSubscribe::default();
    want.what.insert("mgrmap".into(), msgs::SubscribeItem { start: 3, flags: 0 });
    rig.send(again, 0, msgs::Body::from(want));
    assert_eq!(rig.sent(again).len(), 0, "who has just come may know no OSDs yet");
    rig.pass(Duration::from_secs(2));
    let told = rig.sent(again);
    assert!(told.len() == 1, "it may have missed that: {told:?}");
    rig.pass(Duration::from_secs(60));
    rig.send(conns[0], 0, peer::Body::from(failure(0, 1, 101, true)));
    assert_eq!(rig.sent(again).len(), 1);
}

#[test]
fn reports_of_another_run_or_by_a_stranger_are_ignored() {
    let (mut rig, conns) = three_osds();
    rig.send(conns[0], 0, peer::Body::from(failure(0, 2, 99, true)));
    rig.send(conns[0], 0, peer::Body::from(failure(1, 2, 102, true)));
    let client = rig.connect("client.x", "allow r", 7000);
    rig.send(client, 0, peer::Body::from(failure(0, 2, 102, true)));
    let told =
        |o: &&Output<node::Never>| matches!(o, Output::Event(e) if e.name == "report_refused" && e.may_flood);
    assert_eq!(rig.outs.iter().filter(told).count(), 2, "one of another OSD, one of a client");
    assert!(osdmap(&mut rig).is_up(OsdId(2)));
}

#[test]
fn a_restarted_osd_goes_down_and_up_in_two_epochs() {
    let (mut rig, conns) = three_osds();
    let before = osdmap(&mut rig);
    rig.close(conns[1]);
    rig.boot_osd(1, 201);
    let after = osdmap(&mut rig);
    assert_eq!(after.epoch.0, before.epoch.0 + 2);
    let entry = after.osd(OsdId(1)).expect("there");
    assert!(entry.is_up() && entry.is_in());
    assert_eq!((entry.info.down_at.0, entry.info.up_from), (before.epoch.0 + 1, after.epoch));
    assert_eq!(entry.client_addrs, boot(1, 201).addrs);
}

#[test]
fn osds_that_restart_together_come_up_in_one_epoch() {
    let (mut rig, conns) = three_osds();
    let before = osdmap(&mut rig);
    conns.into_iter().for_each(|conn| rig.close(conn));
    rig.boot_osd(1, 201);
    rig.pass(Duration::from_millis(40));
    rig.boot_osd(0, 200);
    assert_eq!(osdmap(&mut rig).epoch, before.epoch, "the third one is expected");
    rig.boot_osd(2, 202);
    let after = osdmap(&mut rig);
    assert_eq!(after.epoch.0, before.epoch.0 + 2, "nobody is waited for any more");
    assert!(after.existing().all(|(_, o)| o.is_up() && o.info.up_from == after.epoch));
}

#[test]
fn what_osds_ask_for_one_after_the_other_does_not_make_an_epoch_each() {
    let mut rig = Rig::new();
    let first = osdmap(&mut rig).epoch;
    let conns: Vec<_> = (0..40)
        .map(|id| {
            rig.jump(Duration::from_millis(2));
            rig.boot_osd(id, 100 + id as u32)
        })
        .collect();
    rig.pass(Duration::from_millis(300));
    let map = osdmap(&mut rig);
    assert!(map.existing().filter(|(_, o)| o.is_up()).count() == 40, "all are up");
    assert!(map.epoch.0 <= first.0 + 16 + 2, "{} epochs", map.epoch.0 - first.0);
    rig.pass(Duration::from_secs(1));
    for target in 1..=30 {
        rig.jump(Duration::from_millis(2));
        rig.send(conns[0], 0, peer::Body::from(failure(0, target, 100 + target as u32, true)));
    }
    assert!(osdmap(&mut rig).is_down(OsdId(1)), "the first at once");
    rig.pass(Duration::from_millis(60));
    let after = osdmap(&mut rig);
    assert!((1..=30).all(|osd| after.is_down(OsdId(osd))), "all within a moment");
    assert!(after.epoch.0 <= map.epoch.0 + 16 + 3, "{} epochs", after.epoch.0 - map.epoch.0);
}

#[test]
fn a_whole_rack_that_is_down_is_not_marked_out() {
    let (mut rig, _) = three_osds();
    rig.ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_min_in_ratio","value":"0.1"}"#);
    rig.ok(r#"{"prefix":"osd crush add-bucket","name":"r1","type":"rack","args":["root=default"]}"#);
    rig.ok(r#"{"prefix":"osd crush add-bucket","name":"host2","type":"host","args":["rack=r1"]}"#);
    for osd in [1, 2] {
        rig.ok(&format!(
            r#"{{"prefix":"osd crush set","id":{osd},"weight":1.0,"args":["host=host2","rack=r1"]}}"#
        ));
    }
    rig.ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_down_out_interval","value":"60"}"#);
    rig.ok(r#"{"prefix":"osd down","ids":["1","2"]}"#);
    rig.pass(Duration::from_secs(100));
    let map = osdmap(&mut rig);
    assert!(map.is_down(OsdId(1)) && map.is_in(OsdId(1)) && map.is_in(OsdId(2)), "its rack is down");
    rig.ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_down_out_subtree_limit","value":"root"}"#);
    rig.pass(Duration::from_secs(100));
    let map = osdmap(&mut rig);
    assert!(!map.is_in(OsdId(1)) && !map.is_in(OsdId(2)), "a root is more than what is down");
}

#[test]
fn a_dead_osd_is_told_of_until_it_is_up_again() {
    let (mut rig, conns) = three_osds();
    const NOBODY: [i32; 0] = [];
    let watcher = rig.connect("osd.0", "allow profile osd", 7000);
    let mut want = msgs::MonSubscribe::default();
    want.what.insert("nacremap".into(), msgs::SubscribeItem::default());
    rig.send(watcher, 0, msgs::Body::from(want));
    let told = |rig: &mut Rig| {
        let maps = rig.sent(watcher).into_iter().map(|msg| match msg.body {
            node::Body::Peer(peer::Body::NacreMap(m)) => m.map.dead.keys().map(|osd| osd.0).collect(),
            other => panic!("{other:?}"),
        });
        maps.collect::<Vec<Vec<i32>>>()
    };
    assert_eq!(told(&mut rig), [NOBODY]);
    rig.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    assert_eq!(told(&mut rig), [NOBODY; 0], "an epoch in which nobody dies");
    rig.send(conns[0], 0, peer::Body::from(failure(0, 2, 102, true)));
    assert_eq!(told(&mut rig), [[2]]);
    rig.close(conns[2]);
    rig.boot_osd(2, 202);
    rig.pass(Duration::from_millis(200));
    assert_eq!(told(&mut rig), [NOBODY]);
}

#[test]
fn who_boots_does_not_wait_long_for_others_and_failures_do_not_wait() {
    let (mut rig, conns) = three_osds();
    let before = osdmap(&mut rig);
    rig.close(conns[0]);
    rig.close(conns[2]);
    rig.boot_osd(0, 200);
    rig.pass(Duration::from_millis(40));
    rig.send(conns[1], 0, peer::Body::from(failure(1, 2, 102, true)));
    let map = osdmap(&mut rig);
    assert!(map.is_down(OsdId(2)), "at once");
    assert_eq!(map.osd(OsdId(0)).expect("there").client_addrs, boot(0, 100).addrs);
    rig.pass(Duration::from_millis(60));
    let map = osdmap(&mut rig);
    assert_eq!(
        (map.epoch.0, &map.osd(OsdId(0)).expect("there").client_addrs),
        (before.epoch.0 + 3, &boot(0, 200).addrs)
    );
}

#[test]
fn whoever_asks_for_the_next_map_gets_those_that_follow_for_a_while() {
    let (mut rig, conns) = three_osds();
    let client = rig.connect("client.x", "allow r", 7000);
    let next = u64::from(osdmap(&mut rig).epoch.next().0);
    let mut want = msgs::MonSubscribe::default();
    want.what.insert("osdmap".into(), msgs::SubscribeItem { start: next, flags: msgs::SUBSCRIBE_ONCE });
    rig.send(client, 0, msgs::Body::from(want));
    let newest = |rig: &mut Rig| {
        let maps = rig.sent(client).into_iter().map(|msg| match msg.body {
            node::Body::Client(msgs::Body::OsdMap(m)) => u64::from(m.newest.0),
            other => panic!("{other:?}"),
        });
        maps.collect::<Vec<u64>>()
    };
    rig.pass(Duration::from_secs(100));
    assert_eq!(newest(&mut rig), [0; 0]);
    // Down, then up again: Ceph's clients ask only once.
    rig.close(conns[1]);
    rig.boot_osd(1, 201);
    assert_eq!(newest(&mut rig), [next, next + 1]);
    rig.pass(Duration::from_secs(31));
    rig.ok(r#"{"prefix":"osd out","ids":["2"]}"#);
    assert_eq!(newest(&mut rig), [0; 0]);
}

#[test]
fn another_store_under_the_same_number_is_refused() {
    let (mut rig, _) = three_osds();
    let conn = rig.connect("osd.1", "allow profile osd", 6101);
    let mut other = boot(1, 300);
    other.uuid = wire::Uuid([7; 16]);
    rig.send(conn, 0, peer::Body::from(other));
    assert_eq!(osdmap(&mut rig).osd(OsdId(1)).expect("there").client_addrs, boot(1, 101).addrs);
    assert!(rig.ok(r#"{"prefix":"log last"}"#).contains("another OSD has this number"));
}

#[test]
fn the_last_osd_is_down_when_it_was_away_for_the_grace() {
    for (set, grace) in
        [("", 4), (r#"{"prefix":"config set","who":"global","name":"osd_heartbeat_grace","value":"20"}"#, 20)]
    {
        let mut rig = Rig::new();
        if !set.is_empty() {
            rig.ok(set);
        }
        let conn = rig.boot_osd(0, 100);
        rig.close(conn);
        rig.pass(Duration::from_secs(grace - 1));
        assert!(osdmap(&mut rig).is_up(OsdId(0)), "after {grace} s less one");
        rig.pass(Duration::from_secs(3));
        assert!(!osdmap(&mut rig).is_up(OsdId(0)), "after {grace} s");
    }
}

#[test]
fn an_osd_that_is_long_down_goes_out_and_comes_back_in() {
    let options = [("mon_osd_down_out_interval", "30"), ("mon_osd_min_in_ratio", "0.5")];
    let mut rig = Rig::with(&options);
    let conns: Vec<_> = (0..3).map(|id| rig.boot_osd(id, 100 + id as u32)).collect();
    rig.send(conns[0], 0, peer::Body::from(failure(0, 2, 102, true)));
    rig.send(conns[0], 0, peer::Body::from(failure(0, 1, 101, true)));
    rig.pass(Duration::from_secs(29));
    assert!(osdmap(&mut rig).is_in(OsdId(2)));
    rig.pass(Duration::from_secs(2));
    let map = osdmap(&mut rig);
    let out = (0..3).filter(|id| !map.is_in(OsdId(*id))).count();
    assert_eq!(out, 1, "only one, as half of them must stay in");
    let gone = (0..3).find(|id| !map.is_in(OsdId(*id))).expect("one");
    rig.boot_osd(gone, 400);
    let map = osdmap(&mut rig);
    assert!(map.is_in(OsdId(gone)) && map.osd(OsdId(gone)).expect("there").weight == maps::WEIGHT_IN);
}

#[test]
fn up_thru_and_pg_temp_are_granted_in_the_next_epoch() {
    let (mut rig, conns) = three_osds();
    rig.ok(FS[0]);
    let map = osdmap(&mut rig);
    let pg = maps::PgId::new(1, 0);
    let alive = peer::OsdAlive { osd: OsdId(0), want: map.epoch, epoch: map.epoch };
    rig.send(conns[0], 0, peer::Body::from(alive));
    let temp = std::collections::BTreeMap::from([(pg, vec![OsdId(2), OsdId(1)])]);
    rig.send(
        conns[0],
        0,
        peer::Body::from(peer::OsdPgTemp { osd: OsdId(0), epoch: map.epoch, pg_temp: temp }),
    );
    let map = osdmap(&mut rig);
    assert!(map.osd(OsdId(0)).expect("there").info.up_thru.0 > 0);
    assert_eq!(map.pg_up_acting(pg).acting, [OsdId(2), OsdId(1)]);
}

fn active(rig: &mut Rig) -> serde_json::Value {
    rig.json(r#"{"prefix":"fs get","fs_name":"cephfs"}"#)["mdsmap"]["info"].clone()
}

#[test]
fn an_mds_takes_rank_0_and_goes_its_way_to_active() {
    let (mut rig, conns) = three_osds();
    FS.iter().for_each(|c| drop(rig.ok(c)));
    let mds = rig.boot_mds("a", 7001);
    assert_eq!(active(&mut rig)["gid_7001"]["state"], "up:creating");
    rig.beacon(mds, "a", 7001, 2, MdsState::ACTIVE);
    assert_eq!(active(&mut rig)["gid_7001"]["state"], "up:active");
    let acks = rig.sent(mds);
    assert_eq!(acks.len(), 2, "each beacon is acknowledged");
    let map = osdmap(&mut rig);
    report_clean(&mut rig, &conns, &map);
    assert_eq!(rig.json(r#"{"prefix":"health"}"#)["status"], "HEALTH_OK");
    assert_eq!(rig.ok(r#"{"prefix":"mds stat"}"#), "cephfs:1 {0=a=up:active}\n");
}

fn is_in_map(rig: &mut Rig, gid: u64) -> bool {
    rig.json(r#"{"prefix":"fs dump"}"#).to_string().contains(&format!("\"gid\":{gid},"))
}

#[test]
fn a_late_beacon_of_an_mds_does_not_displace_its_successor() {
    let (mut rig, _) = three_osds();
    FS.iter().for_each(|c| drop(rig.ok(c)));
    let first = rig.boot_mds("a", 7001);
    let seen = rig.fsmap_epoch();
    let mut late_ones = vec![first];
    // The successor has the rank, or is a standby while another one has it.
    for gid in [7002, 7003] {
        let successor = rig.boot_mds("a", gid);
        for late in &late_ones {
            rig.beacon_at(seen, *late, "a", 7001, 9, MdsState::BOOT);
        }
        assert_eq!([7001, gid].map(|gid| is_in_map(&mut rig, gid)), [false, true]);
        late_ones.push(successor);
        rig.boot_mds("b", 8001);
    }
    // One that really is another daemon has seen the map by its next beacon.
    let third = rig.connect("mds.a", "allow profile mds", 7004);
    rig.beacon_at(seen, third, "a", 7004, 1, MdsState::BOOT);
    assert!(!is_in_map(&mut rig, 7004));
    rig.beacon(third, "a", 7004, 2, MdsState::BOOT);
    assert!(is_in_map(&mut rig, 7004));
}

#[test]
fn a_restarted_mds_replaces_its_former_self_which_is_blocklisted() {
    let (mut rig, _) = three_osds();
    FS.iter().for_each(|c| drop(rig.ok(c)));
    let mds = rig.boot_mds("a", 7001);
    rig.beacon(mds, "a", 7001, 2, MdsState::ACTIVE);
    let again = rig.boot_mds("a", 7002);
    let info = active(&mut rig);
    assert_eq!(info.as_object().expect("a map").len(), 1);
    assert_eq!(info["gid_7002"]["state"], "up:replay");
    let blocked = support::osd_addrs(900, 7001).0[0];
    assert!(osdmap(&mut rig).is_blocklisted(&blocked));
    for (seq, state) in [MdsState::RECONNECT, MdsState::REJOIN, MdsState::ACTIVE].into_iter().enumerate() {
        rig.beacon(again, "a", 7002, 2 + seq as u64, state);
        assert_eq!(active(&mut rig)["gid_7002"]["state"], state.name());
    }
    // The old one, should it still live, is told that it is out, and who has its name.
    rig.sent(mds);
    rig.beacon(mds, "a", 7001, 3, MdsState::ACTIVE);
    let told = rig.sent(mds);
    let node::Body::Client(msgs::Body::MdsMap(m)) = &told[0].body else { panic!("a map") };
    let map: maps::MdsMap = wire::Reader::new(&m.map).get().expect("a map");
    assert_eq!(map.mds_info.keys().map(|gid| gid.0).collect::<Vec<_>>(), [7002]);
}

#[test]
fn an_mds_sees_itself_in_the_map_that_it_subscribed_to() {
    let (mut rig, _) = three_osds();
    let mds = rig.boot_mds("a", 7001);
    let mut want = msgs::MonSubscribe::default();
    want.what.insert("mdsmap".into(), msgs::SubscribeItem { start: 0, flags: 0 });
    rig.send(mds, 0, msgs::Body::from(want));
    let map_of = |msg: &node::Msg| match &msg.body {
        node::Body::Client(msgs::Body::MdsMap(m)) => wire::Reader::new(&m.map).get::<maps::MdsMap>().ok(),
        _ => None,
    };
    let maps: Vec<_> = rig.sent(mds).iter().filter_map(map_of).collect();
    assert_eq!(maps[0].mds_info[&maps::Gid(7001)].state, MdsState::STANDBY);
    FS.iter().for_each(|c| drop(rig.ok(c)));
    let maps: Vec<_> = rig.sent(mds).iter().filter_map(map_of).collect();
    let last = maps.last().expect("told");
    assert_eq!((last.state_of(MdsRank(0)), last.fs_name.as_str()), (MdsState::CREATING, "cephfs"));
}

fn report_disks(rig: &mut Rig, conns: &[node::ConnId], commit_ms: &[u32], errors: &[u32], seconds: u64) {
    for _ in 0..seconds / 5 {
        for ((osd, conn), (ms, errors)) in (0..).zip(conns).zip(commit_ms.iter().zip(errors)) {
            let stats = peer::PgStats {
                osd: OsdId(osd),
                disk_commit_ms: *ms,
                disk_commits: 50,
                disk_errors: *errors,
                ..peer::PgStats::default()
            };
            rig.send(*conn, 0, peer::Body::from(stats));
        }
        rig.pass(Duration::from_secs(5));
    }
}

#[test]
fn the_osd_of_a_half_dead_device_is_marked_out_and_named() {
    let mut rig = Rig::new();
    let conns: Vec<_> = (0..6).map(|id| rig.boot_osd(id, 100 + id as u32)).collect();
    let is_out = |rig: &mut Rig| {
        let map = osdmap(rig);
        (0..6).filter(|id| !map.is_in(OsdId(*id))).collect::<Vec<i32>>()
    };
    report_disks(&mut rig, &conns, &[900; 6], &[7; 6], 200);
    assert_eq!(is_out(&mut rig), [] as [i32; 0], "all of them at once: that is load");
    report_disks(&mut rig, &conns, &[5, 5, 6, 400, 5, 900], &[7; 6], 60);
    assert_eq!(is_out(&mut rig), [] as [i32; 0], "not for long enough");
    report_disks(&mut rig, &conns, &[5, 5, 6, 400, 5, 900], &[7; 6], 60);
    assert_eq!(is_out(&mut rig), [5], "400 ms may be slow, but not half dead");
    assert!(osdmap(&mut rig).is_up(OsdId(5)), "it goes on as a source");
    let health = rig.ok(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("DEVICE_HEALTH") && health.contains("osd.5 ("), "{health}");
    assert!(health.contains("writes take 900 ms, those of its kind 5 ms"), "{health}");
    let log = rig.ok(r#"{"prefix":"log last"}"#);
    assert!(log.contains("marking osd.5 out: its device"), "{log}");
    // Another one waits: it may be one cause.
    report_disks(&mut rig, &conns, &[5, 800, 6, 5, 5, 900], &[7, 7, 19, 7, 7, 7], 300);
    assert_eq!(is_out(&mut rig), [5]);
    rig.ok(r#"{"prefix":"osd in","ids":["5"]}"#);
    report_disks(&mut rig, &conns, &[5; 6], &[7, 7, 19, 7, 7, 7], 10);
    assert!(!rig.ok(r#"{"prefix":"health","detail":"detail"}"#).contains("DEVICE_HEALTH"));
    report_disks(&mut rig, &conns, &[5; 6], &[7, 7, 19, 7, 7, 7], 600);
    report_disks(&mut rig, &conns, &[5; 6], &[7, 7, 40, 7, 7, 7], 10);
    assert_eq!(is_out(&mut rig), [2], "it refuses reads");
}

#[test]
fn what_a_device_refused_before_the_first_look_counts_if_it_is_recent() {
    let mut rig = Rig::new();
    let conns: Vec<_> = (0..6).map(|id| rig.boot_osd(id, 100 + id as u32)).collect();
    let report = |rig: &mut Rig, seconds: u64| {
        for _ in 0..seconds / 5 {
            for (osd, conn) in (0..).zip(&conns) {
                let (disk_errors, disk_errors_lately) =
                    [(0, 0), (40, 0), (12, 12), (0, 0), (0, 0), (0, 0)][osd as usize];
                let osd = OsdId(osd);
                let stats =
                    peer::PgStats { osd, disk_errors, disk_errors_lately, ..peer::PgStats::default() };
                rig.send(conn.to_owned(), 0, peer::Body::from(stats));
            }
            rig.pass(Duration::from_secs(5));
        }
        let map = osdmap(rig);
        (0..6).filter(|id| !map.is_in(OsdId(*id))).collect::<Vec<i32>>()
    };
    assert_eq!(report(&mut rig, 30), [2], "one at a time, and not those that were long ago");
    let health = rig.ok(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("it refused 12 reads in 10 min"), "{health}");
    rig.ok(r#"{"prefix":"osd in","ids":["2"]}"#);
    let again = report(&mut rig, 900);
    assert_eq!(again, [] as [i32; 0], "what was refused before somebody took it in does not count");
}
