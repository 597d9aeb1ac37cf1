//! Watches and notifications over lost connections and new maps.

mod common;

use common::{POOL, answer, at, conn, engine, full, fulls, map, sent, show};
use maps::{Epoch, ObjectLocator, OsdMap};
use msgs::op::{input, watch_op};
use msgs::{Body, Op, OpResult, OsdOp, OsdOpReply, WatchNotify, notify_op};
use node::{CloseReason, Msg};
use rados::{Rados, RadosOut};
use wire::Errno;

const NOTHING: [&str; 0] = [];

fn locator() -> ObjectLocator {
    ObjectLocator::new(POOL, "")
}

/// The code of each WATCH, in order, and 0x100 for each NOTIFY.
fn asked(out: &[RadosOut]) -> Vec<u16> {
    let code = |op: &OsdOp| match &op.ops[0].op {
        Op::Watch { op, .. } => u16::from(*op),
        Op::Notify { .. } => 0x100,
        other => panic!("{other:?}"),
    };
    sent(out).iter().map(|(_, _, op)| code(op)).collect()
}

/// Answers the last operation of `out` on its connection.
fn answer_last(r: &mut Rados, out: &mut Vec<RadosOut>, result: i32) -> Vec<String> {
    let (conn, tid, op) = sent(out).pop().expect("something was sent");
    out.clear();
    r.message(conn, answer(tid, &op, result), out);
    show(out)
}

fn told(opcode: u8, cookie: u64, notify_id: u64) -> Msg {
    let payload = b"news".to_vec();
    Msg::new(0, Body::from(WatchNotify { opcode, cookie, notify_id, payload, ..Default::default() }))
}

/// A watch of "o" under cookie 9, registered on connection 1.
fn watching() -> (Rados, Vec<RadosOut>, OsdMap) {
    let (mut r, mut out, m) = (engine(), Vec::new(), map(5));
    r.osd_map(&full(&m), &mut out);
    out.clear();
    r.watch(at(0), 9, locator(), b"o", 10, &mut out);
    assert_eq!(asked(&out), [u16::from(watch_op::WATCH)]);
    assert_eq!(answer_last(&mut r, &mut out, 0), ["watched 9 r=0"]);
    (r, out, m)
}

#[test]
fn a_watch_is_registered_pinged_and_told() {
    let (mut r, mut out, _) = watching();
    assert_eq!((r.pending(), r.deadline()), (0, Some(at(5000).mono)));
    r.message(conn(1), told(notify_op::NOTIFY, 9, 77), &mut out);
    r.message(conn(1), told(notify_op::NOTIFY, 8, 77), &mut out);
    assert_eq!(show(&mut out), ["notified 9 77 \"news\""], "and not of what is not watched");
    r.timer(at(5000), &mut out);
    assert_eq!(asked(&out), [u16::from(watch_op::PING)]);
    assert_eq!(answer_last(&mut r, &mut out, 0), NOTHING);
    assert_eq!(r.deadline(), Some(at(10_000).mono));
    r.unwatch(at(6000), 4, 9, &mut out);
    assert_eq!(asked(&out), [u16::from(watch_op::UNWATCH)]);
    r.message(conn(1), told(notify_op::NOTIFY, 9, 78), &mut out);
    assert_eq!(answer_last(&mut r, &mut out, 0), ["done 4 r=0"]);
    assert_eq!(r.deadline(), None);
}

#[test]
fn a_watch_is_taken_up_again_on_a_new_connection_and_in_a_new_interval() {
    let (mut r, mut out, m) = watching();
    r.closed(at(1), conn(1), CloseReason::Lost, &mut out);
    assert_eq!(asked(&out), []);
    r.timer(at(1), &mut out);
    assert_eq!(asked(&out), [u16::from(watch_op::RECONNECT)]);
    assert_eq!(answer_last(&mut r, &mut out, 0), NOTHING);
    // Another OSD than the primary is down: the same primary is asked, but it has forgotten notifications.
    let other = m.object_pg(&locator(), b"o").map(|pg| m.pg_up_acting(pg).acting[1]).expect("two");
    let mut next = map(6);
    next.osds[other.0 as usize].state = maps::osd_state::EXISTS;
    r.osd_map(&full(&next), &mut out);
    assert_eq!(asked(&out), [u16::from(watch_op::RECONNECT)]);
    assert_eq!(answer_last(&mut r, &mut out, Errno::ENOENT.to_result_code()), ["watch 9 of 0 broken r=-107"]);
    next.epoch = Epoch(7);
    next.osds[other.0 as usize].state |= maps::osd_state::UP;
    r.osd_map(&full(&next), &mut out);
    r.timer(at(5000), &mut out);
    assert_eq!(asked(&out), [], "nothing is left of it");
    r.unwatch(at(5000), 4, 9, &mut out);
    assert_eq!(asked(&out), [u16::from(watch_op::UNWATCH)]);
}

#[test]
fn an_interval_between_two_others_that_are_alike_is_one() {
    let (mut r, mut out, m) = watching();
    let other = m.object_pg(&locator(), b"o").map(|pg| m.pg_up_acting(pg).acting[1]).expect("two");
    let mut away = map(6);
    away.osds[other.0 as usize].state = maps::osd_state::EXISTS;
    r.osd_map(&fulls([&away, &map(7)]), &mut out);
    assert_eq!(asked(&out), [u16::from(watch_op::RECONNECT)]);
    out.clear();
    r.osd_map(&full(&map(8)), &mut out);
    assert_eq!(asked(&out), [], "nothing has changed");
    r.osd_map(&full(&map(11)), &mut out);
    assert_eq!(asked(&out), [u16::from(watch_op::RECONNECT)], "who knows what was between");
}

#[test]
fn what_is_not_registered_yet_is_registered_again_and_a_refusal_ends_it() {
    let (mut r, mut out, m) = (engine(), Vec::new(), map(5));
    r.watch(at(0), 9, locator(), b"o", 10, &mut out);
    r.osd_map(&full(&m), &mut out);
    let first = sent(&out).pop().expect("sent with the first map");
    out.clear();
    r.closed(at(1), conn(1), CloseReason::Lost, &mut out);
    r.timer(at(1), &mut out);
    assert_eq!(asked(&out), [u16::from(watch_op::WATCH)]);
    let (_, tid, op) = sent(&out).pop().expect("sent again");
    assert_ne!(tid, first.1, "as a new operation: an answer from the log would not connect it");
    out.clear();
    r.message(conn(2), answer(first.1, &first.2, 0), &mut out);
    assert_eq!(show(&mut out), NOTHING);
    r.message(conn(2), answer(tid, &op, Errno::ENOENT.to_result_code()), &mut out);
    assert_eq!(show(&mut out), ["watched 9 r=-2"]);
    assert_eq!(r.deadline(), None);
}

#[test]
fn who_is_told_that_its_watch_is_gone_or_does_not_get_through_with_a_ping_hears_it_once() {
    let (mut r, mut out, _) = watching();
    r.message(conn(1), told(notify_op::DISCONNECT, 9, 0), &mut out);
    r.message(conn(1), told(notify_op::DISCONNECT, 9, 0), &mut out);
    assert_eq!(show(&mut out), ["watch 9 of 0 broken r=-107"]);
    let (mut r, mut out, _) = watching();
    r.timer(at(5000), &mut out);
    assert_eq!(answer_last(&mut r, &mut out, 0), NOTHING);
    r.timer(at(10_000), &mut out);
    assert_eq!(
        answer_last(&mut r, &mut out, Errno::ETIMEDOUT.to_result_code()),
        ["watch 9 of 5000 broken r=-110"]
    );
}

fn numbered(tid: u64, op: &OsdOp, id: u64) -> Msg {
    let mut reply = OsdOpReply::to(op, 0, op.epoch);
    reply.ops = vec![OpResult { data: input::write(&id), ..reply.ops[0].clone() }];
    Msg::new(tid, Body::from(reply))
}

#[test]
fn a_notification_ends_with_its_completion_and_is_made_again_where_that_can_not_come() {
    let (mut r, mut out, m) = (engine(), Vec::new(), map(5));
    r.osd_map(&full(&m), &mut out);
    out.clear();
    r.notify(at(0), 3, locator(), b"o", b"news".to_vec(), 5, &mut out);
    assert_eq!(asked(&out), [0x100]);
    let (_, tid, op) = sent(&out).pop().expect("sent");
    out.clear();
    r.message(conn(1), numbered(tid, &op, 70), &mut out);
    r.message(conn(1), told(notify_op::NOTIFY_COMPLETE, 3, 69), &mut out);
    assert_eq!(show(&mut out), NOTHING);
    r.closed(at(1), conn(1), CloseReason::Lost, &mut out);
    r.timer(at(1), &mut out);
    let (_, tid, op) = sent(&out).pop().expect("sent again");
    out.clear();
    r.message(conn(2), numbered(tid, &op, 71), &mut out);
    r.message(conn(2), told(notify_op::NOTIFY_COMPLETE, 3, 70), &mut out);
    assert_eq!(show(&mut out), NOTHING);
    r.message(conn(2), told(notify_op::NOTIFY_COMPLETE, 3, 71), &mut out);
    assert_eq!(show(&mut out), ["notify 3 ended r=0 after 2"]);
    r.message(conn(2), told(notify_op::NOTIFY_COMPLETE, 3, 71), &mut out);
    assert_eq!((show(&mut out), r.pending()), (vec![], 0));
    r.notify(at(2), 4, locator(), b"o", vec![], 5, &mut out);
    assert_eq!(
        answer_last(&mut r, &mut out, Errno::ENOENT.to_result_code()),
        ["notify 4 ended r=-2 after 1"]
    );
}

#[test]
fn watches_and_notifications_end_with_the_instance_that_is_cut_off() {
    let (mut r, mut out, _) = watching();
    r.watch(at(1), 10, locator(), b"o", 10, &mut out);
    r.notify(at(1), 11, locator(), b"o", b"news".to_vec(), 10, &mut out);
    out.clear();
    r.cut_off(&mut out);
    let expected =
        ["close 1", "watch 9 of 0 broken r=-108", "watched 10 r=-108", "notify 11 ended r=-108 after 1"];
    assert_eq!(show(&mut out), expected);
    assert_eq!((r.pending(), r.is_held()), (0, true));
}
