//! Early answers: a client learns of its own change before this is durable, others only afterwards; what a
//! crash loses is repeated.

mod world;

use msgs::{ClientSession, MdsOp, cap, session_op};
use std::time::Duration;
use wire::Errno;
use world::World;
use world::client::{create, getattr, lookup, mkdir, open, request, setattr_size, two};
use world::pair::{A, B, caps, ino, two_clients};

fn has_answer(w: &World, client: u64, tid: u64) -> bool {
    w.clients[&client].replies.contains_key(&tid)
}

/// The process dies before anything that is in flight is stored.
fn lose_everything(w: &mut World) {
    w.in_flight.clear();
}

#[test]
fn an_answer_is_early_and_the_safe_one_follows() {
    let mut w = two_clients(1);
    let tid = w.start(A, create("f", 2));
    let early = w.reply(A, tid);
    assert!(!early.safe && early.result == 0);
    assert!(early.trace.target.expect("the file").cap.caps & cap::FILE_BUFFER != 0, "it may write at once");
    assert!(w.clients[&A].unsafe_requests.contains_key(&tid));
    w.quiet();
    assert!(w.clients[&A].unsafe_requests.is_empty(), "the safe answer");
    assert!(!has_answer(&w, A, tid), "the safe answer says nothing new");
}

#[test]
fn what_grants_a_range_or_cuts_objects_is_answered_when_durable() {
    let mut w = two_clients(2);
    w.call(A, create("f", 2));
    w.call(B, create("g", 2));
    for request in [setattr_size("f", 10), open("g", 2), open("f", 0o1002)] {
        let tid = w.start(A, request);
        assert!(!has_answer(&w, A, tid));
        w.quiet();
        let reply = w.reply(A, tid);
        assert!(reply.safe && reply.result == 0, "{reply:?}");
    }
}

#[test]
fn others_see_a_change_when_it_is_durable() {
    let mut w = two_clients(3);
    w.call_early(A, mkdir("d"));
    w.call_early(A, create("d/f", 2));
    w.call_early(A, two(MdsOp::RENAME, "d/g", "d/f"));
    let found = w.start(B, lookup("d/g"));
    let absent = w.start(B, lookup("d/f"));
    let made = w.start(B, create("d/h", 2));
    assert!(!has_answer(&w, B, found) && !has_answer(&w, B, absent) && !has_answer(&w, B, made));
    let own = w.start(A, lookup("d/g"));
    assert!(!has_answer(&w, A, own), "another's create in the directory is not durable either");
    w.quiet();
    assert_eq!(w.reply(B, found).result, 0);
    assert_eq!(w.reply(B, absent).result, Errno::ENOENT.to_result_code());
    assert_eq!(w.reply(B, made).result, 0);
    assert_eq!(w.reply(A, own).result, 0);
}

#[test]
fn a_directory_moves_early_only_if_no_crash_puts_it_below_itself() {
    let mut w = two_clients(10);
    let made = ["p", "p/y", "p/y/z", "p/y/z/x", "p/y/z/x/sub", "q"].map(|dir| ino(&w.call(A, mkdir(dir))));
    w.call_early(A, two(MdsOp::RENAME, "q/x", "p/y/z/x"));
    let mut moves = two(MdsOp::RENAME, "y", "y");
    (moves.path.ino, moves.path2.ino) = (made[4], made[0]);
    let moved = w.start(B, moves);
    assert!(!has_answer(&w, B, moved), "a repetition of this alone would fail");
    w.quiet();
    assert_eq!(w.reply(B, moved).result, 0);
}

#[test]
fn what_a_crash_loses_is_repeated_with_the_same_inode_and_capability() {
    let mut w = two_clients(4);
    w.call_early(A, mkdir("d"));
    let f = ino(&w.call_early(A, create("d/f", 2)));
    let g = ino(&w.call_early(A, create("d/g", 2)));
    w.call_early(A, request(MdsOp::UNLINK, "d/g"));
    w.call_early(A, two(MdsOp::RENAME, "d/h", "d/f"));
    assert!(w.clients.get_mut(&A).expect("a").write_to(f, 4321));
    let held = w.clients[&A].held[&f].cap_id;
    let (tid, flush) = w.clients.get_mut(&A).expect("a").update(f);
    lose_everything(&mut w);
    w.begin_replay();
    w.quiet();
    w.send(A, tid, flush);
    w.come_back(A);
    w.come_back(B);
    w.quiet();
    let a = &w.clients[&A];
    assert!(a.unsafe_requests.is_empty() && a.lost.is_empty(), "lost {:?}", a.lost);
    assert_eq!(a.held[&f].cap_id, held, "its capability is the one that it had");
    assert_eq!(a.flush_acks.len(), 1);
    assert!(caps(&w, A, f) & cap::FILE_BUFFER != 0);
    let stat = w.call(B, getattr("d/h", cap::FILE_SHARED)).trace.target.expect("the file");
    assert_eq!((stat.ino, stat.size), (f, 4321), "the flush came after the create that it needs");
    assert_eq!(w.call(B, lookup("d/g")).result, Errno::ENOENT.to_result_code());
    let next = ino(&w.call(A, create("d/i", 2)));
    assert!(next != f && next != g, "numbers that lost creates used are not used again");
}

#[test]
fn requests_of_others_wait_for_those_that_are_repeated() {
    let mut w = two_clients(5);
    w.call(A, mkdir("d"));
    let f = ino(&w.call_early(A, create("d/f", 2)));
    lose_everything(&mut w);
    w.begin_replay();
    w.quiet();
    w.come_back(B);
    let other = w.start(B, create("d/f", 0o200));
    w.come_back(A);
    w.quiet();
    assert_eq!(w.reply(B, other).result, Errno::EEXIST.to_result_code());
    assert_eq!(w.call(B, lookup("d/f")).trace.target.expect("the file").ino, f);
}

#[test]
fn a_client_that_comes_too_late_loses_a_suffix() {
    let mut w = two_clients(6);
    w.loses_requests = true;
    w.call(A, mkdir("d"));
    w.call_early(A, mkdir("d/1"));
    let f = ino(&w.call_early(A, create("d/2", 2)));
    let g = ino(&w.call_early(A, create("d/3", 2)));
    lose_everything(&mut w);
    w.log.clear();
    w.restart(&[B]);
    let others = ino(&w.call(B, create("d/2", 2)));
    w.come_back(A);
    w.quiet();
    for line in [
        format!("clients_missing: not back yet: client.{A}"),
        format!("client_returned: client.{A} has come back, after others had gone on"),
    ] {
        assert!(w.log.contains(&line), "{:?}", w.log);
    }
    let a = &w.clients[&A];
    assert_eq!(a.lost.len(), 2, "the create that fails, and the one after it");
    assert!(a.unsafe_requests.is_empty() && !a.held.contains_key(&f) && !a.held.contains_key(&g));
    assert_eq!(w.call(A, lookup("d/1")).result, 0);
    assert_eq!(w.call(A, lookup("d/2")).trace.target.expect("the file").ino, others);
    assert_eq!(w.call(A, lookup("d/3")).result, Errno::ENOENT.to_result_code());
}

#[test]
fn a_client_that_does_not_come_back_loses_a_suffix() {
    for seed in 100..140 {
        let mut w = two_clients(seed);
        w.call(A, mkdir("d"));
        for i in 0..30 {
            w.call_early(A, create(&format!("d/{i}"), 2));
            if w.rng.chance(1, 3) {
                w.advance(Duration::from_millis(10));
            }
            for _ in 0..w.rng.below(3) {
                w.io_step();
            }
        }
        w.crash(&[B]);
        let there: Vec<bool> = (0..30).map(|i| w.call(B, lookup(&format!("d/{i}"))).result == 0).collect();
        assert!(there.is_sorted_by(|a, b| a >= b), "seed {seed}: {there:?}");
    }
}

/// True if the journal is being written.
fn is_journaling(w: &World) -> bool {
    w.in_flight.iter().any(|io| io.object.name.starts_with("200."))
}

#[test]
fn the_journal_gathers_what_nobody_waits_for() {
    let mut w = two_clients(7);
    w.call(A, mkdir("d"));
    let delay = w.cfg.options.journal_delay;
    let tids: Vec<u64> = (0..10).map(|i| w.start(A, create(&format!("d/{i}"), 2))).collect();
    assert!(tids.iter().all(|tid| has_answer(&w, A, *tid)), "each has its early answer");
    assert!(!is_journaling(&w));
    w.advance(delay / 2);
    assert!(!is_journaling(&w));
    w.advance(delay / 2);
    assert!(is_journaling(&w));
    while w.io_step() {}
    assert!(w.clients[&A].unsafe_requests.is_empty(), "one write made all durable");
}

type Hasten = fn(&mut World);

#[test]
fn whoever_waits_for_the_journal_hastens_it() {
    let mut w = two_clients(8);
    let f = ino(&w.call(A, create("f", 2)));
    let hasten: [(&str, Hasten); 4] = [
        ("a sync", |w| w.send(A, 0, ClientSession::of(session_op::REQUEST_FLUSH_MDLOG, 0))),
        ("another client that looks", |w| _ = w.start(B, lookup("d1"))),
        ("a truncation", |w| _ = w.start(A, setattr_size("f", 0))),
        ("the end of the session", |w| w.send(A, 0, ClientSession::of(session_op::REQUEST_CLOSE, 0))),
    ];
    let (tid, flush) = w.clients.get_mut(&A).expect("a").update(f);
    w.send(A, tid, flush);
    assert!(!is_journaling(&w), "a flush that nobody waits for");
    for (i, (what, hasten)) in hasten.into_iter().enumerate() {
        w.start(A, mkdir(&format!("d{i}")));
        assert!(!is_journaling(&w), "before {what}");
        hasten(&mut w);
        assert!(is_journaling(&w), "{what}");
        w.quiet();
    }
}
