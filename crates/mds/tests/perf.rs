//! The performance counters count what was done.

mod world;

use decl::perf::Groups;
use mds::MdsOptions;
use serde_json::Value;
use std::time::Duration;
use world::World;
use world::client::{create, getattr, mkdir};
use world::ranks::Ranks;

fn counters(rank: &mds::Rank) -> Value {
    let mut groups = Groups::default();
    rank.put_perf(&mut groups);
    Value::Object(groups.command("perf dump").expect("a command"))
}

#[test]
fn requests_answers_and_the_cache_are_counted() {
    let mut w = World::new(1, MdsOptions::default());
    w.connect(1);
    for request in [mkdir("d"), create("d/f", 2), getattr("d/f", 0)] {
        assert_eq!(w.call(1, request).result, 0);
    }
    assert!(w.call(1, mkdir("d")).result < 0, "it is there");
    w.advance(Duration::from_secs(1));
    let told = counters(&w.rank);
    assert_eq!((&told["mds"]["request"], &told["mds"]["reply"]), (&4.into(), &4.into()), "{told}");
    assert_eq!(told["mds_server"]["req_mkdir_latency"]["avgcount"], 2);
    assert_eq!((&told["mds_server"]["req_mkdir"], &told["mds"]["forward"]), (&2.into(), &0.into()));
    let sessions = &told["mds_sessions"];
    assert_eq!((&sessions["session_count"], &sessions["sessions_open"]), (&1.into(), &1.into()));
    let stats = w.rank.stats();
    assert_eq!(told["mds"]["inodes"].as_u64(), Some(stats.inodes as u64));
    assert_eq!(told["mds"]["caps"].as_u64(), Some(stats.capabilities as u64));
    let log = &told["mds_log"];
    assert!(log["evadd"].as_u64() >= Some(3) && log["ev"].as_u64() >= log["evadd"].as_u64(), "{log}");
    assert!(log["seg"].as_u64() >= Some(1));
}

#[test]
fn subtrees_that_move_are_counted_on_both_sides() {
    let mut r = Ranks::new(1);
    r.ok(0, mkdir("d"));
    r.ok(0, create("d/f", 2));
    r.export(0, "/d", 1);
    r.settle();
    let (left, came) = (counters(&r.worlds[0].rank), counters(&r.worlds[1].rank));
    assert_eq!((&left["mds"]["exported"], &came["mds"]["imported"]), (&1.into(), &1.into()));
    assert!(left["mds"]["exported_inodes"].as_u64() >= Some(2), "{left}");
    assert!(came["mds"]["imported_inodes"].as_u64() >= Some(2), "{came}");
    assert!(came["mds_server"]["handle_peer_request"].as_u64() >= Some(1), "{came}");
    assert_eq!(r.forwarded(0, getattr("d/f", 0)), (1, 1));
    assert_eq!(counters(&r.worlds[0].rank)["mds"]["forward"], 1);
}
