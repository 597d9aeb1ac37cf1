//! Watches and notifications: who is told what, and what must survive.

use super::cluster::{Cluster, GID};
use crate::watch::{Effect, Watches};
use msgs::op::{input, watch_op};
use msgs::{Op, OsdOpReply, notify_op};
use node::ConnId;
use std::time::Duration;
use stdx::{Bufs, Instant};
use wire::{EntityId, EntityType};

const SECOND: Duration = Duration::from_secs(1);

fn watch(op: u8, cookie: u64) -> Op {
    Op::Watch { cookie, ver: 0, op, generation: 0, timeout: 10 }
}

fn notify(text: &str) -> Op {
    let input = input::NotifyInput { version: 1, timeout: 5, payload: text.as_bytes().to_vec() };
    Op::Notify { cookie: 77, data: input::write(&input) }
}

fn ack(id: u64, cookie: u64, text: &str) -> Op {
    let input = input::NotifyAckInput { notify_id: id, watch_cookie: cookie, reply: text.into() };
    Op::NotifyAck { cookie: 0, data: input::write(&input) }
}

fn one(c: &mut Cluster, name: &str, op: Op) -> i32 {
    c.op(name, vec![op]).result
}

fn watchers(c: &mut Cluster, name: &str) -> Vec<(i64, u64)> {
    let reply = c.op(name, vec![Op::ListWatchers]);
    let list: input::ListWatchersReply = input::read(&reply.ops[0].data).expect("a list");
    list.entries.iter().map(|w| (w.name.num, w.cookie)).collect()
}

fn id_of(reply: &OsdOpReply) -> u64 {
    assert_eq!(reply.result, 0);
    input::read(&reply.ops[0].data).expect("a number")
}

/// Codes and cookies of what clients heard since.
fn heard(c: &mut Cluster) -> Vec<(u8, u64)> {
    c.run(Duration::from_millis(20));
    std::mem::take(&mut c.heard).into_iter().map(|(_, m)| (m.opcode, m.cookie)).collect()
}

#[test]
fn all_watchers_are_told_and_the_notifier_gets_their_answers() {
    let mut c = Cluster::new(3, 3, 2, 8);
    assert_eq!(one(&mut c, "x", watch(watch_op::WATCH, 1)), -2, "there is no object");
    c.write("x", "a");
    let before = c.op("x", vec![Op::Stat]).user_version;
    assert_eq!(one(&mut c, "x", watch(watch_op::WATCH, 1)), 0);
    c.client_is(GID + 1);
    assert_eq!(one(&mut c, "x", watch(watch_op::WATCH, 2)), 0);
    assert_eq!(c.op("x", vec![Op::Stat]).user_version, before, "watching is no change that clients see");
    assert_eq!(watchers(&mut c, "x"), [(GID as i64, 1), (GID as i64 + 1, 2)]);
    let reply = c.op("x", vec![notify("hello")]);
    let id = id_of(&reply);
    assert_eq!(heard(&mut c), [(notify_op::NOTIFY, 1), (notify_op::NOTIFY, 2)]);
    assert_eq!(one(&mut c, "x", ack(id, 2, "two")), 0);
    assert_eq!(heard(&mut c), []);
    c.client_is(GID);
    assert_eq!(one(&mut c, "x", ack(id, 1, "one")), 0);
    c.run(Duration::from_millis(20));
    let (_, done) = c.heard.pop().expect("the completion");
    assert_eq!((done.opcode, done.cookie, done.notify_id, done.return_code), (2, 77, id, 0));
    let all: input::NotifyReply = input::read(&done.data).expect("answers");
    assert_eq!(all.acks, [((GID, 1), b"one".to_vec()), ((GID + 1, 2), b"two".to_vec())]);
    assert_eq!(all.missed, []);
    c.check();
}

#[test]
fn a_notification_completes_at_once_without_watchers_and_in_time_without_answers() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "a");
    id_of(&c.op("x", vec![notify("nobody")]));
    assert_eq!(heard(&mut c), [(notify_op::NOTIFY_COMPLETE, 77)]);
    assert_eq!(one(&mut c, "x", watch(watch_op::WATCH, 1)), 0);
    let id = id_of(&c.op("x", vec![notify("silence")]));
    assert_eq!(heard(&mut c), [(notify_op::NOTIFY, 1)]);
    c.run(6 * SECOND);
    let (_, done) = c.heard.pop().expect("the completion");
    let all: input::NotifyReply = input::read(&done.data).expect("answers");
    assert_eq!((done.opcode, done.notify_id, done.return_code), (notify_op::NOTIFY_COMPLETE, id, -110));
    assert_eq!((all.acks.len(), all.missed), (0, vec![(GID, 1)]));
}

#[test]
fn a_watch_outlives_its_connection_until_its_time_is_over() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "a");
    let primary = c.acting("x")[0];
    assert_eq!(one(&mut c, "x", watch(watch_op::WATCH, 1)), 0);
    c.run(8 * SECOND);
    assert_eq!(one(&mut c, "x", watch(watch_op::PING, 1)), 0);
    c.break_client(primary);
    c.run(SECOND);
    assert_eq!(one(&mut c, "x", watch(watch_op::PING, 1)), -110, "a ping is not enough to come back");
    let id = id_of(&c.op("x", vec![notify("missed")]));
    assert_eq!(heard(&mut c), []);
    assert_eq!(one(&mut c, "x", watch(watch_op::RECONNECT, 1)), 0);
    assert_eq!(heard(&mut c), [(notify_op::NOTIFY, 1)], "what it missed comes with the reconnection");
    assert_eq!(one(&mut c, "x", ack(id, 1, "")), 0);
    assert_eq!(heard(&mut c), [(notify_op::NOTIFY_COMPLETE, 77)]);
    c.run(11 * SECOND);
    assert_eq!(heard(&mut c), [(notify_op::DISCONNECT, 1)], "it did not ping");
    assert_eq!(watchers(&mut c, "x"), []);
    assert_eq!(one(&mut c, "x", watch(watch_op::RECONNECT, 1)), -107);
    assert_eq!(one(&mut c, "x", watch(watch_op::PING, 1)), -107);
    assert_eq!(c.counted("watches_expired"), 1);
    c.check();
}

#[test]
fn a_notification_does_not_pass_over_a_watcher_that_is_late_and_comes_back() {
    let at = |s: u64| Instant(s * 1_000_000_000);
    let (mut watches, mut told) = (Watches::default(), Vec::new());
    let (object, client) = (Cluster::new(1, 1, 1, 8).key("x"), EntityId::new(EntityType::CLIENT, 5));
    let connect = || Effect::Connect { watcher: (1, client), timeout: 10, pings: true };
    watches.apply(at(0), &object, (Some(ConnId(7)), client), connect(), &mut told);
    // Nobody has looked at the clock yet.
    let notify = Effect::Notify { id: 3, cookie: 77, timeout: 5, version: 1, payload: vec![] };
    watches.apply(at(11), &object, (Some(ConnId(8)), client), notify, &mut told);
    watches.complete_ready(&mut told);
    assert_eq!(told.iter().map(|(conn, m)| (conn.0, m.opcode)).collect::<Vec<_>>(), [(7, notify_op::NOTIFY)]);
    watches.heard_of(at(11), &object, (1, client), None);
    assert_eq!(watches.expire(at(11), &mut told), []);
    assert!(watches.is_connected(&object, (1, client)));
}

#[test]
fn a_watcher_lives_from_when_its_ping_has_come_and_not_from_when_that_is_answered() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "a");
    let acting = c.acting("x");
    assert_eq!(one(&mut c, "x", watch(watch_op::WATCH, 1)), 0);
    c.run(8 * SECOND);
    // No update becomes durable for a while, and what has seen one waits for that.
    c.run(SECOND);
    c.freeze(acting[2]);
    c.send_op(acting[0], None, "x", vec![Op::Create { data: Bufs::new() }]);
    c.send_op(acting[0], None, "x", vec![watch(watch_op::PING, 1)]);
    c.run(Duration::from_millis(1500));
    assert!(c.acting("x") == acting);
    c.thaw(acting[2]);
    c.run(SECOND);
    assert_eq!((watchers(&mut c, "x").len(), c.counted("watches_expired")), (1, 0));
    assert_eq!(heard(&mut c), []);
}

#[test]
fn old_watches_need_no_pings() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "a");
    let primary = c.acting("x")[0];
    assert_eq!(one(&mut c, "x", watch(watch_op::LEGACY_WATCH, 1)), 0);
    c.run(60 * SECOND);
    assert_eq!(watchers(&mut c, "x").len(), 1);
    c.break_client(primary);
    c.run(9 * SECOND);
    assert_eq!(watchers(&mut c, "x").len(), 1);
    c.run(2 * SECOND);
    assert_eq!(watchers(&mut c, "x").len(), 0);
}

#[test]
fn who_ends_a_watch_hears_no_more_and_a_pending_notification_does_not_wait_for_it() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "a");
    assert_eq!(one(&mut c, "x", watch(watch_op::WATCH, 1)), 0);
    id_of(&c.op("x", vec![notify("first")]));
    assert_eq!(one(&mut c, "x", watch(watch_op::UNWATCH, 1)), 0);
    assert_eq!(heard(&mut c), [(notify_op::NOTIFY, 1), (notify_op::NOTIFY_COMPLETE, 77)]);
    assert_eq!(one(&mut c, "x", watch(watch_op::UNWATCH, 1)), 0, "twice is no error");
    id_of(&c.op("x", vec![notify("second")]));
    assert_eq!(heard(&mut c), [(notify_op::NOTIFY_COMPLETE, 77)]);
    c.check();
}

#[test]
fn watchers_of_an_object_that_is_deleted_are_told() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "a");
    assert_eq!(one(&mut c, "x", watch(watch_op::WATCH, 1)), 0);
    assert_eq!(one(&mut c, "x", Op::Delete), 0);
    assert_eq!(heard(&mut c), [(notify_op::DISCONNECT, 1)]);
    assert_eq!(one(&mut c, "x", watch(watch_op::RECONNECT, 1)), -2);
    c.write("x", "again");
    assert_eq!(watchers(&mut c, "x"), []);
    assert_eq!(one(&mut c, "x", watch(watch_op::PING, 1)), -107);
    c.check();
}

#[test]
fn watches_survive_their_primary_and_a_restart_of_all() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "a");
    assert_eq!(one(&mut c, "x", watch(watch_op::WATCH, 1)), 0);
    let old = c.acting("x")[0];
    c.kill(old);
    assert_eq!(one(&mut c, "x", watch(watch_op::RECONNECT, 1)), 0, "the new primary knows of it");
    id_of(&c.op("x", vec![notify("there?")]));
    let new = c.acting("x")[0];
    assert_ne!(old, new);
    c.run(Duration::from_millis(20));
    assert_eq!(c.heard.iter().map(|(from, m)| (*from, m.opcode)).collect::<Vec<_>>(), [(new, 1)]);
    c.heard.clear();
    c.start(old);
    c.run(5 * SECOND);
    (0..3).for_each(|osd| c.kill(osd));
    (0..3).for_each(|osd| c.start(osd));
    c.wait_clean();
    assert_eq!(watchers(&mut c, "x"), [(GID as i64, 1)]);
    // Its time counts from when the new primary first looked at the object.
    c.run(9 * SECOND);
    assert_eq!(watchers(&mut c, "x"), [(GID as i64, 1)]);
    c.run(2 * SECOND);
    assert_eq!(watchers(&mut c, "x"), []);
    c.check();
}

#[test]
fn a_watcher_keeps_its_connection_where_only_a_replica_changes() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "a");
    assert_eq!(one(&mut c, "x", watch(watch_op::WATCH, 1)), 0);
    let acting = c.acting("x");
    c.kill(acting[2]);
    c.write("x", "b");
    c.break_links(acting[0], acting[1]);
    c.write("x", "c");
    assert_eq!(one(&mut c, "x", watch(watch_op::PING, 1)), 0);
    id_of(&c.op("x", vec![notify("still?")]));
    assert_eq!(heard(&mut c), [(notify_op::NOTIFY, 1)]);
    c.start(acting[2]);
    c.run(SECOND);
    c.check();
}

#[test]
fn a_write_and_a_watch_in_one_vector_are_one_step() {
    let mut c = Cluster::new(3, 3, 2, 8);
    let create = || Op::Create { data: Bufs::new() };
    let reply = c.op("x", vec![create(), watch(watch_op::WATCH, 1), Op::RmXattr { name: vec![] }]);
    assert_eq!((reply.result, c.read("x")), (-22, Err(-2)));
    assert_eq!(c.op("x", vec![create(), watch(watch_op::WATCH, 1), Op::ListWatchers]).result, 0);
    assert_eq!(watchers(&mut c, "x"), [(GID as i64, 1)]);
    assert_eq!(c.op("x", vec![Op::Delete, create(), watch(watch_op::WATCH, 3)]).result, 0);
    assert_eq!(watchers(&mut c, "x"), [(GID as i64, 3)]);
    assert_eq!(heard(&mut c), [(notify_op::DISCONNECT, 1)]);
    c.check();
}

#[test]
fn a_watch_is_of_the_head_alone_and_stays_when_that_is_rolled_back() {
    let mut c = Cluster::new(3, 3, 2, 1);
    let before = c.take_snap();
    c.write("x", "one");
    assert_eq!(one(&mut c, "x", watch(watch_op::WATCH, 7)), 0);
    let snap = c.take_snap();
    c.write("x", "two");
    assert_eq!(watchers(&mut c, "x").len(), 1);
    for osd in 0..3 {
        let watched: Vec<_> = c
            .objects(osd)
            .into_values()
            .filter(|(_, view)| view.attrs.iter().any(|(name, _)| name == crate::watch::WATCH_ATTR))
            .collect();
        assert_eq!(watched.len(), 1, "osd.{osd}");
    }
    assert_eq!(
        one(&mut c, "x", Op::Rollback { snap: before }),
        -16,
        "there was nothing, and somebody watches"
    );
    assert_eq!(one(&mut c, "x", Op::Rollback { snap }), 0);
    assert_eq!((c.read("x"), watchers(&mut c, "x").len()), (Ok("one".into()), 1));
    assert_eq!(one(&mut c, "x", watch(watch_op::PING, 7)), 0);
    c.check();
}

#[test]
fn the_watches_of_a_blocklisted_client_end_at_once() {
    let mut c = Cluster::new(3, 3, 2, 8);
    for name in ["x", "y"] {
        c.write(name, "a");
        assert_eq!(one(&mut c, name, watch(watch_op::WATCH, 1)), 0);
    }
    let mut addr = c.client_addr();
    c.client_is(GID + 1);
    addr.nonce += 1;
    c.change(|map, _| map.blocklist.extend([(addr, Default::default())]));
    c.run(SECOND);
    assert_eq!(watchers(&mut c, "x"), [(GID as i64, 1)], "another one was meant");
    addr.nonce -= 1;
    c.change(|map, _| map.blocklist.extend([(addr, Default::default())]));
    c.run(Duration::from_millis(100));
    assert_eq!(c.counted("watches_expired"), 2);
    c.change(|map, _| map.blocklist.clear());
    assert_eq!((watchers(&mut c, "x"), watchers(&mut c, "y")), (vec![], vec![]));
    c.check();
}
