//! A restart of the rank while some clients don't come back: the others go on at once, and whatever the
//! missing ones may hold is theirs until they come or are evicted.

mod world;

use mds::{ClientId, MdsOptions, Stage};
use msgs::{MdsOp, cap};
use std::time::Duration;
use world::World;
use world::client::{
    Held, create, getattr, lookup, mkdir, open, readdir, request, setattr_mode, setattr_size, two,
};
use world::pair::{A, B, caps, ino, two_clients};

fn size(w: &mut World, client: u64, path: &str) -> u64 {
    w.call(client, getattr(path, cap::FILE_SHARED)).trace.target.expect("a target").size
}

/// Closes a file: nothing is wanted of it any more.
fn close(w: &mut World, client: u64, ino: u64) {
    let c = w.clients.get_mut(&client).expect("a client");
    c.held.get_mut(&ino).expect("held").wanted = 0;
    let (tid, m) = c.update(ino);
    w.send(client, tid, m);
    w.quiet();
}

fn waits(w: &World, client: u64, tid: u64) -> bool {
    !w.clients[&client].replies.contains_key(&tid)
}

#[test]
fn others_go_on_at_once() {
    let mut w = two_clients(1);
    w.call(A, create("mine", 2));
    w.call(B, readdir("", b"", 10));
    let before = w.now.mono;
    w.cfg.options.journal_delay = Duration::ZERO;
    w.restart(&[A]);
    assert_eq!(w.rank.stage(), Stage::Active);
    assert!(w.now.mono.since(before) <= Duration::from_secs(1), "{:?}", w.now.mono.since(before));
    assert_eq!(w.call(A, create("new", 2)).result, 0, "although B may believe that it knows all names");
    assert_eq!(w.call(A, two(MdsOp::RENAME, "newer", "new")).result, 0);
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    assert_eq!(w.call(A, setattr_size("mine", 10)).result, 0);
    assert!(w.evict_asked.is_empty());
}

#[test]
fn with_everybody_back_nothing_is_waited_for() {
    let mut w = two_clients(2);
    let before = w.now.mono;
    w.cfg.options.journal_delay = Duration::ZERO;
    w.restart(&[A, B]);
    assert_eq!(w.now.mono, before);
}

#[test]
fn a_file_that_a_missing_client_writes_is_kept_until_it_is_evicted() {
    let mut w = two_clients(3);
    let f = ino(&w.call(A, create("f", 2)));
    w.clients.get_mut(&A).expect("a").write_to(f, 5000);
    w.restart(&[B]);
    let stat = w.start(B, getattr("f", cap::FILE_SHARED));
    let cut = w.start(B, setattr_size("f", 0));
    let chmod = w.start(B, setattr_mode("f", 0o600));
    w.call(B, open("f", 2));
    w.quiet();
    for _ in 0..40 {
        w.send(B, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_RENEWCAPS, 1));
        w.advance(Duration::from_secs(1));
        w.quiet();
    }
    assert!(waits(&w, B, stat) && waits(&w, B, cut) && waits(&w, B, chmod));
    assert_eq!(caps(&w, B, f) & (cap::FILE_RD | cap::FILE_WR), 0, "{}", msgs::Caps(caps(&w, B, f)));
    w.advance(Duration::from_secs(5));
    assert_eq!(w.evict_asked, vec![A]);
    w.quiet();
    assert!(waits(&w, B, cut), "the OSDs still take its writes");
    w.finish_evictions();
    assert!(!waits(&w, B, stat) && !waits(&w, B, cut) && !waits(&w, B, chmod));
    assert_ne!(caps(&w, B, f) & cap::FILE_WR, 0, "{}", msgs::Caps(caps(&w, B, f)));
}

#[test]
fn a_client_that_comes_late_has_what_it_had() {
    let mut w = two_clients(4);
    let f = ino(&w.call(A, create("f", 2)));
    w.clients.get_mut(&A).expect("a").write_to(f, 777);
    w.restart(&[B]);
    let stat = w.start(B, getattr("f", cap::FILE_SHARED));
    w.advance(Duration::from_secs(10));
    w.quiet();
    assert!(waits(&w, B, stat));
    w.clients.get_mut(&A).expect("a").open = false;
    w.come_back(A);
    w.quiet();
    assert!(w.clients[&A].open);
    assert_eq!(w.reply(B, stat).trace.target.expect("a target").size, 777, "what it had not flushed");
    assert_eq!(w.clients[&A].flush_acks.len(), 1);
    w.advance(Duration::from_secs(60));
    assert!(w.evict_asked.is_empty(), "it is not missing any more");
}

#[test]
fn requests_and_flushes_that_come_before_the_claims_count_after_them() {
    for seed in 100..130 {
        let mut w = two_clients(seed);
        let f = ino(&w.call(A, create("f", 2)));
        let a = w.clients.get_mut(&A).expect("a");
        a.write_to(f, 900);
        a.held.get_mut(&f).expect("held").caps = cap::PIN | cap::ANY_SHARED;
        let (tid, flush) = a.update(f);
        w.send(A, tid, flush.clone());
        let made = w.start(A, create("g", 2));
        w.restart(&[B]);
        let stat = w.start(B, getattr("f", cap::FILE_SHARED));
        w.quiet();
        let already = !waits(&w, B, stat);
        w.send(A, tid, flush);
        w.come_back(A);
        w.quiet();
        assert_eq!(w.clients[&A].flush_acks, vec![tid]);
        assert_eq!(w.reply(A, made).result, 0, "carried out once");
        // Where the flush was durable before the crash nothing had to be kept.
        assert_eq!(w.reply(B, stat).trace.target.expect("a target").size, 900, "{already}");
    }
}

/// A has made a file, written to it and given everything up, but its flush is lost with the server; B has the
/// file open for reading.
fn with_lost_flush(seed: u64) -> (World, u64) {
    let mut w = two_clients(seed);
    let f = ino(&w.call(A, create("f", 2)));
    w.call(B, open("f", 0));
    let a = w.clients.get_mut(&A).expect("a");
    assert!(a.write_to(f, 900));
    a.held.get_mut(&f).expect("held").caps = cap::PIN | cap::AUTH_SHARED | cap::LINK_SHARED;
    a.held.get_mut(&f).expect("held").wanted = 0;
    a.update(f);
    (w, f)
}

#[test]
fn nobody_is_told_the_size_before_the_flush_that_came_ahead_of_the_claims() {
    for order in [[A, B], [B, A]] {
        let (mut w, f) = with_lost_flush(10);
        w.restart(&order);
        assert_eq!(w.clients[&A].flush_acks.len(), 1);
        let held = &w.clients[&B].held[&f];
        assert_ne!(held.caps & cap::FILE_SHARED, 0, "nobody writes any more");
        assert_eq!(held.size, 900);
    }
}

#[test]
fn nor_while_other_claims_of_a_late_client_are_looked_for() {
    let (mut w, f) = with_lost_flush(11);
    w.restart(&[B]);
    let gone = Held { cap_id: 1000, caps: cap::PIN, ..Held::default() };
    w.clients.get_mut(&A).expect("a").held.insert(0x100_0000_0999, gone);
    w.come_back(A);
    let stat = w.start(B, getattr("f", cap::FILE_SHARED));
    assert!(waits(&w, B, stat), "A has not told what it wrote");
    w.quiet();
    assert_eq!(w.reply(B, stat).trace.target.expect("a target").size, 900);
    let held = &w.clients[&B].held[&f];
    assert!(held.caps & cap::FILE_SHARED == 0 || held.size == 900, "{held:?}");
}

#[test]
fn nor_of_a_file_that_is_made_again() {
    for seed in 20..40 {
        let mut w = two_clients(seed);
        w.call(A, readdir("", b"", 10));
        w.want_alone(A, 1);
        w.call(A, create("before", 2));
        w.cfg.options.journal_delay = Duration::from_secs(5);
        let f = ino(&w.call_early(A, create("f", 2)));
        let a = w.clients.get_mut(&A).expect("a");
        assert!(a.write_to(f, 900));
        a.held.get_mut(&f).expect("held").caps = cap::PIN | cap::AUTH_SHARED | cap::LINK_SHARED;
        a.update(f);
        w.restart(&[B, A]);
        assert_eq!(w.call(B, getattr("f", cap::FILE_SHARED)).trace.target.expect("a target").size, 900);
    }
}

#[test]
fn who_waits_to_read_is_told_what_a_writer_has_not_flushed_before_the_restart() {
    for order in [[A, B], [B, A]] {
        let mut w = two_clients(12);
        let f = ino(&w.call(A, create("f", 2)));
        w.call(B, open("f", 0));
        assert!(w.clients.get_mut(&A).expect("a").write_to(f, 900));
        let held = |w: &mut World, client, bits| {
            let c = w.clients.get_mut(&client).expect("a client");
            c.held.get_mut(&f).expect("held").caps = cap::PIN | cap::AUTH_SHARED | bits;
        };
        held(&mut w, A, cap::FILE_WR);
        held(&mut w, B, 0);
        w.restart(&order);
        let reader = &w.clients[&B].held[&f];
        assert_ne!(reader.caps & cap::FILE_RD, 0, "it may read");
        assert_eq!(reader.size, 900);
        assert_ne!(caps(&w, A, f) & cap::FILE_WR, 0, "and A may write on");
    }
}

#[test]
fn who_comes_late_does_not_believe_what_has_changed() {
    let mut w = two_clients(5);
    let d = ino(&w.call(A, mkdir("d")));
    let f = ino(&w.call(A, create("d/f", 2)));
    close(&mut w, A, f);
    w.advance(Duration::from_secs(7));
    w.quiet();
    let same = ino(&w.call(A, mkdir("same")));
    w.call(B, readdir("d", b"", 10));
    w.call(B, open("d/f", 0));
    w.call(B, getattr("same", cap::FILE_SHARED));
    assert_ne!(caps(&w, B, f) & cap::FILE_CACHE, 0, "{}", msgs::Caps(caps(&w, B, f)));
    w.restart(&[A]);
    assert_eq!(w.call(A, create("d/new", 2)).result, 0);
    assert_eq!(w.call(A, setattr_mode("d/f", 0o600)).result, 0);
    w.come_back(B);
    w.quiet();
    assert_eq!(caps(&w, B, d) & cap::FILE_SHARED, 0, "the directory has a new name");
    assert_eq!(w.clients[&B].held[&f].mode & 0o777, 0o600, "told with the revocation");
    assert_ne!(caps(&w, B, same) & cap::FILE_SHARED, 0, "what did not change is believed");
}

#[test]
fn cached_data_of_a_late_client_go_when_another_has_written_meanwhile() {
    let mut w = two_clients(6);
    let f = ino(&w.call(A, create("f", 2)));
    close(&mut w, A, f);
    w.advance(Duration::from_secs(7));
    w.quiet();
    w.call(B, open("f", 0));
    assert_ne!(caps(&w, B, f) & cap::FILE_CACHE, 0);
    w.restart(&[A]);
    w.call(A, open("f", 2));
    assert!(w.clients.get_mut(&A).expect("a").write_to(f, 10), "nobody is known to read it");
    close(&mut w, A, f);
    w.advance(Duration::from_secs(7));
    w.quiet();
    let revoked = w.clients[&B].revokes_seen;
    w.come_back(B);
    w.quiet();
    assert!(w.clients[&B].revokes_seen > revoked, "what it has cached is void");
    assert_eq!(size(&mut w, B, "f"), 10);
}

#[test]
fn a_removed_file_that_a_missing_client_has_open_is_not_purged() {
    let mut w = two_clients(7);
    let object = |f: u64| mds::ObjectId { pool: 2, ns: String::new(), name: format!("{f:x}.00000000") };
    let mut files = Vec::new();
    for name in ["f", "g"] {
        let f = ino(&w.call(A, create(name, 2)));
        w.objects.insert(object(f), world::Object { data: vec![1; 10], ..Default::default() });
        assert!(w.clients.get_mut(&A).expect("a").write_to(f, 10));
        close(&mut w, A, f);
        files.push(f);
    }
    w.advance(Duration::from_secs(7));
    w.quiet();
    w.call(A, open("f", 0));
    w.call(A, open("g", 0));
    assert_eq!(w.call(B, request(MdsOp::UNLINK, "f")).result, 0);
    w.restart(&[B]);
    assert_eq!(w.call(B, request(MdsOp::UNLINK, "g")).result, 0, "that is not known to be open");
    w.clients.get_mut(&B).expect("b").held.clear();
    w.quiet();
    assert!(files.iter().all(|f| w.objects.contains_key(&object(*f))));
    w.come_back(A);
    w.quiet();
    assert!(files.iter().all(|f| w.objects.contains_key(&object(*f))), "A has them open");
    let held = std::mem::take(&mut w.clients.get_mut(&A).expect("a").held);
    let item = |(ino, h): (u64, world::client::Held)| msgs::CapReleaseItem {
        ino,
        cap_id: h.cap_id,
        migrate_seq: 0,
        seq: h.issue_seq,
    };
    let caps = held.into_iter().map(item).collect();
    w.send(A, 0, msgs::ClientCapRelease { caps, ..Default::default() });
    w.restart(&[A, B]);
    w.quiet();
    assert!(!files.iter().any(|f| w.objects.contains_key(&object(*f))), "nobody needs them any more");
}

#[test]
fn a_missing_client_goes_on_with_a_removed_file_that_it_has_open() {
    let mut w = two_clients(7);
    let f = ino(&w.call(A, create("f", 2)));
    assert_eq!(w.call(B, request(MdsOp::UNLINK, "f")).result, 0);
    let mut chmod = setattr_mode("", 0o600);
    chmod.path.ino = f;
    let now = w.now;
    let (tid, _) = w.clients.get_mut(&A).expect("a").number(chmod, now);
    w.clients.get_mut(&B).expect("b").held.clear();
    w.restart(&[B]);
    w.come_back(A);
    w.quiet();
    assert_eq!(w.reply(A, tid).result, 0);
    assert_ne!(caps(&w, A, f) & cap::PIN, 0);
}

fn lock(path: &str, wait: u8, owner: u64) -> msgs::ClientRequest {
    let args =
        msgs::FileLockArgs { rule: 1, kind: 2, owner: owner | 1 << 63, pid: 1, start: 0, length: 0, wait };
    msgs::ClientRequest { args: args.into(), ..request(MdsOp::SETFILELOCK, path) }
}

#[test]
fn a_lock_on_a_file_opened_for_reading_is_kept_for_a_missing_client() {
    let mut w = two_clients(8);
    let f = ino(&w.call(A, create("f", 2)));
    close(&mut w, A, f);
    w.advance(Duration::from_secs(7));
    w.quiet();
    w.call(A, open("f", 0));
    assert_eq!(w.call(A, lock("f", 0, 1)).result, 0);
    w.restart(&[B]);
    let tid = w.start(B, lock("f", 0, 2));
    w.quiet();
    assert!(waits(&w, B, tid), "it can't be known yet");
    assert_eq!(size(&mut w, B, "f"), 0, "but it may be looked at");
    let mut m = w.clients.get_mut(&A).expect("a").reconnect();
    let held = msgs::FileLock { start: 0, length: 0, client: A, owner: 1 | 1 << 63, pid: 1, kind: 2 };
    let mut flock = wire::Writer::encode(&vec![held]);
    flock.extend(wire::Writer::encode(&Vec::<msgs::FileLock>::new()));
    m.caps.get_mut(&f).expect("held").flock = flock;
    w.send(A, 0, m);
    w.quiet();
    assert_eq!(w.reply(B, tid).result, wire::Errno::EAGAIN.to_result_code(), "A has it");
}

#[test]
fn a_client_that_begins_anew_holds_nothing() {
    let mut w = two_clients(9);
    let f = ino(&w.call(A, create("f", 2)));
    w.restart(&[B]);
    let tid = w.start(B, getattr("f", cap::FILE_SHARED));
    w.quiet();
    assert!(waits(&w, B, tid));
    let a = w.clients.get_mut(&A).expect("a");
    a.held.clear();
    a.open = false;
    w.send(A, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_OPEN, 0));
    w.quiet();
    assert!(w.clients[&A].open && !waits(&w, B, tid));
    assert_eq!(ino(&w.call(A, open("f", 2))), f);
}

#[test]
fn a_claim_after_the_window_is_refused() {
    let mut w = two_clients(10);
    w.call(A, create("f", 2));
    w.restart(&[B]);
    w.advance(Duration::from_secs(46));
    w.come_back(A);
    w.quiet();
    assert!(!w.clients[&A].open, "it is being evicted");
    assert_eq!(w.evict_asked, vec![A]);
    w.finish_evictions();
    w.come_back(A);
    assert!(!w.clients[&A].open);
    assert_eq!(w.call(B, setattr_size("f", 0)).result, 0);
}

#[test]
fn write_bits_that_nobody_wants_are_taken_back_and_not_kept_after_a_restart() {
    let mut w = two_clients(11);
    let f = ino(&w.call(A, create("f", 2)));
    w.clients.get_mut(&A).expect("a").write_to(f, 100);
    close(&mut w, A, f);
    assert_ne!(caps(&w, A, f) & cap::FILE_WR, 0, "for a while it may go on");
    w.advance(Duration::from_secs(7));
    w.quiet();
    let left = caps(&w, A, f);
    assert_eq!(left & (cap::FILE_WR | cap::FILE_EXCL | cap::FILE_BUFFER | cap::AUTH_EXCL), 0, "{left:x}");
    assert_ne!(left & cap::FILE_CACHE, 0, "what it has cached stays true");
    w.restart(&[B]);
    assert_eq!(size(&mut w, B, "f"), 100);
    assert_eq!(w.call(B, setattr_size("f", 7)).result, 0);
    // Opened again it is recorded again.
    w.come_back(A);
    w.call(A, open("f", 2));
    w.restart(&[B]);
    let tid = w.start(B, setattr_size("f", 3));
    w.quiet();
    assert!(waits(&w, B, tid));
    w.rank.evicted(w.now, ClientId(A));
    assert!(waits(&w, B, tid), "nobody asked for an eviction");
}

#[test]
fn room_to_write_that_was_given_and_not_heard_of_is_told_when_it_is_asked_for_again() {
    for seed in 200..220 {
        let mut w = two_clients(seed);
        let f = ino(&w.call(A, create("f", 2)));
        let ask = |w: &mut World| {
            let (tid, mut m) = w.clients.get_mut(&A).expect("a").update(f);
            let msgs::Body::ClientCaps(m) = &mut m else { panic!("it is about a cap") };
            let file = msgs::CapFile { max_size: 80 << 20, ..m.file() };
            m.body = msgs::CapBody::File(file);
            let m = m.clone();
            w.send(A, tid, msgs::Body::ClientCaps(m));
        };
        ask(&mut w);
        assert_eq!(w.clients[&A].held[&f].max_size, 4 << 20, "what is not durable is not said");
        w.restart(&[A, B]);
        ask(&mut w);
        w.quiet();
        assert!(w.clients[&A].held[&f].max_size >= 80 << 20, "seed {seed}: the writer waits for ever");
    }
}

/// A's request goes down with the rank; B finds it carried out or not, and does `then` where it was, before A
/// comes again.
fn overtaken(
    seed: u64,
    asked: msgs::ClientRequest,
    happened: impl Fn(&mut World) -> bool,
    then: &[msgs::ClientRequest],
) -> Option<(World, msgs::ClientReply)> {
    let mut w = two_clients(seed);
    w.call(A, mkdir("d"));
    w.call(A, two(MdsOp::SYMLINK, "f", "x"));
    w.call(A, two(MdsOp::SYMLINK, "d/x", "x"));
    let tid = w.start(A, asked);
    w.lose_answer(A, tid);
    w.send(A, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_FLUSH_MDLOG, 0));
    w.restart(&[B]);
    if !happened(&mut w) {
        return None;
    }
    for request in then {
        assert_eq!(w.call(B, request.clone()).result, 0);
    }
    w.come_back(A);
    w.quiet();
    let reply = w.reply(A, tid);
    assert_eq!(reply.result, 0, "it was carried out");
    Some((w, reply))
}

fn is_there(w: &mut World, path: &str) -> bool {
    w.call(B, lookup(path)).result == 0
}

#[test]
fn a_request_that_comes_again_is_answered_with_what_others_have_made_of_it() {
    let mut seen = [0; 4];
    for seed in 300..330 {
        let again = [two(MdsOp::SYMLINK, "f", "other")];
        let unlink = request(MdsOp::UNLINK, "f");
        if let Some((mut w, reply)) = overtaken(seed, unlink, |w| !is_there(w, "f"), &again) {
            let now = ino(&w.call(B, lookup("f")));
            let told = reply.trace.target.map(|t| t.ino);
            assert_eq!(told, Some(now), "the name is taken again");
            seen[0] += 1;
        }
        let moved_on = [two(MdsOp::RENAME, "h", "g")];
        let rename = two(MdsOp::RENAME, "g", "f");
        if let Some((_, reply)) = overtaken(seed, rename, |w| is_there(w, "g"), &moved_on) {
            assert!(reply.trace.dentry.is_some() && reply.trace.target.is_none(), "nothing has the name");
            seen[1] += 1;
        }
        let replaced = [two(MdsOp::RENAME, "n", "m"), mkdir("m")];
        if let Some((mut w, reply)) = overtaken(seed, mkdir("m"), |w| is_there(w, "m"), &replaced) {
            assert_eq!(ino(&reply), ino(&w.call(B, lookup("n"))), "the directory that it made");
            assert!(reply.trace.dentry.is_none(), "its name leads to another");
            seen[2] += 1;
        }
        let gone = [request(MdsOp::RMDIR, "d")];
        let inner = request(MdsOp::UNLINK, "d/x");
        if let Some((_, reply)) = overtaken(seed, inner, |w| !is_there(w, "d/x"), &gone) {
            assert!(reply.trace.dentry.is_none(), "not even its directory is there");
            seen[3] += 1;
        }
    }
    assert!(seen.iter().all(|n| *n > 0), "{seen:?}");
}

#[test]
fn what_is_revoked_while_claims_are_looked_for_is_told_afterwards() {
    let mut w = two_clients(6);
    w.call(A, readdir("", b"", 10));
    assert_ne!(caps(&w, A, 1) & cap::FILE_SHARED, 0);
    w.restart(&[B]);
    w.call(B, lookup("m"));
    let gone = Held { cap_id: 1000, caps: cap::PIN, ..Held::default() };
    w.clients.get_mut(&A).expect("a").held.insert(0x100_0000_0999, gone);
    w.come_back(A);
    let made = w.start(B, mkdir("m"));
    assert!(waits(&w, B, made), "A may believe that it knows all names");
    w.quiet();
    assert_eq!(w.reply(B, made).result, 0);
    assert_eq!(caps(&w, A, 1) & cap::FILE_SHARED, 0);
}

#[test]
fn what_changed_without_a_client_is_known_after_another_restart() {
    let mut w = two_clients(7);
    assert_eq!(w.call(B, mkdir("f")).result, 0);
    let ino = ino(&w.call(A, lookup("f")));
    assert_ne!(w.clients[&A].held[&ino].caps & cap::AUTH_SHARED, 0);
    // Without A, which believes that it knows the mode.
    w.restart(&[B]);
    assert_eq!(w.call(B, setattr_mode("f", 0o700)).result, 0);
    w.restart(&[A, B]);
    assert_eq!(w.clients[&A].held[&ino].caps & cap::ANY_SHARED, 0, "its beliefs are of two lives ago");
    // Once it has confirmed that, it is trusted again.
    w.send(A, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_RENEWCAPS, 1));
    w.quiet();
    assert_eq!(w.call(A, lookup("f")).result, 0);
    w.restart(&[A, B]);
    assert_ne!(w.clients[&A].held[&ino].caps & cap::AUTH_SHARED, 0, "not for ever");
}

#[test]
fn the_inodes_that_a_client_claims_are_loaded_together() {
    let options = MdsOptions { cache_inodes: 2000, journal_bytes: 64 << 10, ..MdsOptions::default() };
    let mut w = World::new(3, options);
    w.connect(A);
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    for i in 0..1700 {
        assert_eq!(w.call(A, create(&format!("d/f{i:03}"), 1)).result, 0);
    }
    w.begin_replay();
    w.quiet();
    let (cached, before) = (w.rank.stats().inodes, w.io_count);
    assert!(cached < 300, "most are not replayed: {cached}");
    w.come_back(A);
    w.quiet();
    assert!(w.rank.stats().inodes > 700, "all are claimed");
    assert!(w.io_count - before < 100, "{} operations", w.io_count - before);
}

/// The journal has the opening of a file, and nothing of the directories above it.
#[test]
fn a_claim_on_what_replay_has_cached_waits_for_the_directories_above() {
    let mut w = World::new(5, MdsOptions { journal_bytes: 64 << 10, ..MdsOptions::default() });
    w.connect(A);
    for dir in ["d", "d/e", "others"] {
        assert_eq!(w.call(A, mkdir(dir)).result, 0);
    }
    let f = ino(&w.call(A, create("d/e/f", 2)));
    w.give_everything_back(A);
    for i in 0..700 {
        assert_eq!(w.call(A, create(&format!("others/{i}"), 1)).result, 0);
    }
    // It records who may write.
    assert_eq!(w.call(A, open("d/e/f", 2)).result, 0);
    w.clients.get_mut(&A).expect("a").held.retain(|ino, _| *ino == f);
    w.begin_replay();
    w.quiet();
    let replayed = w.rank.stats().inodes;
    w.come_back(A);
    w.quiet();
    assert_eq!(w.rank.stats().inodes - replayed, 2, "d and e");
}

/// After a restart, or when it has come from another rank, a directory's names are not in the cache: each
/// that is made is looked for first.
#[test]
fn a_directory_in_which_many_names_are_looked_for_is_loaded_whole() {
    let mut w = World::new(4, MdsOptions { journal_bytes: 64 << 10, ..MdsOptions::default() });
    w.connect(A);
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    for i in 0..700 {
        assert_eq!(w.call(A, create(&format!("d/f{i:03}"), 1)).result, 0);
    }
    w.give_everything_back(A);
    w.restart(&[A]);
    assert!(w.rank.stats().entries < 1700, "it is not all in the journal");
    let before = w.io_count;
    let enoent = wire::Errno::ENOENT.to_result_code();
    for i in 0..200 {
        assert_eq!(w.call(A, lookup(&format!("d/g{i:03}"))).result, enoent);
    }
    assert!(w.io_count - before < 20, "{} operations for 200 names", w.io_count - before);
    assert_eq!(w.call(A, lookup("d/f123")).result, 0);
}
