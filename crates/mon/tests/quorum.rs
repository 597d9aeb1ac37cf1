//! Several monitors: they find one another, decide together, replace their leader, take in new ones and those
//! who lost everything.

mod support;

use node::Body;
use std::time::Duration;
use support::world::{World, addr};

const S: Duration = Duration::from_secs(1);

fn set(key: &str, value: &str) -> String {
    format!(r#"{{"prefix":"config-key set","key":"{key}","val":"{value}"}}"#)
}

fn get(key: &str) -> String {
    format!(r#"{{"prefix":"config-key get","key":"{key}"}}"#)
}

fn three() -> World {
    let mut world = World::new(3);
    world.wait_quorum(0, &["a", "b", "c"]);
    world
}

#[test]
fn three_empty_monitors_make_one_cluster_and_each_answers() {
    let mut w = three();
    assert!(w.places.iter().all(|p| p.ready));
    w.ok(1, &set("k", "from b"));
    for n in 0..3 {
        assert_eq!(w.ok(n, &get("k")), "from b", "asked at {n}");
    }
    let dump = w.json(2, r#"{"prefix":"mon dump"}"#);
    assert_eq!(
        (dump["mons"].as_array().map(Vec::len), &dump["quorum"]),
        (Some(3), &serde_json::json!([0, 1, 2]))
    );
    let health = w.json(1, r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health["checks"].get("MON_DOWN").is_none(), "{health}");
}

#[test]
fn monitors_can_stop_while_a_quorum_is_left() {
    let mut w = three();
    let stop = |ids: &str| format!(r#"{{"prefix":"mon ok-to-stop","ids":[{ids}]}}"#);
    let said = w.command(0, &stop(r#""b""#));
    assert_eq!((said.code, said.status.as_str()), (0, "quorum should be preserved (a,c) after stopping b"));
    let said = w.command(0, &stop(r#""b","c""#));
    assert_eq!(said.code, wire::Errno::EBUSY.to_result_code());
    assert!(said.status.contains("not enough monitors would be available (a)"), "{}", said.status);
    assert_eq!(w.command(0, &stop(r#""d""#)).code, wire::Errno::ENOENT.to_result_code());
    w.kill(2);
    w.wait_quorum(0, &["a", "b"]);
    assert_eq!(w.command(0, &stop(r#""b""#)).code, wire::Errno::EBUSY.to_result_code());
}

#[test]
fn the_leader_looks_at_the_space_of_the_other_monitors_too() {
    let mut w = three();
    w.places[1].disk.has_left(200_000);
    w.pass(5 * S);
    let long = "v".repeat(60_000);
    for asked in 0..3 {
        let said = w.command(asked, &set("long", &long));
        assert_eq!(said.code, wire::Errno::ENOSPC.to_result_code());
        assert!(said.status.contains("the store of mon.b is full"), "{}", said.status);
    }
    w.places[1].disk.has_left(2_000_000);
    w.pass(5 * S);
    w.ok(2, &set("long", &long));
    // Removals fit where nothing else does.
    w.places[1].disk.has_left(100_000);
    w.pass(5 * S);
    assert_eq!(w.command(0, &set("small", "value")).code, wire::Errno::ENOSPC.to_result_code());
    w.ok(0, r#"{"prefix":"config-key rm","key":"long"}"#);
    // One that is away counts no more.
    w.kill(1);
    w.wait_quorum(0, &["a", "c"]);
    w.ok(0, &set("small", "value"));
}

#[test]
fn without_a_majority_no_cluster_is_made() {
    let mut w = World::new(3);
    w.kill(1);
    w.kill(2);
    w.pass(10 * S);
    assert!(!w.places[0].ready);
    w.start(2);
    w.wait_quorum(0, &["a", "c"]);
    let health = w.json(0, r#"{"prefix":"health","detail":"detail"}"#);
    assert_eq!(health["checks"]["MON_DOWN"]["summary"]["message"], "1/3 mons down, quorum a,c");
    w.start(1);
    w.wait_quorum(1, &["a", "b", "c"]);
}

#[test]
fn a_dead_leader_is_replaced_and_nothing_that_was_answered_is_lost() {
    let mut w = three();
    for round in 0..6 {
        let survivor = (round + 1) % 3;
        w.ok(survivor, &set("k", &format!("round {round}")));
        let leader = w.leader(survivor);
        w.kill(leader);
        let asked = (leader + 1) % 3;
        assert_eq!(
            w.ok(asked, &get("k")),
            format!("round {round}"),
            "within three seconds, as `command` waits"
        );
        w.ok(asked, &set("k2", &format!("after {round}")));
        w.start(leader);
        w.wait_quorum(asked, &["a", "b", "c"]);
        assert_eq!(w.ok(leader, &get("k2")), format!("after {round}"));
    }
}

#[test]
fn a_leader_that_is_asked_to_end_is_followed_at_once() {
    let mut w = three();
    let leader = w.leader(0);
    let other = (leader + 1) % 3;
    w.shut_down(leader);
    let write = w.ask(other, &set("k", "v"));
    w.pass(Duration::from_millis(100));
    assert_eq!(w.answer(write).map(|a| a.code), Some(0), "a silent one takes a second and a half");
    assert_eq!(w.places[leader].stopped.as_deref(), Some(""), "it has come to rest");
}

#[test]
fn a_leader_that_is_cut_off_answers_nothing_old() {
    let mut w = three();
    w.ok(0, &set("k", "old"));
    let leader = w.leader(0);
    w.isolate(leader);
    let other = (leader + 1) % 3;
    let write = w.ask(leader, &set("k", "never"));
    // Until its lease ends it may answer: nobody else can have decided anything yet.
    assert_eq!(w.ok(other, &set("k", "new")), "");
    let read = w.ask(leader, &get("k"));
    w.pass(S);
    assert_eq!((w.answer(read), w.answer(write)), (None, None));
    w.heal();
    w.wait_quorum(other, &["a", "b", "c"]);
    assert_eq!(w.ok(leader, &get("k")), "new");
}

#[test]
fn requests_that_wait_when_the_leader_dies_are_answered_by_the_next() {
    let mut w = three();
    let leader = w.leader(0);
    let other = (leader + 1) % 3;
    w.places[leader].disk.hold(true);
    w.kill(leader);
    let conn = w.ask(other, &set("k", "v"));
    assert_eq!(w.answer(conn), None);
    w.pass(3 * S);
    assert_eq!(w.answer(conn).expect("from the next leader").code, 0);
}

#[test]
fn an_answer_comes_after_the_map_that_it_speaks_of() {
    let mut w = three();
    let leader = w.leader(0);
    let other = (leader + 1) % 3;
    let conn = w.client(other, "client.admin", "allow *");
    let mut want = msgs::MonSubscribe::default();
    want.what.insert("osdmap".into(), msgs::SubscribeItem { start: 0, flags: 0 });
    w.send(other, conn, 0, msgs::Body::from(want));
    let command = msgs::MonCommand {
        fsid: support::fsid(),
        cmd: vec![r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#.to_owned()],
        ..msgs::MonCommand::default()
    };
    w.send(other, conn, 3, msgs::Body::from(command));
    w.pass(S);
    let kinds: Vec<&str> = w.sent[&conn]
        .iter()
        .filter_map(|m| if let Body::Client(body) = &m.body { Some(body.name()) } else { None })
        .collect();
    assert_eq!(kinds, ["osd_map", "osd_map", "mon_command_ack"]);
}

#[test]
fn a_monitor_that_lost_its_store_fetches_everything_from_the_others() {
    let mut w = three();
    for i in 0..1200 {
        w.ok(0, &set(&format!("k{}", i % 7), &i.to_string()));
    }
    for lost in [2, 0] {
        w.wipe(lost);
        w.start(lost);
        w.pass(5 * S);
        w.wait_quorum((lost + 1) % 3, &["a", "b", "c"]);
        assert!(w.places[lost].ready);
        assert_eq!(w.ok(lost, &get("k0")), "1197");
    }
    // What it fetched is its own: it can lead with one of the others, and after a restart.
    w.kill(1);
    w.kill(0);
    w.start(0);
    w.wait_quorum(2, &["a", "c"]);
    assert_eq!(w.ok(0, &get("k0")), "1197");
}

/// Nothing can be agreed on before it has come, and what is on its way is lost again and again.
#[test]
fn the_only_one_who_has_everything_brings_it_to_a_monitor_that_is_far_behind() {
    let mut w = three();
    w.kill(1);
    for i in 0..300 {
        w.ok(0, &set(&format!("k{}", i % 7), &i.to_string()));
    }
    w.kill(0);
    w.wipe(2);
    w.snapshots_lost = 2;
    w.start(0);
    w.start(1);
    w.wait_quorum(0, &["a", "b"]);
    assert_eq!((w.ok(1, &get("k0")), w.snapshots_lost), ("294".to_owned(), 0));
}

/// One monitor, to which two are added.
fn grown() -> World {
    let mut w = World::new(1);
    w.pass(S);
    assert_eq!(w.command(0, r#"{"prefix":"mon rm","name":"a"}"#).code, -22, "the last one stays");
    let all: Vec<_> =
        ["a", "b", "c"].iter().enumerate().map(|(n, name)| ((*name).to_owned(), addr(n))).collect();
    for n in 1..3 {
        let add = format!(r#"{{"prefix":"mon add","name":"{}","addr":"{}"}}"#, all[n].0, addr(n));
        w.ok(0, &add);
        w.ok(0, &set("k", &n.to_string()));
        w.add(n, &all);
        w.start(n);
        let names: Vec<&str> = all[..=n].iter().map(|(name, _)| &**name).collect();
        w.wait_quorum(0, &names);
        assert_eq!(w.ok(n, &get("k")), n.to_string());
    }
    w
}

#[test]
fn a_monitor_whose_configuration_names_itself_alone_finds_the_others_after_a_restart() {
    let mut w = grown();
    w.kill(0);
    w.wait_quorum(1, &["b", "c"]);
    w.start(0);
    w.wait_quorum(1, &["a", "b", "c"]);
    (0..3).for_each(|n| w.kill(n));
    (0..3).for_each(|n| w.start(n));
    w.wait_quorum(0, &["a", "b", "c"]);
    assert_eq!(w.ok(0, &get("k")), "2");
}

#[test]
fn monitors_are_added_and_removed_while_all_goes_on() {
    let mut w = grown();
    let leader = w.leader(0);
    let other = (leader + 1) % 3;
    let gone = ["a", "b", "c"][leader];
    w.ok(other, &format!(r#"{{"prefix":"mon rm","name":"{gone}"}}"#));
    w.pass(3 * S);
    assert!(w.places[leader].stopped.as_ref().expect("ends by itself").contains("removed"));
    w.ok(other, &set("k", "two left"));
    let dump = w.json(other, r#"{"prefix":"mon dump"}"#);
    assert_eq!((dump["epoch"].as_u64(), dump["mons"].as_array().map(Vec::len)), (Some(4), Some(2)));
    // Two left of which one is dead: the other alone would be no majority of what was agreed on.
    let last = 3 - leader - other;
    w.kill(last);
    w.pass(3 * S);
    let conn = w.ask(other, &get("k"));
    w.pass(5 * S);
    assert_eq!(w.answer(conn), None);
}

#[test]
fn a_removal_that_would_end_the_quorum_is_refused() {
    let mut w = three();
    let leader = w.leader(0);
    let (dead, alive) = ((leader + 1) % 3, (leader + 2) % 3);
    w.kill(dead);
    w.pass(5 * S);
    let name = |n: usize| char::from(b'a' + n as u8);
    let rm = |n| format!(r#"{{"prefix":"mon rm","name":"{}"}}"#, name(n));
    let refused = w.command(alive, &rm(alive));
    assert_eq!(refused.code, -16, "{}", refused.status);
    assert_eq!(w.command(alive, &rm(dead)).code, 0);
    w.ok(alive, &set("k", "v"));
}

#[test]
fn clocks_that_differ_are_told() {
    let mut w = three();
    let leader = w.leader(0);
    let late = (leader + 1) % 3;
    w.places[late].wall_ahead = 300_000_000;
    w.pass(3 * S);
    let health = w.json(0, r#"{"prefix":"health","detail":"detail"}"#);
    let name = char::from(b'a' + late as u8);
    let summary = &health["checks"]["MON_CLOCK_SKEW"]["summary"]["message"];
    assert_eq!(summary, &format!("clock skew detected on mon.{name}"), "{health}");
    let status = w.json(0, r#"{"prefix":"time-sync-status"}"#);
    let skew = status["time_skew_status"][name.to_string()]["skew"].as_f64().expect("a number");
    assert!((skew - 0.3).abs() < 0.01, "{status}");
}

#[test]
fn daemons_hear_of_a_new_leader_and_their_reports_reach_it() {
    let mut w = three();
    let leader = w.leader(0);
    let (there, third) = ((leader + 1) % 3, (leader + 2) % 3);
    let osd = w.client(there, "osd.0", "allow profile osd");
    w.send(there, osd, 0, peer::Body::from(support::boot(0, 77)));
    w.pass(S);
    let up = |w: &mut World| w.json(third, r#"{"prefix":"osd stat"}"#)["num_up_osds"].as_u64();
    assert_eq!(up(&mut w), Some(1));
    w.sent.remove(&osd);
    w.kill(leader);
    w.pass(4 * S);
    let told = w.sent.get(&osd).into_iter().flatten();
    let told = told.filter(|m| matches!(&m.body, Body::Peer(peer::Body::MonLeader(_)))).count();
    assert_eq!(told, 1);
}

#[test]
fn daemons_report_anew_when_the_way_to_the_leader_was_interrupted() {
    let mut w = three();
    let leader = w.leader(0);
    let there = (leader + 1) % 3;
    let osd = w.client(there, "osd.0", "allow profile osd");
    w.break_links(there, leader);
    w.send(there, osd, 0, peer::Body::from(support::boot(0, 77)));
    let told = |w: &mut World| {
        let told = w.sent.remove(&osd).into_iter().flatten();
        told.filter(|m| matches!(&m.body, Body::Peer(peer::Body::MonLeader(_)))).count()
    };
    w.pass(S / 10);
    assert_eq!(told(&mut w), 0, "there is no way yet");
    w.pass(S);
    assert_eq!(told(&mut w), 1);
    w.send(there, osd, 0, peer::Body::from(support::boot(0, 77)));
    w.pass(S);
    assert_eq!(w.json(leader, r#"{"prefix":"osd stat"}"#)["num_up_osds"], 1);
}

#[test]
fn a_monitor_with_a_damaged_store_says_how_to_rebuild_it() {
    let mut w = three();
    w.kill(1);
    w.places[1].disk.damage("mon.log");
    w.start(1);
    let why = w.places[1].stopped.clone().expect("stops");
    assert!(why.contains("/var/lib/nacre/mon.a/block") && why.contains("fetches everything"), "{why}");
    w.ok(0, &set("k", "undisturbed"));
}
