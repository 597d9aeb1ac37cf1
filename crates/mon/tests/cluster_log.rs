//! The cluster log: every monitor has the same, it outlives them, and nobody fills it.

mod support;

use msgs::{Body, LogEntry};
use node::ConnId;
use std::time::Duration;
use support::world::World;
use support::{Rig, three_osds};
use wire::{EntityId, EntityName, EntityType, Utime};

const S: Duration = Duration::from_secs(1);
const LAST: &str = r#"{"prefix":"log last","num":10000,"level":"debug"}"#;

fn say(text: &str) -> String {
    format!(r#"{{"prefix":"log","logtext":["{text}"]}}"#)
}

fn line(seq: u64, text: &str) -> LogEntry {
    let stamp = Utime { sec: 1_700_000_000, nsec: seq as u32 };
    let (prio, channel) = (3, "cluster".to_owned());
    let rank = EntityId::new(EntityType::OSD, 4);
    LogEntry { seq, rank, stamp, prio, channel, msg: text.to_owned(), ..LogEntry::default() }
}

fn log(entries: Vec<LogEntry>) -> Body {
    Body::from(msgs::Log { entries, fsid: support::fsid(), ..msgs::Log::default() })
}

/// The `last` of acknowledgements that were sent to a connection.
fn acks(rig: &mut Rig, conn: ConnId) -> Vec<u64> {
    let sent = rig.sent(conn).into_iter();
    sent.filter_map(|m| match m.body {
        node::Body::Client(Body::LogAck(ack)) => Some(ack.last),
        _ => None,
    })
    .collect()
}

fn count(log: &str, text: &str) -> usize {
    log.lines().filter(|l| l.contains(text)).count()
}

#[test]
fn every_monitor_answers_the_same_and_none_of_them_is_needed_for_it() {
    let mut w = World::new(3);
    w.wait_quorum(0, &["a", "b", "c"]);
    w.ok(0, &say("by the first"));
    let leader = w.leader(0);
    let other = (leader + 1) % 3;
    let before = w.ok(other, LAST);
    assert_eq!(count(&before, "client.admin"), 1, "{before}");
    assert!(before.trim_end().ends_with(": cluster [INF] by the first"), "{before}");
    assert_eq!(w.ok(leader, LAST), before);
    w.kill(leader);
    let after = w.ok(other, LAST);
    assert!(after.starts_with(&before), "{after}");
    w.start(leader);
    w.wait_quorum(other, &["a", "b", "c"]);
    for n in 0..3 {
        w.kill(n);
    }
    for n in 0..3 {
        w.start(n);
    }
    w.wait_quorum(0, &["a", "b", "c"]);
    assert!(w.ok(0, LAST).starts_with(&after));
    // One that fetches everything from the others has it as well.
    let leader = w.leader(0);
    let new = (leader + 1) % 3;
    w.wipe(new);
    w.start(new);
    w.pass(5 * S);
    w.wait_quorum(leader, &["a", "b", "c"]);
    w.kill(leader);
    assert!(w.ok(new, LAST).starts_with(&after));
}

/// The lines that a watcher was sent, and the number of the last one.
fn watched(w: &mut World, conn: ConnId) -> (Vec<String>, u64) {
    let (mut lines, mut last) = (Vec::new(), 0);
    for msg in w.sent.remove(&conn).into_iter().flatten() {
        if let node::Body::Client(Body::Log(log)) = msg.body {
            last = log.paxos.version;
            lines.extend(log.entries.into_iter().map(|l| l.msg));
        }
    }
    (lines, last)
}

#[test]
fn who_watches_goes_on_at_another_monitor_where_it_was() {
    let mut w = World::new(3);
    w.wait_quorum(0, &["a", "b", "c"]);
    w.pass(5 * S);
    w.ok(0, &say("of the past"));
    let leader = w.leader(0);
    let watch = |w: &mut World, n: usize, start: u64| {
        let conn = w.client(n, "client.admin", "allow *");
        let mut want = msgs::MonSubscribe::default();
        want.what.insert("log-info".into(), msgs::SubscribeItem { start, flags: 0 });
        w.send(n, conn, 0, Body::from(want));
        conn
    };
    let conn = watch(&mut w, (leader + 1) % 3, 0);
    w.ok(leader, &say("first"));
    w.pass(S / 10);
    let (lines, last) = watched(&mut w, conn);
    assert_eq!(lines, ["first"]);
    w.ok(leader, &say("second"));
    let conn = watch(&mut w, (leader + 2) % 3, last + 1);
    w.pass(S / 10);
    assert_eq!(watched(&mut w, conn).0, ["second"]);
    w.ok(leader, &say("third"));
    w.pass(S / 10);
    assert_eq!(watched(&mut w, conn).0, ["third"]);
}

#[test]
fn what_is_wrong_is_said_once_whoever_leads() {
    let mut w = World::new(3);
    w.wait_quorum(0, &["a", "b", "c"]);
    w.ok(0, r#"{"prefix":"osd set","key":"noout"}"#);
    w.pass(9 * S);
    let leader = w.leader(0);
    let (other, failed) = ((leader + 1) % 3, "Health check failed: noout flag(s) set (OSDMAP_FLAGS)");
    assert_eq!(count(&w.ok(other, LAST), failed), 1);
    w.kill(leader);
    w.pass(9 * S);
    w.start(leader);
    w.wait_quorum(other, &["a", "b", "c"]);
    w.ok(other, r#"{"prefix":"osd unset","key":"noout"}"#);
    w.pass(9 * S);
    let log = w.ok(other, LAST);
    assert_eq!((count(&log, failed), count(&log, "Health check cleared: OSDMAP_FLAGS")), (1, 1), "{log}");
    let denied = w.command(0, r#"{"prefix":"config-key set","key":"health/raised/X","val":"x"}"#);
    assert_eq!(denied.code, -1, "the monitors' own notes");
}

#[test]
fn a_daemons_lines_reach_the_leader_and_are_acknowledged_when_they_are_safe() {
    let mut w = World::new(3);
    w.wait_quorum(0, &["a", "b", "c"]);
    let leader = w.leader(0);
    let (there, third) = ((leader + 1) % 3, (leader + 2) % 3);
    let osd = w.client(there, "osd.4", "allow profile osd");
    w.sent.remove(&osd);
    w.places[third].disk.hold(true);
    w.places[there].disk.hold(true);
    w.send(there, osd, 0, log(vec![line(7, "slow disk"), line(8, "slower disk")]));
    w.pass(S / 2);
    let acked = |w: &World| w.sent.get(&osd).is_some_and(|sent| sent.iter().any(|m| m.kind() == 53));
    assert!(!acked(&w), "only the leader has it");
    w.kill(leader);
    for n in [there, third] {
        w.places[n].disk.hold(false);
        w.kill(n);
        w.start(n);
    }
    w.pass(4 * S);
    let osd = w.client(there, "osd.4", "allow profile osd");
    for _ in 0..2 {
        w.send(there, osd, 0, log(vec![line(7, "slow disk"), line(8, "slower disk")]));
        w.pass(S / 2);
        assert!(w.sent.remove(&osd).into_iter().flatten().any(|m| m.kind() == 53));
    }
    let log = w.ok(third, LAST);
    assert_eq!(
        (count(&log, "osd.4 (osd.4) 7 : cluster [WRN] slow disk"), count(&log, "slower")),
        (1, 1),
        "{log}"
    );
}

#[test]
fn nothing_is_acknowledged_or_shown_before_it_is_durable() {
    let (mut rig, conns) = three_osds();
    rig.disk.hold(true);
    rig.send(conns[0], 0, log(vec![line(1, "lost")]));
    rig.pass(S);
    assert_eq!((acks(&mut rig, conns[0]), count(&rig.ok(LAST), "lost")), (vec![], 0));
    rig.crash_and_restart();
    rig.disk.hold(false);
    rig.commit();
    let osd = rig.boot_osd(0, 200);
    rig.send(osd, 0, log(vec![line(2, "kept")]));
    rig.pass(S);
    assert_eq!(acks(&mut rig, osd), [2]);
    rig.crash_and_restart();
    let log = rig.ok(LAST);
    assert_eq!((count(&log, "lost"), count(&log, "kept")), (0, 1), "{log}");
}

#[test]
fn nobody_speaks_for_another_or_without_leave() {
    let mut rig = Rig::new();
    let client = rig.connect("client.x", "allow rw", 9001);
    let liar = LogEntry {
        name: EntityName::new(EntityType::MON, "a"),
        rank: EntityId::new(EntityType::MON, 0),
        prio: 9,
        msg: "ä".repeat(4000),
        channel: "c".repeat(4000),
        ..line(1, "")
    };
    rig.send(client, 0, log(vec![liar]));
    let reader = rig.connect("client.y", "allow r", 9002);
    rig.send(reader, 0, log(vec![line(5, "unheard")]));
    rig.pass(S);
    assert_eq!((acks(&mut rig, client), acks(&mut rig, reader)), (vec![1], vec![5]));
    let log = rig.ok(LAST);
    assert_eq!(count(&log, "unheard"), 0);
    let said = log.lines().find(|l| l.contains("client.x")).expect("is there");
    assert!(said.contains("(client.9001) 1 : cccc") && said.contains("[ERR]") && said.len() < 1300, "{said}");
}

#[test]
fn a_chatty_daemon_fills_neither_the_log_nor_the_store() {
    let (mut rig, conns) = three_osds();
    rig.ok(&say("from before"));
    let written = rig.ok(r#"{"prefix":"log last","num":10000}"#).lines().count();
    for round in 0..50u64 {
        rig.send(conns[1], 0, log((0..1000).map(|n| line(round * 1000 + n, "chatter")).collect()));
        rig.pass(S / 10);
    }
    assert_eq!(acks(&mut rig, conns[1]).len(), 50, "it does not come again and again");
    rig.pass(11 * S);
    let log = rig.ok(LAST);
    let kept = count(&log, "chatter");
    assert!((200..300).contains(&kept), "{kept}");
    assert!(count(&log, "lines of osd.1 were left out: it says more than 10 a second") >= 1);
    assert!(log.lines().count() < written + 300 && count(&log, "from before") == 1);
    rig.send(conns[2], 0, self::log(vec![line(1, "of another")]));
    rig.pass(S);
    assert_eq!(count(&rig.ok(LAST), "of another"), 1);
}

#[test]
fn old_lines_go_and_what_is_stored_of_them_too() {
    let mut rig = Rig::with(&[("mon_log_max", "200")]);
    let admin = rig.admin();
    for n in 0..1000 {
        assert_eq!(rig.command_on(admin, &say(&format!("line {n};"))).code, 0);
    }
    let log = rig.ok(LAST);
    assert!((200..330).contains(&log.lines().count()), "{}", log.lines().count());
    assert_eq!((count(&log, "line 999;"), count(&log, "line 1;")), (1, 0));
    rig.crash_and_restart();
    assert_eq!(rig.ok(LAST), log);
}
