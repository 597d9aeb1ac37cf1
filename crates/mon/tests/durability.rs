//! Nothing that is not durable is shown; everything that was shown survives.

mod support;

use maps::OsdId;
use node::Output;
use std::collections::BTreeMap;
use std::time::Duration;
use support::{Rig, boot, osdmap, three_osds};

const CREATE: &str = r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#;
const LS: &str = r#"{"prefix":"osd pool ls"}"#;

#[test]
fn a_new_cluster_is_ready_with_keys_and_committed_ids() {
    let rig = Rig::new();
    let keys = rig.outs.iter().position(|o| matches!(o, Output::Keys(_))).expect("keys");
    let ready = rig.outs.iter().position(|o| matches!(o, Output::Ready)).expect("ready");
    assert!(keys < ready);
    let ids = rig.outs.iter().find_map(|o| if let Output::GlobalIds(r) = o { Some(r.clone()) } else { None });
    assert_eq!(ids, Some(4096..4096 + 65_536));
}

#[test]
fn global_ids_are_never_given_again_after_a_restart() {
    let mut rig = Rig::new();
    rig.crash_and_restart();
    let ids: Vec<_> = rig
        .outs
        .iter()
        .filter_map(|o| if let Output::GlobalIds(r) = o { Some(r.clone()) } else { None })
        .collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(ids[0], 4096 + 65_536..4096 + 2 * 65_536);
    // Half of them seen in use: the next range follows.
    rig.outs.clear();
    rig.connect("client.admin", "allow *", 4096 + 65_536 + 40_000);
    let more =
        rig.outs.iter().find_map(|o| if let Output::GlobalIds(r) = o { Some(r.clone()) } else { None });
    assert_eq!(more, Some(4096 + 2 * 65_536..4096 + 3 * 65_536));
}

#[test]
fn a_crash_between_submit_and_commit_loses_only_what_nobody_saw() {
    let (mut rig, _) = three_osds();
    rig.disk.hold(true);
    let admin = rig.admin();
    rig.send_command(admin, 1, CREATE, b"");
    assert_eq!(rig.answer(admin), None, "not durable, not answered");
    assert_eq!(rig.ok(LS), "", "and not visible to anybody");
    rig.crash_and_restart();
    rig.disk.hold(false);
    rig.commit();
    assert_eq!(rig.ok(LS), "");
    assert_eq!(rig.command(CREATE).status, "pool 'p' created");
    rig.crash_and_restart();
    assert_eq!(rig.ok(LS), "p\n", "acknowledged, so it is there");
}

#[test]
fn the_answer_comes_with_the_commit_and_so_do_maps() {
    let (mut rig, conns) = three_osds();
    let mut want = msgs::MonSubscribe::default();
    want.what.insert("osdmap".into(), msgs::SubscribeItem { start: 0, flags: 0 });
    rig.send(conns[0], 0, msgs::Body::from(want));
    assert_eq!(rig.sent(conns[0]).len(), 1, "the full map at once");
    rig.disk.hold(true);
    let admin = rig.admin();
    rig.send_command(admin, 1, CREATE, b"");
    // The same again, decided on what is not durable: its answer must wait as well.
    let other = rig.admin();
    rig.send_command(other, 1, CREATE, b"");
    assert!(rig.sent(conns[0]).is_empty() && rig.answer(admin).is_none() && rig.answer(other).is_none());
    rig.disk.hold(false);
    rig.commit();
    assert_eq!(rig.answer(admin).expect("now").status, "pool 'p' created");
    assert_eq!(rig.answer(other).expect("now").status, "pool 'p' already exists");
    let maps = rig.sent(conns[0]);
    let node::Body::Client(msgs::Body::OsdMap(m)) = &maps[0].body else { panic!("a map") };
    assert_eq!((m.incrementals.len(), m.fulls.len(), maps.len()), (1, 0, 1), "one epoch, as an incremental");
}

#[test]
fn state_survives_checkpoints_and_restarts_byte_for_byte() {
    let (mut rig, _) = three_osds();
    for i in 0..200 {
        rig.ok(&format!(r#"{{"prefix":"config-key set","key":"k{}","val":"{i}"}}"#, i % 10));
        if i % 20 == 0 {
            rig.ok(&format!(r#"{{"prefix":"osd pool create","pool":"p{i}","pg_num":4}}"#));
        }
    }
    let before =
        (osdmap(&mut rig), rig.ok(r#"{"prefix":"config-key dump"}"#), rig.ok(r#"{"prefix":"auth ls"}"#));
    assert!(rig.disk.entries() < 200, "the log is cut off at checkpoints: {} entries", rig.disk.entries());
    rig.crash_and_restart();
    let after =
        (osdmap(&mut rig), rig.ok(r#"{"prefix":"config-key dump"}"#), rig.ok(r#"{"prefix":"auth ls"}"#));
    assert_eq!(before, after);
    let old = rig.json(r#"{"prefix":"osd dump","epoch":3}"#);
    assert_eq!(old["epoch"], 3, "history is there too");
}

#[test]
fn another_clusters_or_monitors_store_is_refused_with_what_to_do() {
    let rig = Rig::new();
    for (other_name, wanted) in [("b", "mon.a"), ("a", "cluster")] {
        let mut config = support::config(&rig.options);
        config.name = other_name.into();
        if other_name == "a" {
            config.monmap.fsid = wire::Uuid([9; 16]);
        }
        let store = support::FakeStore::new(rig.disk.clone());
        let mut mon = mon::Mon::new(config, store, stdx::Rng::from_seed(3));
        let mut out = Vec::new();
        node::Node::handle(&mut mon, rig.now(), node::Input::Start, &mut out);
        let stop =
            out.iter().find_map(|o| if let Output::Stop(Err(why)) = o { Some(why.clone()) } else { None });
        assert!(stop.expect("stops").contains(wanted));
    }
}

#[test]
fn what_is_committed_at_once_is_shown_in_parts_and_read_as_a_whole() {
    let mut rig = Rig::new();
    rig.disk.is_small(64 << 10);
    rig.disk.hold(true);
    let conns: Vec<_> = (0..4).map(|_| rig.admin()).collect();
    let key = |n: usize| format!(r#""key":"k{n}""#);
    for (n, conn) in conns.iter().enumerate() {
        let set = format!(r#"{{"prefix":"config-key set",{}}}"#, key(n));
        rig.send_command(*conn, 1, &set, &[b'v'; 20_000]);
    }
    rig.commit();
    assert!(rig.answer(conns[0]).is_some(), "the first was written alone, the others wait");
    // They become durable together, and each fills a checkpoint.
    let mut shown = 1;
    for _ in 0..3 {
        let read = rig.admin();
        rig.send_command(read, 1, &format!(r#"{{"prefix":"config-key get",{}}}"#, key(3)), b"");
        rig.commit();
        let answered = conns.iter().filter(|conn| rig.answer(**conn).is_some()).count();
        assert_eq!(answered, 1, "after {shown}");
        shown += answered;
        let seen = rig.answer(read);
        assert_eq!(seen.is_some_and(|answer| answer.data.len() == 20_000), shown == 4, "after {shown}");
    }
}

#[test]
fn a_damaged_store_is_told_at_start() {
    let mut rig = Rig::new();
    rig.disk.damage("mon.log");
    rig.crash_and_restart();
    let stop =
        rig.outs.iter().find_map(|o| if let Output::Stop(Err(why)) = o { Some(why.clone()) } else { None });
    assert!(stop.expect("stops").contains("damaged"));
    assert!(!rig.outs.iter().any(|o| matches!(o, Output::Ready)));
}

#[test]
fn a_store_of_a_later_version_is_refused_and_not_called_damaged() {
    for object in ["mon.ident", "mon.log"] {
        let mut rig = Rig::new();
        rig.disk.make_newer(object);
        let before = rig.disk.entries();
        rig.crash_and_restart();
        let stop = rig
            .outs
            .iter()
            .find_map(|o| if let Output::Stop(Err(why)) = o { Some(why.clone()) } else { None });
        let why = stop.expect("stops");
        assert!(why.contains("version 9 needs a reader of 9, this one knows"), "{why}");
        assert!(why.contains("start that version or a later one (file /"), "{why}");
        assert!(!why.contains("mv ") && !why.contains("damaged"), "nobody is to throw it away: {why}");
        assert_eq!(rig.disk.entries(), before, "nothing was changed");
    }
}

#[test]
fn a_store_used_at_a_later_level_is_refused_and_left_as_it_is() {
    let mut rig = Rig::new();
    let newest = rig.build.levels.newest;
    rig.build.levels.newest -= 1;
    let before = rig.disk.entries();
    rig.crash_and_restart();
    let stop =
        rig.outs.iter().find_map(|o| if let Output::Stop(Err(why)) = o { Some(why.clone()) } else { None });
    let why = stop.expect("stops");
    assert!(why.contains(&format!("level {newest}, and this build can do {} at most", newest - 1)), "{why}");
    assert!(why.contains("install a build that can do level") && why.contains("mon.a"), "{why}");
    assert_eq!(rig.disk.entries(), before, "nothing was changed");
    rig.build.levels.newest = newest;
    rig.crash_and_restart();
    assert!(rig.outs.iter().any(|o| matches!(o, Output::Ready)), "the newer build opens it");
}

#[test]
fn a_state_longer_than_a_transaction_is_kept() {
    let mut rig = Rig::new();
    for id in 0..700 {
        let conn = rig.connect(&format!("osd.{id}"), "allow profile osd", 6000 + id as u64);
        let metadata = BTreeMap::from([("hostname".to_owned(), "h".repeat(3000))]);
        rig.send(conn, 0, peer::Body::from(peer::OsdBoot { metadata, ..boot(id, 100) }));
    }
    rig.pass(Duration::from_secs(2));
    for i in 0..70 {
        rig.ok(&format!(r#"{{"prefix":"config-key set","key":"k{i}","val":"{}"}}"#, "v".repeat(30_000)));
    }
    let before = osdmap(&mut rig);
    assert_eq!(before.existing().filter(|(_, o)| o.is_up()).count(), 700);
    rig.crash_and_restart();
    assert_eq!(osdmap(&mut rig), before);
    assert_eq!(rig.ok(r#"{"prefix":"config-key get","key":"k69"}"#).len(), 30_000);
}

#[test]
fn boots_that_come_during_a_write_share_the_next_epoch() {
    let mut rig = Rig::new();
    rig.disk.hold(true);
    let conns: Vec<_> =
        (0..3).map(|id| rig.connect(&format!("osd.{id}"), "allow profile osd", 6000 + id)).collect();
    rig.send_command(conns[0], 0, "", b"");
    let admin = rig.admin();
    rig.send_command(admin, 1, r#"{"prefix":"config-key set","key":"a","val":"b"}"#, b"");
    for (id, conn) in conns.iter().enumerate() {
        rig.send(*conn, 0, peer::Body::from(boot(id as i32, 7)));
    }
    rig.disk.hold(false);
    rig.commit();
    let map = osdmap(&mut rig);
    assert_eq!(map.epoch.0, 2, "all three in one");
    assert!((0..3).all(|id| map.is_up(OsdId(id)) && map.is_in(OsdId(id))));
    rig.pass(Duration::from_secs(1));
    assert_eq!(osdmap(&mut rig).epoch.0, 2, "and nothing moves by itself");
}

#[test]
fn a_store_of_before_there_were_several_monitors_goes_on_at_once() {
    let (mut rig, _) = three_osds();
    assert_eq!(rig.command(CREATE).status, "pool 'p' created");
    rig.disk.make_old();
    rig.crash_and_restart();
    assert!(rig.outs.iter().any(|o| matches!(o, Output::Ready)), "ready without waiting for anybody");
    assert_eq!(rig.ok(LS), "p\n");
    rig.crash_and_restart();
    assert_eq!(rig.json(r#"{"prefix":"quorum_status"}"#)["quorum_names"], serde_json::json!(["a"]));
}

#[test]
fn who_begins_at_the_oldest_epoch_gets_it_in_full_and_the_way_on() {
    let (mut rig, conns) = three_osds();
    rig.ok(CREATE);
    let mut want = msgs::MonSubscribe::default();
    want.what.insert("osdmap".into(), msgs::SubscribeItem { start: 1, flags: 0 });
    rig.send(conns[0], 0, msgs::Body::from(want));
    let (mut map, mut newest) = (None::<maps::OsdMap>, maps::Epoch(0));
    for sent in rig.sent(conns[0]) {
        let node::Body::Client(msgs::Body::OsdMap(m)) = &sent.body else { continue };
        newest = m.newest;
        for (epoch, full) in &m.fulls {
            assert_eq!((*epoch, map.is_none()), (maps::Epoch(1), true), "in full: the first alone");
            map = Some(wire::Reader::new(full).get().expect("decodes"));
        }
        for bytes in m.incrementals.values() {
            let inc: maps::OsdMapIncremental = wire::Reader::new(bytes).get().expect("decodes");
            map.as_mut()
                .expect("after the first")
                .apply(&inc)
                .expect("the next, with the checksum that it says");
        }
    }
    let map = map.expect("came");
    assert_eq!(map.epoch, newest);
    assert!(newest.0 > 3 && map.pool_names.values().any(|n| n == "p"));
}

#[test]
fn maps_that_are_asked_for_by_epoch_come_in_full_and_as_incrementals() {
    let (mut rig, conns) = three_osds();
    for i in 0..20 {
        rig.ok(&format!(r#"{{"prefix":"osd pool create","pool":"p{i}","pg_num":1}}"#));
    }
    let mut ask = |full: (u32, u32), inc: (u32, u32)| {
        let [full_first, full_last, inc_first, inc_last] = [full.0, full.1, inc.0, inc.1].map(maps::Epoch);
        let m = msgs::MonGetOsdMap { full_first, full_last, inc_first, inc_last, ..Default::default() };
        rig.send(conns[0], 0, msgs::Body::from(m));
        let sent = rig.sent(conns[0]);
        let [node::Msg { body: node::Body::Client(msgs::Body::OsdMap(m)), .. }] = &sent[..] else {
            panic!("one message of maps: {sent:?}")
        };
        let epochs = |maps: &std::collections::BTreeMap<maps::Epoch, stdx::Buf>| {
            maps.keys().map(|e| e.0).collect::<Vec<_>>()
        };
        (epochs(&m.fulls), epochs(&m.incrementals), m.fulls.clone())
    };
    let (fulls, incs, maps) = ask((3, 5), (4, 6));
    assert_eq!((fulls, incs), (vec![3, 4, 5], vec![4, 5, 6]));
    for (epoch, bytes) in maps {
        let map: maps::OsdMap = wire::Reader::new(&bytes).get().expect("decodes");
        assert_eq!(map.epoch, epoch);
    }
    let (fulls, incs, _) = ask((1, u32::MAX), (0, 0));
    assert_eq!((fulls, incs), ((1..=8).collect(), vec![]), "no more than go into a message");
    let (fulls, incs, _) = ask((u32::MAX, u32::MAX), (u32::MAX, 1));
    assert_eq!((fulls, incs), (vec![], vec![]), "epochs that are not there");
}

#[test]
fn an_empty_store_of_a_monitor_that_was_in_a_cluster_makes_no_other_one() {
    let mut rig = Rig::unstarted(BTreeMap::new());
    let mut joined = support::config(&BTreeMap::new());
    joined.joined = Some("mon.a/joined".into());
    rig.mon = mon::Mon::new(joined, support::FakeStore::new(rig.disk.clone()), stdx::Rng::from_seed(1));
    rig.start();
    let said = rig.outs.iter().find_map(|o| if let Output::Stop(Err(why)) = o { Some(why) } else { None });
    assert!(said.is_some_and(|why| why.contains("mon.a/joined")), "{:?}", rig.outs);
    assert!(!rig.outs.iter().any(|o| matches!(o, Output::Ready)));
}

/// As many as come while the disk is busy, on a device that takes little at once.
#[test]
fn thousands_of_changes_at_once_go_to_a_small_disk_in_pieces() {
    let thousands = |rig: &mut Rig| {
        let conn = rig.connect("client.admin", "allow *", 4000);
        rig.disk.hold(true);
        for tid in 1..=3000 {
            let flag = if tid % 2 == 0 { "unset" } else { "set" };
            rig.send_command(conn, tid, &format!(r#"{{"prefix":"osd {flag}","key":"noout"}}"#), b"");
        }
        rig.disk.hold(false);
        rig.commit();
    };
    let mut rig = Rig::new();
    rig.disk.is_small(64 << 10);
    thousands(&mut rig);
    rig.ok(r#"{"prefix":"config-key set","key":"k","val":"v"}"#);
    let epoch = rig.ok(r#"{"prefix":"osd dump"}"#);
    rig.crash_and_restart();
    assert_eq!(rig.ok(r#"{"prefix":"config-key get","key":"k"}"#), "v");
    assert_eq!(rig.ok(r#"{"prefix":"osd dump"}"#), epoch);
    // The rows of maps that are too old to keep go in one checkpoint.
    thousands(&mut rig);
    rig.ok(r#"{"prefix":"config-key rm","key":"k"}"#);
    assert!(rig.disk.entries() < 2000, "{}", rig.disk.entries());
}

/// What is refused, or has a name that the store can't keep, must not end all monitors at their next
/// checkpoint.
#[test]
fn long_names_and_long_refusals_are_no_burden() {
    let mut rig = Rig::new();
    rig.disk.is_small(512 << 10);
    let conn = rig.connect("client.admin", "allow *", 4000);
    let long = "p".repeat(100_000);
    for tid in 1..=200 {
        let rename = format!(r#"{{"prefix":"osd pool rename","srcpool":"{long}","destpool":"q"}}"#);
        rig.send_command(conn, tid, &rename, b"");
        assert!(rig.answer(conn).expect("an answer").code < 0);
    }
    let key = "k".repeat(3000);
    for command in [
        format!(r#"{{"prefix":"config-key set","key":"{key}","val":"v"}}"#),
        format!(r#"{{"prefix":"auth get-or-create","entity":"client.{key}"}}"#),
    ] {
        assert_eq!(rig.command(&command).code, wire::Errno::ENAMETOOLONG.to_result_code());
    }
    for i in 0..100 {
        rig.ok(&format!(r#"{{"prefix":"config-key set","key":"k","val":"{i}"}}"#));
    }
    rig.crash_and_restart();
    assert_eq!(rig.ok(r#"{"prefix":"config-key get","key":"k"}"#), "99");
}

/// A client asks another monitor where its own does not answer; what that one had of it may come to the
/// leader later.
#[test]
fn a_command_that_comes_late_once_more_finds_nothing_to_do() {
    let mut rig = Rig::new();
    let conn = rig.connect("client.admin", "allow *", 4000);
    let ask = |rig: &mut Rig, conn, tid, json: &str| {
        rig.send_command(conn, tid, json, b"");
        rig.answer(conn).unwrap_or_else(|| panic!("no answer to {json}"))
    };
    let remove = r#"{"prefix":"config-key rm","key":"k"}"#;
    let set = r#"{"prefix":"config-key set","key":"k","val":"v"}"#;
    let get = r#"{"prefix":"config-key get","key":"k"}"#;
    let first = ask(&mut rig, conn, 1, remove);
    assert_eq!((first.code, first.status.as_str()), (0, "no such key 'k'"));
    assert_eq!(ask(&mut rig, conn, 2, set).code, 0);
    assert_eq!(ask(&mut rig, conn, 1, remove).code, 0);
    assert_eq!(ask(&mut rig, conn, 3, get).data, "v");
    rig.crash_and_restart();
    let conn = rig.connect("client.admin", "allow *", 4000);
    assert_eq!(ask(&mut rig, conn, 1, remove).code, 0);
    assert_eq!(rig.ok(get), "v");
    assert_eq!(rig.command(remove).status, "key deleted", "one of its own");
    // What was refused stays refused, though it could be carried out now.
    let rename = r#"{"prefix":"osd pool rename","srcpool":"p","destpool":"q"}"#;
    let refused = ask(&mut rig, conn, 11, rename);
    assert!(refused.code < 0, "{}", refused.status);
    rig.ok(r#"{"prefix":"osd pool create","pool":"p"}"#);
    let again = ask(&mut rig, conn, 11, rename);
    assert_eq!((again.code, again.status), (refused.code, refused.status.clone()));
    rig.crash_and_restart();
    let conn = rig.connect("client.admin", "allow *", 4000);
    assert_eq!(ask(&mut rig, conn, 11, rename).status, refused.status);
    assert_eq!(ask(&mut rig, conn, 12, rename).code, 0, "one of its own");
}
