//! Scrub and repair: copies that decay on their disks, and what is done about it.

use super::cluster::{Cluster, POOL, append};
use crate::object::INFO_ATTR;
use maps::{OsdId, PgId, SnapId, Spg};
use msgs::op::scrub::{ScrubLs, ScrubLsReply, shard_error};
use msgs::op::{RawOp, input};
use msgs::{Op, OpCode};
use node::{Body, Msg};
use peer::pg_state;
use std::time::Duration;
use stdx::Bufs;
use store::{ObjectKey, TxnOp};

const PATTERN: &str = "what must not be lost, in a block that is found on the disk: ";

fn cluster() -> Cluster {
    let mut c = Cluster::new(3, 3, 2, 4);
    c.options.scrub.auto_repair = false;
    for osd in 0..3 {
        c.set_scrub(osd, |scrub| scrub.auto_repair = false);
    }
    c
}

/// A text longer than what is kept beside the object's name.
fn long(name: &str) -> String {
    format!("{PATTERN}{name} ").repeat(300)
}

/// Writes objects and gives the name of one.
fn fill(c: &mut Cluster) -> String {
    (0..20).for_each(|i| c.write(&format!("o{i}"), &long(&format!("o{i}"))));
    "o7".to_owned()
}

/// Changes a byte of an object's data on one OSD's disk.
fn rot(c: &mut Cluster, osd: usize, name: &str) {
    c.run(Duration::from_secs(1));
    c.stop_at_rest(osd);
    assert!(c.rot(osd, format!("{PATTERN}{name} ").as_bytes()), "{name} is on the disk of osd.{osd}");
    c.start(osd);
    c.set_scrub(osd, |scrub| scrub.auto_repair = false);
    c.wait_clean();
}

fn scrub(c: &mut Cluster, name: &str, deep: bool, repair: bool) {
    let (pgid, primary) = (c.pgid(name), c.acting(name)[0]);
    let before = c.counted("scrubs");
    c.order_scrub(primary, pgid, deep, repair);
    c.run_until("the scrub", |c| c.counted("scrubs") > before);
}

fn errors(c: &Cluster, name: &str) -> u32 {
    let pg = &c.osd(c.acting(name)[0]).pgs[&Spg::replicated(c.pgid(name))];
    pg.scrub().record().errors()
}

fn damaged_at(c: &Cluster, name: &str) -> Vec<(OsdId, u64)> {
    let pg = &c.osd(c.acting(name)[0]).pgs[&Spg::replicated(c.pgid(name))];
    let shards = pg.scrub().found().objects.values().flat_map(|f| &f.shards);
    shards.filter(|(_, s)| s.errors != 0).map(|(member, s)| (member.osd, s.errors)).collect()
}

/// Everything is whole, and complaints were about damage alone.
fn whole(c: &mut Cluster) {
    c.complaints.retain(|text| {
        let of_damage = ["object_damaged", "scrub_ended", "object_unreadable"];
        !of_damage.iter().any(|name| text.contains(name))
    });
    c.check();
}

#[test]
fn a_decayed_copy_is_found_wherever_it_is_and_replaced_on_order() {
    for at in 0..3 {
        let mut c = cluster();
        let name = fill(&mut c);
        let osd = c.acting(&name)[at];
        scrub(&mut c, &name, true, false);
        assert_eq!(errors(&c, &name), 0);
        rot(&mut c, osd, &name);
        scrub(&mut c, &name, false, false);
        assert_eq!(errors(&c, &name), 0, "a light scrub reads no data");
        scrub(&mut c, &name, true, false);
        assert_eq!(damaged_at(&c, &name), [(OsdId(osd as i32), shard_error::READ)]);
        assert_eq!(errors(&c, &name), 1);
        c.run(Duration::from_secs(1));
        let stat = &c.stats[&c.pgid(&name)];
        assert_eq!(stat.state & pg_state::INCONSISTENT, pg_state::INCONSISTENT);
        assert_eq!((stat.stats.num_scrub_errors, stat.stats.num_deep_scrub_errors), (1, 1));
        scrub(&mut c, &name, false, false);
        assert_eq!(errors(&c, &name), 1, "what a deep scrub has found is looked for again");
        scrub(&mut c, &name, true, true);
        assert_eq!((errors(&c, &name), damaged_at(&c, &name)), (0, vec![]));
        scrub(&mut c, &name, true, false);
        assert_eq!(errors(&c, &name), 0);
        assert_eq!(c.read(&name), Ok(long(&name)));
        whole(&mut c);
    }
}

#[test]
fn few_decayed_copies_are_replaced_without_order_and_many_wait_for_a_person() {
    let mut c = cluster();
    let name = fill(&mut c);
    let (pgid, members) = (c.pgid(&name), c.acting(&name));
    let others: Vec<String> = (0..20).map(|i| format!("o{i}")).filter(|n| c.pgid(n) == pgid).collect();
    rot(&mut c, members[1], &name);
    c.set_scrub(members[0], |scrub| scrub.auto_repair = true);
    scrub(&mut c, &name, true, false);
    assert_eq!(errors(&c, &name), 0);
    for name in &others {
        rot(&mut c, members[1], name);
    }
    c.set_scrub(members[0], |scrub| (scrub.auto_repair, scrub.auto_repair_errors) = (true, 1));
    scrub(&mut c, &name, true, false);
    assert_eq!(errors(&c, &name) as usize, others.len() - if others.len() > 1 { 0 } else { 1 });
    scrub(&mut c, &name, true, true);
    assert_eq!(errors(&c, &name), 0);
    whole(&mut c);
}

#[test]
fn a_read_of_a_decayed_copy_gives_what_another_one_has() {
    let mut c = cluster();
    let name = fill(&mut c);
    let primary = c.acting(&name)[0];
    rot(&mut c, primary, &name);
    assert_eq!(c.acting(&name)[0], primary);
    assert_eq!(c.read(&name), Ok(long(&name)));
    assert_eq!(c.counted("objects_mended_for_requests"), 1);
    c.run(Duration::from_secs(1));
    scrub(&mut c, &name, true, false);
    assert_eq!(errors(&c, &name), 0);
    whole(&mut c);
}

#[test]
fn without_a_right_copy_a_read_fails_and_the_pg_is_inconsistent() {
    let mut c = cluster();
    let name = fill(&mut c);
    for osd in c.acting(&name) {
        rot(&mut c, osd, &name);
    }
    assert_eq!(c.read(&name), Err(-5));
    assert_eq!(c.read(&name), Err(-5));
    assert!(errors(&c, &name) > 0);
    let other = (0..20).map(|i| format!("o{i}")).find(|n| *n != name && c.pgid(n) == c.pgid(&name));
    if let Some(other) = other {
        assert_eq!(c.read(&other), Ok(long(&other)));
    }
    scrub(&mut c, &name, true, true);
    assert_eq!(errors(&c, &name), 3);
    c.run(Duration::from_secs(1));
    assert_ne!(c.stats[&c.pgid(&name)].state & pg_state::FAILED_REPAIR, 0);
    // Written anew it is whole.
    c.write(&name, "anew");
    scrub(&mut c, &name, true, true);
    assert_eq!(errors(&c, &name), 0);
    assert_eq!(c.read(&name), Ok("anew".into()));
    whole(&mut c);
}

#[test]
fn damage_on_record_is_looked_at_again_by_the_next_membership() {
    let mut c = cluster();
    let name = fill(&mut c);
    let members = c.acting(&name);
    members.iter().for_each(|osd| rot(&mut c, *osd, &name));
    assert_eq!(c.read(&name), Err(-5));
    c.run(Duration::from_secs(5));
    assert_eq!(errors(&c, &name), 3, "a scrub came by itself and saw all copies");
    c.write(&name, "anew");
    c.run(Duration::from_secs(5));
    assert_eq!(errors(&c, &name), 3, "nobody has looked");
    c.kill(members[1]);
    c.mark_down(members[1], true);
    c.run(Duration::from_secs(1));
    c.start(members[1]);
    c.wait_clean();
    c.run(Duration::from_secs(5));
    assert_eq!(errors(&c, &name), 0);
    whole(&mut c);
}

#[test]
fn copies_that_differ_without_damage_follow_the_majority() {
    for at in 0..3 {
        let mut c = cluster();
        let name = fill(&mut c);
        let key = c.key(&name);
        let osd = c.acting(&name)[at];
        // The same version, other bytes: what a bug or a bad memory leaves.
        c.tamper(osd, vec![TxnOp::Write(key.clone(), 5, Bufs::from(b"XX".to_vec()))]);
        scrub(&mut c, &name, true, false);
        assert_eq!(damaged_at(&c, &name), [(OsdId(osd as i32), shard_error::DATA_DIGEST)]);
        scrub(&mut c, &name, true, true);
        assert_eq!(errors(&c, &name), 0);
        assert_eq!(c.read(&name), Ok(long(&name)));
        // An object that one lacks, an xattr too many, another omap.
        c.tamper(osd, vec![TxnOp::Remove(key.clone())]);
        scrub(&mut c, &name, false, false);
        assert_eq!(damaged_at(&c, &name), [(OsdId(osd as i32), shard_error::MISSING)]);
        scrub(&mut c, &name, false, true);
        c.tamper(osd, vec![TxnOp::SetAttr(key.clone(), b"_x".to_vec(), vec![1])]);
        scrub(&mut c, &name, false, false);
        assert_eq!(errors(&c, &name), 1);
        scrub(&mut c, &name, false, true);
        c.tamper(osd, vec![TxnOp::OmapSet(key.clone(), vec![(b"k".to_vec(), b"v".to_vec())])]);
        scrub(&mut c, &name, true, false);
        assert_eq!(damaged_at(&c, &name), [(OsdId(osd as i32), shard_error::OMAP_DIGEST)]);
        scrub(&mut c, &name, true, true);
        c.tamper(osd, vec![TxnOp::RemoveAttr(key, INFO_ATTR.to_vec())]);
        scrub(&mut c, &name, false, false);
        assert_eq!(damaged_at(&c, &name), [(OsdId(osd as i32), shard_error::INFO_MISSING)]);
        scrub(&mut c, &name, true, true);
        whole(&mut c);
    }
}

/// With the connection that carried it, whose end has not been noticed.
#[test]
fn an_update_that_a_member_has_not_heard_of_is_no_damage() {
    let mut c = Cluster::new(3, 3, 2, 4);
    let name = fill(&mut c);
    let acting = c.acting(&name);
    let member = acting[2];
    c.filter = Some(Box::new(move |_, to, msg: &Msg| {
        to == member && matches!(msg.body, Body::Peer(peer::Body::RepOp(_)))
    }));
    let lost = c.send_op(acting[0], None, &name, vec![append("more")]);
    c.run(Duration::from_millis(50));
    c.order_scrub(acting[0], c.pgid(&name), true, true);
    c.run(Duration::from_millis(500));
    c.filter = None;
    c.break_links(acting[0], member);
    let reply = c.finish(lost, &name, vec![append("more")]);
    assert_eq!(reply.result, 0);
    assert_eq!(c.counted("objects_recovered"), 1, "by the log, and no other");
    scrub(&mut c, &name, true, false);
    assert_eq!(errors(&c, &name), 0);
    assert_eq!(c.read(&name), Ok(long(&name) + "more"));
    c.check();
}

#[test]
fn two_copies_that_differ_are_left_to_a_person() {
    let mut c = Cluster::new(2, 2, 1, 4);
    let name = fill(&mut c);
    let osd = c.acting(&name)[1];
    c.tamper(osd, vec![TxnOp::Write(c.key(&name), 5, Bufs::from(b"XX".to_vec()))]);
    scrub(&mut c, &name, true, true);
    assert_eq!(errors(&c, &name), 1);
    assert_eq!(damaged_at(&c, &name), [], "nobody knows whose");
    let pg = &c.osd(c.acting(&name)[0]).pgs[&Spg::replicated(c.pgid(&name))];
    assert!(pg.scrub().record().failed_repair);
    c.write(&name, "decided");
    scrub(&mut c, &name, true, true);
    whole(&mut c);
}

#[test]
fn a_decayed_clone_is_replaced_and_a_lost_one_is_told_of() {
    let mut c = cluster();
    let name = fill(&mut c);
    let snap = c.take_snap();
    c.write(&name, "later");
    let osd = c.acting(&name)[0];
    rot(&mut c, osd, &name);
    c.at = snap;
    assert_eq!(c.read(&name), Ok(long(&name)));
    c.at = SnapId::HEAD;
    let clone = ObjectKey { snap: snap.0, ..c.key(&name) };
    for osd in c.acting(&name) {
        c.tamper(osd, vec![TxnOp::Remove(clone.clone())]);
    }
    scrub(&mut c, &name, false, false);
    let pg = &c.osd(c.acting(&name)[0]).pgs[&Spg::replicated(c.pgid(&name))];
    assert_eq!(pg.scrub().found().snapsets[0].missing, [snap]);
    assert_eq!(errors(&c, &name), 1);
}

#[test]
fn recovery_from_a_decayed_copy_takes_another_one() {
    let mut c = Cluster::new(4, 3, 2, 4);
    let name = fill(&mut c);
    let members = c.acting(&name);
    rot(&mut c, members[0], &name);
    // The object is on its way to a new member from the primary, which can't read it.
    let absent = members[2];
    c.kill(absent);
    c.mark_down(absent, true);
    let others: Vec<String> = (0..20).map(|i| format!("o{i}")).filter(|n| *n != name).collect();
    c.change(|map, _| map.osds[absent].weight = 0);
    c.wait_clean();
    assert_eq!(c.read(&name), Ok(long(&name)));
    for other in others {
        assert_eq!(c.read(&other), Ok(long(&other)));
    }
    c.run(Duration::from_secs(2));
    whole(&mut c);
}

/// A member stands still meanwhile.
#[test]
fn a_pause_that_ends_while_an_object_is_compared_for_a_request_keeps_nobody_busy() {
    let mut c = cluster();
    let name = fill(&mut c);
    let (pgid, primary) = (c.pgid(&name), c.acting(&name)[0]);
    rot(&mut c, primary, &name);
    c.set_scrub(primary, |scrub| (scrub.chunk_max, scrub.sleep) = (1, Duration::from_secs(1)));
    c.order_scrub(primary, pgid, true, false);
    c.run_until("a pause", |c| c.osd(primary).pgs[&Spg::replicated(pgid)].scrub().paused_until().is_some());
    let member = c.acting(&name)[1];
    c.freeze(member);
    let read = c.send_op(primary, None, &name, vec![Op::Read(msgs::Extent::new(0, 0))]);
    c.run(Duration::from_secs(2));
    assert!(!c.replies.contains_key(&read), "it waits for what the others have");
    c.thaw(member);
    c.run_until("the answer", |c| c.replies.contains_key(&read));
    assert_eq!(c.replies[&read][0].result, 0);
    c.set_scrub(primary, |scrub| scrub.sleep = Duration::ZERO);
    c.run_until("the scrub", |c| c.counted("scrubs") > 0);
}

/// What comes while a PG is scrubbed is carried out, and the copies are looked at in the same state.
fn goes_on_during_a_scrub(op: impl Fn(usize) -> Op) {
    let mut c = cluster();
    let name = fill(&mut c);
    let (pgid, primary) = (c.pgid(&name), c.acting(&name)[0]);
    let there: Vec<String> = (0..20).map(|i| format!("o{i}")).filter(|n| c.pgid(n) == pgid).collect();
    let before = c.counted("scrubs");
    let mut tids = Vec::new();
    for round in 0..2000 {
        if round % 20 == 0 {
            c.order_scrub(primary, pgid, true, false);
        }
        tids.push(c.send_op(primary, None, &there[round % there.len()], vec![op(round)]));
        c.run(Duration::from_micros(50 + 10 * (round as u64 % 70)));
    }
    c.run_until("the scrub", |c| c.counted("scrubs") > before);
    c.run_until("all answers", |c| tids.iter().all(|tid| c.replies.contains_key(tid)));
    assert_eq!((errors(&c, &name), c.counted("copies_mended")), (0, 0));
    whole(&mut c);
}

/// The one copy of an object that a member lacks can't be read.
#[test]
fn what_can_not_be_read_anywhere_is_not_tried_without_end() {
    let mut c = Cluster::new(3, 3, 1, 4);
    let name = fill(&mut c);
    let members = c.acting(&name);
    for osd in &members[1..] {
        c.kill(*osd);
        c.mark_down(*osd, true);
    }
    c.run(Duration::from_secs(1));
    c.write(&name, &long(&name).repeat(2));
    c.run(Duration::from_secs(1));
    c.stop_at_rest(members[0]);
    assert!(c.rot(members[0], format!("{PATTERN}{name} ").as_bytes()));
    c.start(members[0]);
    members[1..].iter().for_each(|osd| c.start(*osd));
    c.run(Duration::from_secs(5));
    c.send_op(members[0], None, &name, vec![append("more")]);
    c.run(Duration::from_secs(20));
    let told = c.complaints.iter().filter(|text| text.contains("object_damaged")).count();
    assert!((1..5).contains(&told), "{told} times");
    let pg = &c.osd(members[0]).pgs[&Spg::replicated(c.pgid(&name))];
    assert_eq!(pg.state(), crate::pg::state::State::Active, "not clean");
    assert!(c.read("o1").is_ok(), "others are served");
}

#[test]
fn updates_go_on_during_a_scrub() {
    goes_on_during_a_scrub(|_| append("more"));
}

#[test]
fn objects_are_made_and_deleted_during_a_scrub() {
    goes_on_during_a_scrub(|round| if round / 7 % 2 == 0 { Op::Delete } else { append("again") });
}

#[test]
fn scrubs_come_by_themselves_one_at_a_time_and_flags_stop_them() {
    let mut c = Cluster::new(3, 3, 2, 8);
    fill(&mut c);
    for osd in 0..3 {
        c.set_scrub(osd, |scrub| {
            (scrub.min_interval, scrub.deep_interval) = (Duration::from_secs(20), Duration::from_secs(60));
        });
    }
    c.run(Duration::from_secs(100));
    let pgs: Vec<PgId> = c.map.pools[&POOL].pgs(POOL).collect();
    let scrubs = c.counted("scrubs");
    assert!((8 * 3..8 * 6).contains(&(scrubs as usize)), "{scrubs} in 100 s");
    for pgid in &pgs {
        let stat = &c.stats[pgid];
        assert!(stat.last_deep_scrub.sec > 1_700_000_030 && stat.last_scrub >= stat.last_deep_scrub);
    }
    c.change(|map, _| map.flags |= maps::osd_flags::NOSCRUB | maps::osd_flags::NODEEP_SCRUB);
    c.run(Duration::from_secs(1));
    let scrubs = c.counted("scrubs");
    c.run(Duration::from_secs(100));
    assert_eq!(c.counted("scrubs"), scrubs);
    scrub(&mut c, "o1", true, false);
    assert_eq!(c.counted("scrubs"), scrubs + 1, "an order counts more than flags");
    whole(&mut c);
}

#[test]
fn a_scrub_is_taken_up_by_the_next_primary_where_it_was_ordered_and_its_time_is_known_there() {
    let mut c = cluster();
    let name = fill(&mut c);
    scrub(&mut c, &name, true, false);
    let members = c.acting(&name);
    let pgid = c.pgid(&name);
    let record = c.osd(members[0]).pgs[&Spg::replicated(pgid)].scrub().record().clone();
    c.run(Duration::from_secs(1));
    c.kill(members[0]);
    c.mark_down(members[0], true);
    c.run(Duration::from_secs(5));
    assert_eq!(c.osd(members[1]).pgs[&Spg::replicated(pgid)].scrub().record(), &record);
    assert_eq!(c.stats[&pgid].last_deep_scrub, record.last_deep);
    c.start(members[0]);
    c.wait_clean();
    assert_eq!(c.osd(members[0]).pgs[&Spg::replicated(pgid)].scrub().record(), &record, "it was stored");
    whole(&mut c);
}

#[test]
fn what_was_found_can_be_asked_for() {
    let mut c = cluster();
    let name = fill(&mut c);
    let ask = |interval, after: &str| {
        let input =
            ScrubLs { interval, name: after.into(), snap: SnapId::HEAD, max: 10, ..ScrubLs::default() };
        let raw = RawOp { code: OpCode::SCRUBLS, ..RawOp::default() };
        vec![Op::Other { raw, data: input::write(&input) }]
    };
    assert_eq!(c.op(&name, ask(0, "")).result, -2, "not scrubbed since its members came together");
    scrub(&mut c, &name, true, false);
    let reply = c.op(&name, ask(0, ""));
    let none: ScrubLsReply = input::read(&reply.ops[0].data).expect("an answer");
    assert_eq!((reply.result, none.values.len()), (0, 0));
    assert_eq!(c.op(&name, ask(none.interval + 1, "")).result, -11);
    let osd = c.acting(&name)[1];
    rot(&mut c, osd, &name);
    scrub(&mut c, &name, true, false);
    let found: ScrubLsReply = input::read(&c.op(&name, ask(0, "")).ops[0].data).expect("an answer");
    assert_eq!(found.values.len(), 1);
    let rest: ScrubLsReply = input::read(&c.op(&name, ask(0, &name)).ops[0].data).expect("an answer");
    assert_eq!(rest.values.len(), 0);
}

#[test]
fn planted_faults_are_seen() {
    let ignores = || {
        let mut c = cluster();
        let name = fill(&mut c);
        let osd = c.acting(&name)[1];
        c.tamper(osd, vec![TxnOp::Write(c.key(&name), 5, Bufs::from(b"XX".to_vec()))]);
        scrub(&mut c, &name, true, false);
        errors(&c, &name)
    };
    assert_eq!((ignores(), stdx::mutants::with("osd_scrub_ignores_digests", ignores)), (1, 0));
    let blind = || {
        let mut c = cluster();
        let name = fill(&mut c);
        let osd = c.acting(&name)[0];
        c.tamper(osd, vec![TxnOp::Write(c.key(&name), 5, Bufs::from(b"XX".to_vec()))]);
        scrub(&mut c, &name, true, true);
        c.read(&name) == Ok(long(&name))
    };
    assert_eq!((blind(), stdx::mutants::with("osd_repair_takes_primary_blindly", blind)), (true, false));
    let reads = || {
        let mut c = cluster();
        let name = fill(&mut c);
        let osd = c.acting(&name)[0];
        rot(&mut c, osd, &name);
        c.read(&name).is_ok()
    };
    assert_eq!((reads(), stdx::mutants::with("osd_reads_do_not_mend", reads)), (true, false));
    let deletes = || {
        let mut c = cluster();
        let name = fill(&mut c);
        let (pgid, members) = (c.pgid(&name), c.acting(&name));
        c.set_scrub(members[0], |scrub| scrub.chunk_max = 1000);
        let before = c.counted("scrubs");
        // A member does not answer, and the scrub has given way as often as it does.
        c.freeze(members[2]);
        c.order_scrub(members[0], pgid, true, false);
        for _ in 0..5 {
            c.run(Duration::from_millis(300));
            c.send_op(members[0], None, &name, vec![append("more")]);
        }
        c.run(Duration::from_millis(300));
        let ordered = |c: &Cluster| c.osd(members[0]).pgs[&Spg::replicated(pgid)].info().last_update;
        let last = ordered(&c);
        let tid = c.send_op(members[0], None, &name, vec![Op::Delete]);
        c.run(Duration::from_millis(300));
        let waits = ordered(&c) == last;
        c.thaw(members[2]);
        c.run_until("the scrub", |c| c.counted("scrubs") > before && c.replies.contains_key(&tid));
        waits
    };
    assert_eq!((deletes(), stdx::mutants::with("osd_deletes_what_it_compares", deletes)), (true, false));
}
