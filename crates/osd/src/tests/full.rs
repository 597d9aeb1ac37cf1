//! What must hold when an OSD has no room: nothing stops, nothing is lost, what frees space goes on, and what
//! waits goes on once there is room.

use super::cluster::{Cluster, GID, append, member, write_full};
use crate::snapset::SnapContext;
use maps::{OsdId, SnapId, Spg};
use msgs::op::watch_op;
use msgs::{Extent, Op, notify_op};
use node::{Body, Msg};
use peer::pg_state;
use std::time::Duration;
use wire::{EntityId, EntityType};

const MIB: usize = 1 << 20;
const SMALL: u64 = 64 << 20;
const LARGE: u64 = 256 << 20;
/// The one with the small disk.
const FULL: usize = 2;

fn mib(i: usize) -> String {
    format!("{i:04}").repeat(MIB / 4)
}

/// Three OSDs of which one is full: writes go on until one is not answered. Gives how many were, and what
/// waits.
fn filled() -> (Cluster, usize, u64) {
    filled_by(Cluster::with_disks(&[LARGE, LARGE, SMALL], 3, 2, 4))
}

fn filled_by(mut c: Cluster) -> (Cluster, usize, u64) {
    for i in 0.. {
        let name = format!("o{i}");
        let primary = c.acting(&name)[0];
        if primary == FULL {
            // It would say at once that it has no room.
            continue;
        }
        let tid = c.send_op(primary, None, &name, vec![write_full(&mib(i))]);
        c.run(Duration::from_millis(50));
        if !c.replies.contains_key(&tid) {
            return (c, i, tid);
        }
        assert_eq!(c.replies[&tid][0].result, 0);
        assert!(i < 200, "64 MiB do not hold this");
    }
    unreachable!("it is full at some time")
}

#[test]
fn a_write_that_a_replica_has_no_room_for_waits_until_something_is_deleted() {
    waits_until_something_is_deleted(filled());
}

#[test]
fn so_it_does_where_its_data_goes_ahead() {
    let mut c = Cluster::with_disks(&[LARGE, LARGE, SMALL], 3, 2, 4);
    for osd in 0..3 {
        c.osd_mut(osd).core.change_options(|options| {
            (options.update_whole, options.update_part) = (MIB as u64 / 2, MIB as u64 / 8);
        });
    }
    let (c, last, waiting) = filled_by(c);
    assert_eq!(c.temporary(FULL), []);
    let c = waits_until_something_is_deleted((c, last, waiting));
    assert!(c.counted("part_without_room") > 0);
    assert_eq!(c.temporary(FULL), []);
}

fn waits_until_something_is_deleted((mut c, last, waiting): (Cluster, usize, u64)) -> Cluster {
    c.run(Duration::from_secs(5));
    assert!(!c.replies.contains_key(&waiting), "it is not on all disks");
    assert!(c.stopped.is_empty(), "{:?}", c.stopped);
    let state = c.stats[&c.pgid(&format!("o{last}"))].state;
    assert_ne!(state & pg_state::RECOVERY_TOOFULL, 0, "{}", pg_state::name(state));
    let others = (0..last).filter(|i| c.acting(&format!("o{i}"))[0] != FULL);
    let victims: Vec<usize> = others.take(4).collect();
    for i in &victims {
        let name = format!("o{i}");
        c.send_op(c.acting(&name)[0], None, &name, vec![Op::Delete]);
    }
    c.run_until("the write's answer", |c| c.replies.contains_key(&waiting));
    assert_eq!(c.replies[&waiting][0].result, 0);
    assert_eq!(c.read(&format!("o{last}")), Ok(mib(last)));
    assert_eq!(c.read(&format!("o{}", victims[0])), Err(-2));
    c.check();
    c
}

/// Written while the full OSD, which is to be their primary, was away.
#[test]
fn a_primary_without_room_for_what_it_lacks_lets_another_lead_until_it_has_it() {
    let mut c = Cluster::with_disks(&[LARGE, LARGE, SMALL], 3, 2, 16);
    let names = (0..100).map(|i| format!("new{i}"));
    let names: Vec<String> = names.filter(|name| c.acting(name)[0] == FULL).take(3).collect();
    for name in &names {
        c.write(name, "small");
    }
    let (mut c, last, _) = filled_by(c);
    let old = (0..last).map(|i| format!("o{i}"));
    let old: Vec<String> = old.filter(|name| c.acting(name)[0] != FULL).collect();
    c.kill(FULL);
    c.mark_down(FULL, true);
    c.run(Duration::from_secs(1));
    for name in &names {
        c.write(name, &mib(1));
    }
    c.start(FULL);
    c.run(Duration::from_secs(10));
    assert!(c.acting(&names[0])[0] != FULL, "another leads");
    let led = c.map.epoch;
    c.run(Duration::from_secs(10));
    assert_eq!(c.map.epoch, led, "and goes on to");
    assert_eq!(c.read(&names[0]), Ok(mib(1)));
    assert_eq!(c.op(&names[1], vec![Op::Delete]).result, 0);
    assert_eq!(c.read(&names[1]), Err(-2));
    for name in &old[..8] {
        assert_eq!(c.op(name, vec![Op::Delete]).result, 0);
    }
    c.wait_clean();
    assert_eq!(c.acting(&names[0])[0], FULL);
    assert_eq!(c.read(&names[0]), Ok(mib(1)));
    c.check();
}

/// Two full OSDs: the first lacks what was written while it was away, the other, which leads, "o0", which its
/// disk has damaged. Gives the names of all objects, and of one that the first lacks.
fn each_lacks_something() -> (Cluster, Vec<String>, String) {
    let (first, other) = (0, 1);
    let mut c = Cluster::with_disks(&[SMALL, SMALL + (12 << 20)], 2, 1, 1);
    c.place(c.pgid("o0"), &[first, other]);
    c.write("o0", &mib(0).repeat(6));
    (1..8).for_each(|i| c.write(&format!("o{i}"), &mib(i)));
    c.kill(first);
    c.mark_down(first, true);
    let full = (8..200).find(|i| c.op(&format!("o{i}"), vec![write_full(&mib(*i))]).result != 0);
    let full = full.expect("the disk is full at some time");
    c.start(first);
    c.run(Duration::from_secs(20));
    assert_eq!(c.acting("o0")[0], other, "it lacks nothing");
    c.stop_at_rest(other);
    assert!(c.rot(other, &mib(0).as_bytes()[..512]));
    c.start(other);
    c.run(Duration::from_secs(20));
    assert_eq!(c.acting("o0")[0], other);
    let read = c.send_op(other, None, "o0", vec![Op::Read(Extent::new(0, 0))]);
    c.run(Duration::from_secs(20));
    assert!(!c.replies.contains_key(&read), "there is no room for it");
    let missing = |osd: usize| c.osd(osd).pgs[&Spg::replicated(c.pgid("o0"))].missing();
    assert!(missing(other).keys().eq([&c.key("o0")]));
    let names: Vec<String> = (0..full).map(|i| format!("o{i}")).collect();
    let lacking = names.iter().find(|name| missing(first).contains_key(&c.key(name))).cloned();
    (c, names, lacking.expect("the first lacks some"))
}

/// Deletes some that both have, and all becomes clean.
fn makes_room(mut c: Cluster, names: &[String], but: &str) {
    for name in names.iter().filter(|n| *n != "o0" && *n != but).take(14) {
        assert_eq!(c.op(name, vec![Op::Delete]).result, 0);
    }
    c.wait_clean();
    assert_eq!(c.acting("o0")[0], 0);
    // It was damaged, and while the other was stopped, nobody had what the first lacks.
    c.complaints.retain(|text| !text.contains("object_"));
    c.check();
}

#[test]
fn where_each_lacks_something_whoever_has_what_a_client_deletes_leads() {
    let (mut c, names, lacking) = each_lacks_something();
    // Neither makes room for the other.
    for name in [&lacking, "o0"] {
        assert_eq!(c.op(name, vec![Op::Delete]).result, 0);
    }
    makes_room(c, &names, &lacking);
}

#[test]
fn so_do_both_in_turn() {
    let (mut c, names, lacking) = each_lacks_something();
    let delete = |c: &mut Cluster, name: &str| (c.send_op(1, None, name, vec![Op::Delete]), name.to_owned());
    let waiting = [delete(&mut c, "o0"), delete(&mut c, &lacking)];
    for (tid, name) in waiting {
        assert_eq!(c.finish(tid, &name, vec![Op::Delete]).result, 0);
    }
    makes_room(c, &names, &lacking);
}

#[test]
fn nobody_else_leads_for_a_deletion_that_could_not_be_carried_out_there_either() {
    let (mut c, names, lacking) = each_lacks_something();
    let before = c.map.epoch;
    let ops = [append("more"), Op::Delete];
    let waiting = ops.map(|op| (c.send_op(1, None, "o0", vec![op.clone()]), op));
    c.run(Duration::from_secs(20));
    assert_eq!(c.map.epoch, before);
    assert_eq!(c.op(&lacking, vec![Op::Delete]).result, 0, "others go on");
    for name in &names[1..15] {
        c.op(name, vec![Op::Delete]);
    }
    for (tid, op) in waiting {
        assert_eq!(c.finish(tid, "o0", vec![op]).result, 0);
    }
    makes_room(c, &names[15..], &lacking);
}

#[test]
fn what_is_left_for_the_osd_s_own_records_takes_nothing_from_a_large_disk() {
    let mut c = Cluster::with_disks(&[8 << 30; 3], 3, 2, 4);
    c.write("a", &mib(1));
    assert_eq!(c.read("a"), Ok(mib(1)));
    c.check();
}

#[test]
fn where_the_map_says_full_only_growth_is_refused() {
    let mut c = Cluster::new(3, 3, 2, 4);
    c.write("a", "0123456789");
    c.write("b", "gone soon");
    c.change(|map, _| map.pools.values_mut().for_each(|pool| pool.flags |= maps::pool_flags::FULL));
    c.flags = msgs::osd_flag::FULL_TRY;
    let errno = |c: &mut Cluster, name: &str, op: Op| c.op(name, vec![op]).result;
    assert_eq!(errno(&mut c, "a", write_full("0123456789+")), -28, "it would grow");
    assert_eq!(errno(&mut c, "new", write_full("")), -28, "another object");
    assert_eq!(errno(&mut c, "a", write_full("shorter")), 0);
    assert_eq!(errno(&mut c, "a", Op::Truncate(msgs::Extent::new(3, 0))), 0);
    assert_eq!(errno(&mut c, "b", Op::Delete), 0);
    assert_eq!(c.read("a"), Ok("sho".into()));
    c.change(|map, _| map.pools.values_mut().for_each(|pool| pool.flags |= maps::pool_flags::FULL_QUOTA));
    assert_eq!(errno(&mut c, "new", write_full("x")), -122);
    c.flags = msgs::osd_flag::FULL_FORCE;
    assert_eq!(errno(&mut c, "new", write_full("x")), 0);
    c.flags = 0;
    c.send_op(c.acting("a")[0], Some(990), "a", vec![write_full("0123456789")]);
    c.run(Duration::from_secs(1));
    assert!(!c.replies.contains_key(&990), "a client that does not ask to try waits for another map");
    c.change(|map, _| map.pools.values_mut().for_each(|pool| pool.flags = 0));
    assert_eq!(c.finish(990, "a", vec![write_full("0123456789")]).result, 0);
    c.check();
}

#[test]
fn what_waits_for_room_survives_a_change_of_members() {
    let (mut c, last, waiting) = filled();
    let name = format!("o{last}");
    let primary = c.acting(&name)[0];
    c.kill(primary);
    c.start(primary);
    c.run_until("it is up", |c| c.map.is_up(OsdId(primary as i32)));
    let victims = (0..last).map(|i| format!("o{i}")).filter(|o| c.acting(o)[0] != FULL);
    for victim in victims.take(4).collect::<Vec<_>>() {
        assert_eq!(c.op(&victim, vec![Op::Delete]).result, 0);
    }
    assert_eq!(c.finish(waiting, &name, vec![write_full(&mib(last))]).result, 0);
    assert_eq!(c.read(&name), Ok(mib(last)));
    c.check();
}

#[test]
fn a_deletion_behind_a_write_that_waits_for_room_is_answered() {
    let mut c = Cluster::with_disks(&[LARGE, LARGE, SMALL], 3, 2, 4);
    let names: Vec<String> = (0..40).map(|i| format!("small{i}")).collect();
    names.iter().for_each(|name| c.write(name, "small"));
    let watch = |op| Op::Watch { cookie: 1, ver: 0, op, generation: 0, timeout: 10_000 };
    for name in &names {
        assert_eq!(c.op(name, vec![watch(watch_op::WATCH)]).result, 0);
    }
    let (mut c, last, waiting) = filled_by(c);
    let pgid = c.pgid(&format!("o{last}"));
    let beside: Vec<&String> = names.iter().filter(|name| c.pgid(name) == pgid).collect();
    for name in &beside[..2] {
        let delete = c.send_op(c.acting(name)[0], None, name, vec![Op::Delete]);
        assert_eq!(c.finish(delete, name, vec![Op::Delete]).result, 0);
        // So is who asks again, and what finds nothing any more.
        c.replies.remove(&delete);
        c.send_op(c.acting(name)[0], Some(delete), name, vec![Op::Delete]);
        c.run(Duration::from_millis(500));
        assert_eq!(c.replies[&delete][0].result, 0);
        assert_eq!(c.op(name, vec![Op::Delete]).result, -2);
        assert_eq!(c.read(name), Err(-2));
        assert!(!c.replies.contains_key(&waiting), "that made no room");
    }
    // What was ordered before a deletion, or saw that, is answered before it: the watch goes on and then
    // ends, and does not begin on nothing.
    let (primary, name) = (c.acting(beside[2])[0], beside[2]);
    c.heard.clear();
    let asked =
        [vec![write_full("smaller")], vec![watch(watch_op::RECONNECT)], vec![Op::Delete]].map(|ops| {
            let tid = c.send_op(primary, None, name, ops);
            c.run(Duration::from_millis(100));
            tid
        });
    assert_eq!(asked.map(|tid| c.replies[&tid][0].result), [0, 0, 0]);
    let heard = c.heard.iter().filter(|(_, m)| m.cookie == 1).map(|(_, m)| m.opcode);
    assert_eq!(heard.collect::<Vec<_>>(), [notify_op::DISCONNECT]);
    let object = c.key(name);
    let watcher = (1, EntityId::new(EntityType::CLIENT, GID as i64));
    assert!(!c.osd_mut(primary).pgs[&Spg::replicated(pgid)].watches().is_connected(&object, watcher));
    // Nobody has what waits but one that loses it; the deletions stay.
    let primary = c.acting(&format!("o{last}"))[0];
    c.kill(primary);
    c.start(primary);
    c.run(Duration::from_secs(5));
    for i in 0..8 {
        c.op(&format!("o{i}"), vec![Op::Delete]);
    }
    assert_eq!(c.finish(waiting, &format!("o{last}"), vec![write_full(&mib(last))]).result, 0);
    assert_eq!(c.read(beside[0]), Err(-2));
    c.check();
}

/// A write that a replica has no room for, and the deletion of its object behind it: neither is answered
/// before the replica has the deletion, then both are.
fn its_own_deletion_goes_first((mut c, last, waiting): (Cluster, usize, u64)) {
    let name = format!("o{last}");
    c.filter =
        Some(Box::new(|_, to, msg: &Msg| to == FULL && matches!(msg.body, Body::Peer(peer::Body::RepOp(_)))));
    let primary = c.acting(&name)[0];
    let delete = c.send_op(primary, None, &name, vec![Op::Delete]);
    c.run(Duration::from_millis(500));
    let (pgid, key) = (c.pgid(&name), c.key(&name));
    let osd = c.osd_mut(primary);
    // As where another object arrives there meanwhile.
    osd.pgs.get_mut(&Spg::replicated(pgid)).expect("it leads").lacking_arrived(
        &mut osd.core,
        member(FULL),
        &key,
    );
    c.run(Duration::from_millis(500));
    assert!(!c.replies.contains_key(&waiting) && !c.replies.contains_key(&delete));
    c.filter = None;
    c.kill(FULL);
    c.start(FULL);
    assert_eq!(c.finish(waiting, &name, vec![write_full(&mib(last))]).result, 0);
    assert_eq!(c.finish(delete, &name, vec![Op::Delete]).result, 0);
    assert_eq!(c.read(&name), Err(-2), "the write came first");
    c.check();
}

#[test]
fn its_own_deletion_does_not_wait_for_a_write_that_a_replica_has_no_room_for() {
    its_own_deletion_goes_first(filled());
    let (mut c, last, waiting) = filled();
    assert_eq!(c.op(&format!("o{last}"), vec![Op::Delete]).result, 0);
    c.run(Duration::from_secs(1));
    assert_eq!(c.replies[&waiting][0].result, 0);
    c.check();
}

#[test]
fn nor_for_one_that_is_only_to_be_answered_again() {
    let repeated = || {
        let (mut c, last, waiting) = filled();
        let name = format!("o{last}");
        let primary = c.acting(&name)[0];
        c.kill(primary);
        c.start(primary);
        c.run_until("it is up", |c| c.map.is_up(OsdId(primary as i32)));
        c.run(Duration::from_secs(5));
        c.send_op(c.acting(&name)[0], Some(waiting), &name, vec![write_full(&mib(last))]);
        c.run(Duration::from_secs(5));
        assert!(!c.replies.contains_key(&waiting), "there is no room for it");
        (c, last, waiting)
    };
    its_own_deletion_goes_first(repeated());
    let (mut c, last, waiting) = repeated();
    let name = format!("o{last}");
    assert_eq!(c.op(&name, vec![Op::Delete]).result, 0);
    assert_eq!(c.finish(waiting, &name, vec![write_full(&mib(last))]).result, 0);
    assert_eq!(c.read(&name), Err(-2), "the write came first");
    c.check();
}

/// What the OSD that is full has heard of beside what it had no room for.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Nothing,
    /// Another update of the same PG, for which it had room.
    Another,
    /// As before, and the one that had room for everything goes on without it first.
    AnotherAlone,
}

/// An update that a full OSD has no room for, whose primary loses power before it is durable there, and that
/// nobody else has seen.
fn only_a_full_osd_has_heard_of(then: Then) {
    let min_size = if then == Then::AnotherAlone { 1 } else { 2 };
    let (mut c, last, waiting) = filled_by(Cluster::with_disks(&[LARGE, LARGE, SMALL], 3, min_size, 4));
    let mut victims: Vec<String> =
        (0..last).map(|i| format!("o{i}")).filter(|o| c.acting(o)[0] != FULL).collect();
    let name = victims.pop().expect("one of them");
    let others: Vec<String> =
        (0..1000).map(|i| format!("small{i}")).filter(|o| c.pgid(o) == c.pgid(&name)).collect();
    c.write(&others[0], "old");
    assert_eq!(c.op(&victims.remove(0), vec![Op::Delete]).result, 0);
    c.run_until("room", |c| c.replies.contains_key(&waiting));
    let (primary, other) = (c.acting(&name)[0], 1 - c.acting(&name)[0]);
    c.disk_time.insert(primary, Duration::from_secs(50));
    c.filter = Some(Box::new(move |_, to, msg| {
        to == other && matches!(msg.body, node::Body::Peer(peer::Body::RepOp(_)))
    }));
    let before = c.read(&name);
    let (grown, small) = (mib(1).repeat(3), vec![write_full("new")]);
    let tid = c.send_op(primary, None, &name, vec![append(&grown)]);
    c.run_until("the refusal", |c| c.counted("update_without_room") > 1);
    let also = (then != Then::Nothing).then(|| c.send_op(primary, None, &others[0], small.clone()));
    c.run(Duration::from_millis(50));
    let down: &[usize] = if then == Then::AnotherAlone { &[primary, other] } else { &[primary] };
    for osd in down {
        c.kill(*osd);
        c.disk_time.remove(osd);
        c.mark_down(*osd, true);
    }
    c.filter = None;
    c.run(Duration::from_secs(2));
    down.iter().for_each(|osd| c.start(*osd));
    assert_eq!(c.read(&name), before, "nobody was told of more");
    assert_eq!(c.counted("update_without_room_undone") > 0, then == Then::AnotherAlone);
    for victim in victims.drain(..6) {
        assert_eq!(c.op(&victim, vec![Op::Delete]).result, 0);
    }
    c.wait_clean();
    let after = before.map(|text| text + &grown);
    assert_eq!(
        c.finish(tid, &name, vec![append(&grown)]).result,
        0,
        "it is asked for again, and carried out"
    );
    assert_eq!(c.read(&name), after);
    if let Some(tid) = also {
        assert_eq!(c.finish(tid, &others[0], small).result, 0);
        assert_eq!(c.read(&others[0]), Ok("new".into()));
    }
    // Who has the log tells that too.
    let now = c.acting(&name)[0];
    c.kill(now);
    c.mark_down(now, true);
    assert_eq!(c.finish(tid, &name, vec![append(&grown)]).result, 0);
    assert_eq!(c.read(&name), after, "not twice");
    c.start(now);
    c.complaints.retain(|text| !text.contains("object_unfound"));
    c.check();
}

#[test]
fn what_only_a_full_osd_has_heard_of_was_never_done() {
    only_a_full_osd_has_heard_of(Then::Nothing);
}

#[test]
fn what_it_had_room_for_behind_that_is_taken_back_with_it() {
    only_a_full_osd_has_heard_of(Then::Another);
}

#[test]
fn where_only_the_full_osd_is_left_what_it_had_no_room_for_alone_is_undone() {
    only_a_full_osd_has_heard_of(Then::AnotherAlone);
}

#[test]
fn a_copy_that_has_no_room_to_recover_waits_and_its_osd_lives() {
    // What was written while it was away does not fit.
    let mut c = Cluster::with_disks(&[LARGE, LARGE, SMALL], 3, 2, 4);
    c.kill(FULL);
    c.run_until("it is down", |c| !c.map.is_up(OsdId(FULL as i32)));
    (0..80).for_each(|i| c.write(&format!("o{i}"), &mib(i)));
    c.start(FULL);
    c.run_until("it is up", |c| c.map.is_up(OsdId(FULL as i32)));
    c.run(Duration::from_secs(20));
    assert!(c.stopped.is_empty(), "{:?}", c.stopped);
    let full = c.stats.values().filter(|s| s.state & pg_state::RECOVERY_TOOFULL != 0).count();
    assert!(full > 0, "{:?}", c.stats.values().map(|s| pg_state::name(s.state)).collect::<Vec<_>>());
    for i in 0..50 {
        assert_eq!(c.op(&format!("o{i}"), vec![Op::Delete]).result, 0);
    }
    c.check();
    assert_eq!(c.read("o60"), Ok(mib(60)));
}

/// A deleted object with snapshots is one that says so: a member that has no room for the object lacks that
/// too, from then on.
#[test]
fn an_object_that_was_deleted_before_it_was_sent_is_sent_as_it_is_then() {
    let mut c = Cluster::with_disks(&[LARGE, LARGE, SMALL], 3, 2, 1);
    let names: Vec<String> = (0..80).map(|i| format!("o{i}")).collect();
    let pgid = c.pgid(&names[0]);
    c.place(pgid, &[0, 1, FULL]);
    c.kill(FULL);
    c.run_until("it is down", |c| !c.map.is_up(OsdId(FULL as i32)));
    for (i, name) in names.iter().enumerate() {
        c.write(name, "first");
        c.context = SnapContext { seq: SnapId(1), snaps: vec![SnapId(1)] };
        c.write(name, &mib(i));
        c.context = SnapContext::default();
    }
    c.start(FULL);
    c.run_until("it is up", |c| c.map.is_up(OsdId(FULL as i32)));
    c.run(Duration::from_secs(20));
    let lacked = |c: &Cluster| {
        c.osd(0).pgs[&Spg::replicated(pgid)].copy(OsdId(FULL as i32)).expect("a member").missing().clone()
    };
    let is_next = |c: &Cluster, name: &String| {
        lacked(c).keys().find(|k| k.snap == store::ObjectKey::HEAD) == Some(&c.key(name))
    };
    let name = names.iter().find(|name| is_next(&c, name)).expect("there is no room for all");
    c.run_until("it is not tried", |c| c.osd(0).core.is_out_of_space(OsdId(FULL as i32)));
    // What it says of the deletion comes late.
    let reply = |msg: &Msg| matches!(msg.body, Body::Peer(peer::Body::RepOpReply(_)));
    c.filter = Some(Box::new(move |from, _, msg: &Msg| from == FULL && reply(msg)));
    c.context = SnapContext { seq: SnapId(1), snaps: vec![SnapId(1)] };
    let delete = c.send_op(0, None, name, vec![Op::Delete]);
    c.run(Duration::from_secs(10));
    assert_eq!(c.counted("pushed_object_not_here"), 0);
    c.filter = None;
    c.kill(FULL);
    c.start(FULL);
    assert_eq!(c.finish(delete, name, vec![Op::Delete]).result, 0);
    // One after the other: the little that says that an object is gone has room where the next whole one has
    // none.
    for name in names.iter().filter(|other| *other != name) {
        assert_eq!(c.op(name, vec![Op::Delete]).result, 0);
    }
    c.check();
}

#[test]
fn a_copy_that_is_compared_waits_for_room_too() {
    let mut c = Cluster::with_disks(&[LARGE, LARGE, SMALL], 3, 2, 4);
    c.options.log_entries = (5, 5);
    (0..3).for_each(|osd| {
        c.kill(osd);
        c.start(osd);
    });
    c.run(Duration::from_secs(2));
    c.wait_clean();
    c.kill(FULL);
    c.run_until("it is down", |c| !c.map.is_up(OsdId(FULL as i32)));
    for round in 0..3 {
        (0..80).for_each(|i| c.write(&format!("o{i}"), &mib(i + round)));
    }
    c.start(FULL);
    c.run_until("it is up", |c| c.map.is_up(OsdId(FULL as i32)));
    c.run(Duration::from_secs(20));
    assert!(c.stopped.is_empty(), "{:?}", c.stopped);
    let full = c.stats.values().filter(|s| s.state & pg_state::BACKFILL_TOOFULL != 0).count();
    assert!(full > 0, "{:?}", c.stats.values().map(|s| pg_state::name(s.state)).collect::<Vec<_>>());
    for i in 0..50 {
        assert_eq!(c.op(&format!("o{i}"), vec![Op::Delete]).result, 0);
    }
    c.check();
    assert_eq!(c.read("o60"), Ok(mib(62)));
}
