//! What must hold when OSDs die, return, and lose one another.

use super::cluster::{Cluster, append, member, write_full};
use crate::completion::CommitFor;
use crate::pg::state::State;
use crate::superblock::{SUPER_POOL, SUPERBLOCK, SUPERBLOCK_KEY, Superblock};
use maps::{Epoch, Spg};
use msgs::op::input;
use msgs::{Extent, Op, OsdOpReply};
use node::{Body, Msg};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::Errno;

const SECOND: Duration = Duration::from_secs(1);

fn is_rep_op(msg: &Msg) -> bool {
    matches!(msg.body, Body::Peer(peer::Body::RepOp(_)))
}

#[test]
fn writes_are_read_back_and_replicas_are_identical() {
    let mut c = Cluster::new(3, 3, 2, 8);
    for i in 0..40 {
        c.write(&format!("o{i}"), &format!("content {i}"));
    }
    for i in 0..40 {
        assert_eq!(c.read(&format!("o{i}")), Ok(format!("content {i}")));
    }
    assert_eq!(c.op("o1", vec![Op::Delete]).result, 0);
    assert_eq!(c.read("o1"), Err(-2));
    assert_eq!(c.read("never"), Err(-2));
    c.check();
    assert_eq!(c.objects(0).len(), 39);
}

#[test]
fn the_others_go_on_when_a_primary_dies_and_it_catches_up_by_its_log() {
    let mut c = Cluster::new(3, 3, 2, 4);
    (0..20).for_each(|i| c.write(&format!("o{i}"), "old"));
    let victim = c.acting("o3")[0];
    c.kill(victim);
    c.write("o3", "new");
    (20..30).for_each(|i| c.write(&format!("o{i}"), "while it was away"));
    assert_eq!(c.op("o4", vec![Op::Delete]).result, 0);
    c.start(victim);
    c.run_until("it is up", |c| c.map.is_up(maps::OsdId(victim as i32)));
    c.check();
    assert_eq!(c.read("o3"), Ok("new".into()));
    assert_eq!(c.read("o4"), Err(-2));
    assert_eq!(c.counted("copy_resynced"), 0, "the log was enough");
    assert!(c.counted("objects_recovered") > 0);
}

#[test]
fn all_pgs_get_their_turn_when_few_objects_may_be_recovered_at_once() {
    let mut c = Cluster::new(3, 3, 2, 16);
    c.options.recovery_max_active = 2;
    for osd in 0..3 {
        c.kill(osd);
        c.start(osd);
    }
    c.run(SECOND);
    c.kill(1);
    c.run(SECOND);
    (0..120).for_each(|i| c.write(&format!("o{i}"), "while it was away"));
    c.start(1);
    c.run(SECOND);
    c.check();
}

/// The primary dies when only one of two replicas has an update.
fn torn_update(survivor: usize, restart: &[usize]) -> Cluster {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "acknowledged");
    let acting = c.acting("x");
    let spared = acting[1 + survivor];
    c.filter = Some(Box::new(move |_, to, msg| is_rep_op(msg) && to != spared));
    c.send_op(acting[0], Some(900), "x", vec![append(" and more")]);
    c.run(Duration::from_millis(20));
    assert!(!c.replies.contains_key(&900), "not answered before all replicas have it");
    c.kill(acting[0]);
    c.filter = None;
    for osd in restart {
        c.run(SECOND);
        c.start(acting[*osd]);
    }
    c
}

#[test]
fn an_update_on_one_replica_only_is_rolled_forward_once_and_everywhere() {
    for survivor in [0, 1] {
        let mut c = torn_update(survivor, &[0]);
        assert_eq!(
            c.read("x"),
            Ok("acknowledged and more".into()),
            "the replica that has it is the authority"
        );
        let reply = c.resend(900, "x", vec![append(" and more")]);
        assert_eq!(reply.result, 0);
        assert_eq!(c.read("x"), Ok("acknowledged and more".into()), "the repetition was known");
        c.check();
    }
}

#[test]
fn an_update_that_only_the_dead_primary_has_is_rolled_back_when_it_returns() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "acknowledged");
    c.write("y", "also");
    let acting = c.acting("x");
    c.filter = Some(Box::new(|_, _, msg| is_rep_op(msg)));
    c.send_op(acting[0], Some(901), "x", vec![append(" and lost")]);
    c.send_op(acting[0], Some(902), "created", vec![write_full("lost too")]);
    c.send_op(acting[0], Some(903), "y", vec![Op::Delete]);
    c.run(Duration::from_millis(20));
    c.kill(acting[0]);
    c.filter = None;
    assert_eq!(c.read("x"), Ok("acknowledged".into()));
    c.write("z", "after");
    c.start(acting[0]);
    c.run(SECOND);
    c.check();
    assert_eq!(c.acting("x")[0], acting[0], "the returned one is primary again");
    assert_eq!(c.read("x"), Ok("acknowledged".into()));
    assert_eq!(c.read("y"), Ok("also".into()));
    assert_eq!(c.read("created"), Err(-2));
    let reply = c.resend(902, "created", vec![write_full("now")]);
    assert_eq!(reply.result, 0, "a request that was rolled back may come again");
    assert_eq!(c.read("created"), Ok("now".into()));
    c.check();
}

#[test]
fn a_request_repeated_after_its_primary_died_is_carried_out_once_also_when_it_failed() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "a");
    let acting = c.acting("x");
    // The answers are lost, not the updates.
    let to_client = |to: usize| to > 100;
    c.filter = Some(Box::new(move |_, to, _| to_client(to)));
    c.send_op(acting[0], Some(910), "x", vec![append("b")]);
    c.send_op(
        acting[0],
        Some(911),
        "x",
        vec![Op::Create { data: Default::default() }, Op::RmXattr { name: b"".to_vec() }],
    );
    c.run(Duration::from_millis(50));
    c.kill(acting[0]);
    c.filter = None;
    let failed = c.resend(911, "x", vec![Op::Create { data: Default::default() }]);
    assert_eq!(failed.result, -22, "the failure is remembered");
    let first = c.resend(910, "x", vec![append("b")]);
    let again = c.resend(910, "x", vec![append("b")]);
    assert_eq!((first.result, first.user_version), (again.result, again.user_version));
    assert_eq!(c.read("x"), Ok("ab".into()));
    c.start(acting[0]);
    c.run(SECOND);
    c.check();
}

#[test]
fn nobody_is_shown_what_is_not_durable_on_all_replicas() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "old");
    let acting = c.acting("x");
    let last = acting[2];
    c.filter = Some(Box::new(move |_, to, msg| is_rep_op(msg) && to == last));
    c.send_op(acting[0], Some(920), "x", vec![write_full("new")]);
    c.send_op(acting[0], Some(921), "x", vec![Op::Read(Extent::new(0, 0))]);
    c.send_op(
        acting[0],
        Some(922),
        "x",
        vec![Op::CmpXattr { name: b"a".to_vec(), value: Default::default(), op: 9, mode: 1 }],
    );
    c.send_op(
        acting[0],
        Some(923),
        "x",
        vec![
            Op::Create { data: Default::default() },
            Op::CmpExt { extent: Extent::new(0, 1), data: vec![0].into() },
        ],
    );
    c.send_op(acting[0], Some(920), "x", vec![write_full("new")]);
    c.run(Duration::from_millis(100));
    for tid in 920..=923 {
        assert!(!c.replies.contains_key(&tid), "{tid} was answered early");
    }
    // The replica that did not get it dies; the others agree that the update is there.
    c.kill(last);
    c.filter = None;
    c.run_until("all are answered", |c| (920..=923).all(|tid| c.replies.contains_key(&tid)));
    assert_eq!(c.replies[&921][0].ops[0].data.to_vec(), b"new");
    assert_eq!(c.replies[&923][0].result, -4095);
    c.start(last);
    c.run(SECOND);
    c.check();
}

#[test]
fn clients_whose_requests_are_dropped_are_told_the_map_that_says_why() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "a");
    let acting = c.acting("x");
    c.kill(acting[0]);
    c.write("x", "b");
    let stand_in = c.acting("x")[0];
    c.filter = Some(Box::new(|_, _, msg| is_rep_op(msg)));
    c.send_op(stand_in, None, "x", vec![append("c")]);
    c.run(Duration::from_millis(20));
    c.start(acting[0]);
    c.run_until("it is primary again", |c| c.acting("x")[0] == acting[0]);
    let changed = c.map.epoch;
    c.run(Duration::from_millis(20));
    assert!(c.told >= changed, "told by the one who is primary no more");
    c.filter = None;
    c.check();
}

#[test]
fn below_min_size_nothing_is_served_until_enough_are_back() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "a");
    let acting = c.acting("x");
    c.kill(acting[1]);
    c.kill(acting[2]);
    c.run(2 * SECOND);
    let tid = c.send_op(acting[0], None, "x", vec![Op::Read(Extent::new(0, 0))]);
    c.run(5 * SECOND);
    assert!(!c.replies.contains_key(&tid));
    c.start(acting[1]);
    c.run_until("the read is answered", |c| c.replies.contains_key(&tid));
    c.start(acting[2]);
    c.run(SECOND);
    c.check();
}

#[test]
fn who_may_have_missed_writes_does_not_serve_without_those_who_made_them() {
    let mut c = Cluster::new(3, 2, 1, 1);
    c.write("x", "both");
    let acting = c.acting("x");
    c.kill(acting[1]);
    c.write("x", "first alone");
    c.kill(acting[0]);
    c.start(acting[1]);
    c.run(5 * SECOND);
    let primary = c.acting("x")[0];
    let tid = c.send_op(primary, None, "x", vec![Op::Read(Extent::new(0, 0))]);
    c.run(5 * SECOND);
    assert!(!c.replies.contains_key(&tid), "the newest write is on the OSD that is down");
    c.start(acting[0]);
    assert_eq!(c.read("x"), Ok("first alone".into()));
}

#[test]
fn a_copy_too_old_for_the_log_is_compared_object_by_object() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.options.log_entries = (20, 20);
    c.options.log_entries_total = 20;
    for osd in 0..3 {
        c.kill(osd);
        c.start(osd);
    }
    c.run(SECOND);
    c.wait_clean();
    (0..100).for_each(|i| c.write(&format!("o{i}"), "old"));
    let acting = c.acting("o0");
    for victim in [acting[2], acting[0]] {
        c.kill(victim);
        c.run(SECOND);
        for i in 0..100 {
            c.write(&format!("o{i}"), &format!("round {victim}"));
        }
        (0..100).for_each(|i| c.write(&format!("new{i}"), "new"));
        (50..60).for_each(|i| assert_eq!(c.op(&format!("o{i}"), vec![Op::Delete]).result, 0));
        c.start(victim);
        c.run_until("it is up", |c| c.map.is_up(maps::OsdId(victim as i32)));
        // Writes go on meanwhile.
        for i in 0..30 {
            c.write(&format!("o{i}"), &format!("meanwhile {victim}"));
        }
        c.check();
        assert_eq!(c.read("o7"), Ok(format!("meanwhile {victim}")));
        assert_eq!(c.read("o40"), Ok(format!("round {victim}")));
        assert_eq!(c.read("o55"), Err(-2));
        (50..60).for_each(|i| c.write(&format!("o{i}"), "again"));
        assert!(c.counted("copy_resynced") >= 1);
        c.run_until("it leads again", |c| c.acting("o0") == acting);
    }
    c.check();
}

#[test]
fn large_objects_and_omaps_are_recovered_in_parts() {
    let mut c = Cluster::new(3, 3, 2, 1);
    let acting = c.acting("big");
    c.kill(acting[0]);
    c.run(SECOND);
    let data = stdx::Bufs::from(stdx::Buf::pattern(3, (5 << 20) + 17));
    let whole = Op::WriteFull { extent: Extent::new(0, data.len() as u64), data: data.clone() };
    assert_eq!(c.op("big", vec![whole]).result, 0);
    let values: input::OmapValues =
        (0..3000u32).map(|i| (format!("k{i:05}").into_bytes(), vec![7; 300])).collect();
    let set = Op::OmapSetVals { data: input::write(&values) };
    let header = Op::OmapSetHeader { data: b"head".to_vec().into() };
    let attr = Op::SetXattr { name: b"a".to_vec(), value: b"b".to_vec().into() };
    assert_eq!(c.op("map", vec![set, header, attr]).result, 0);
    c.start(acting[0]);
    c.run(SECOND);
    c.check();
    let reply = c.op("big", vec![Op::Read(Extent::new(0, 0))]);
    assert_eq!(reply.ops[0].data, data);
    let ask = input::OmapGetVals { max: 10_000, ..Default::default() };
    let reply = c.op("map", vec![Op::OmapGetVals { data: input::write(&ask) }]);
    let (got, more): input::OmapValuesReply = input::read(&reply.ops[0].data).expect("values");
    assert_eq!((got.len(), more), (1024, true));
}

#[test]
fn listing_pages_through_all_objects_in_order() {
    let mut c = Cluster::new(3, 3, 2, 2);
    let names: std::collections::BTreeSet<String> = (0..150).map(|i| format!("o{i}")).collect();
    names.iter().for_each(|n| c.write(n, "x"));
    let mut found = std::collections::BTreeSet::new();
    for seed in 0..2 {
        let mut cursor: Option<maps::HObject> = None;
        loop {
            let data = cursor.as_ref().map(input::write).unwrap_or_default();
            let reply = list(&mut c, seed, Op::PgNls { max: 7, start_epoch: 0, data });
            let page: input::PgNlsReply = input::read(&reply.ops[0].data).expect("a page");
            assert!(page.entries.len() <= 7);
            for entry in page.entries {
                assert!(found.insert(String::from_utf8(entry.oid).expect("a name")), "listed twice");
            }
            if reply.result == 1 {
                break;
            }
            cursor = Some(page.handle);
        }
    }
    assert_eq!(found, names);
}

#[test]
fn listing_from_behind_the_end_finds_nothing() {
    let mut c = Cluster::new(3, 3, 2, 2);
    let returning = c.acting("o0")[0];
    c.kill(returning);
    c.run(SECOND);
    (0..60).for_each(|i| c.write(&format!("o{i}"), &"x".repeat(50_000)));
    // The primaries of some PGs lack objects while they answer.
    c.start(returning);
    let behind = maps::HObject { hash: u32::MAX, ..maps::HObject::max() };
    let far = maps::HObject { pool: i64::MAX, hash: u32::MAX, ..maps::HObject::default() };
    for cursor in [maps::HObject::max(), behind, far] {
        for seed in 0..2 {
            let op = Op::PgNls { max: 7, start_epoch: 0, data: input::write(&cursor) };
            let reply = list(&mut c, seed, op);
            let page: input::PgNlsReply = input::read(&reply.ops[0].data).expect("a page");
            assert_eq!((reply.result, page.entries.len()), (1, 0), "{cursor:?}");
        }
    }
}

fn list(c: &mut Cluster, seed: u32, op: Op) -> OsdOpReply {
    // Any object of the PG finds its primary; the request itself names none.
    let name = (0..).map(|i| format!("o{i}")).find(|n| c.pgid(n).seed == seed).expect("some");
    c.op(&name, vec![op])
}

#[test]
fn a_broken_connection_between_live_osds_loses_nothing() {
    let mut c = Cluster::new(3, 3, 2, 4);
    for round in 0..6 {
        let acting = c.acting("x");
        let tid = c.send_op(acting[0], None, "x", vec![append(&format!("{round},"))]);
        c.run(Duration::from_micros(1500));
        c.break_links(acting[0], acting[1 + round % 2]);
        c.run_until("the write is answered", |c| c.replies.contains_key(&tid));
    }
    assert_eq!(c.read("x"), Ok("0,1,2,3,4,5,".into()));
    c.check();
    assert_eq!(c.map.epoch, Epoch(c.map.epoch.0.min(20)), "nobody was marked down for it");
}

#[test]
fn a_cut_off_primary_stops_serving_reads_before_another_one_writes() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "old");
    let acting = c.acting("x");
    let old = acting[0];
    // It hears and is heard by nobody but the client.
    let cut = move |a: usize, b: usize| a == old && b < 101 || b == old && a < 101;
    c.filter = Some(Box::new(move |from, to, _| cut(from, to)));
    c.run_until("it is marked down", |c| c.map.is_down(maps::OsdId(old as i32)));
    let write = c.send_op(c.acting("x")[0], None, "x", vec![write_full("new")]);
    c.run_until("the new primary has written", |c| c.replies.contains_key(&write));
    let stale = c.send_op(old, None, "x", vec![Op::Read(Extent::new(0, 0))]);
    c.run(5 * SECOND);
    assert!(!c.replies.contains_key(&stale), "the old primary must not serve");
    c.filter = None;
    c.complaints.clear();
}

#[test]
fn a_new_primary_need_not_wait_for_one_whose_process_is_dead() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "old");
    let acting = c.acting("x");
    c.kill(acting[0]);
    let before = c.now();
    c.write("x", "new");
    assert!(c.now().since(before) < Duration::from_millis(500), "{:?}", c.now().since(before));
    c.start(acting[0]);
    c.run(SECOND);
    c.check();
}

#[test]
fn all_power_fails_and_everything_acknowledged_is_there() {
    let mut c = Cluster::new(3, 3, 2, 4);
    for round in 0..3 {
        (0..20).for_each(|i| c.write(&format!("o{i}"), &format!("round {round}")));
        (0..3).for_each(|i| c.kill(i));
        (0..3).for_each(|i| c.start(i));
        c.run(SECOND);
        for i in 0..20 {
            assert_eq!(c.read(&format!("o{i}")), Ok(format!("round {round}")));
        }
    }
    c.check();
}

#[test]
fn a_request_that_waits_says_for_what_and_for_how_long() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "quick");
    let acting = c.acting("x");
    c.filter = Some(Box::new(|_, _, msg| is_rep_op(msg)));
    let tid = c.send_op(acting[0], None, "x", vec![write_full("slow")]);
    c.run(40 * SECOND);
    let primary = c.osd(acting[0]);
    let waiting: Vec<_> = primary.pgs.values().flat_map(|pg| pg.dump_ops(&primary.core)).collect();
    let told = |op: &serde_json::Value| {
        let events = op["type_data"]["events"].as_array().expect("events").clone();
        let longest = events
            .into_iter()
            .max_by(|a, b| a["duration"].as_f64().partial_cmp(&b["duration"].as_f64()).expect("numbers"));
        let longest = longest.expect("one");
        (
            longest["event"].as_str().unwrap_or_default().to_owned(),
            longest["duration"].as_f64().unwrap_or_default(),
        )
    };
    assert_eq!(waiting.len(), 1);
    assert!(
        matches!(told(&waiting[0]), (what, s) if what == "waiting for sub ops" && s > 30.0),
        "{waiting:?}"
    );
    assert!(matches!(c.slow_ops, (1, 30..=40)), "the monitors hear of it: {:?}", c.slow_ops);
    c.filter = None;
    c.break_links(acting[0], acting[1]);
    c.finish(tid, "x", vec![write_full("slow")]);
    let past = c.osd(acting[0]).core.op_tracker().dump();
    let slow = c.osd(acting[0]).core.op_tracker().dump_slow();
    let ops = past["ops"].as_array().expect("requests");
    assert!(ops[0]["duration"].as_f64() < Some(1.0), "{past}");
    assert!(matches!(told(&ops[1]), (what, s) if what == "waiting for sub ops" && s > 30.0), "{past}");
    assert_eq!(slow["Ops"].as_array().map(Vec::len), Some(1));
    c.check();
}

#[test]
fn a_deleted_pool_leaves_no_objects() {
    let mut c = Cluster::new(3, 3, 2, 2);
    (0..100).for_each(|i| c.write(&format!("o{i}"), "x"));
    c.change(|map, _| {
        map.pools.clear();
    });
    c.run(2 * SECOND);
    assert_eq!(c.objects(0).len(), 0);
    assert!(c.osd(0).pgs.is_empty() && c.osd(0).removals.is_empty());
}

/// Sets how much of its share an OSD gets.
fn weigh(c: &mut Cluster, osd: usize, weight: u32) {
    c.change(|map, _| map.osds[osd].weight = weight);
}

#[test]
fn an_osd_that_is_out_keeps_no_copies_once_others_have_everything() {
    let mut c = Cluster::new(4, 3, 2, 8);
    (0..100).for_each(|i| c.write(&format!("o{i}"), "before"));
    c.wait_clean();
    let victim = c.acting("o1")[0];
    assert!(!c.osd(victim).pgs.is_empty());
    weigh(&mut c, victim, 0);
    c.wait_clean();
    c.run_until("the copies are gone", |c| c.osd(victim).pgs.is_empty() && c.osd(victim).removals.is_empty());
    assert_eq!(c.objects(victim).len(), 0);
    (0..100).for_each(|i| c.write(&format!("o{i}"), "after"));
    weigh(&mut c, victim, maps::WEIGHT_IN);
    c.wait_clean();
    assert!(!c.objects(victim).is_empty());
    c.check();
    (0..100).for_each(|i| assert_eq!(c.read(&format!("o{i}")), Ok("after".to_owned())));
}

#[test]
fn a_copy_that_is_wanted_again_while_it_goes_is_made_whole() {
    for cut in 0..12 {
        let mut c = Cluster::new(4, 3, 2, 1);
        (0..400).for_each(|i| c.write(&format!("o{i}"), "before"));
        c.wait_clean();
        let victim = c.acting("o1")[cut % 2];
        weigh(&mut c, victim, 0);
        c.run_until("its copy is going", |c| !c.osd(victim).removals.is_empty());
        // Somewhere in it, also with a start between.
        c.run(Duration::from_millis(cut as u64 / 2));
        if cut % 3 == 0 {
            c.kill(victim);
            c.start(victim);
        }
        weigh(&mut c, victim, maps::WEIGHT_IN);
        (0..40).for_each(|i| c.write(&format!("o{i}"), "after"));
        c.wait_clean();
        c.check();
        let held = c.objects(victim).len();
        assert_eq!(held, if c.acting("o1").contains(&victim) { 400 } else { 0 }, "cut {cut}");
        (0..400).for_each(|i| {
            let text = if i < 40 { "after" } else { "before" };
            assert_eq!(c.read(&format!("o{i}")), Ok(text.to_owned()), "o{i}");
        });
    }
}

#[test]
fn another_osds_disk_is_refused() {
    let mut c = Cluster::new(1, 1, 1, 1);
    c.write("x", "a");
    c.kill(0);
    c.give_disk(0, 5);
    c.start(5);
    c.run(SECOND);
    assert_eq!(c.stopped.len(), 1);
    assert!(c.stopped[0].1.contains("osd.0 of cluster"), "{:?}", c.stopped);
}

#[test]
fn the_store_of_a_later_version_is_refused() {
    let mut c = Cluster::new(1, 1, 1, 1);
    let mut later = wire::Writer::encode(&Superblock::default());
    later[..2].copy_from_slice(&[9, 9]);
    let entry = (SUPERBLOCK_KEY.to_vec(), later);
    let op = store::TxnOp::OmapSet(store::ObjectKey::private(SUPER_POOL, SUPERBLOCK), vec![entry]);
    c.osd_mut(0).core.submit_own(store::Transaction { ops: vec![op] }, CommitFor::Nothing);
    c.run(SECOND);
    c.kill(0);
    c.start(0);
    c.run(SECOND);
    assert_eq!(c.stopped.len(), 1);
    let why = &c.stopped[0].1;
    assert!(
        why.contains("version 9 needs a reader of 9, this one knows 2") && why.contains(wire::NEWER),
        "{why}"
    );
}

#[test]
fn a_key_allows_what_it_says_and_no_more() {
    let mut c = Cluster::new(1, 1, 1, 8);
    c.write("a.1", "text");
    c.wait_clean();
    let read = || vec![Op::Stat];
    let write = || vec![write_full("other")];
    let call = || {
        let (class, method) = ("lock".to_owned(), "lock".to_owned());
        vec![Op::Call { class, method, input: Default::default() }]
    };
    for (caps, reads, writes, calls) in [
        ("allow *", 0, 0, -22),
        ("allow rw", 0, 0, -1),
        ("allow r", 0, -1, -1),
        ("allow w", -1, 0, -1),
        ("allow r, allow x", 0, -1, -22),
        ("allow class lock", -1, -1, -22),
        ("allow rwx pool=p", 0, 0, -22),
        ("allow rwx pool=q", -1, -1, -1),
        ("allow rw namespace=n", -1, -1, -1),
        ("allow rw object_prefix a.", 0, 0, -1),
        ("allow rw object_prefix b.", -1, -1, -1),
        ("allow rw tag cephfs data=*", -1, -1, -1),
        ("allow rw network 10.0.0.0/24", 0, 0, -1),
        ("allow rw network 10.0.1.0/24", -1, -1, -1),
        ("nonsense", -1, -1, -1),
        ("", -1, -1, -1),
    ] {
        c.client_with(caps);
        let results = [read(), write(), call()].map(|ops| c.op("a.1", ops).result);
        assert_eq!(results, [reads, writes, calls], "{caps}");
    }
    c.client_with("allow rw tag cephfs data=one");
    assert_eq!(c.op("a.1", write()).result, -1);
    c.change(|map, _| {
        let data = BTreeMap::from([("data".to_owned(), "one".to_owned())]);
        let pool = map.pools.values_mut().next().expect("a pool");
        pool.application_metadata.insert("cephfs".into(), data);
    });
    assert_eq!(c.op("a.1", write()).result, 0, "the pool is now the file system's");
    assert!(c.counted("request_denied") > 20);
}

#[test]
fn one_that_was_asked_to_end_leaves_a_store_without_a_log_to_replay() {
    let mut c = Cluster::new(3, 3, 2, 8);
    (0..40).for_each(|i| c.write(&format!("o{i}"), "before"));
    // With writes under way.
    let victim = c.acting("o1")[0];
    let tids: Vec<u64> =
        (40..60).map(|i| c.send_op(victim, None, &format!("o{i}"), vec![write_full("late")])).collect();
    let report = c.stop(victim);
    assert_eq!((report.damage.len(), report.log.0), (0, 0));
    for (i, tid) in (40..60).zip(tids) {
        c.finish(tid, &format!("o{i}"), vec![write_full("late")]);
    }
    c.start(victim);
    c.wait_clean();
    c.check();
    (0..60).for_each(|i| assert!(c.read(&format!("o{i}")).is_ok(), "o{i}"));
}

/// One PG with objects on three of six OSDs, which is to move to the others.
#[test]
fn an_administrator_may_tell_one_to_end() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "text");
    let osd = c.acting("x")[1];
    let exit = msgs::Command { cmd: vec![r#"{"prefix": "exit"}"#.to_owned()], ..msgs::Command::default() };
    c.client_with("allow rw");
    c.send_any(osd, 1, msgs::Body::from(exit.clone()));
    c.run_until("a refusal", |c| c.command_replies.len() == 1);
    assert_eq!((c.command_replies[0].0, c.stopped.len()), (Errno::EPERM.to_result_code(), 0));
    c.client_with("allow *");
    c.send_any(osd, 2, msgs::Body::from(exit));
    let report = c.has_ended(osd);
    assert_eq!((report.damage.len(), report.log.0), (0, 0));
    c.run_until("an answer", |c| c.command_replies.len() == 2);
    assert_eq!(c.command_replies[1], (0, b"{}".to_vec()));
    c.start(osd);
    c.check();
}

fn moving(by_log: bool) -> (Cluster, Vec<usize>, Vec<usize>) {
    let mut c = Cluster::new(6, 3, 2, 1);
    // New copies are filled slowly here.
    (c.options.scan_max, c.options.recovery_max_active) = (1, 1);
    if !by_log {
        (c.options.log_entries, c.options.log_entries_total) = ((4, 4), 4);
    }
    for osd in 0..6 {
        c.kill(osd);
        c.start(osd);
    }
    c.run(SECOND);
    (0..120).for_each(|i| c.write(&format!("o{i}"), "old"));
    let from = c.acting("o0");
    let to: Vec<usize> = (0..6).filter(|osd| !from.contains(osd)).collect();
    c.place(c.pgid("o0"), &to);
    (c, from, to)
}

#[test]
fn a_pg_that_moves_is_served_by_its_old_copies_until_the_new_ones_are_filled() {
    for by_log in [true, false] {
        moves_unnoticed(by_log);
    }
}

fn moves_unnoticed(by_log: bool) {
    let (mut c, from, to) = moving(by_log);
    let pgid = c.pgid("o0");
    c.write("o5", "new");
    assert_eq!(c.acting("o0"), from, "for the time being");
    let state = |c: &Cluster| c.osd(from[0]).pgs[&Spg::replicated(pgid)].state_bits(&c.osd(from[0]).core);
    let waits = peer::pg_state::BACKFILL_WAIT | peer::pg_state::RECOVERY_WAIT;
    c.run_until("its turn", |c| state(c) & waits == 0);
    let told = peer::pg_state::name(state(&c));
    let fills = if by_log { "recovering+remapped" } else { "remapped+backfilling" };
    assert!(told.contains(fills) && !told.contains("degraded"), "{told}");
    let before = c.now();
    for i in 6..20 {
        c.write(&format!("o{i}"), "new");
        assert_eq!(c.read(&format!("o{i}")), Ok("new".into()));
    }
    assert!(c.now().since(before) < SECOND, "nobody waits for the copies");
    assert_eq!(c.acting("o0"), from, "or this shows nothing");
    c.run_until("it is where it should be", |c| {
        let led = c.acting("o0")[0];
        assert!(
            !peer::pg_state::name(c.osd(led).pgs[&Spg::replicated(pgid)].state_bits(&c.osd(led).core))
                .contains("degraded")
        );
        c.acting("o0") == to
    });
    c.check();
    c.run(SECOND);
    for osd in 0..6 {
        assert_eq!(c.objects(osd).len(), if to.contains(&osd) { 120 } else { 0 }, "osd.{osd}");
    }
    for i in 0..120 {
        let text = if (5..20).contains(&i) { "new" } else { "old" };
        assert_eq!(c.read(&format!("o{i}")), Ok(text.into()));
    }
}

#[test]
fn a_pg_that_moves_bears_the_loss_of_old_and_new_copies() {
    let (mut c, from, to) = moving(false);
    c.write("o5", "new");
    c.kill(from[0]);
    c.write("o6", "newer");
    c.kill(to[1]);
    c.write("o7", "newest");
    c.start(to[1]);
    c.start(from[0]);
    c.run_until("it is where it should be", |c| c.acting("o0") == to);
    c.check();
    assert_eq!(c.read("o5"), Ok("new".into()));
    assert_eq!(c.read("o6"), Ok("newer".into()));
    assert_eq!(c.read("o7"), Ok("newest".into()));
}

#[test]
fn where_crush_finds_too_few_osds_a_complete_copy_stays_in_service() {
    let mut c = Cluster::new(3, 3, 2, 1);
    (0..10).for_each(|i| c.write(&format!("o{i}"), "old"));
    let all = c.acting("o0");
    c.place(c.pgid("o0"), &all[..2]);
    c.write("o1", "new");
    c.check();
    assert_eq!(c.acting("o0").len(), 3, "three copies are better than two");
    assert_eq!(c.objects(all[2]).len(), 10);
}

#[test]
fn a_copy_that_came_to_be_of_no_use_while_its_osd_was_away_is_removed() {
    let mut c = Cluster::new(4, 3, 2, 1);
    c.write("o", "x");
    c.wait_clean();
    let (pgid, acting) = (c.pgid("o"), c.acting("o"));
    let other = (0..4).find(|osd| !acting.contains(osd)).expect("one of four");
    c.place(pgid, &[acting[0], acting[1], other]);
    // Until the other one is filled the old ones serve.
    c.run_until("it knows that it is needed no more", |c| {
        let pg = &c.osd(acting[2]).pgs[&Spg::replicated(pgid)];
        let is_out = pg.state() == State::Stray && !pg.takes_part(member(acting[2]));
        is_out && c.objects(other).contains_key(&b"o"[..])
    });
    // It dies when it has recorded that, before the primary has said that it may remove its copy.
    c.freeze(acting[0]);
    c.run(Duration::from_millis(300));
    c.kill(acting[2]);
    c.thaw(acting[0]);
    c.run_until("it has moved", |c| {
        let pg = &c.osd(acting[0]).pgs[&Spg::replicated(pgid)];
        pg.state() == State::Clean && pg.takes_part(member(other))
    });
    // It is not a member when it comes: no interval begins.
    let interval = c.osd(acting[0]).pgs[&Spg::replicated(pgid)].members().interval();
    c.start(acting[2]);
    c.run(Duration::from_secs(10));
    assert_eq!(c.osd(acting[0]).pgs[&Spg::replicated(pgid)].members().interval(), interval);
    let left: Vec<_> = c.objects(acting[2]).into_keys().filter(|name| name == b"o").collect();
    assert_eq!(left, Vec::<Vec<u8>>::new(), "on osd.{}", acting[2]);
    c.check();
}

#[test]
fn an_object_asked_of_a_copy_that_is_gone_without_a_word_is_asked_of_another() {
    let mut c = Cluster::new(3, 3, 1, 1);
    let pgid = c.pgid("x");
    c.place(pgid, &[2, 0, 1]);
    c.wait_clean();
    c.write("x", "old");
    c.kill(2);
    c.mark_down(2, true);
    c.write("x", "new");
    // The first copy is of no member any more: nothing that becomes of it begins another interval.
    c.place(pgid, &[2, 1]);
    c.change(|map, _| map.pools.values_mut().for_each(|pool| pool.size = 2));
    c.filter =
        Some(Box::new(|_, to, msg| to == 0 && matches!(msg.body, node::Body::Peer(peer::Body::Pull(_)))));
    c.start(2);
    let asks = |c: &Cluster| {
        c.acting("x")[0] == 2 && c.osd(2).pgs[&Spg::replicated(pgid)].recovery().pull_count() > 0
    };
    c.run_until("the primary asks for it", asks);
    c.run(Duration::from_millis(100));
    c.freeze(0);
    c.mark_down(0, false);
    c.filter = None;
    assert!(asks(&c), "it is still awaited");
    let tid = c.send_op(2, None, "x", vec![msgs::Op::Read(msgs::Extent::new(0, 0))]);
    c.run_until("an answer", |c| c.replies.contains_key(&tid));
    assert_eq!(c.read("x"), Ok("new".into()));
}
