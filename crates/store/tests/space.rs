//! A device that is full, or scattered, or has no room at the worst moment.

mod common;

use common::disk::SimDisk;
use common::model::Model;
use common::work::{SMALL, any_txn, state};
use common::*;
use stdx::{Buf, Rng};
use store::{Refusal, StoreError, TxnOp};

/// Works until an allocation fails, the one after `allowed`; true if none did.
fn work_until_failure(allowed: u64, seed: u64) -> bool {
    let mut rng = Rng::from_seed(seed);
    let mut bench = Bench::open(SimDisk::new(12 << 20, 512, 3), small());
    bench.store.fail_allocation_after(allowed);
    let mut states = vec![Model::default()];
    for i in 0..30 {
        let txn = any_txn(&mut rng, SMALL);
        if bench.store.fits(&txn).is_err() {
            continue;
        }
        let mut next = states.last().expect("one").clone();
        next.apply(&txn);
        states.push(next);
        bench.submit(txn);
        if i % 10 == 9 {
            let mut out = Vec::new();
            bench.store.request_checkpoint(&mut out);
            bench.take(out);
        }
        bench.run();
        if bench.failed.is_some() {
            break;
        }
    }
    let failed = bench.failed.take();
    match &failed {
        None => assert_eq!(bench.committed.len() + 1, states.len(), "nothing was lost without an error"),
        Some(StoreError::Io(error)) => assert_eq!(error.errno, wire::Errno::ENOSPC, "{error}"),
        Some(other) => panic!("{other}"),
    }
    let acknowledged = bench.committed.len();
    // The store has stopped; the next one finds a commit boundary, room, and nothing lost.
    let mut bench = bench.reopen(small());
    let found = state(&mut bench);
    let at = states.iter().rposition(|s| *s == found).expect("a state that was");
    assert!(at >= acknowledged, "state {at}, {acknowledged} were acknowledged");
    bench.assert_nothing_leaks();
    for key in found.objects.into_keys() {
        bench.commit(txn(vec![TxnOp::Remove(key)]));
    }
    bench.assert_nothing_leaks();
    assert_eq!(bench.store.usage().allocated, 0, "deletes work");
    failed.is_none()
}

#[test]
fn a_failure_of_any_allocation_is_an_error_that_leaves_nothing_behind() {
    for seed in 0..seeds(2) {
        let mut allowed = 0;
        while !work_until_failure(allowed, seed) {
            allowed += 1;
        }
        assert!(allowed > 50, "seed {seed}: {allowed} allocations were tried");
    }
}

#[test]
fn space_that_random_deletes_have_scattered_can_be_used_to_the_end() {
    let mut bench = Bench::new(16);
    let mut rng = Rng::from_seed(9);
    let write =
        |i: u64, len: usize| txn(vec![TxnOp::Write(key(&format!("{i}")), 0, Buf::pattern(i, len).into())]);
    let mut live = Vec::new();
    for i in 0.. {
        if bench.store.fits(&write(i, 4096)).is_err() {
            break;
        }
        bench.commit(write(i, 4096));
        live.push(i);
    }
    let full = live.len();
    // Every other block becomes free: there is no whole zone, not even two free blocks side by side.
    rng.shuffle(&mut live);
    for i in live.split_off(full / 2) {
        bench.commit(txn(vec![TxnOp::Remove(key(&format!("{i}")))]));
    }
    bench.assert_nothing_leaks();
    for i in 1_000_000.. {
        // Each has a long omap entry, so that the index grows too.
        let mut both = write(i, 4096);
        both.ops.push(TxnOp::OmapSet(key(&format!("{i}")), vec![(b"k".to_vec(), vec![7; 900])]));
        match bench.store.fits(&both) {
            Ok(()) => bench.commit(both),
            Err(refusal) => {
                assert_eq!(refusal, Refusal::NoSpace);
                break;
            }
        }
        live.push(i);
    }
    assert!(live.len() > full / 2 + full / 4, "{} of {full} could be stored", live.len());
    for i in &live {
        assert_eq!(bench.data(&i.to_string(), 0, 4096).expect("reads")[..], Buf::pattern(*i, 4096)[..]);
    }
    bench.assert_nothing_leaks();
}

#[test]
fn what_only_removes_fits_a_store_that_refuses_everything_else() {
    let mut bench = Bench::new(8);
    let mut objects = Vec::new();
    // First data, then metadata, until not even a name fits.
    for len in [20_000, 4096, 300] {
        for i in 0.. {
            let name = key(&format!("{len}-{i}"));
            let write = txn(vec![TxnOp::Write(name.clone(), 0, Buf::pattern(i, len).into())]);
            if bench.store.fits(&write).is_err() {
                break;
            }
            bench.commit(write);
            objects.push(name);
        }
    }
    for i in 0.. {
        let name = key(&format!("name-{i}"));
        let touch = txn(vec![TxnOp::OmapSet(name.clone(), vec![(b"k".to_vec(), vec![1; 200])])]);
        if bench.store.fits(&touch).is_err() {
            break;
        }
        bench.commit(touch);
        objects.push(name);
    }
    // As the owner of a log does it: a removal with a note of it.
    let noted = |i: usize, object| {
        let note = TxnOp::OmapSet(key("log"), vec![(format!("{i:08}").into_bytes(), vec![2; 100])]);
        txn(vec![TxnOp::Remove(object), note])
    };
    let (some, all) = (objects.split_off(objects.len() - 50), objects);
    for (i, object) in some.into_iter().enumerate() {
        bench.commit(noted(i, object));
    }
    for object in all {
        bench.commit(txn(vec![TxnOp::Remove(object)]));
    }
    bench.assert_nothing_leaks();
    assert_eq!(bench.store.usage().objects, 1, "the log");
}

#[test]
fn what_will_be_free_is_waited_for_and_not_refused() {
    let mut bench = Bench::new(8);
    let write = |name: &str| txn(vec![TxnOp::Write(key(name), 0, Buf::pattern(1, 200_000).into())]);
    let mut count = 0;
    while bench.store.fits(&write(&count.to_string())).is_ok() {
        bench.commit(write(&count.to_string()));
        count += 1;
    }
    // No checkpoint has freed anything when the writes come.
    for i in 0..3 {
        bench.submit(txn(vec![TxnOp::Remove(key(&i.to_string()))]));
    }
    bench.run();
    for i in 0..3 {
        bench.commit(write(&format!("again-{i}")));
    }
    bench.assert_nothing_leaks();
}

#[test]
fn clones_that_are_not_durable_yet_do_not_fill_a_store_by_promises() {
    let mut bench = Bench::new(64);
    let entries: Vec<_> = (0..50u8).map(|i| (vec![i; 20], vec![i; 100])).collect();
    bench.commit(txn(vec![
        TxnOp::Write(key("o"), 0, Buf::pattern(1, 64 << 10).into()),
        TxnOp::OmapSet(key("o"), entries.clone()),
    ]));
    // As an object is written that has a snapshot each time, while the disk stands still.
    let mut expected = bench.committed.len();
    for i in 0..64 {
        let change = txn(vec![
            TxnOp::Clone(key("o"), key(&format!("o at {i}"))),
            TxnOp::Write(key("o"), 4096, Buf::pattern(i, 4096).into()),
            TxnOp::OmapSet(key("o"), entries[..2].to_vec()),
        ]);
        assert_eq!(bench.store.fits(&change), Ok(()), "clone {i}, {:?}", bench.store.usage());
        bench.submit(change);
        expected += 1;
    }
    bench.run();
    assert_eq!(bench.committed.len(), expected);
    bench.assert_nothing_leaks();
}
