//! Clients hold back what a PG can't serve for long.

use super::cluster::{Cluster, append};
use msgs::backoff_op::{BLOCK, UNBLOCK};
use msgs::{Extent, Op};
use std::time::Duration;

/// Those of the messengers of all clients that we know.
const FEATURES: u64 = 0x2f01_8fb8_7aa4_aafe;

/// One PG of which two of three members are gone: too few to serve. Gives who is left.
fn inactive() -> (Cluster, usize) {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.client_features = FEATURES;
    c.write("x", "0");
    let acting = c.acting("x");
    acting[1..].iter().for_each(|osd| c.kill(*osd));
    c.run(Duration::from_secs(8));
    assert_eq!(c.acting("x"), [acting[0]]);
    (c, acting[0])
}

fn told(c: &Cluster) -> Vec<u8> {
    c.backoffs.iter().map(|(_, m)| m.op).collect()
}

/// Requests that the OSD keeps.
fn kept(c: &Cluster, osd: usize) -> usize {
    c.osd(osd).pgs.values().map(|pg| pg.requests().count()).sum()
}

fn others(c: &mut Cluster) {
    let (_, dead) = c.alive();
    dead.into_iter().for_each(|osd| c.start(osd));
}

#[test]
fn what_an_inactive_pg_is_asked_waits_at_the_client() {
    let (mut c, left) = inactive();
    let first = c.send_op(left, None, "x", vec![append("1")]);
    let second = c.send_op(left, None, "x", vec![append("2")]);
    let read = c.send_op(left, None, "y", vec![Op::Read(Extent::new(0, 0))]);
    c.run(Duration::from_secs(1));
    assert_eq!(told(&c), [BLOCK], "once");
    assert_eq!(kept(&c, left), 0);
    others(&mut c);
    c.run_until("the end of the backoff", |c| told(c) == [BLOCK, UNBLOCK]);
    assert_eq!(c.backoffs[0].1.id, c.backoffs[1].1.id);
    c.send_op(left, Some(first), "x", vec![append("1")]);
    c.send_op(left, Some(second), "x", vec![append("2")]);
    c.send_op(left, Some(read), "y", vec![Op::Read(Extent::new(0, 0))]);
    c.run_until("answers", |c| [first, second, read].iter().all(|tid| c.replies.contains_key(tid)));
    assert_eq!(c.read("x"), Ok("012".into()));
    c.check();
}

#[test]
fn requests_that_wait_already_when_a_pg_becomes_inactive_go_back_too() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.client_features = FEATURES;
    c.write("x", "0");
    let acting = c.acting("x");
    acting[1..].iter().for_each(|osd| c.kill(*osd));
    let tid = c.send_op(acting[0], None, "x", vec![append("1")]);
    c.run(Duration::from_secs(8));
    assert_eq!((told(&c), kept(&c, acting[0])), (vec![BLOCK], 0));
    others(&mut c);
    c.run_until("the end of the backoff", |c| told(c).last() == Some(&UNBLOCK));
    c.send_op(acting[0], Some(tid), "x", vec![append("1")]);
    c.run_until("an answer", |c| c.replies.contains_key(&tid));
    assert_eq!(c.read("x"), Ok("01".into()), "once, wherever it had got to");
    c.check();
}

#[test]
fn what_was_on_its_way_does_not_overtake_what_was_dropped() {
    let (mut c, left) = inactive();
    c.acknowledges = false;
    let first = c.send_op(left, None, "x", vec![append("1")]);
    c.run(Duration::from_secs(1));
    others(&mut c);
    c.run_until("the end of the backoff", |c| told(c) == [BLOCK, UNBLOCK]);
    // Sent before the client heard of either.
    let second = c.send_op(left, None, "x", vec![append("2")]);
    let block = c.backoffs[0].1.clone();
    c.acknowledge(left, &block);
    c.send_op(left, Some(first), "x", vec![append("1")]);
    c.send_op(left, Some(second), "x", vec![append("2")]);
    c.run_until("answers", |c| [first, second].iter().all(|tid| c.replies.contains_key(tid)));
    assert_eq!(c.read("x"), Ok("012".into()));
    c.check();
}

#[test]
fn who_does_not_understand_backoffs_waits_as_before() {
    let (mut c, left) = inactive();
    c.client_features = 1 << 21;
    c.client_is(super::cluster::GID + 1);
    let tid = c.send_op(left, None, "x", vec![append("1")]);
    c.run(Duration::from_secs(1));
    assert_eq!((told(&c), kept(&c, left)), (vec![], 1));
    others(&mut c);
    c.run_until("an answer", |c| c.replies.contains_key(&tid));
    assert_eq!(c.read("x"), Ok("01".into()));
}

#[test]
fn a_backoff_ends_where_another_osd_becomes_primary() {
    let (mut c, left) = inactive();
    c.send_op(left, None, "x", vec![append("1")]);
    c.run(Duration::from_secs(1));
    assert_eq!(told(&c), [BLOCK]);
    others(&mut c);
    c.run_until("the end of the backoff", |c| told(c) == [BLOCK, UNBLOCK]);
    c.wait_clean();
    // The next one begins with another number, on the same connection.
    let others: Vec<usize> = c.acting("x")[1..].to_vec();
    others.iter().for_each(|osd| c.kill(*osd));
    c.run(Duration::from_secs(8));
    c.send_op(left, None, "x", vec![append("1")]);
    c.run(Duration::from_secs(1));
    assert_eq!(told(&c), [BLOCK, UNBLOCK, BLOCK]);
    assert_ne!(c.backoffs[0].1.id, c.backoffs[2].1.id);
    // It is out: its clients are told to go elsewhere.
    others.iter().for_each(|osd| c.start(*osd));
    c.change(|map, _| map.osds[left].weight = 0);
    c.run_until("the end of that one", |c| told(c).len() == 4);
    assert_eq!(told(&c).last(), Some(&UNBLOCK));
}
