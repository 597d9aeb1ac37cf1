//! Repeated requests that wait for an absent client: others go on, but nobody brings them to fail.

mod world;

use msgs::{ClientRequest, ClientSession, FilePath, MdsOp, cap, session_op};
use std::time::Duration;
use wire::Errno;
use world::World;
use world::client::{create, getattr, lookup, mkdir, readdir, request, setattr_mode};
use world::pair::{A, B, caps, ino, two_clients};

/// O_RDWR and O_EXCL.
const EXCLUSIVE: u32 = 0o202;
/// A client that is absent.
const C: u64 = 30;
const ALONE: u32 = cap::FILE_EXCL | cap::DIR_CREATE | cap::DIR_UNLINK;

/// A request about a name in a directory, as clients send it.
fn within(dir: u64, request: ClientRequest) -> ClientRequest {
    let path = FilePath { ino: dir, ..request.path.clone() };
    ClientRequest { path, ..request }
}

fn rename(to: (u64, &str), from: (u64, &str)) -> ClientRequest {
    let path2 = FilePath { ino: from.0, path: from.1.as_bytes().to_vec() };
    ClientRequest { path2, ..within(to.0, request(MdsOp::RENAME, to.1)) }
}

/// The names that the cases are about: `d` with the files `f` and `g`, the empty `e`, and `top/sub` beside
/// `mid/low`.
struct Tree {
    d: u64,
    f: u64,
    e: u64,
    sub: u64,
    low: u64,
    other: u64,
}

fn tree(w: &mut World) -> Tree {
    let mut dir = |path| ino(&w.call(A, mkdir(path)));
    let (d, e, _, sub, _, low, other) =
        (dir("d"), dir("e"), dir("top"), dir("top/sub"), dir("mid"), dir("mid/low"), dir("other"));
    let f = ino(&w.call(A, create("d/f", 2)));
    w.call(A, create("d/g", 2));
    Tree { d, f, e, sub, low, other }
}

/// A is told that it has removed a file that C writes, and that `promised` is done. All that is lost with the
/// server, and C does not come back: so the removal waits, and `promised` after it.
fn waits_for_absent(seed: u64, promised: fn(&Tree) -> ClientRequest) -> (World, Tree) {
    let mut w = two_clients(seed);
    w.connect(C);
    let tree = tree(&mut w);
    w.call(C, create("held", 2));
    assert!(!w.call_early(A, request(MdsOp::UNLINK, "held")).safe);
    let early = w.call_early(A, promised(&tree));
    assert_eq!((early.result, early.safe), (0, false));
    w.in_flight.clear();
    w.restart(&[A, B]);
    w.advance(Duration::from_secs(1));
    w.quiet();
    assert_eq!(w.clients[&A].unsafe_requests.len(), 2, "both wait");
    (w, tree)
}

fn is_answered(w: &World, client: u64, tid: u64) -> bool {
    w.clients[&client].replies.contains_key(&tid)
}

/// What B asks for waits until the promise is kept, but not what is about other names. Returns the answer.
fn others_wait(
    what: &str,
    promised: fn(&Tree) -> ClientRequest,
    asked: fn(&Tree) -> ClientRequest,
) -> (World, Tree, msgs::ClientReply) {
    let (mut w, tree) = waits_for_absent(1, promised);
    let tid = w.start(B, asked(&tree));
    w.quiet();
    for r in [create("new", 2), request(MdsOp::UNLINK, "new"), lookup("f"), rename((1, "f"), (1, "g"))] {
        let elsewhere = within(tree.other, r);
        let is_missing = matches!(elsewhere.op, MdsOp::LOOKUP | MdsOp::RENAME);
        let expected = if is_missing { Errno::ENOENT.to_result_code() } else { 0 };
        assert_eq!(w.call(B, elsewhere).result, expected, "{what}: what is about other names goes on");
    }
    w.advance(Duration::from_secs(10));
    w.quiet();
    assert!(!is_answered(&w, B, tid), "{what}: it waits");
    w.come_back(C);
    w.quiet();
    let a = &w.clients[&A];
    assert!(a.lost.is_empty() && a.unsafe_requests.is_empty(), "{what}: lost {:?}", a.lost);
    let reply = w.reply(B, tid);
    (w, tree, reply)
}

#[test]
fn what_a_client_was_told_is_not_undone_before_it_is_repeated() {
    type Case = (&'static str, fn(&Tree) -> ClientRequest, fn(&Tree) -> ClientRequest, Option<Errno>);
    let cases: [Case; 9] = [
        (
            "a name is made",
            |t| within(t.d, create("x", 2)),
            |t| within(t.d, create("x", EXCLUSIVE)),
            Some(Errno::EEXIST),
        ),
        (
            "a name is removed that leads to another file",
            |t| within(t.d, request(MdsOp::UNLINK, "f")),
            |t| rename((t.d, "f"), (t.d, "g")),
            None,
        ),
        (
            "a name is moved that is gone",
            |t| rename((t.d, "x"), (t.d, "f")),
            |t| within(t.d, request(MdsOp::UNLINK, "f")),
            Some(Errno::ENOENT),
        ),
        (
            "a directory is removed that is not empty",
            |_| request(MdsOp::RMDIR, "e"),
            |t| within(t.e, create("x", 2)),
            Some(Errno::ENOENT),
        ),
        (
            "a name is made in a directory that is gone",
            |t| within(t.e, create("x", 2)),
            |_| request(MdsOp::RMDIR, "e"),
            Some(Errno::ENOTEMPTY),
        ),
        (
            "a file gets a name that is gone",
            |t| {
                let path2 = FilePath { ino: t.f, path: Vec::new() };
                ClientRequest { path2, ..request(MdsOp::LINK, "x") }
            },
            |t| within(t.d, request(MdsOp::UNLINK, "f")),
            None,
        ),
        (
            "a directory is moved below itself",
            |t| rename((t.low, "top"), (1, "top")),
            |t| rename((t.sub, "mid"), (1, "mid")),
            Some(Errno::EINVAL),
        ),
        (
            "a later mode is replaced",
            |t| within(t.f, setattr_mode("", 0o600)),
            |t| within(t.f, setattr_mode("", 0o640)),
            None,
        ),
        ("a name is looked for", |t| within(t.d, create("x", 2)), |t| within(t.d, lookup("x")), None),
    ];
    for (what, promised, asked, errno) in cases {
        let (mut w, tree, reply) = others_wait(what, promised, asked);
        assert_eq!(reply.result, errno.map_or(0, Errno::to_result_code), "{what}");
        if what.contains("mode") {
            let attrs = w.call(B, within(tree.f, getattr("", cap::AUTH_SHARED))).trace.target;
            assert_eq!(attrs.expect("the file").mode & 0o777, 0o640);
        }
    }
}

#[test]
fn a_listing_contains_what_was_promised() {
    let (_, _, reply) =
        others_wait("a listing", |t| within(t.d, create("x", 2)), |t| within(t.d, readdir("", b"", 50)));
    let listing: msgs::ReaddirReply = wire::Reader::new(&reply.extra).get().expect("a listing");
    assert!(listing.entries.iter().any(|e| e.name == b"x"));
}

#[test]
fn nobody_is_alone_with_a_directory_while_promises_about_it_wait() {
    let (mut w, tree) = waits_for_absent(2, |t| within(t.d, create("x", 2)));
    w.call(B, within(tree.other, getattr("", 0)));
    w.want_alone(B, tree.other);
    w.call(B, within(tree.other, create("y", 2)));
    assert_eq!(caps(&w, B, tree.other) & ALONE, 0);
    w.come_back(C);
    w.quiet();
    w.call(B, within(tree.other, create("z", 2)));
    assert_eq!(caps(&w, B, tree.other) & ALONE, ALONE);
}

#[test]
fn who_has_told_its_caller_already_does_not_wait_for_a_late_client() {
    let mut w = two_clients(3);
    w.connect(C);
    let tree = tree(&mut w);
    w.call(C, create("held", 2));
    w.call_early(A, request(MdsOp::UNLINK, "held"));
    w.call_early(A, within(tree.d, create("x", 2)));
    w.in_flight.clear();
    w.restart(&[B]);
    w.call(B, within(tree.d, getattr("", 0)));
    w.want_alone(B, tree.d);
    w.call(B, within(tree.d, create("y", 2)));
    assert_eq!(caps(&w, B, tree.d) & ALONE, ALONE);
    w.advance(Duration::from_secs(1));
    w.come_back(A);
    w.quiet();
    assert_eq!(w.clients[&A].unsafe_requests.len(), 2, "both wait");
    // It would give up the directory only after the answer.
    let (_, made) = w.clients.get_mut(&B).expect("b").create_async("d/x");
    let made =
        w.call(B, within(tree.d, ClientRequest { path: FilePath { ino: 0, path: b"x".to_vec() }, ..made }));
    assert_eq!(made.result, 0);
    w.loses_requests = true;
    w.come_back(C);
    w.quiet();
    assert_eq!(w.clients[&A].lost.len(), 1, "it came too late");
    assert_eq!(w.call(B, lookup("held")).result, Errno::ENOENT.to_result_code());
}

#[test]
fn promises_end_with_their_client() {
    let (mut w, tree) = waits_for_absent(4, |t| within(t.d, create("x", 2)));
    let tid = w.start(B, within(tree.d, create("x", EXCLUSIVE)));
    w.quiet();
    assert!(!is_answered(&w, B, tid));
    w.rank.evict(mds::ClientId(A));
    w.effects();
    w.finish_evictions();
    assert_eq!(w.reply(B, tid).result, 0);
}

#[test]
fn a_snapshot_contains_what_was_promised() {
    let mut w = two_clients(5);
    w.connect(C);
    let tree = tree(&mut w);
    w.call(C, create("held", 2));
    w.call_early(A, request(MdsOp::UNLINK, "held"));
    w.call_early(A, within(tree.d, create("x", 2)));
    w.in_flight.clear();
    w.restart(&[B, C]);
    w.advance(Duration::from_secs(1));
    w.call(C, getattr("held", 0));
    w.clients.get_mut(&C).expect("c").stubborn = true;
    w.come_back(A);
    w.quiet();
    let tid = w.start(B, within(tree.d, request(MdsOp::MKSNAP, "/s")));
    w.quiet();
    assert!(!is_answered(&w, B, tid), "nobody is absent, but C has not confirmed what A's request revokes");
    let c = w.clients.get_mut(&C).expect("c");
    c.stubborn = false;
    let unconfirmed = std::mem::take(&mut c.unconfirmed);
    let confirmed: Vec<_> = unconfirmed.into_iter().map(|ino| c.update(ino)).collect();
    confirmed.into_iter().for_each(|(tid, update)| w.send(C, tid, update));
    w.quiet();
    assert_eq!(w.reply(B, tid).result, 0);
    assert!(w.names(B, "d//s").expect("it is there").contains("x"));
}

#[test]
fn promises_count_before_the_claims_are_settled() {
    let mut w = two_clients(6);
    let tree = tree(&mut w);
    w.call_early(A, within(tree.d, create("x", 2)));
    w.in_flight.clear();
    w.begin_replay();
    w.quiet();
    // Its claims may need loads, which take long.
    let requests = w.clients[&A].unsafe_requests.clone();
    requests.into_iter().for_each(|(tid, request)| w.send(A, tid, request));
    w.come_back(B);
    w.advance(Duration::from_secs(1));
    w.quiet();
    let tid = w.start(B, within(tree.d, create("x", EXCLUSIVE)));
    w.advance(Duration::from_secs(10));
    w.quiet();
    assert!(!is_answered(&w, B, tid));
    let claims = w.clients.get_mut(&A).expect("a").reconnect();
    w.send(A, 0, claims);
    w.quiet();
    assert!(w.clients[&A].lost.is_empty() && w.clients[&A].unsafe_requests.is_empty());
    assert_eq!(w.reply(B, tid).result, Errno::EEXIST.to_result_code());
}

#[test]
fn a_file_that_is_made_again_is_its_makers_until_the_claims_are_settled() {
    let mut w = two_clients(8);
    w.connect(C);
    let d = ino(&w.call(A, mkdir("d")));
    w.call(C, create("held", 2));
    let f = ino(&w.call_early(A, within(d, create("f", 2))));
    assert!(!w.call_early(A, request(MdsOp::UNLINK, "held")).safe);
    assert!(w.clients.get_mut(&A).expect("a").write_to(f, 900));
    w.in_flight.clear();
    w.restart(&[A, B]);
    w.advance(Duration::from_secs(1));
    w.quiet();
    assert_eq!(w.clients[&A].unsafe_requests.len(), 1, "the removal waits for C, the file is there");
    let stat = w.start(B, getattr("d/f", cap::FILE_SHARED));
    w.quiet();
    w.come_back(C);
    w.quiet();
    assert_eq!(w.reply(B, stat).trace.target.expect("a target").size, 900, "it was told 0");
}

#[test]
fn a_client_that_starts_over_has_no_promises() {
    let mut w = two_clients(7);
    let tree = tree(&mut w);
    w.call_early(A, within(tree.d, create("x", 2)));
    w.in_flight.clear();
    w.restart(&[B]);
    let requests = w.clients[&A].unsafe_requests.clone();
    requests.into_iter().for_each(|(tid, request)| w.send(A, tid, request));
    let tid = w.start(B, within(tree.d, create("x", EXCLUSIVE)));
    w.quiet();
    assert!(!is_answered(&w, B, tid));
    w.send(A, 0, ClientSession::of(session_op::REQUEST_OPEN, 0));
    w.quiet();
    assert_eq!(w.reply(B, tid).result, 0);
}
