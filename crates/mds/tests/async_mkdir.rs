//! Directories that a client makes and removes without waiting for answers.

mod world;

use mds::MdsOptions;
use msgs::{ClientRequest, MdsOp, cap};
use std::collections::BTreeSet;
use wire::Errno;
use world::client::{asynchronous, create, getattr, lookup, mkdir, readdir, request};
use world::pair::{A, B, caps, ino};
use world::{Client, World};

/// Two clients. A makes directories asynchronously, and has `d` for itself, and numbers.
fn alone(seed: u64) -> World {
    let mut w = World::new(seed, MdsOptions::default());
    w.connect_client(Client { makes_dirs: true, ..Client::new(A) }, "allow *");
    w.connect(B);
    w.call(A, getattr("", 0));
    w.want_alone(A, 1);
    let d = ino(&w.call(A, mkdir("d")));
    assert_eq!(caps(&w, A, d) & cap::DIR_ASYNC, cap::DIR_ASYNC);
    w
}

/// Starts an asynchronous mkdir; returns its tid and the number of the directory.
fn start_mkdir(w: &mut World, path: &str) -> (u64, u64) {
    let (number, request) = w.clients.get_mut(&A).expect("a").mkdir_async(path);
    (w.start(A, request), number)
}

fn names(w: &mut World, dir: &str) -> BTreeSet<(Vec<u8>, u64)> {
    let listed = w.call(B, readdir(dir, b"", 100));
    let listing: msgs::ReaddirReply = wire::Reader::new(&listed.extra).get().expect("a listing");
    listing.entries.into_iter().map(|e| (e.name, e.inode.ino)).collect()
}

#[test]
fn a_directory_is_made_with_what_its_client_has_assumed_and_removed_again() {
    let mut w = alone(1);
    let (tid, number) = start_mkdir(&mut w, "d/e");
    let early = w.reply(A, tid);
    let made = early.trace.target.expect("the directory");
    assert!(!early.safe && early.result == 0);
    assert_eq!((made.ino, made.cap.cap_id), (number, 1));
    let taken = cap::ASSUMED_OF_DIR | cap::DIR_ASYNC;
    assert_eq!(made.cap.caps & taken, taken, "and it is alone with it from its beginning");
    let (_, kept) = start_mkdir(&mut w, "d/f");
    let gone = w.start(A, asynchronous(request(MdsOp::RMDIR, "d/e")));
    let early = w.reply(A, gone);
    assert_eq!((early.safe, early.result), (false, 0));
    assert_eq!(names(&mut w, "d"), BTreeSet::from([(b"f".to_vec(), kept)]));
    assert!(w.clients[&A].unsafe_requests.is_empty());
}

#[test]
fn a_directory_that_is_not_empty_stays() {
    let mut w = alone(2);
    w.has_hostile = true;
    let (_, number) = start_mkdir(&mut w, "d/e");
    w.call(A, create("d/e/f", 2));
    let gone = w.start(A, asynchronous(request(MdsOp::RMDIR, "d/e")));
    assert_eq!(w.reply(A, gone).result, Errno::ENOTEMPTY.to_result_code());
    assert_eq!(ino(&w.call(B, lookup("d/e"))), number);
}

#[test]
fn numbers_come_with_the_answers_to_who_makes_directories_so() {
    let mut w = alone(3);
    let mut used = BTreeSet::new();
    for i in 0..700 {
        let (tid, number) = start_mkdir(&mut w, &format!("d/{i}"));
        assert_eq!(ino(&w.reply(A, tid)), number);
        assert!(used.insert(number));
        assert!(w.clients[&A].delegated.len() >= 200, "after {i}");
        if i % 100 == 0 {
            w.quiet();
        }
    }
}

#[test]
fn a_directory_whose_answer_is_lost_is_made_and_removed_after_a_restart() {
    let mut w = alone(4);
    let (_, answered) = start_mkdir(&mut w, "d/1");
    let (tid, _) = start_mkdir(&mut w, "d/2");
    assert_eq!(w.reply(A, tid).result, 0);
    w.start(A, asynchronous(request(MdsOp::RMDIR, "d/2")));
    // One that the server never gets.
    let c = w.clients.get_mut(&A).expect("a");
    let (late, request) = c.mkdir_async("d/3");
    let (tid, _) = c.number(request, w.now);
    let held = world::client::Held { cap_id: 1, caps: cap::ASSUMED_OF_DIR, ..Default::default() };
    c.held.insert(late, held);
    w.in_flight.clear();
    w.begin_replay();
    w.quiet();
    w.come_back(B);
    w.come_back(A);
    w.quiet();
    let made = w.reply(A, tid);
    assert_eq!((made.result, ino(&made)), (0, late));
    let a = &w.clients[&A];
    assert!(a.unsafe_requests.is_empty() && a.lost.is_empty());
    assert_eq!(names(&mut w, "d"), BTreeSet::from([(b"1".to_vec(), answered), (b"3".to_vec(), late)]));
}

#[test]
fn linux_is_told_no_numbers_with_a_directory() {
    let mut w = World::new(5, MdsOptions::default());
    w.connect_client(Client { is_linux: true, ..Client::new(A) }, "allow *");
    let (tid, request) = w.clients.get_mut(&A).expect("a").number(mkdir("d"), w.now);
    for num_retry in 0..2 {
        // The second time only its answer is made again.
        w.clients.get_mut(&A).expect("a").unsafe_requests.insert(tid, request.clone());
        w.send(A, tid, ClientRequest { num_retry, ..request.clone() });
        w.quiet();
        let reply = w.reply(A, tid);
        assert_eq!((reply.result, reply.extra), (0, Vec::new()));
    }
}
