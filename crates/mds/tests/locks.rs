//! File locks: who gets them, who waits in a circle, and what is left of them after a restart.

mod world;

use msgs::{ClientRequest, FileLock, FileLockArgs, MdsOp};
use std::time::Duration;
use stdx::Rng;
use wire::Errno;
use world::World;
use world::client::{create, open, request};
use world::pair::{A, B, ino, two_clients};

const FCNTL: u8 = 1;
const FLOCK: u8 = 2;
const SHARED: u8 = 1;
const EXCLUSIVE: u8 = 2;
const FREE: u8 = 4;

fn args(rule: u8, kind: u8, (start, length): (u64, u64)) -> FileLockArgs {
    FileLockArgs { rule, kind, owner: 1 << 63 | 7, pid: 7, start, length, wait: 1 }
}

fn lock(path: &str, rule: u8, kind: u8, range: (u64, u64)) -> ClientRequest {
    ClientRequest { args: args(rule, kind, range).into(), ..request(MdsOp::SETFILELOCK, path) }
}

fn try_lock(path: &str, rule: u8, kind: u8, range: (u64, u64)) -> ClientRequest {
    let args = FileLockArgs { wait: 0, ..args(rule, kind, range) };
    ClientRequest { args: args.into(), ..request(MdsOp::SETFILELOCK, path) }
}

fn held(rule: u8, kind: u8, (start, length): (u64, u64)) -> [Vec<FileLock>; 2] {
    let lock = FileLock { start, length, client: 0, owner: 1 << 63 | 7, pid: 7, kind };
    if rule == FCNTL { [vec![lock], Vec::new()] } else { [Vec::new(), vec![lock]] }
}

fn waits(w: &World, client: u64, tid: u64) -> bool {
    !w.clients[&client].replies.contains_key(&tid)
}

fn files(w: &mut World) -> [u64; 2] {
    let [f, g] = ["f", "g"].map(|name| ino(&w.call(A, create(name, 2))));
    for name in ["f", "g"] {
        w.call(B, open(name, 2));
    }
    [f, g]
}

fn code(errno: Errno) -> i32 {
    errno.to_result_code()
}

#[test]
fn the_last_of_a_circle_does_not_wait() {
    let mut w = two_clients(1);
    files(&mut w);
    assert_eq!(w.call(A, lock("f", FCNTL, EXCLUSIVE, (0, 10))).result, 0);
    assert_eq!(w.call(B, lock("g", FCNTL, SHARED, (5, 0))).result, 0);
    let waiting = w.start(A, lock("g", FCNTL, EXCLUSIVE, (0, 0)));
    w.quiet();
    assert_eq!(w.call(B, lock("f", FCNTL, SHARED, (9, 1))).result, code(Errno::EDEADLK));
    assert_eq!(w.call(B, try_lock("f", FCNTL, SHARED, (9, 1))).result, code(Errno::EAGAIN));
    assert_eq!(w.call(B, lock("f", FCNTL, SHARED, (10, 1))).result, 0, "beside it");
    assert!(waits(&w, A, waiting), "B may still give its lock back");
    assert_eq!(w.call(B, lock("g", FCNTL, FREE, (0, 0))).result, 0);
    assert_eq!(w.reply(A, waiting).result, 0);
}

#[test]
fn a_waiter_that_is_interrupted_is_part_of_no_circle() {
    let mut w = two_clients(2);
    files(&mut w);
    assert_eq!(w.call(A, lock("f", FCNTL, EXCLUSIVE, (0, 0))).result, 0);
    assert_eq!(w.call(B, lock("g", FCNTL, EXCLUSIVE, (0, 0))).result, 0);
    let waiting = w.start(A, lock("g", FCNTL, EXCLUSIVE, (0, 0)));
    w.quiet();
    let stop = FileLockArgs { rule: 3, ..args(FCNTL, EXCLUSIVE, (0, 0)) };
    w.call(A, ClientRequest { args: stop.into(), ..request(MdsOp::SETFILELOCK, "g") });
    assert_eq!(w.reply(A, waiting).result, code(Errno::EINTR));
    let second = w.start(B, lock("f", FCNTL, EXCLUSIVE, (0, 0)));
    w.quiet();
    assert!(waits(&w, B, second));
    assert_eq!(w.call(A, lock("f", FCNTL, FREE, (0, 0))).result, 0);
    assert_eq!(w.reply(B, second).result, 0);
}

#[test]
fn a_circle_that_a_new_holder_closes_is_found() {
    let mut w = two_clients(3);
    const C: u64 = 30;
    w.connect(C);
    files(&mut w);
    w.call(C, open("g", 2));
    // A has f. C has g, for which A and B wait; B also waits for f.
    assert_eq!(w.call(A, lock("f", FCNTL, EXCLUSIVE, (0, 0))).result, 0);
    assert_eq!(w.call(C, lock("g", FCNTL, EXCLUSIVE, (0, 0))).result, 0);
    let b_g = w.start(B, lock("g", FCNTL, EXCLUSIVE, (0, 0)));
    let b_f = w.start(B, lock("f", FCNTL, EXCLUSIVE, (0, 0)));
    let a_g = w.start(A, lock("g", FCNTL, EXCLUSIVE, (0, 0)));
    w.quiet();
    assert!(waits(&w, B, b_g) && waits(&w, B, b_f) && waits(&w, A, a_g));
    assert_eq!(w.call(C, lock("g", FCNTL, FREE, (0, 0))).result, 0);
    assert_eq!(w.reply(B, b_g).result, 0, "it came first");
    assert_eq!(w.reply(A, a_g).result, code(Errno::EDEADLK), "B waits for A, and would be waited for");
}

#[test]
fn locks_and_their_waiters_outlive_a_restart() {
    for (rule, seed) in [(FCNTL, 4), (FLOCK, 5)] {
        let mut w = two_clients(seed);
        let [f, _] = files(&mut w);
        assert_eq!(w.call(A, lock("f", rule, EXCLUSIVE, (0, 0))).result, 0);
        let waiting = w.start(B, lock("f", rule, SHARED, (0, 0)));
        w.quiet();
        w.clients.get_mut(&A).expect("a").locks.insert(f, held(rule, EXCLUSIVE, (0, 0)));
        // B comes first, with its request.
        w.restart(&[B, A]);
        assert!(waits(&w, B, waiting));
        assert_eq!(w.call(B, try_lock("f", rule, SHARED, (0, 0))).result, code(Errno::EAGAIN));
        assert_eq!(w.call(A, lock("f", rule, FREE, (0, 0))).result, 0);
        assert_eq!(w.reply(B, waiting).result, 0);
    }
}

#[test]
fn locks_of_a_client_that_does_not_come_back_are_freed_when_it_is_evicted() {
    let mut w = two_clients(6);
    files(&mut w);
    assert_eq!(w.call(A, lock("f", FLOCK, EXCLUSIVE, (0, 0))).result, 0);
    w.restart(&[B]);
    let waiting = w.start(B, lock("f", FLOCK, EXCLUSIVE, (0, 0)));
    w.quiet();
    for _ in 0..44 {
        w.send(B, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_RENEWCAPS, 1));
        w.advance(Duration::from_secs(1));
        w.quiet();
    }
    assert!(waits(&w, B, waiting), "A may still have it");
    w.advance(Duration::from_secs(2));
    w.finish_evictions();
    assert_eq!(w.reply(B, waiting).result, 0);
}

#[test]
fn a_silent_client_is_evicted_once_others_wait_for_its_lock() {
    let renew = |w: &mut World, seconds: u64| {
        for _ in 0..seconds {
            w.send(B, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_RENEWCAPS, 1));
            w.advance(Duration::from_secs(1));
            w.quiet();
        }
    };
    for (rule, seed) in [(FCNTL, 9), (FLOCK, 10)] {
        let mut w = two_clients(seed);
        files(&mut w);
        assert_eq!(w.call(A, lock("f", rule, EXCLUSIVE, (0, 0))).result, 0);
        renew(&mut w, 70);
        assert!(w.evict_asked.is_empty(), "nobody needs what it has");
        let waiting = w.start(B, lock("f", rule, EXCLUSIVE, (0, 0)));
        renew(&mut w, 2);
        assert_eq!(w.evict_asked, [A]);
        w.finish_evictions();
        assert_eq!(w.reply(B, waiting).result, 0);
    }
}

#[test]
fn locks_go_with_the_capability_that_they_rest_on() {
    let mut w = two_clients(7);
    let [f, _] = files(&mut w);
    assert_eq!(w.call(A, lock("f", FCNTL, EXCLUSIVE, (0, 0))).result, 0);
    let waiting = w.start(B, lock("f", FCNTL, EXCLUSIVE, (0, 0)));
    w.quiet();
    let h = w.clients.get_mut(&A).expect("a").held.remove(&f).expect("it has it");
    let item = msgs::CapReleaseItem { ino: f, cap_id: h.cap_id, migrate_seq: 0, seq: h.issue_seq };
    w.send(A, 0, msgs::ClientCapRelease { caps: vec![item], ..Default::default() });
    w.quiet();
    assert_eq!(w.reply(B, waiting).result, 0, "nobody would claim it after a restart");
}

#[test]
fn no_claim_of_locks_ends_the_rank() {
    let mut rng = Rng::from_seed(8);
    for seed in 0..50 {
        let mut w = two_clients(seed);
        let [f, g] = files(&mut w);
        let edge = [0, 1, 9, 10, u64::MAX - 1, u64::MAX];
        for client in [A, B] {
            let mut any = || {
                let lock = |_| FileLock {
                    start: *rng.pick(&edge),
                    length: *rng.pick(&edge),
                    client: rng.below(4),
                    owner: *rng.pick(&[0, 1, 1 << 63]),
                    pid: rng.below(2),
                    kind: rng.below(6) as u8,
                };
                (0..3).map(lock).collect::<Vec<_>>()
            };
            let claims = [f, g].map(|ino| (ino, [any(), any()]));
            w.clients.get_mut(&client).expect("it").locks.extend(claims);
        }
        w.has_hostile = true;
        w.restart(&[A, B]);
        w.advance(Duration::from_secs(1));
        for kind in [0, 3, 5, 255] {
            assert_eq!(w.call(A, lock("f", FCNTL, kind, (0, 0))).result, code(Errno::EINVAL));
        }
        assert_eq!(w.call(A, lock("f", 5, SHARED, (0, 0))).result, code(Errno::EINVAL));
    }
}

#[test]
fn an_interrupt_stops_the_wait_for_one_file() {
    let mut w = two_clients(9);
    files(&mut w);
    for name in ["f", "g"] {
        assert_eq!(w.call(A, lock(name, FCNTL, EXCLUSIVE, (0, 0))).result, 0);
    }
    let [f, g] = ["f", "g"].map(|name| w.start(B, lock(name, FCNTL, SHARED, (0, 0))));
    w.quiet();
    // As Linux sends it: the kind is that of an unlock.
    let stop = FileLockArgs { rule: 3, kind: FREE, wait: 0, ..args(FCNTL, SHARED, (0, 0)) };
    w.call(B, ClientRequest { args: stop.into(), ..request(MdsOp::SETFILELOCK, "g") });
    assert_eq!(w.reply(B, g).result, code(Errno::EINTR));
    assert!(waits(&w, B, f));
}

#[test]
fn who_claims_what_another_has_is_told_so() {
    let mut w = two_clients(11);
    let [f, g] = files(&mut w);
    for (id, ino) in [(A, f), (B, f), (B, g)] {
        w.clients.get_mut(&id).expect("it").locks.insert(ino, held(FCNTL, EXCLUSIVE, (0, 10)));
    }
    w.has_hostile = true;
    w.restart(&[A, B]);
    let owner = 1_u64 << 63 | 7;
    assert_eq!(w.clients[&B].refused, format!("{f}/{FCNTL}/{owner}"));
    assert_eq!(w.clients[&A].refused, "");
    assert_eq!(w.call(A, try_lock("g", FCNTL, EXCLUSIVE, (0, 1))).result, code(Errno::EAGAIN));
}
