//! A round of write-backs waits for a moment in which every event is durable, and changes wait for it:
//! nothing else may put that moment off.

mod world;

use msgs::MdsOp;
use std::collections::BTreeMap;
use std::time::Duration;
use world::client::{create, mkdir, request};
use world::{ROOMY, World};

const A: u64 = 10;
const B: u64 = 11;
const C: u64 = 12;

/// Object operations until request `tid` of C is answered.
fn steps_until_answered(w: &mut World, tid: u64, mut between: impl FnMut(&mut World)) -> usize {
    let before = w.io_count;
    while !w.clients[&C].replies.contains_key(&tid) {
        assert!(w.io_step() && w.io_count < before + 1000, "it is answered at some time");
        between(w);
    }
    w.io_count - before
}

#[test]
fn files_that_wait_to_be_purged_do_not_keep_the_journal_from_draining() {
    const FILES: usize = 300;
    let mut w = World::new(1, ROOMY);
    [A, C].into_iter().for_each(|client| w.connect(client));
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    for n in 0..FILES {
        let file = w.call(A, create(&format!("d/{n}"), 2)).trace.target.expect("a file").ino;
        let c = w.clients.get_mut(&A).expect("a client");
        assert!(c.write_to(file, 10));
        let (tid, update) = c.update(file);
        w.send(A, tid, update);
        w.quiet();
        w.release(A, file);
    }
    let unlinks: Vec<u64> =
        (0..FILES).map(|n| w.start(A, request(MdsOp::UNLINK, &format!("d/{n}")))).collect();
    while !unlinks.iter().all(|tid| w.clients[&A].replies.contains_key(tid)) {
        assert!(w.io_step());
    }
    // Nobody asks for anything for a while, so that many are purged at once.
    w.advance(Duration::from_millis(60));
    let data_pool = w.cfg.data_pool;
    let purges = |w: &World| w.in_flight.iter().filter(|io| io.object.pool == data_pool).count();
    while purges(&w) <= 20 {
        assert!(w.io_step(), "many files are purged at once");
    }
    w.rank.flush_journal();
    w.effects();
    let tid = w.start(C, mkdir("e"));
    // All clients wait now.
    w.advance(Duration::from_millis(60));
    let steps = steps_until_answered(&mut w, tid, |_| ());
    assert!(steps < 150, "{steps} object operations before a directory is made");
}

#[test]
fn clients_that_flush_in_turn_do_not_keep_the_journal_from_draining() {
    let mut w = World::new(2, ROOMY);
    let mut files = BTreeMap::new();
    for (client, name) in [(A, "a"), (B, "b"), (C, "c")] {
        w.connect(client);
        let reply = w.call(client, create(name, 0o202));
        files.insert(client, reply.trace.target.expect("a file").ino);
    }
    let mut flushes = 0;
    let mut flush = |w: &mut World, client: u64| {
        let c = w.clients.get_mut(&client).expect("a client");
        if c.flushing.is_empty() {
            assert!(c.write_to(files[&client], 10));
            let (tid, update) = c.update(files[&client]);
            flushes += 1;
            w.send(client, tid, update);
        }
    };
    // The flush of one is being written, that of the other comes meanwhile, and so on by turns.
    flush(&mut w, A);
    w.rank.flush_journal();
    w.effects();
    let tid = w.start(C, mkdir("e"));
    flush(&mut w, B);
    let mut flush = |w: &mut World| [A, B].into_iter().for_each(|client| flush(w, client));
    let steps = steps_until_answered(&mut w, tid, &mut flush);
    assert!(steps < 50, "{steps} object operations before a directory is made");
    // Nothing of what waited is lost, and none is taken twice.
    w.quiet();
    assert!([A, B].iter().all(|client| w.clients[client].flushing.is_empty()));
    let acks: usize = [A, B].iter().map(|client| w.clients[client].flush_acks.len()).sum();
    assert_eq!(acks, flushes);
}
