//! Clients that create and unlink without waiting for answers, in directories that they have for themselves.

mod world;

use mds::MdsOptions;
use msgs::{
    CapReleaseItem, ClientCapRelease, ClientReply, ClientRequest, ClientSession, MdsOp, cap, session_op,
};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::Errno;
use world::client::{TAKEN, asynchronous, at_root, create, getattr, lookup, mkdir, readdir, request, two};
use world::pair::{A, B, caps, ino, two_clients};
use world::{Client, World};

const ALONE: u32 = cap::FILE_EXCL | cap::DIR_CREATE | cap::DIR_UNLINK;

/// Two clients; A works asynchronously and has the directory `d` for itself, and numbers.
fn alone(seed: u64) -> (World, u64) {
    let mut w = two_clients(seed);
    w.call(A, getattr("", 0));
    w.want_alone(A, 1);
    let d = ino(&w.call(A, mkdir("d")));
    w.call(A, create("d/first", 2));
    assert_eq!(caps(&w, A, d) & ALONE, ALONE);
    assert!(w.clients[&A].delegated.len() >= 250);
    (w, d)
}

/// Starts an asynchronous create; returns its tid and the number of the file.
fn start_create(w: &mut World, path: &str) -> (u64, u64) {
    let (number, request) = w.clients.get_mut(&A).expect("a").create_async(path);
    (w.start(A, request), number)
}

fn result(reply: &ClientReply) -> i32 {
    reply.result
}

fn code(errno: Errno) -> i32 {
    errno.to_result_code()
}

#[test]
fn only_who_works_asynchronously_may_create_and_unlink_in_a_directory_by_itself() {
    let mut w = two_clients(1);
    let d = ino(&w.call(A, mkdir("d")));
    w.call(A, create("d/f", 2));
    assert_eq!(caps(&w, A, d) & ALONE, cap::FILE_EXCL, "it need not look names up that it makes");
    assert!(w.clients[&A].delegated.is_empty());
    w.want_alone(A, d);
    assert_eq!(caps(&w, A, d) & ALONE, cap::FILE_EXCL, "no more before it changes something there");
    w.call(A, create("d/g", 2));
    assert_eq!(caps(&w, A, d) & ALONE, ALONE);
    let made = ino(&w.call(A, mkdir("d/e")));
    assert_eq!(
        caps(&w, A, made) & (ALONE | cap::FILE_SHARED),
        ALONE | cap::FILE_SHARED,
        "from the beginning"
    );
    let others = ino(&w.call(B, mkdir("b")));
    assert_eq!(caps(&w, B, others) & ALONE, cap::FILE_EXCL);
    w.call(A, lookup("b"));
    w.call(A, create("b/f", 2));
    assert_eq!(caps(&w, B, others) & ALONE, 0, "another works there too");
}

/// Linux chooses the number before it sends the request, which may be after its claims: it must not be
/// refused what its caller takes for done.
#[test]
fn a_number_that_a_client_chose_before_a_restart_is_still_its_own() {
    for crashes in 1..=3 {
        let (mut w, _) = alone(1);
        let (number, request) = w.clients.get_mut(&A).expect("a").create_async("d/late");
        (0..crashes).for_each(|_| w.crash(&[A, B]));
        let reply = w.call(A, request);
        assert_eq!((result(&reply), ino(&reply)), (0, number), "after {crashes} crashes");
        assert!(w.clients[&A].delegated.len() >= 250, "it gets others");
        assert!(!w.clients[&A].delegated.contains(&number));
    }
}

/// It promised its callers nothing that others have to wait for.
#[test]
fn a_directory_of_a_client_that_waits_for_answers_is_not_kept_for_it_over_a_crash() {
    for returns in [false, true] {
        let mut w = two_clients(1);
        let d = ino(&w.call(A, mkdir("d")));
        assert_eq!(caps(&w, A, d) & (ALONE | cap::FILE_SHARED), cap::FILE_EXCL | cap::FILE_SHARED);
        w.crash(if returns { &[A, B] } else { &[B] });
        if returns {
            let kept = caps(&w, A, d) & (ALONE | cap::FILE_SHARED);
            assert_eq!(kept, cap::FILE_SHARED, "it was claimed, and taken back");
        }
        assert_eq!(w.call(B, readdir("d", b"", 100)).result, 0);
    }
}

#[test]
fn who_gets_a_directory_for_itself_is_recorded_before_it_knows() {
    let mut w = two_clients(1);
    let d = ino(&w.call(A, mkdir("d")));
    for name in ["d/f", "d/g"] {
        w.call(A, create(name, 2));
    }
    w.want_alone(A, d);
    for (name, is_early) in [("d/f", false), ("d/g", true)] {
        let tid = w.start(A, request(MdsOp::UNLINK, name));
        assert_eq!(w.clients[&A].replies.contains_key(&tid), is_early, "{name}");
        assert_eq!(caps(&w, A, d) & ALONE == ALONE, is_early);
        w.quiet();
        assert_eq!(caps(&w, A, d) & ALONE, ALONE);
    }
}

#[test]
fn a_removed_directory_is_given_to_nobody_for_itself() {
    let (mut w, d) = alone(1);
    w.call(A, request(MdsOp::UNLINK, "d/first"));
    assert_eq!(w.call(B, request(MdsOp::RMDIR, "d")).result, 0);
    w.advance(Duration::from_secs(5));
    let mut look = getattr("", 0);
    look.path.ino = d;
    w.call(A, look);
    assert_eq!(caps(&w, A, d) & (cap::DIR_CREATE | cap::DIR_UNLINK), 0);
}

#[test]
fn a_client_without_delegated_numbers_is_answered_as_ever() {
    let mut w = World::new(2, MdsOptions::default());
    w.connect_client(Client { is_old: true, ..Client::new(A) }, "allow *");
    w.call(A, getattr("", 0));
    w.want_alone(A, 1);
    let d = ino(&w.call(A, mkdir("d")));
    let made = w.call(A, create("d/f", 2));
    assert_eq!((made.extra, caps(&w, A, d) & ALONE), (ino_bytes(ino_of(&made.trace)), cap::FILE_EXCL));
}

fn ino_of(trace: &msgs::ReplyTrace) -> u64 {
    trace.target.as_ref().expect("a target").ino
}

fn ino_bytes(ino: u64) -> Vec<u8> {
    wire::Writer::encode(&ino)
}

#[test]
fn who_may_not_always_write_there_works_synchronously() {
    for (key, may) in [("allow rw path=d", true), ("allow r, allow rw path=d uid=7", false)] {
        let mut w = World::new(3, MdsOptions::default());
        w.connect(B);
        let d = ino(&w.call(B, mkdir("d")));
        w.connect_with(A, key);
        let mine = |request: ClientRequest| ClientRequest { caller_uid: 7, ..request };
        w.call(A, mine(create("d/f", 2)));
        w.want_alone(A, d);
        // Until now it counts as shared with B, who has made it.
        w.advance(Duration::from_secs(2));
        assert_eq!(w.call(A, mine(create("d/g", 2))).result, 0);
        assert_eq!(caps(&w, A, d) & ALONE, if may { ALONE } else { 0 }, "{key}");
    }
}

#[test]
fn an_asynchronous_create_makes_what_its_client_has_assumed() {
    let (mut w, d) = alone(4);
    let (tid, number) = start_create(&mut w, "d/f");
    let early = w.reply(A, tid);
    let made = early.trace.target.expect("the file");
    assert!(!early.safe && early.result == 0);
    assert_eq!((made.ino, made.cap.caps & TAKEN, made.cap.wanted & TAKEN), (number, TAKEN, TAKEN));
    assert_eq!(made.cap.cap_id, 1, "Linux may have had it before");
    assert!(made.max_size >= u64::from(made.layout.stripe_unit));
    assert_eq!(early.trace.dentry.expect("the name").lease.mask, 4, "the primary name");
    assert_eq!(caps(&w, A, d) & ALONE, ALONE);
    let gone = w.start(A, asynchronous(request(MdsOp::UNLINK, "d/first")));
    assert!(!w.reply(A, gone).safe);
    w.quiet();
    assert!(w.clients[&A].unsafe_requests.is_empty());
    let listed = w.call(B, readdir("d", b"", 100));
    let listing: msgs::ReaddirReply = wire::Reader::new(&listed.extra).get().expect("a listing");
    let names: Vec<(&[u8], u64, u16)> =
        listing.entries.iter().map(|e| (e.name.as_slice(), e.inode.ino, e.lease.mask)).collect();
    assert_eq!(names, [(b"f".as_slice(), number, 4)]);
}

#[test]
fn others_look_and_change_only_when_the_client_has_given_the_directory_up() {
    let looks: [fn() -> ClientRequest; 7] = [
        || lookup("d/f"),
        || readdir("d", b"", 100),
        || getattr("d", cap::FILE_SHARED),
        || create("d/f", 0o200),
        || request(MdsOp::RMDIR, "d"),
        || two(MdsOp::RENAME, "g", "d/f"),
        || ClientRequest {
            path2: msgs::FilePath { ino: 0, path: b"S".to_vec() },
            ..request(MdsOp::MKSNAP, "d/S")
        },
    ];
    for (seed, look) in looks.into_iter().enumerate() {
        let (mut w, d) = alone(10 + seed as u64);
        w.call(A, lookup("d/first"));
        w.clients.get_mut(&A).expect("a").stubborn = true;
        let request = look();
        let op = request.op;
        let tid = w.start(B, request);
        w.quiet();
        assert!(!w.clients[&B].replies.contains_key(&tid), "{op} waits");
        // What was under way arrives before the client gives up its right.
        let (made, _) = start_create(&mut w, "d/f");
        assert_eq!(w.reply(A, made).result, 0);
        let c = w.clients.get_mut(&A).expect("a");
        c.stubborn = false;
        let held: Vec<u64> = c.held.keys().copied().collect();
        for ino in held {
            let (tid, update) = w.clients.get_mut(&A).expect("a").update(ino);
            w.send(A, tid, update);
        }
        w.quiet();
        let reply = w.reply(B, tid);
        match op {
            MdsOp::CREATE => assert_eq!(result(&reply), code(Errno::EEXIST)),
            MdsOp::RMDIR => assert_eq!(result(&reply), code(Errno::ENOTEMPTY)),
            MdsOp::GETATTR => assert_eq!(reply.trace.target.expect("the directory").nfiles, 2),
            _ => assert_eq!(result(&reply), 0, "{op}"),
        }
        assert_eq!(caps(&w, A, d) & ALONE, 0);
    }
}

#[test]
fn a_directory_is_given_again_when_others_leave_it_alone() {
    let (mut w, d) = alone(20);
    w.call(B, lookup("d/first"));
    assert_eq!(caps(&w, A, d) & (ALONE | cap::FILE_SHARED), cap::FILE_SHARED);
    w.call(A, create("d/f", 2));
    assert_eq!(caps(&w, A, d) & ALONE, 0, "it counts as shared for a while");
    w.call(B, lookup("d/first"));
    w.advance(Duration::from_secs(7));
    w.call(A, lookup("d/f"));
    assert_eq!(caps(&w, A, d) & ALONE, 0, "another caches the names");
    w.call(A, create("d/g", 2));
    assert_eq!(caps(&w, A, d) & ALONE, ALONE);
    assert_eq!(caps(&w, B, d) & cap::FILE_SHARED, 0);
    assert_eq!(w.call(B, lookup("d/g")).result, 0);
}

#[test]
fn nobody_has_a_directory_alone_in_which_two_work() {
    let (mut w, d) = alone(21);
    w.call(B, create("d/b", 2));
    w.want_alone(A, d);
    w.want_alone(B, d);
    w.call(A, create("d/a", 2));
    w.advance(Duration::from_secs(7));
    for client in [A, B] {
        w.call(client, mkdir(&format!("d/{client}")));
        assert_eq!(caps(&w, client, d) & ALONE, 0);
    }
    // A has worked there before: it stops, and is asked no more.
    let c = w.clients.get_mut(&A).expect("a");
    c.held.get_mut(&d).expect("held").wanted = cap::PIN;
    let (tid, update) = c.update(d);
    w.send(A, tid, update);
    w.call(B, mkdir("d/c"));
    assert_eq!(caps(&w, B, d) & ALONE, ALONE);
}

#[test]
fn numbers_are_delegated_again_before_they_run_out() {
    let (mut w, _) = alone(22);
    let mut used = BTreeSet::new();
    for i in 0..1200 {
        let (tid, number) = start_create(&mut w, &format!("d/{i}"));
        assert_eq!(ino(&w.reply(A, tid)), number);
        assert!(used.insert(number));
        let left = w.clients[&A].delegated.len();
        assert!((200..=500).contains(&left), "{left} after {i}");
        if i % 100 == 0 {
            w.quiet();
        }
    }
}

#[test]
fn a_number_is_used_once_and_only_by_its_client() {
    let (mut w, _) = alone(23);
    w.has_hostile = true;
    w.call(B, getattr("", 0));
    w.want_alone(B, 1);
    w.call(B, mkdir("e"));
    w.call(B, create("e/first", 2));
    let of_others = *w.clients[&B].delegated.first().expect("a number");
    let (tid, used) = start_create(&mut w, "d/f");
    assert_eq!(w.reply(A, tid).result, 0);
    for number in [0, 1, used, of_others, 1 << 50, u64::MAX] {
        let request = ClientRequest { ino: number, ..asynchronous(create("d/x", 0o202)) };
        assert_eq!(w.call(A, request).result, code(Errno::EINVAL), "{number:x}");
        let request = ClientRequest { ino: number, ..asynchronous(mkdir("d/x")) };
        assert_eq!(w.call(A, request).result, code(Errno::EINVAL), "{number:x}");
        assert_eq!(w.call(A, lookup("d/x")).result, code(Errno::ENOENT));
    }
    let (tid, _) = start_create(&mut w, "d/f");
    assert_eq!(w.reply(A, tid).result, code(Errno::EEXIST), "a name that is there stays what it is");
    let gone = w.start(A, asynchronous(request(MdsOp::UNLINK, "d/none")));
    assert_eq!(w.reply(A, gone).result, code(Errno::ENOENT));
    w.crash(&[A, B]);
    assert_eq!(ino(&w.call(B, lookup("d/f"))), used);
}

#[test]
fn what_a_crash_loses_or_never_arrived_is_made_afterwards() {
    let (mut w, d) = alone(24);
    let (_, early) = start_create(&mut w, "d/1");
    w.start(A, asynchronous(request(MdsOp::UNLINK, "d/first")));
    // One that the server never gets, and that its client has written to.
    let c = w.clients.get_mut(&A).expect("a");
    let (late, request) = c.create_async("d/2");
    let (tid, _) = c.number(request, w.now);
    let taken = world::client::Held { cap_id: 1, caps: TAKEN, wanted: TAKEN, ..Default::default() };
    c.held.insert(late, taken);
    w.in_flight.clear();
    w.begin_replay();
    w.quiet();
    w.come_back(B);
    let looks = w.start(B, readdir("d", b"", 10));
    w.come_back(A);
    w.quiet();
    let made = w.reply(A, tid);
    assert_eq!((ino(&made), made.trace.target.expect("the file").cap.caps & TAKEN), (late, TAKEN));
    let a = &w.clients[&A];
    assert!(a.unsafe_requests.is_empty() && a.lost.is_empty());
    assert_eq!(caps(&w, A, early) & TAKEN, TAKEN);
    let listing: msgs::ReaddirReply = wire::Reader::new(&w.reply(B, looks).extra).get().expect("a listing");
    let found: BTreeSet<u64> = listing.entries.iter().map(|e| e.inode.ino).collect();
    assert_eq!(found, BTreeSet::from([early, late]), "another sees what the client has done before");
    assert!(w.clients.get_mut(&A).expect("a").write_to(late, 1000));
    let (tid, flush) = w.clients.get_mut(&A).expect("a").update(late);
    w.send(A, tid, flush);
    w.quiet();
    assert_eq!(w.call(B, getattr("d/2", cap::FILE_SHARED)).trace.target.expect("the file").size, 1000);
    w.advance(Duration::from_secs(7));
    let next = ino(&w.call(A, create("d/3", 2)));
    assert!(next > late.max(early), "numbers from before are not used again");
    assert_eq!(caps(&w, A, d) & ALONE, ALONE);
    let (tid, _) = start_create(&mut w, "d/4");
    assert_eq!(w.reply(A, tid).result, 0);
}

#[test]
fn others_wait_for_an_absent_client_that_had_a_directory_alone() {
    let (mut w, _) = alone(25);
    let of_b = ino(&w.call(B, mkdir("b")));
    let c = w.clients.get_mut(&A).expect("a");
    let (number, request) = c.create_async("d/f");
    let (tid, _) = c.number(request, w.now);
    w.restart(&[B]);
    let looks = w.start(B, lookup("d/f"));
    let place = msgs::FilePath { ino: of_b, path: b"e".to_vec() };
    let elsewhere = w.start(B, ClientRequest { path: place, ..mkdir("e") });
    w.advance(Duration::from_secs(5));
    w.quiet();
    assert!(!w.clients[&B].replies.contains_key(&looks));
    assert_eq!(w.reply(B, elsewhere).result, 0);
    w.come_back(A);
    w.quiet();
    assert_eq!(ino(&w.reply(A, tid)), number);
    assert_eq!(ino(&w.reply(B, looks)), number);
}

#[test]
fn a_client_that_does_not_come_back_takes_its_unsent_requests_with_it() {
    let (mut w, _) = alone(26);
    let numbers = w.clients[&A].delegated.clone();
    w.restart(&[B]);
    let looks = w.start(B, lookup("d/f"));
    w.advance(Duration::from_secs(46));
    w.finish_evictions();
    assert_eq!(w.reply(B, looks).result, code(Errno::ENOENT));
    w.clients.remove(&A);
    w.connect(A);
    assert!(!numbers.contains(&ino(&w.call(A, create("d/f", 2)))), "its numbers are not used again");
}

#[test]
fn numbers_end_with_their_session() {
    let (mut w, _) = alone(27);
    w.has_hostile = true;
    let old = w.clients[&A].delegated.clone();
    w.send(A, 0, ClientSession::of(session_op::REQUEST_CLOSE, 0));
    w.quiet();
    w.connect(A);
    let number = *old.first().expect("a number");
    let late = ClientRequest { ino: number, ..asynchronous(create("d/f", 0o202)) };
    assert_eq!(w.call(A, late).result, code(Errno::EINVAL));
    w.call(A, getattr("", 0));
    w.want_alone(A, 1);
    w.call(A, create("d/g", 2));
    assert!(w.clients[&A].delegated.is_disjoint(&old));
}

#[test]
fn in_a_full_cluster_only_what_is_under_way_is_made() {
    let (mut w, d) = alone(28);
    w.clients.get_mut(&A).expect("a").stubborn = true;
    w.cfg.full = true;
    w.rank.set_full(true);
    w.effects();
    let (tid, _) = start_create(&mut w, "d/f");
    assert_eq!(w.reply(A, tid).result, 0);
    let c = w.clients.get_mut(&A).expect("a");
    c.stubborn = false;
    let (tid, update) = c.update(d);
    w.send(A, tid, update);
    assert_eq!(caps(&w, A, d) & ALONE, 0);
    assert_eq!(w.call(A, create("d/g", 2)).result, code(Errno::ENOSPC));
    assert_eq!(w.call(A, request(MdsOp::UNLINK, "d/f")).result, 0);
    assert_eq!(caps(&w, A, d) & ALONE, 0);
    w.rank.set_full(false);
    w.call(A, create("d/g", 2));
    assert_eq!(caps(&w, A, d) & ALONE, ALONE);
}

#[test]
fn in_a_full_cluster_only_who_has_the_directory_is_believed() {
    let (mut w, _) = alone(32);
    w.call(A, mkdir("e"));
    // Another has been there: the directory is nobody's alone any more.
    w.call(B, create("e/of_b", 2));
    w.has_hostile = true;
    w.rank.set_full(true);
    w.effects();
    let (tid, _) = start_create(&mut w, "e/f");
    assert_eq!(w.reply(A, tid).result, code(Errno::ENOSPC));
}

#[test]
fn who_returns_to_a_full_cluster_makes_nothing_there() {
    let (mut w, d) = alone(33);
    let (tid, number) = {
        let c = w.clients.get_mut(&A).expect("a");
        let (number, request) = c.create_async("d/f");
        (c.number(request, w.now).0, number)
    };
    w.begin_replay();
    w.rank.set_full(true);
    w.until_active(&[A, B]);
    assert_eq!(ino(&w.reply(A, tid)), number, "its caller was told before");
    assert_eq!(caps(&w, A, d) & ALONE, 0);
    assert_eq!(w.call(A, create("d/g", 2)).result, code(Errno::ENOSPC));
}

#[test]
fn clients_that_repeat_requests_give_back_what_each_other_needs() {
    let (mut w, _) = alone(34);
    w.call(B, getattr("", 0));
    w.want_alone(B, 1);
    w.call(B, mkdir("e"));
    w.call(A, request(MdsOp::MKNOD, "d/f"));
    w.call(B, request(MdsOp::MKNOD, "e/f"));
    // Each has the link count of the other's file cached.
    let others = [(A, "e/f"), (B, "d/f")]
        .map(|(client, path)| (client, ino(&w.call(client, getattr(path, cap::LINK_SHARED)))));
    let gone = [(A, "d/f"), (B, "e/f")].map(|(client, path)| {
        let c = w.clients.get_mut(&client).expect("a client");
        (client, c.number(asynchronous(request(MdsOp::UNLINK, path)), w.now).0)
    });
    w.begin_replay();
    for client in [A, B] {
        w.clients.get_mut(&client).expect("a client").stubborn = true;
    }
    w.until_active(&[A, B]);
    for (client, file) in others {
        let c = w.clients.get_mut(&client).expect("a client");
        c.stubborn = false;
        assert!(c.unconfirmed.remove(&file), "the other's request waits for it");
        let confirmed: Vec<_> = std::mem::take(&mut c.unconfirmed).into_iter().map(|i| c.update(i)).collect();
        let held = c.held.remove(&file).expect("held");
        let given_up = CapReleaseItem { ino: file, cap_id: held.cap_id, seq: held.seq, migrate_seq: 0 };
        w.send(client, 0, ClientCapRelease { caps: vec![given_up], ..ClientCapRelease::default() });
        confirmed.into_iter().for_each(|(tid, update)| w.send(client, tid, update));
    }
    w.quiet();
    for (client, tid) in gone {
        assert_eq!(w.reply(client, tid).result, 0);
    }
}

#[test]
fn times_that_a_client_sets_in_its_directory_are_kept() {
    let (mut w, d) = alone(29);
    let h = w.clients.get_mut(&A).expect("a").held.get_mut(&d).expect("held");
    (h.dirty, h.mtime) = (cap::FILE_EXCL, wire::Timespec { sec: 77, nsec: 5 });
    let stat = w.call(B, getattr("d", cap::FILE_SHARED)).trace.target.expect("the directory");
    assert_eq!(stat.mtime.sec, 77);
    assert_eq!(w.call(B, ClientRequest { path: at_root("d"), ..lookup("d") }).result, 0);
}

#[test]
fn later_requests_find_earlier_asynchronous_ones_done() {
    let (mut w, _) = alone(30);
    let (tid, _) = start_create(&mut w, "d/f");
    assert_eq!(w.reply(A, tid).result, 0);
    assert_eq!(w.call(B, lookup("d/f")).result, 0);
    w.call(A, lookup("d/f"));
    w.clients.get_mut(&B).expect("b").stubborn = true;
    // B keeps the first from being carried out: it has the file's link count cached.
    let d = ino(&w.call(A, lookup("d")));
    let named = |name: &[u8]| msgs::FilePath { ino: d, path: name.to_vec() };
    let unlink = |name: &[u8]| ClientRequest { path: named(name), ..request(MdsOp::UNLINK, "") };
    let first = w.start(A, asynchronous(unlink(b"f")));
    let second = w.start(A, asynchronous(unlink(b"first")));
    let rmdir = w.start(A, request(MdsOp::RMDIR, "d"));
    let looks = w.start(A, ClientRequest { path: named(b"f"), ..lookup("") });
    w.quiet();
    for tid in [first, second, rmdir, looks] {
        assert!(!w.clients[&A].replies.contains_key(&tid));
    }
    w.clients.get_mut(&B).expect("b").stubborn = false;
    for ino in std::mem::take(&mut w.clients.get_mut(&B).expect("b").unconfirmed) {
        let (tid, update) = w.clients.get_mut(&B).expect("b").update(ino);
        w.send(B, tid, update);
    }
    w.quiet();
    for tid in [first, second, rmdir] {
        assert_eq!(w.reply(A, tid).result, 0);
    }
    assert_eq!(w.reply(A, looks).result, code(Errno::ENOENT));
}

#[test]
fn linux_has_a_directory_alone_from_its_beginning() {
    let mut w = World::new(31, MdsOptions::default());
    w.connect_client(Client { is_linux: true, ..Client::new(A) }, "allow *");
    let d = ino(&w.call(A, mkdir("d")));
    assert_eq!(caps(&w, A, d) & ALONE, ALONE);
    w.call(A, create("d/f", 2));
    assert!(!w.clients[&A].delegated.is_empty());
    w.crash(&[A]);
    w.call(A, create("d/g", 2));
    assert!(!w.clients[&A].delegated.is_empty(), "its successor knows");
}

/// A client that keeps it cached is told, so that it lets go and the file is purged; who removed it without
/// waiting has let go already.
#[test]
fn who_removes_a_file_without_waiting_is_not_told_that_it_is_gone() {
    let cases = [(true, 0), (false, cap::LINK_SHARED)].into_iter();
    for (made_async, (is_asynchronous, told)) in cases.flat_map(|case| [(false, case), (true, case)]) {
        let (mut w, _) = alone(1);
        // Of one that it makes without waiting it is taken to want everything.
        let f = if made_async { start_create(&mut w, "d/f").1 } else { ino(&w.call(A, create("d/f", 2))) };
        w.quiet();
        assert_eq!(caps(&w, A, f) & cap::LINK_SHARED, cap::LINK_SHARED);
        let unlink = request(MdsOp::UNLINK, "d/f");
        let unlink = if is_asynchronous { asynchronous(unlink) } else { unlink };
        assert_eq!(w.call(A, unlink).result, 0);
        w.quiet();
        assert_eq!(caps(&w, A, f) & cap::LINK_SHARED, told, "asynchronous: {is_asynchronous}");
    }
}
