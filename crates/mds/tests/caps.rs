//! Capabilities of two clients: each sees what the other did, whatever it had cached before.

mod world;

use mds::{ClientId, MdsOptions, Stage};
use msgs::{CapBody, CapFile, ClientRequest, MdsOp, cap};
use std::time::Duration;
use world::World;
use world::client::{
    create, getattr, lookup, mkdir, open, readdir, request, setattr_mode, setattr_size, two,
};
use world::pair::{A, B, caps, ino, two_clients};

#[test]
fn a_lone_writer_gets_everything() {
    let mut w = two_clients(1);
    let f = ino(&w.call(A, create("f", 2)));
    let all =
        cap::FILE_EXCL | cap::FILE_WR | cap::FILE_BUFFER | cap::FILE_CACHE | cap::AUTH_EXCL | cap::XATTR_EXCL;
    assert_eq!(caps(&w, A, f) & all, all, "{}", msgs::Caps(caps(&w, A, f)));
    assert!(w.clients[&A].held[&f].max_size >= 4 << 20, "it may write at once");
}

#[test]
fn a_stat_sees_the_size_that_another_client_has_not_flushed() {
    let mut w = two_clients(2);
    let f = ino(&w.call(A, create("f", 2)));
    assert!(w.clients.get_mut(&A).expect("a").write_to(f, 12_345));
    let seen = w.call(B, getattr("f", cap::FILE_SHARED)).trace.target.expect("a target");
    assert_eq!(seen.size, 12_345);
    assert_eq!(w.clients[&A].flush_acks.len(), 1, "the flush was acknowledged");
    let again = caps(&w, A, f);
    assert_ne!(again & cap::FILE_WR, 0, "the writer gets its caps back: {}", msgs::Caps(again));
}

/// Linux and ceph-fuse since 17 do not ask for a longer file if they have it alone.
#[test]
fn who_has_a_file_alone_lets_it_grow_beyond_what_it_may_write() {
    let mut w = two_clients(2);
    let f = ino(&w.call(A, create("f", 2)));
    for (size, seen) in [(1 << 30, 1 << 30), (u64::MAX, w.cfg.max_file_size)] {
        let held = w.clients.get_mut(&A).expect("a").held.get_mut(&f).expect("held");
        assert!(held.caps & cap::FILE_EXCL != 0 && held.max_size < 1 << 30);
        (held.size, held.dirty) = (size, held.dirty | cap::FILE_EXCL);
        let (tid, flush) = w.clients.get_mut(&A).expect("a").update(f);
        w.send(A, tid, flush);
        w.quiet();
        let stat = w.call(A, getattr("f", 0)).trace.target.expect("a target");
        assert_eq!(stat.size, seen);
    }
    assert_eq!(
        w.call(B, getattr("f", cap::FILE_SHARED)).trace.target.expect("a target").size,
        w.cfg.max_file_size
    );
}

#[test]
fn a_second_opener_ends_caching_and_both_may_write() {
    let mut w = two_clients(3);
    let f = ino(&w.call(A, create("f", 2)));
    w.clients.get_mut(&A).expect("a").write_to(f, 100);
    w.call(B, open("f", 2));
    for c in [A, B] {
        let has = caps(&w, c, f);
        assert_eq!(
            has & (cap::FILE_CACHE | cap::FILE_BUFFER | cap::FILE_EXCL),
            0,
            "{c}: {}",
            msgs::Caps(has)
        );
        assert_eq!(
            has & (cap::FILE_RD | cap::FILE_WR),
            cap::FILE_RD | cap::FILE_WR,
            "{c}: {}",
            msgs::Caps(has)
        );
        assert!(w.clients[&c].held[&f].max_size > 0, "{c} may write");
    }
    // Each appends; each sees the other's.
    w.clients.get_mut(&A).expect("a").write_to(f, 200);
    assert_eq!(w.call(B, getattr("f", cap::FILE_SHARED)).trace.target.expect("target").size, 200);
    w.clients.get_mut(&B).expect("b").write_to(f, 300);
    assert_eq!(w.call(A, getattr("f", cap::FILE_SHARED)).trace.target.expect("target").size, 300);
}

#[test]
fn who_opens_a_file_that_seems_empty_is_told_what_its_writers_have_not_flushed() {
    let mut w = two_clients(2);
    let f = ino(&w.call(A, create("f", 2)));
    w.call(B, open("f", 1));
    assert_ne!(caps(&w, A, f) & caps(&w, B, f) & cap::FILE_WR, 0, "both may write");
    assert!(w.clients.get_mut(&A).expect("a").write_to(f, 500));
    assert_eq!(w.call(B, open("f", 0)).trace.target.expect("a target").size, 500);
    assert_ne!(caps(&w, A, f) & caps(&w, B, f) & cap::FILE_WR, 0, "they may go on");
}

#[test]
fn a_write_advances_the_time_although_the_writers_clock_is_behind() {
    let mut w = two_clients(3);
    let f = ino(&w.call(A, create("f", 2)));
    w.call(B, open("f", 2));
    let mtime = |w: &mut World, client| {
        w.call(client, getattr("f", cap::FILE_SHARED)).trace.target.expect("target").mtime
    };
    w.clients.get_mut(&A).expect("a").held.get_mut(&f).expect("held").mtime.sec = 2_000_000_000;
    w.clients.get_mut(&A).expect("a").write_to(f, 100);
    let before = mtime(&mut w, B);
    let held = w.clients.get_mut(&B).expect("b").held.get_mut(&f).expect("held");
    held.mtime.sec -= 1000;
    w.clients.get_mut(&B).expect("b").write_to(f, 100);
    assert!(mtime(&mut w, A) > before, "A sees by it that its pages are old");
}

#[test]
fn readers_share_a_cache_until_somebody_writes() {
    let mut w = two_clients(4);
    let f = ino(&w.call(A, create("f", 2)));
    // A closes.
    w.clients.get_mut(&A).expect("a").held.get_mut(&f).expect("held").wanted = 0;
    let (tid, m) = w.clients.get_mut(&A).expect("a").update(f);
    w.send(A, tid, m);
    w.call(B, open("f", 0));
    assert_ne!(caps(&w, B, f) & cap::FILE_CACHE, 0, "{}", msgs::Caps(caps(&w, B, f)));
    w.call(A, open("f", 0));
    assert_ne!(caps(&w, A, f) & cap::FILE_CACHE, 0);
    assert_ne!(caps(&w, B, f) & cap::FILE_CACHE, 0);
    w.call(A, open("f", 1));
    for c in [A, B] {
        assert_eq!(caps(&w, c, f) & cap::FILE_CACHE, 0, "{c}: {}", msgs::Caps(caps(&w, c, f)));
    }
}

#[test]
fn a_truncation_takes_everything_back_first_and_removes_objects() {
    let mut w = two_clients(5);
    let f = ino(&w.call(A, create("f", 2)));
    w.clients.get_mut(&A).expect("a").write_to(f, 4 << 20);
    for n in 0..3 {
        put_object(&mut w, f, n, 0, 4 << 20);
    }
    let reply = w.call(B, setattr_size("f", 1000));
    assert_eq!(reply.result, 0);
    let stat = w.call(B, getattr("f", cap::ANY_SHARED)).trace.target.expect("target");
    assert_eq!((stat.size, stat.truncate_size), (1000, 1000));
    assert_eq!(stat.truncate_seq, 2);
    let left: Vec<(String, usize)> =
        w.objects.iter().filter(|(o, _)| o.pool == 2).map(|(o, d)| (o.name.clone(), d.data.len())).collect();
    assert_eq!(left[0], (format!("{f:x}.00000000"), 1000));
    let seen = &w.clients[&A].held[&f];
    assert!(seen.caps & cap::FILE_WR != 0, "the writer may go on: {}", msgs::Caps(seen.caps));
}

/// Puts an object of a file into the data pool.
fn put_object(w: &mut World, f: u64, number: u64, truncate_seq: u32, len: usize) -> mds::ObjectId {
    let object = mds::ObjectId { pool: 2, ns: String::new(), name: format!("{f:x}.{number:08x}") };
    w.objects
        .insert(object.clone(), world::Object { data: vec![7; len], truncate_seq, ..Default::default() });
    object
}

/// What may wait for a second or two is done.
fn seconds_pass(w: &mut World) {
    for _ in 0..4 {
        w.quiet();
        w.advance(Duration::from_secs(1));
    }
    w.quiet();
}

/// Carries out everything in flight but operations on data objects.
fn without_data(w: &mut World) -> Vec<mds::IoRequest> {
    let mut data = Vec::new();
    loop {
        let (of_data, others) = w.in_flight.drain(..).partition(|io| io.object.pool == 2);
        data.extend::<Vec<_>>(of_data);
        w.in_flight = others;
        if !w.io_step() {
            return data;
        }
    }
}

#[test]
fn a_truncated_file_may_be_written_before_its_objects_are_cut() {
    let mut w = two_clients(5);
    let f = ino(&w.call(A, create("f", 2)));
    w.clients.get_mut(&A).expect("a").write_to(f, 9000);
    let object = put_object(&mut w, f, 0, 1, 9000);
    let tid = w.start(A, setattr_size("f", 10));
    let none = without_data(&mut w);
    assert_eq!(w.reply(A, tid).result, 0);
    assert!(none.is_empty() && caps(&w, A, f) & cap::FILE_BUFFER != 0, "it is answered before");
    // The client writes: the object learns of the truncation with that.
    put_object(&mut w, f, 0, 2, 5000);
    w.clients.get_mut(&A).expect("a").write_to(f, 5000);
    // A second truncation keeps more than the first one: an object that has seen neither would keep too much.
    let tid = w.start(A, setattr_size("f", 4000));
    let cuts = without_data(&mut w);
    assert!(!cuts.is_empty() && !w.clients[&A].replies.contains_key(&tid), "it waits for the first one");
    w.in_flight.extend(cuts);
    w.quiet();
    assert_eq!(w.reply(A, tid).result, 0);
    seconds_pass(&mut w);
    assert_eq!((w.objects[&object].data.len(), w.objects[&object].truncate_seq), (4000, 3));
}

#[test]
fn a_file_may_be_truncated_to_nothing_again_and_again() {
    let mut w = two_clients(5);
    let f = ino(&w.call(A, create("f", 2)));
    let object = put_object(&mut w, f, 0, 1, 9000);
    let mut cuts = Vec::new();
    for seq in 2..5 {
        w.clients.get_mut(&A).expect("a").write_to(f, 9000);
        let tid = w.start(A, setattr_size("f", 0));
        cuts.extend(without_data(&mut w));
        assert_eq!(w.reply(A, tid).result, 0, "truncation {seq} does not wait for objects");
        if seq == 2 {
            (0..3).for_each(|_| w.advance(Duration::from_secs(1)));
            cuts.extend(without_data(&mut w));
            assert!(!cuts.is_empty(), "the first one is being carried out");
        }
    }
    w.in_flight.extend(cuts);
    seconds_pass(&mut w);
    assert_eq!((w.objects[&object].data.len(), w.objects[&object].truncate_seq), (0, 4));
    w.crash(&[A, B]);
    assert_eq!(w.call(A, getattr("f", cap::ANY_SHARED)).trace.target.expect("target").truncate_seq, 4);
}

#[test]
fn an_empty_object_that_a_truncation_has_left_goes_with_the_file() {
    let mut w = two_clients(5);
    let f = ino(&w.call(A, create("f", 2)));
    w.clients.get_mut(&A).expect("a").write_to(f, 9000);
    let object = put_object(&mut w, f, 0, 1, 9000);
    assert_eq!(w.call(A, setattr_size("f", 0)).result, 0);
    seconds_pass(&mut w);
    assert!(w.objects[&object].data.is_empty());
    let client = w.clients.get_mut(&A).expect("a");
    let held = client.held.get_mut(&f).expect("held");
    (held.wanted, held.caps) = (0, held.caps & (cap::PIN | cap::ANY_SHARED));
    let (tid, told) = client.update(f);
    w.send(A, tid, told);
    w.quiet();
    assert_eq!(w.call(B, request(MdsOp::UNLINK, "f")).result, 0);
    w.release(A, f);
    assert!(!w.objects.contains_key(&object));
}

#[test]
fn nobody_writes_to_a_file_while_many_objects_are_removed() {
    let mut w = two_clients(5);
    let f = ino(&w.call(A, create("f", 2)));
    w.call(A, setattr_size("f", 100 << 22));
    let tid = w.start(A, setattr_size("f", 0));
    let removals = without_data(&mut w);
    assert_eq!(w.reply(A, tid).result, 0);
    assert!(!removals.is_empty() && caps(&w, A, f) & (cap::FILE_WR | cap::FILE_RD) == 0);
    w.in_flight.extend(removals);
    w.quiet();
    assert!(caps(&w, A, f) & cap::FILE_WR != 0);
}

#[test]
fn a_truncation_replaces_a_modification_time_ahead_of_the_clock() {
    let mut w = two_clients(5);
    w.call(A, create("f", 2));
    let ahead = wire::Timespec { sec: 4_000_000_000, nsec: 0 };
    let mask = msgs::setattr_mask::MTIME;
    let args = msgs::SetattrArgs { mtime: ahead, mask, ..msgs::SetattrArgs::default() };
    w.call(B, ClientRequest { args: args.into(), ..request(MdsOp::SETATTR, "f") });
    let stat = |w: &mut World| w.call(B, getattr("f", cap::ANY_SHARED)).trace.target.expect("target");
    let before = stat(&mut w);
    assert_eq!(before.mtime, ahead);
    // The size stays: it counts as a modification all the same.
    assert_eq!(w.call(B, setattr_size("f", before.size)).result, 0);
    let after = stat(&mut w);
    assert!(after.mtime < ahead);
    assert!(after.time_warp_seq > before.time_warp_seq, "clients must not keep the later one");
}

#[test]
fn a_name_made_by_one_client_ends_what_the_other_believes_of_the_directory() {
    let mut w = two_clients(6);
    let d = ino(&w.call(A, mkdir("d")));
    w.call(B, readdir("d", b"", 100));
    assert_ne!(caps(&w, B, d) & cap::FILE_SHARED, 0, "it may keep the empty listing");
    w.call(A, create("d/new", 1));
    assert_eq!(caps(&w, B, d) & cap::FILE_SHARED, 0, "{}", msgs::Caps(caps(&w, B, d)));
    assert_ne!(caps(&w, A, d) & cap::FILE_SHARED, 0, "the one that made it may go on");
    for (op, path, other) in [(MdsOp::UNLINK, "d/new", ""), (MdsOp::RENAME, "d/y", "d/x")] {
        if op == MdsOp::RENAME {
            w.call(A, create("d/x", 1));
        }
        w.call(B, lookup("d/new"));
        assert_ne!(caps(&w, B, d) & cap::FILE_SHARED, 0);
        let r = if other.is_empty() { request(op, path) } else { two(op, path, other) };
        assert_eq!(w.call(A, r).result, 0);
        assert_eq!(caps(&w, B, d) & cap::FILE_SHARED, 0, "after {op}");
    }
}

#[test]
fn a_change_of_mode_is_seen_by_a_client_that_had_it_cached() {
    let mut w = two_clients(7);
    let f = ino(&w.call(A, create("f", 2)));
    w.call(B, lookup("f"));
    w.call(B, setattr_mode("f", 0o600));
    assert!(w.clients[&A].revokes_seen > 0, "it had to forget the old mode");
    assert_eq!(w.clients[&A].held[&f].mode & 0o777, 0o600, "the new grant carries the new one");
    let stat = w.call(A, getattr("f", cap::AUTH_SHARED)).trace.target.expect("target");
    assert_eq!(stat.mode & 0o777, 0o600);
}

/// A has written ten bytes and says so.
fn tell_of_a_write(w: &mut World, f: u64) {
    let client = w.clients.get_mut(&A).expect("a");
    assert!(client.write_to(f, 10));
    let (tid, told) = client.update(f);
    w.send(A, tid, told);
}

#[test]
fn an_open_unlinked_file_lives_until_its_last_cap_is_gone() {
    let mut w = two_clients(8);
    let f = ino(&w.call(A, create("f", 2)));
    let object = put_object(&mut w, f, 0, 0, 10);
    tell_of_a_write(&mut w, f);
    assert_eq!(w.call(B, request(MdsOp::UNLINK, "f")).result, 0);
    w.quiet();
    assert!(w.objects.contains_key(&object), "A has it open");
    w.release(A, f);
    assert!(!w.objects.contains_key(&object), "its data is purged");
    let mut gone = request(MdsOp::GETATTR, "");
    gone.path.ino = f;
    assert_eq!(w.call(A, gone).result, wire::Errno::ESTALE.to_result_code());
}

#[test]
fn objects_beyond_what_every_writer_has_told_are_not_looked_for() {
    for (size, releases) in [(0, false), (777, false), (0, true), (777, true)] {
        let mut w = two_clients(15);
        let f = ino(&w.call(A, create("f", 2)));
        let client = w.clients.get_mut(&A).expect("a");
        if size > 0 {
            assert!(client.write_to(f, size));
        }
        let held = client.held.get_mut(&f).expect("held");
        let kept = if releases { held.caps } else { held.caps & (cap::PIN | cap::ANY_SHARED) };
        (held.wanted, held.caps) = (0, kept);
        let (tid, told) = client.update(f);
        w.send(A, tid, told);
        w.quiet();
        let object = put_object(&mut w, f, 0, 0, 0);
        assert_eq!(w.call(B, request(MdsOp::UNLINK, "f")).result, 0);
        w.release(A, f);
        assert_eq!(w.objects.contains_key(&object), size == 0, "{size} bytes were written");
    }
}

#[test]
fn removed_files_are_purged_one_by_one_while_clients_ask() {
    let mut w = two_clients(16);
    for n in 0..40 {
        let f = ino(&w.call(A, create(&format!("f{n}"), 2)));
        put_object(&mut w, f, 0, 0, 10);
        tell_of_a_write(&mut w, f);
        w.release(A, f);
    }
    w.quiet();
    let data_pool = w.cfg.data_pool;
    let purges = |w: &World| w.in_flight.iter().filter(|io| io.object.pool == data_pool).count();
    let mut most = 0;
    for n in 0..40 {
        let tid = w.start(B, request(MdsOp::UNLINK, &format!("f{n}")));
        while !w.clients[&B].replies.contains_key(&tid) {
            assert!(w.io_step(), "it is answered in the end");
            most = most.max(purges(&w));
        }
        w.advance(Duration::from_millis(10));
        w.io_step();
        most = most.max(purges(&w));
    }
    assert_eq!(most, 1);
    w.advance(Duration::from_millis(50));
    while purges(&w) == 1 {
        assert!(w.io_step(), "more follow");
    }
    assert!(purges(&w) > 4, "nobody asks for anything any more: {}", purges(&w));
    w.quiet();
    assert!(w.objects.keys().all(|object| object.pool != data_pool), "all are purged");
}

#[test]
fn a_file_deleted_before_a_crash_is_purged_after_it() {
    let mut w = two_clients(9);
    let f = ino(&w.call(A, create("f", 2)));
    let object = put_object(&mut w, f, 0, 0, 0);
    let tid = w.start(B, request(MdsOp::UNLINK, "f"));
    while !w.clients[&B].replies.contains_key(&tid) {
        assert!(w.io_step(), "it is answered in the end");
    }
    w.clients.get_mut(&A).expect("a").held.clear();
    w.crash(&[A, B]);
    w.quiet();
    assert!(!w.objects.contains_key(&object));
}

#[test]
fn a_file_of_which_objects_may_have_been_purged_before_a_crash_is_not_opened_after_it() {
    let mut w = two_clients(9);
    let f = ino(&w.call(A, create("f", 2)));
    let object = put_object(&mut w, f, 0, 0, 10);
    tell_of_a_write(&mut w, f);
    w.release(A, f);
    w.start(B, request(MdsOp::UNLINK, "f"));
    while w.objects.contains_key(&object) {
        if !w.io_step() {
            w.advance(Duration::from_millis(10));
        }
    }
    let mut by_number = open("", 2);
    by_number.path.ino = f;
    let now = w.now;
    let (tid, _) = w.clients.get_mut(&A).expect("a").number(by_number, now);
    w.restart(&[A, B]);
    assert_eq!(w.reply(A, tid).result, wire::Errno::ESTALE.to_result_code());
}

#[test]
fn a_flush_of_who_can_have_changed_nothing_is_reported() {
    let mut w = two_clients(9);
    let f = ino(&w.call(A, create("f", 2)));
    let client = w.clients.get_mut(&A).expect("a");
    assert!(client.write_to(f, 10));
    let (tid, told) = client.update(f);
    w.send(A, tid, told.clone());
    w.release(A, f);
    w.quiet();
    w.crash(&[A, B]);
    // A has not heard that the first arrived.
    w.send(A, tid, told.clone());
    w.quiet();
    w.has_hostile = true;
    let msgs::Body::ClientCaps(mut larger) = told else { panic!("a message about a capability") };
    larger.body = CapBody::File(CapFile { size: 11, ..larger.file() });
    w.send(A, tid + 1, *larger);
    w.quiet();
    let reports = w.log.iter().filter(|line| line.starts_with("flush_ignored"));
    assert_eq!(reports.count(), 1, "{:?}", w.log);
    assert_eq!(w.call(B, getattr("f", cap::FILE_SHARED)).trace.target.expect("target").size, 10);
}

#[test]
fn a_flush_that_is_repeated_after_a_restart_does_not_undo_a_truncation() {
    let mut w = two_clients(9);
    let f = ino(&w.call(A, create("f", 2)));
    let client = w.clients.get_mut(&A).expect("a");
    assert!(client.write_to(f, 1000));
    let (tid, told) = client.update(f);
    w.send(A, tid, told.clone());
    assert_eq!(w.call(A, setattr_size("f", 10)).result, 0);
    w.crash(&[A, B]);
    assert_ne!(caps(&w, A, f) & cap::FILE_WR, 0, "A may write");
    let msgs::Body::ClientCaps(mut again) = told else { panic!("a message about a capability") };
    again.body = CapBody::File(CapFile { truncate_seq: 1, ..again.file() });
    w.send(A, tid + 50, *again);
    w.quiet();
    assert_eq!(w.call(B, getattr("f", cap::FILE_SHARED)).trace.target.expect("target").size, 10);
}

#[test]
fn clients_come_back_after_a_restart_with_what_they_held() {
    let mut w = two_clients(10);
    let f = ino(&w.call(A, create("f", 2)));
    w.clients.get_mut(&A).expect("a").write_to(f, 777);
    w.crash(&[A, B]);
    assert_ne!(caps(&w, A, f) & cap::FILE_BUFFER, 0);
    assert_eq!(w.call(B, getattr("f", cap::FILE_SHARED)).trace.target.expect("target").size, 777);
}

/// It opened the file with the capability that it had, and does not ask again.
#[test]
fn who_asked_for_the_right_to_write_just_before_a_crash_gets_it_after() {
    let mut w = two_clients(10);
    let f = ino(&w.call(A, create("f", 2)));
    w.release(A, f);
    w.call(B, lookup("f"));
    w.clients.get_mut(&B).expect("b").held.get_mut(&f).expect("held").wanted = cap::FILE_RD | cap::FILE_WR;
    // What asks for it is lost.
    w.crash(&[A, B]);
    assert_ne!(caps(&w, B, f) & cap::FILE_WR, 0, "{}", msgs::Caps(caps(&w, B, f)));
    assert!(w.clients[&B].held[&f].max_size > 0);
}

#[test]
fn a_client_that_does_not_come_back_is_evicted() {
    let mut w = two_clients(11);
    let f = ino(&w.call(A, create("f", 2)));
    w.crash(&[B]);
    assert!(w.log.iter().any(|l| l.starts_with("client_evicted")), "{:?}", w.log);
    assert_eq!(w.call(B, open("f", 2)).result, 0);
    assert_ne!(caps(&w, B, f) & cap::FILE_BUFFER, 0, "nobody else has it");
    let mut open = msgs::ClientSession::of(msgs::session_op::REQUEST_RENEWCAPS, 9);
    open.features = Vec::new();
    w.send(A, 0, open);
    assert_eq!(w.rank.stage(), Stage::Active);
}

#[test]
fn a_silent_client_is_evicted_only_when_the_osds_refuse_it() {
    let mut w = two_clients(12);
    let f = ino(&w.call(A, create("f", 2)));
    w.clients.get_mut(&A).expect("a").stubborn = true;
    let tid = w.start(B, getattr("f", cap::FILE_SHARED));
    w.quiet();
    assert!(!w.clients[&B].replies.contains_key(&tid), "A does not give back its caps");
    for _ in 0..70 {
        w.send(B, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_RENEWCAPS, 1));
        w.advance(Duration::from_secs(1));
        w.quiet();
    }
    assert_eq!(w.evict_asked, vec![A]);
    assert!(!w.clients[&B].replies.contains_key(&tid), "it could still write");
    w.rank.evicted(w.now, ClientId(A));
    w.quiet();
    assert!(w.clients[&B].replies.contains_key(&tid));
    assert_eq!(caps(&w, B, f) & cap::PIN, cap::PIN);
}

#[test]
fn a_flush_is_applied_once_and_acknowledged_again_after_a_crash() {
    let mut w = two_clients(13);
    let f = ino(&w.call(A, create("f", 2)));
    w.clients.get_mut(&A).expect("a").write_to(f, 500);
    let (tid, m) = w.clients.get_mut(&A).expect("a").update(f);
    w.send(A, tid, m);
    assert!(w.clients[&A].flush_acks.is_empty(), "not before it is durable");
    w.crash(&[A, B]);
    let again: Vec<_> = w.clients[&A].flushing.clone().into_iter().collect();
    for (tid, mut m) in again {
        m.seq = 0;
        m.issue_seq = 0;
        w.send(A, tid, m);
    }
    w.quiet();
    assert_eq!(w.clients[&A].flush_acks, vec![tid]);
    assert_eq!(w.call(B, getattr("f", cap::FILE_SHARED)).trace.target.expect("target").size, 500);
}

#[test]
fn a_flush_that_gave_up_its_caps_survives_a_crash() {
    let mut w = two_clients(18);
    let f = ino(&w.call(A, create("f", 2)));
    let a = w.clients.get_mut(&A).expect("a");
    a.write_to(f, 900);
    a.held.get_mut(&f).expect("held").caps = cap::PIN | cap::ANY_SHARED;
    let (tid, m) = a.update(f);
    w.send(A, tid, m);
    w.clients.get_mut(&A).expect("a").held.clear();
    w.crash(&[A, B]);
    for (tid, m) in w.clients[&A].flushing.clone() {
        w.send(A, tid, m);
    }
    w.quiet();
    assert_eq!(w.clients[&A].flush_acks, vec![tid]);
    assert_eq!(w.call(B, getattr("f", cap::FILE_SHARED)).trace.target.expect("target").size, 900);
}

#[test]
fn no_answer_shows_what_another_did_before_it_is_durable() {
    let mut w = two_clients(14);
    let tid = w.start(A, mkdir("d"));
    assert!(!w.clients[&A].replies[&tid].safe, "its author is told that it is not");
    let read = w.start(B, lookup("d"));
    assert!(!w.clients[&B].replies.contains_key(&read), "another is not told yet");
    w.quiet();
    assert!(w.clients[&B].replies.contains_key(&read));
}

#[test]
fn hard_links_survive_the_loss_of_the_first_name() {
    let mut w = two_clients(15);
    let f = ino(&w.call(A, create("f", 2)));
    assert_eq!(w.call(A, two(MdsOp::LINK, "g", "f")).result, 0);
    assert_eq!(w.call(A, request(MdsOp::UNLINK, "f")).result, 0);
    let stat = w.call(B, lookup("g")).trace.target.expect("target");
    assert_eq!((stat.ino, stat.nlink), (f, 1));
    for c in [A, B] {
        w.clients.get_mut(&c).expect("it").held.clear();
    }
    w.crash(&[A, B]);
    assert_eq!(ino(&w.call(B, open("g", 0))), f);
}

#[test]
fn a_lock_waits_for_the_other_client_and_is_freed_with_it() {
    let mut w = two_clients(16);
    w.call(A, create("f", 2));
    w.call(B, open("f", 2));
    let lock = |kind: u8, wait: u8, owner: u64| {
        let args =
            msgs::FileLockArgs { rule: 1, kind, owner: owner | 1 << 63, pid: 1, start: 0, length: 0, wait };
        msgs::ClientRequest { args: args.into(), ..request(MdsOp::SETFILELOCK, "f") }
    };
    assert_eq!(w.call(A, lock(2, 0, 1)).result, 0);
    assert_eq!(w.call(B, lock(1, 0, 2)).result, wire::Errno::EAGAIN.to_result_code());
    let tid = w.start(B, lock(1, 1, 2));
    w.quiet();
    assert!(!w.clients[&B].replies.contains_key(&tid));
    // A waiter that is interrupted is told so.
    let (second, mut stop) = (w.start(B, lock(1, 1, 3)), lock(4, 0, 3));
    let mut args: msgs::FileLockArgs = stop.args.get();
    args.rule = 3;
    stop.args = args.into();
    assert_eq!(w.call(B, stop).result, 0);
    assert_eq!(w.reply(B, second).result, wire::Errno::EINTR.to_result_code());
    w.send(A, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_CLOSE, 0));
    w.quiet();
    assert_eq!(w.reply(B, tid).result, 0);
    assert!(!w.clients[&A].open);
}

#[test]
fn clients_are_asked_to_give_back_caps_that_fill_the_cache() {
    let mut w = World::new(17, MdsOptions { cache_inodes: 100, ..MdsOptions::default() });
    w.connect(A);
    for i in 0..150 {
        w.call(A, create(&format!("f{i}"), 1));
    }
    w.advance(Duration::from_secs(2));
    let asked = w.clients[&A].recalled.expect("it is asked");
    assert!((16..100).contains(&asked), "{asked}");
}

#[test]
fn listings_give_capabilities_in_a_full_cache_of_which_clients_hold_little() {
    let mut w = World::new(17, MdsOptions { cache_inodes: 100, ..MdsOptions::default() });
    w.connect(A);
    for i in 0..200 {
        w.call(A, create(&format!("f{i:03}"), 1));
    }
    w.send(A, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_CLOSE, 0));
    w.quiet();
    w.advance(Duration::from_secs(1));
    w.quiet();
    w.connect(B);
    let mut after = Vec::new();
    for page in 0..10 {
        let reply = w.call(B, readdir("", &after, 20));
        let listing: msgs::ReaddirReply = wire::Reader::new(&reply.extra).get().expect("a listing");
        after.clone_from(&listing.entries.last().expect("a page has entries").name);
        let with_caps = listing.entries.iter().filter(|e| e.inode.cap.caps & cap::ANY_SHARED != 0).count();
        let held = w.clients[&B].held.len();
        assert!(held <= 76, "page {page}: {held} are held");
        assert!(with_caps == listing.entries.len() || held > 70, "page {page}: {with_caps}");
    }
    let asked = w.clients[&B].recalled.expect("it is asked for some");
    assert!(asked <= 50, "{asked}");
}

#[test]
fn a_release_that_an_answer_has_overtaken_gives_back_what_came_before() {
    let mut w = two_clients(19);
    let f = ino(&w.call(A, create("f", 2)));
    w.call(B, getattr("", cap::FILE_SHARED));
    let first = w.clients[&A].held[&f].clone();
    w.clients.get_mut(&A).expect("a").stubborn = true;
    let tid = w.start(B, getattr("f", cap::FILE_SHARED));
    w.quiet();
    assert!(!w.clients[&B].replies.contains_key(&tid), "A has write bits");
    // A gives the cap back, but has asked for something before: the answer brings it again, without what was
    // revoked.
    w.call(A, lookup("f"));
    let item = msgs::CapReleaseItem { ino: f, cap_id: first.cap_id, migrate_seq: 0, seq: first.issue_seq };
    w.send(A, 0, msgs::ClientCapRelease { caps: vec![item], ..Default::default() });
    w.quiet();
    assert!(w.clients[&B].replies.contains_key(&tid), "nobody else will confirm the revocation");
}

#[test]
fn who_removes_a_name_does_not_keep_the_old_link_count() {
    let mut w = two_clients(20);
    let f = ino(&w.call(A, create("f", 2)));
    w.call(A, two(MdsOp::LINK, "g", "f"));
    assert_ne!(caps(&w, A, f) & cap::LINK_SHARED, 0);
    w.call(A, request(MdsOp::UNLINK, "g"));
    assert_eq!(caps(&w, A, f) & cap::LINK_SHARED, 0, "{}", msgs::Caps(caps(&w, A, f)));
}

#[test]
fn who_holds_a_removed_directory_is_told_that_it_has_no_name() {
    let mut w = two_clients(21);
    let d = ino(&w.call(A, mkdir("d")));
    w.call(B, lookup("d"));
    assert_eq!(w.call(B, request(MdsOp::RMDIR, "d")).result, 0);
    w.quiet();
    for client in [A, B] {
        assert_ne!(caps(&w, client, d) & cap::LINK_SHARED, 0, "the message that grants it tells the count");
    }
}

#[test]
fn an_open_unlinked_file_outlives_a_restart() {
    let mut w = two_clients(21);
    let f = ino(&w.call(A, create("f", 2)));
    let object = put_object(&mut w, f, 0, 0, 10);
    tell_of_a_write(&mut w, f);
    w.call(B, request(MdsOp::UNLINK, "f"));
    w.crash(&[A, B]);
    assert!(w.objects.contains_key(&object), "it is open: A has come back and says so");
    w.release(A, f);
    assert!(!w.objects.contains_key(&object));
}

#[test]
fn who_claims_a_cap_on_what_is_gone_is_told_so() {
    let mut w = two_clients(22);
    const GONE: u64 = 0x100_0000_7777;
    let held = world::client::Held { cap_id: 77, caps: cap::PIN, ..Default::default() };
    w.clients.get_mut(&A).expect("a").held.insert(GONE, held);
    w.crash(&[A, B]);
    assert!(!w.clients[&A].held.contains_key(&GONE));
}

#[test]
fn of_a_symbolic_link_nothing_is_wanted_however_it_is_opened() {
    let mut w = two_clients(9);
    let link = ino(&w.call(A, two(MdsOp::SYMLINK, "l", "f")));
    for reply in [w.call(B, create("l", 2)), w.call(B, open("l", 2))] {
        let stat = reply.trace.target.expect("what has the name");
        assert_eq!((stat.ino, stat.cap.wanted), (link, cap::PIN));
    }
}

#[test]
fn in_a_full_cluster_nothing_new_is_made_and_everything_can_be_removed() {
    let mut w = two_clients(11);
    w.call(A, create("f", 2));
    w.call(A, mkdir("d"));
    w.rank.set_full(true);
    for refused in [create("g", 2), mkdir("e"), two(MdsOp::SYMLINK, "s", "f"), two(MdsOp::LINK, "l", "f")] {
        let op = refused.op;
        assert_eq!(w.call(B, refused).result, wire::Errno::ENOSPC.to_result_code(), "{op:?}");
    }
    let open_or_create = w.call(B, create("f", 0));
    assert_eq!(open_or_create.result, 0, "what is there is opened");
    for (op, path) in [(MdsOp::UNLINK, "f"), (MdsOp::RMDIR, "d")] {
        assert_eq!(w.call(A, request(op, path)).result, 0, "{op:?}");
    }
    w.rank.set_full(false);
    assert_eq!(w.call(B, create("g", 2)).result, 0);
}
