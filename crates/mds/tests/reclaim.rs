//! Clients that come back after a crash and ask for the end of their predecessors' sessions.

mod world;

use mds::{ClientId, MdsOptions};
use msgs::{ClientReclaim, ClientReclaimReply, ClientRequest, FileLockArgs, MdsOp, cap, reclaim_flag};
use std::time::Duration;
use wire::{AddrVec, EntityAddr, Errno};
use world::client::{create, getattr, open, request};
use world::standby::Standby;
use world::{Client, World};

/// The client that dies, and those that come after it.
const OLD: u64 = 10;
const NEW: u64 = 20;
const OTHER: u64 = 30;
const KEY: &str = "client.nfs";

fn connect(w: &mut World, id: u64, uuid: Option<&str>) {
    connect_as(w, id, uuid, KEY);
}

fn connect_as(w: &mut World, id: u64, uuid: Option<&str>, key: &str) {
    let uuid = uuid.map(str::to_owned);
    w.clients.insert(id, Client { uuid, ..Client::new(id) });
    w.ask_session(id, key, "allow *");
}

/// What libcephfs does for `ceph_set_uuid`: it opens another session in which it says so.
fn take_uuid(w: &mut World, id: u64, uuid: &str) {
    w.send(id, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_CLOSE, 0));
    w.quiet();
    assert!(!w.clients[&id].open);
    connect(w, id, Some(uuid));
}

fn lock() -> ClientRequest {
    let args = FileLockArgs { rule: 1, kind: 2, owner: 1 << 63 | 7, pid: 7, start: 0, length: 0, wait: 1 };
    ClientRequest { args: args.into(), ..request(MdsOp::SETFILELOCK, "f") }
}

fn reclaim(w: &mut World, id: u64, uuid: &str, flags: u32) {
    w.send(id, 0, ClientReclaim { uuid: uuid.to_owned(), flags });
}

fn reset(w: &mut World, id: u64) {
    reclaim(w, id, "a", reclaim_flag::RESET);
}

fn address(id: u64) -> AddrVec {
    EntityAddr::msgr2(([127, 0, 0, 1], 0).into(), u32::try_from(id).expect("small")).into()
}

fn has_session(w: &World, id: u64) -> bool {
    w.rank.clients().contains(&ClientId(id))
}

/// The only answer that a client has.
fn answer(w: &World, id: u64) -> &ClientReclaimReply {
    let [answer] = w.clients[&id].reclaimed.as_slice() else {
        panic!("one answer: {:?}", w.clients[&id].reclaimed)
    };
    answer
}

fn result(w: &World, id: u64) -> i32 {
    answer(w, id).result
}

/// One that had a lock and has written something has died, and another has come.
fn restarted(seed: u64) -> (World, u64) {
    let mut w = World::new(seed, MdsOptions::default());
    connect(&mut w, OLD, Some("a"));
    let f = world::pair::ino(&w.call(OLD, create("f", 2)));
    assert_eq!(w.call(OLD, lock()).result, 0);
    let old = w.clients.get_mut(&OLD).expect("a client");
    assert!(old.write_to(f, 5000));
    old.stubborn = true;
    connect(&mut w, NEW, None);
    (w, f)
}

#[test]
fn the_successor_has_the_lock_as_soon_as_the_osds_refuse_its_predecessor() {
    let (mut w, f) = restarted(1);
    let before = w.now.mono;
    reset(&mut w, NEW);
    w.quiet();
    assert_eq!(w.evict_asked, vec![OLD]);
    assert!(w.clients[&NEW].reclaimed.is_empty(), "the OSDs still take what the predecessor writes");
    let held_back = w.start(NEW, lock());
    w.quiet();
    assert!(!w.clients[&NEW].replies.contains_key(&held_back));

    w.rank.set_osd_epoch(maps::Epoch(12));
    w.finish_evictions();
    let epoch = maps::Epoch(12);
    assert_eq!(answer(&w, NEW), &ClientReclaimReply { result: 0, epoch, addrs: address(OLD) });
    assert!(!has_session(&w, OLD));
    assert_eq!(w.reply(NEW, held_back).result, 0);
    take_uuid(&mut w, NEW, "a");
    assert!(w.clients[&NEW].open);
    assert_eq!(w.call(NEW, open("f", 2)).result, 0);
    assert_ne!(world::pair::caps(&w, NEW, f) & cap::FILE_WR, 0);
    assert_eq!(w.call(NEW, lock()).result, 0);
    assert!(w.now.mono.since(before) < Duration::from_secs(1), "{:?}", w.now.mono.since(before));
    reclaim(&mut w, NEW, "", reclaim_flag::FINISH);
    w.quiet();
    assert!(w.clients[&NEW].reclaimed.is_empty(), "an end is not answered");
}

#[test]
fn others_use_what_the_predecessor_had_with_a_map_by_which_the_osds_refuse_it() {
    let (mut w, f) = restarted(13);
    w.call(NEW, getattr("", 0));
    let held_back = w.start(NEW, lock());
    let cut = w.start(NEW, world::client::setattr_size("f", 0));
    reset(&mut w, NEW);
    w.quiet();
    assert_eq!(w.clients[&NEW].barrier, maps::Epoch(0));
    w.rank.set_osd_epoch(maps::Epoch(12));
    w.finish_evictions();
    w.rank.set_osd_epoch(maps::Epoch(15));
    for tid in [held_back, cut] {
        assert_eq!((w.reply(NEW, tid).result, w.clients[&NEW].barriers[&tid]), (0, maps::Epoch(12)));
    }
    // Also a later session, and one of a later incarnation of the rank.
    connect(&mut w, OTHER, None);
    w.call(OTHER, getattr("", 0));
    let tid = w.start(OTHER, open("f", 2));
    w.quiet();
    assert_ne!(world::pair::caps(&w, OTHER, f) & cap::FILE_WR, 0);
    assert_eq!(w.clients[&OTHER].barriers[&tid], maps::Epoch(12));
    w.cfg.osd_epoch = maps::Epoch(20);
    w.restart(&[NEW, OTHER]);
    let tid = w.start(OTHER, open("f", 2));
    w.quiet();
    assert_eq!(w.clients[&OTHER].barriers[&tid], maps::Epoch(20));
}

#[test]
fn the_answer_waits_until_the_end_of_the_session_is_durable() {
    let (mut w, _) = restarted(2);
    reset(&mut w, NEW);
    w.quiet();
    w.evict_asked.clear();
    w.rank.evicted(w.now, ClientId(OLD));
    w.effects();
    assert!(!has_session(&w, OLD));
    assert!(w.clients[&NEW].reclaimed.is_empty(), "a crash would bring the session back");
    w.quiet();
    assert_eq!(result(&w, NEW), 0);
}

#[test]
fn a_uuid_that_nobody_has_is_answered_at_once() {
    let (mut w, _) = restarted(3);
    reclaim(&mut w, NEW, "b", reclaim_flag::RESET);
    w.quiet();
    assert_eq!((result(&w, NEW), answer(&w, NEW).addrs.0.len()), (0, 0), "from which clients make ENOENT");
    assert!(w.evict_asked.is_empty() && has_session(&w, OLD));
}

#[test]
fn a_client_does_not_end_its_own_session() {
    let (mut w, _) = restarted(4);
    reset(&mut w, OLD);
    w.quiet();
    assert!(answer(&w, OLD).addrs.0.is_empty() && w.evict_asked.is_empty());
}

#[test]
fn only_sessions_of_the_same_key_can_be_ended() {
    let (mut w, _) = restarted(5);
    connect_as(&mut w, OTHER, None, "client.other");
    reset(&mut w, OTHER);
    w.quiet();
    assert_eq!(result(&w, OTHER), Errno::EPERM.to_result_code());
    assert!(w.evict_asked.is_empty());
    assert_eq!(w.call(OLD, getattr("f", 0)).result, 0);
}

#[test]
fn what_the_server_does_not_know_is_refused() {
    for (uuid, flags) in [("", 1), ("a", 0), ("a", 3), ("a", reclaim_flag::FINISH | reclaim_flag::RESET)] {
        let (mut w, _) = restarted(6);
        reclaim(&mut w, NEW, uuid, flags);
        w.quiet();
        assert_eq!(result(&w, NEW), Errno::EINVAL.to_result_code(), "{uuid:?} {flags:#x}");
        assert!(w.evict_asked.is_empty());
    }
}

#[test]
fn a_client_without_a_session_reclaims_nothing() {
    let (mut w, _) = restarted(7);
    w.send(NEW, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_CLOSE, 0));
    w.quiet();
    reset(&mut w, NEW);
    w.quiet();
    assert!(w.clients[&NEW].reclaimed.is_empty() && w.evict_asked.is_empty());
}

#[test]
fn of_two_successors_both_are_answered_and_one_takes_the_uuid() {
    let (mut w, _) = restarted(8);
    connect(&mut w, OTHER, None);
    reset(&mut w, NEW);
    reset(&mut w, OTHER);
    w.quiet();
    assert_eq!(w.evict_asked, vec![OLD], "one eviction");
    w.finish_evictions();
    for id in [NEW, OTHER] {
        assert_eq!((result(&w, id), &answer(&w, id).addrs), (0, &address(OLD)));
    }
    take_uuid(&mut w, NEW, "a");
    assert!(w.clients[&NEW].open);
    take_uuid(&mut w, OTHER, "a");
    assert_eq!(w.clients[&OTHER].rejected.as_deref(), Some("duplicated session uuid"));
    assert!(!w.clients[&OTHER].open && !has_session(&w, OTHER));
    // That one may now ask for the end of its rival, as an administrator who starts a server twice would see.
    connect(&mut w, OTHER, None);
    reset(&mut w, OTHER);
    w.finish_evictions();
    assert_eq!((result(&w, OTHER), &answer(&w, OTHER).addrs), (0, &address(NEW)));
}

#[test]
fn a_uuid_is_free_only_when_its_session_has_ended() {
    let (mut w, _) = restarted(9);
    w.advance(Duration::from_secs(61));
    take_uuid(&mut w, NEW, "a");
    assert!(w.clients[&NEW].rejected.is_some(), "a stale session has it");
    connect(&mut w, NEW, None);
    reset(&mut w, NEW);
    w.quiet();
    take_uuid(&mut w, NEW, "a");
    assert!(w.clients[&NEW].rejected.is_some(), "a session that is being evicted has it");
    w.finish_evictions();
    connect(&mut w, NEW, Some("a"));
    assert!(w.clients[&NEW].open);
    assert!(w.clients[&NEW].reclaimed.is_empty(), "the session that asked is gone");
}

#[test]
fn a_predecessor_that_closes_its_session_meanwhile_is_gone_too() {
    let (mut w, _) = restarted(10);
    reset(&mut w, NEW);
    w.quiet();
    w.send(OLD, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_CLOSE, 0));
    w.quiet();
    assert_eq!((result(&w, NEW), &answer(&w, NEW).addrs), (0, &address(OLD)));
    w.finish_evictions();
    assert_eq!(w.clients[&NEW].reclaimed.len(), 1);
}

#[test]
fn an_eviction_under_way_is_waited_for() {
    let (mut w, _) = restarted(11);
    w.rank.evict(ClientId(OLD));
    w.quiet();
    reset(&mut w, NEW);
    w.quiet();
    assert_eq!(w.evict_asked, vec![OLD]);
    assert!(w.clients[&NEW].reclaimed.is_empty());
    w.finish_evictions();
    assert_eq!(result(&w, NEW), 0);
}

/// The server is killed while the predecessor is silent and its successor repeats what is not answered, as
/// libcephfs does when the rank has changed hands: before its claims, or later.
fn fail_over(w: &mut World, is_early: bool) {
    w.evict_asked.clear();
    w.begin_replay();
    w.quiet();
    let is_answered = !w.clients[&NEW].reclaimed.is_empty();
    if is_early && !is_answered {
        reset(w, NEW);
    }
    w.until_active(&[NEW]);
    if !is_early && !is_answered {
        reset(w, NEW);
        w.quiet();
    }
}

#[test]
fn after_a_crash_at_any_step_the_successor_asks_again_and_gets_everything() {
    for (step, seed) in (0..6).flat_map(|step| (0..8).map(move |n| (step, 100 + 10 * step + n))) {
        let (mut w, _) = restarted(seed);
        if step >= 1 {
            reset(&mut w, NEW);
        }
        if step >= 2 {
            w.quiet();
        }
        if step >= 3 {
            // The OSDs refuse it; the end of its session may be lost.
            w.rank.evicted(w.now, ClientId(OLD));
            w.effects();
        }
        if step >= 4 {
            w.io_step();
        }
        if step >= 5 {
            w.quiet();
        }
        let before = w.now.mono;
        fail_over(&mut w, seed % 2 == 0);
        w.finish_evictions();
        assert_eq!(result(&w, NEW), 0, "step {step}");
        assert!(!has_session(&w, OLD), "step {step}");
        take_uuid(&mut w, NEW, "a");
        assert!(w.clients[&NEW].open, "step {step}: {:?}", w.clients[&NEW].rejected);
        assert_eq!(w.call(NEW, open("f", 2)).result, 0);
        assert_eq!(w.call(NEW, lock()).result, 0, "step {step}");
        assert!(w.now.mono.since(before) < Duration::from_secs(3), "{:?}", w.now.mono.since(before));
    }
}

#[test]
fn a_crash_between_the_answer_and_the_new_uuid_loses_neither() {
    for seed in 200..210 {
        let (mut w, _) = restarted(seed);
        reset(&mut w, NEW);
        w.finish_evictions();
        take_uuid(&mut w, NEW, "a");
        w.restart(&[NEW]);
        assert!(has_session(&w, NEW) && !has_session(&w, OLD));
        connect(&mut w, OTHER, Some("a"));
        assert!(w.clients[&OTHER].rejected.is_some(), "the uuid is still {NEW}'s");
    }
}

#[test]
fn a_standby_that_takes_over_knows_the_uuids() {
    for seed in 300..310 {
        let mut w = World::new(seed, MdsOptions::default());
        let cfg = w.cfg.clone();
        let mut standby = Standby::new(&mut w, cfg);
        connect(&mut w, OLD, Some("a"));
        w.call(OLD, create("f", 2));
        assert_eq!(w.call(OLD, lock()).result, 0);
        connect(&mut w, NEW, None);
        standby.catch_up(&mut w);
        reset(&mut w, NEW);
        w.quiet();
        w.evict_asked.clear();
        w.fail_over(standby, &[NEW]);
        reset(&mut w, NEW);
        w.quiet();
        assert_eq!(w.evict_asked, vec![OLD]);
        w.finish_evictions();
        assert_eq!((result(&w, NEW), &answer(&w, NEW).addrs), (0, &address(OLD)));
        w.call(NEW, open("f", 2));
        assert_eq!(w.call(NEW, lock()).result, 0);
    }
}

#[test]
fn a_predecessor_that_comes_back_after_the_crash_ends_all_the_same() {
    let (mut w, f) = restarted(12);
    w.rank.flush_journal();
    w.quiet();
    w.restart(&[NEW]);
    // It lives after all: while what it claims is being loaded, it is evicted.
    w.come_back(OLD);
    reset(&mut w, NEW);
    w.quiet();
    assert_eq!(w.evict_asked, vec![OLD]);
    w.finish_evictions();
    assert_eq!(result(&w, NEW), 0);
    assert!(!has_session(&w, OLD));
    assert_eq!(w.call(NEW, open("f", 2)).result, 0);
    assert_ne!(world::pair::caps(&w, NEW, f) & cap::FILE_WR, 0);
}

/// A client with a lock that asks for this patience dies, with its server or alone. Another, which lives,
/// waits for the lock. Returns after how many seconds the dead one was to be evicted.
fn evicted_after(timeout: Option<u32>, with_server: bool) -> u64 {
    let mut w = World::new(14, MdsOptions::default());
    w.clients.insert(OLD, Client { timeout, ..Client::new(OLD) });
    w.ask_session(OLD, KEY, "allow *");
    w.call(OLD, create("f", 2));
    assert_eq!(w.call(OLD, lock()).result, 0);
    w.clients.get_mut(&OLD).expect("a client").stubborn = true;
    connect(&mut w, OTHER, None);
    if with_server {
        w.restart(&[OTHER]);
    }
    let before = w.now.mono;
    let waits = w.start(OTHER, lock());
    while w.evict_asked.is_empty() {
        assert!(!w.clients[&OTHER].replies.contains_key(&waits));
        w.advance(Duration::from_secs(1));
        w.send(OTHER, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_RENEWCAPS, 1));
    }
    assert_eq!(w.evict_asked, vec![OLD]);
    w.now.mono.since(before).as_secs()
}

#[test]
fn a_session_is_kept_for_the_time_that_its_client_has_asked_for() {
    // The usual times are 60 s while others wait, 45 s after a restart, and 300 s at most. A look a second.
    let found = [None, Some(10), Some(200), Some(1000), Some(0)]
        .map(|timeout| (evicted_after(timeout, false), evicted_after(timeout, true)));
    assert_eq!(found, [(61, 44), (60, 59), (200, 199), (300, 299), (300, 299)], "the restart took 1 s");
}
