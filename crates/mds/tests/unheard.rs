//! A rank has what clients have not heard of: it died just after it took a subtree, or they were absent when
//! it did.

mod world;

use mds::{IoRequest, MdsOptions, ObjOp};
use msgs::{ClientRequest, FileLock, FileLockArgs, MdsOp, cap, cap_op};
use wire::Errno;
use world::World;
use world::client::{Held, create, mkdir, open, request};
use world::pair::{B, caps, ino};
use world::ranks::{A, Ranks};

const READ_WRITE: u32 = 2;
const FCNTL: u8 = 1;
const EXCLUSIVE: u8 = 2;
const FREE: u8 = 4;
const OWNER: u64 = 1 << 63 | 7;

fn lock(path: &str, kind: u8, wait: u8) -> ClientRequest {
    let args = FileLockArgs { rule: FCNTL, kind, owner: OWNER, pid: 7, start: 0, length: 10, wait };
    ClientRequest { args: args.into(), ..request(MdsOp::SETFILELOCK, path) }
}

/// A rank gets the directory with an open file of A's, and dies when the record says so and nothing else
/// does. B is a client of it too. Both claim what they hold there.
fn dies_before_clients_hear(seed: u64, prepare: impl Fn(&mut Ranks, u64)) -> Ranks {
    dies_before_hearing(seed, prepare, |w| w.restart(&[A, B]))
}

/// The same with another way in which clients come back.
fn dies_before_hearing(seed: u64, prepare: impl Fn(&mut Ranks, u64), restart: impl Fn(&mut World)) -> Ranks {
    let has_record = |r: &Ranks| {
        let partition = r.objects().iter().find(|(object, _)| object.name == "mds_partition");
        partition.is_some_and(|(_, object)| !object.omap.is_empty())
    };
    for attempt in 0..50 {
        let mut r = Ranks::new(seed + attempt);
        r.ok(0, mkdir("d"));
        let file = ino(&r.ok(0, create("d/f", READ_WRITE)));
        r.with(0, |w| w.connect(B));
        r.export(0, "/d", 1);
        r.settle();
        prepare(&mut r, file);
        r.export(1, "/d", 0);
        let is_removal = |op: &ObjOp| matches!(op, ObjOp::OmapRemove(_));
        let ends_record = |io: &IoRequest| io.object.name == "mds_partition" && io.ops.iter().any(is_removal);
        until(&mut r, |r| r.worlds[0].in_flight.iter().any(ends_record));
        r.worlds.iter_mut().for_each(|w| w.to_ranks.clear());
        r.with(0, &restart);
        r.tell_ranks();
        if !has_record(&r) {
            return r;
        }
        // The write was lost with the rank.
    }
    panic!("half of them are carried out")
}

fn until(r: &mut Ranks, is_so: impl Fn(&Ranks) -> bool) {
    for _ in 0..20_000 {
        if is_so(r) {
            return;
        }
        r.step();
    }
    panic!("it does not become so");
}

fn is_answered(r: &Ranks, rank: usize, tid: u64) -> bool {
    r.worlds[rank].clients[&B].replies.contains_key(&tid)
}

/// A has the lock, as it knows of the former rank alone.
fn has_lock(r: &mut Ranks, file: u64) {
    r.ok(1, lock("d/f", EXCLUSIVE, 0));
    let held = FileLock { start: 0, length: 10, client: 0, owner: OWNER, pid: 7, kind: EXCLUSIVE };
    let a = r.worlds[1].clients.get_mut(&A).expect("a");
    a.locks.insert(file, [vec![held], Vec::new()]);
}

#[test]
fn nobody_gets_a_lock_that_a_client_claims_at_the_former_rank() {
    let r = dies_before_clients_hear(1, has_lock);
    a_keeps_its_lock(r);
}

/// A has never heard of its session with the new rank, and opens one there.
#[test]
fn nobody_gets_a_lock_of_a_client_that_opens_a_session_anew() {
    let r = dies_before_hearing(300, has_lock, |w| {
        w.restart(&[B]);
        w.clients.get_mut(&A).expect("a").open = false;
        w.ask_session(A, "client.10", "allow *");
    });
    a_keeps_its_lock(r);
}

fn a_keeps_its_lock(mut r: Ranks) {
    let tries = r.with(0, |w| w.start(B, lock("d/f", EXCLUSIVE, 0)));
    let waits = r.with(0, |w| w.start(B, lock("d/f", EXCLUSIVE, 1)));
    until(&mut r, |r| is_answered(r, 0, tries));
    let again = Errno::EAGAIN.to_result_code();
    assert_eq!(r.with(0, |w| w.reply(B, tries)).result, again, "A has it");
    assert!(!is_answered(&r, 0, waits));
    r.ok(0, lock("d/f", FREE, 0));
    assert_eq!(r.with(0, |w| w.reply(B, waits)).result, 0);
}

#[test]
fn nobody_reads_what_a_client_may_have_written_that_the_former_rank_knows_of() {
    let mut r = dies_before_clients_hear(100, |_, _| {});
    let file = *r.held(1).keys().max().expect("the file");
    assert!(r.held(1)[&file] & cap::FILE_BUFFER != 0);
    r.with(0, |w| assert_eq!(w.call(B, open("d/f", 0)).result, 0));
    let reads = |r: &Ranks| caps(&r.worlds[0], B, file) & (cap::FILE_RD | cap::FILE_SHARED) != 0;
    assert!(!reads(&r), "A may have written");
    until(&mut r, reads);
    let held = r.held(0)[&file];
    assert_eq!(held & (cap::FILE_WR | cap::FILE_BUFFER), cap::FILE_WR, "A has it open still, beside B");
}

#[test]
fn what_nobody_hands_over_is_nobodys() {
    let mut r = dies_before_clients_hear(200, |_, _| {});
    // A has closed the file meanwhile, and the other rank dies too.
    r.worlds[1].clients.get_mut(&A).expect("a").held.clear();
    r.crash(1);
    let locks = r.with(0, |w| w.start(B, lock("d/f", EXCLUSIVE, 1)));
    until(&mut r, |r| is_answered(r, 0, locks));
    assert_eq!(r.with(0, |w| w.reply(B, locks)).result, 0);
}

/// A client is absent at a rank after a restart, perhaps because it has never heard of its session there.
/// What it holds elsewhere comes there, and is revoked before it opens a session.
#[test]
fn an_absent_client_hears_later_of_what_has_come_and_of_its_revocation() {
    let mut r = Ranks::new(300);
    r.ok(0, mkdir("d"));
    let file = ino(&r.ok(0, create("d/f", READ_WRITE)));
    r.with(1, |w| w.restart(&[]));
    r.tell_ranks();
    r.with(1, |w| w.connect(B));
    r.export(0, "/d", 1);
    until(&mut r, |r| r.authorities("/d") == [1]);
    r.with(1, |w| assert_eq!(w.call(B, open("d/f", 0)).result, 0));
    let reads = |r: &Ranks| caps(&r.worlds[1], B, file) & cap::FILE_RD != 0;
    (0..100).for_each(|_| r.step());
    assert!(!reads(&r), "A may have written");
    r.with(1, |w| w.ask_session(A, "client.10", "allow *"));
    until(&mut r, reads);
    let import = &r.worlds[1].clients[&A].moved[&file];
    assert_eq!((import.op, import.former.mds), (cap_op::IMPORT, 0));
    let held = r.held(1)[&file];
    assert_eq!(held & (cap::FILE_WR | cap::FILE_BUFFER), cap::FILE_WR, "A has it open still, beside B");
}

/// A file goes to another rank and comes back while its client is away, which claims what it had before.
#[test]
fn who_has_not_heard_that_a_file_went_and_came_back_keeps_its_capability() {
    let mut r = Ranks::new(400);
    r.ok(0, mkdir("d"));
    let file = ino(&r.ok(0, create("d/f", READ_WRITE)));
    r.export(0, "/d", 1);
    r.settle();
    let former = r.worlds[0].clients[&A].moved[&file].cap_id;
    let held = r.worlds[1].clients.get_mut(&A).expect("a").held.remove(&file).expect("it has come");
    let a = r.worlds[0].clients.get_mut(&A).expect("a");
    a.held.insert(file, Held { cap_id: former, ..held });
    r.export(1, "/d", 0);
    let comes = |(_, body): &(_, peer::Body)| matches!(body, peer::Body::MdsHandOver(_));
    until(&mut r, |r| r.worlds[1].to_ranks.iter().any(comes));
    r.crash(0);
    let claimed = r.worlds[0].clients[&A].held[&file].cap_id;
    r.settle();
    assert_eq!(r.authorities("/d"), [0], "it has come back");
    let held = &r.worlds[0].clients[&A].held[&file];
    assert_eq!(held.cap_id, claimed);
    assert_ne!(held.caps & cap::FILE_WR, 0);
    r.with(0, |w| {
        let a = w.clients.get_mut(&A).expect("a");
        assert!(a.write_to(file, 10), "it may write");
        let (tid, flush) = a.update(file);
        w.send(A, tid, flush);
        w.quiet();
        assert_eq!(w.clients[&A].flush_acks, [tid]);
    });
}

/// Of a directory that another rank has split, what is stored leads to fragments that are gone. What a client
/// claims in it is not gone: that rank stores what it has.
#[test]
fn a_claim_in_a_directory_that_another_rank_has_split_is_passed_on() {
    let mut r = Ranks::with_options(900, 2, &MdsOptions { split_size: 16, ..MdsOptions::default() });
    r.ok(0, mkdir("d"));
    r.export(0, "/d", 1);
    r.settle();
    let file = ino(&r.ok(1, create("d/f", READ_WRITE)));
    let held = r.worlds[1].clients[&A].held.clone();
    r.export(1, "/d", 0);
    r.settle();
    for n in 0..40 {
        r.ok(0, create(&format!("d/{n}"), READ_WRITE));
    }
    r.settle();
    r.worlds[1].clients.get_mut(&A).expect("a").held = held;
    r.with(1, |w| w.restart(&[A]));
    r.tell_ranks();
    r.settle();
    let told = &r.worlds[1].clients[&A].moved[&file];
    let msgs::CapBody::Peer(next) = told.body else { panic!("an export names the other side") };
    assert_eq!((told.op, next.mds), (cap_op::EXPORT, 0));
}
