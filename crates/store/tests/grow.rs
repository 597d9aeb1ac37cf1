//! A device that has become larger than its store, which takes the space when it is opened; and space that it
//! gives back.

mod common;

use common::disk::SimDisk;
use common::model::Model;
use common::work::{SMALL, any_txn, state};
use common::*;
use stdx::{Buf, Rng};
use store::{Transaction, TxnOp};

fn work(bench: &mut Bench, model: &mut Model, rng: &mut Rng, count: usize) {
    for _ in 0..count {
        let txn: Transaction = any_txn(rng, SMALL);
        if bench.store.fits(&txn).is_ok() {
            model.apply(&txn);
            bench.commit(txn);
        }
    }
}

/// Writes objects until the store is full; gives their number.
fn fill(bench: &mut Bench, from: u64) -> u64 {
    for i in from.. {
        let write = txn(vec![TxnOp::Write(key(&format!("fill-{i}")), 0, Buf::pattern(i, 100_000).into())]);
        if bench.store.fits(&write).is_err() {
            return i - from;
        }
        bench.commit(write);
    }
    unreachable!("a device has an end")
}

#[test]
fn a_store_takes_what_its_device_has_grown_by() {
    let mut bench = Bench::new(8);
    let before = fill(&mut bench, 0);
    let total = bench.store.usage().total;
    bench.run();
    let mut bench = Bench::open(bench.disk.grown((16 << 20) + 4096 * 5), small());
    assert_eq!(bench.store.usage().total, (16 << 20) + 4096 * 5, "was {total}");
    bench.assert_nothing_leaks();
    let more = fill(&mut bench, before);
    assert!(more > before, "{before} objects before, {more} more");
    for i in 0..before + more {
        let found = bench.data(&format!("fill-{i}"), 0, 100_000).expect("reads");
        assert_eq!(found[..], Buf::pattern(i, 100_000)[..]);
    }
    bench.assert_nothing_leaks();
    // The space is the store's now: without it there is none.
    let (content, mut smaller) = (bench.disk, SimDisk::new(8 << 20, 512, 1));
    smaller.fill(0, content.peek(0, 8 << 20));
    let mut bench = Bench::start(smaller, small(), 1);
    bench.run();
    let error = bench.failed.expect("refused").to_string();
    assert!(error.contains("the store has") && error.contains("the device 8388608"), "{error}");
}

#[test]
fn growing_may_be_cut_anywhere() {
    for seed in first_seed()..first_seed() + seeds(3) {
        for cut in 0.. {
            let mut rng = Rng::from_seed(seed * 1000 + cut);
            let mut bench = Bench::open(SimDisk::new(8 << 20, *rng.pick(&[512, 4096]), seed), small());
            let mut model = Model::default();
            work(&mut bench, &mut model, &mut rng, 30);
            if rng.chance(1, 2) {
                bench.clean();
            }
            let stop = |mut disk: SimDisk, rng: &mut Rng| {
                if rng.chance(1, 4) {
                    disk.kill(rng.u64())
                } else {
                    disk.lose_power(rng.u64())
                }
                disk
            };
            let disk = stop(bench.disk, &mut rng).grown(12 << 20);
            let mut bench = Bench::start(disk, small(), rng.u64());
            let done = (0..cut).all(|_| bench.step()) && bench.opened;
            assert_eq!(bench.failed, None, "seed {seed}, cut {cut}");
            // Perhaps larger again before the next start.
            let mut disk = stop(bench.disk, &mut rng);
            if rng.chance(1, 3) {
                disk = disk.grown(14 << 20);
            }
            let mut bench = Bench::open(disk, small());
            assert!(bench.store.usage().total >= 12 << 20);
            assert_eq!(state(&mut bench), model, "seed {seed}, cut {cut}");
            work(&mut bench, &mut model, &mut rng, 10);
            let mut bench = Bench::open(stop(bench.disk, &mut rng), small());
            assert_eq!(state(&mut bench), model, "seed {seed}, cut {cut}");
            bench.assert_nothing_leaks();
            if done {
                break;
            }
        }
    }
}

#[test]
fn space_that_stays_free_is_discarded_once_and_what_is_overwritten_soon_is_not() {
    let mut bench = Bench::new(32);
    let touch = |bench: &mut Bench, count: u64| {
        for i in 0..count {
            bench.commit(txn(vec![TxnOp::SetAttr(key("small"), b"n".to_vec(), i.to_le_bytes().to_vec())]));
            let mut out = Vec::new();
            bench.store.request_checkpoint(&mut out);
            bench.take(out);
            bench.run();
        }
    };
    // All that was free at the start, and nothing of it again.
    touch(&mut bench, 10);
    let at_start = bench.disk.discarded_bytes;
    assert!((24 << 20..32 << 20).contains(&at_start), "{at_start} bytes");
    touch(&mut bench, 10);
    assert_eq!(bench.disk.discarded_bytes, at_start);
    let write = |i: u64| txn(vec![TxnOp::Write(key(&i.to_string()), 0, Buf::pattern(i, 4 << 20).into())]);
    (0..3).for_each(|i| bench.commit(write(i)));
    touch(&mut bench, 10);
    assert_eq!(bench.disk.discarded_bytes, at_start, "what is in use is not");
    bench.commit(txn(vec![TxnOp::Remove(key("0")), TxnOp::Remove(key("2"))]));
    touch(&mut bench, 10);
    let given_back = bench.disk.discarded_bytes - at_start;
    assert!((7 << 20..=9 << 20).contains(&given_back), "{given_back} bytes of two objects of 4 MiB");
    assert_eq!(bench.data("1", 0, 4 << 20).expect("reads")[..], Buf::pattern(1, 4 << 20)[..]);
    bench.assert_nothing_leaks();
    // The same space, used at once for the next.
    let before = bench.disk.discarded_bytes;
    let mut config = small();
    config.discard_after = None;
    let mut bench = bench.reopen(config);
    touch(&mut bench, 10);
    assert_eq!(bench.disk.discarded_bytes, before, "off");
}

#[test]
fn a_disk_that_refuses_discards_is_a_disk() {
    let mut bench = Bench::new(16);
    bench.disk.refuses_discards = true;
    let mut rng = Rng::from_seed(5);
    let mut model = Model::default();
    work(&mut bench, &mut model, &mut rng, 200);
    assert_eq!(state(&mut bench), model);
    assert!(bench.disk.discarded_bytes == 0 && bench.disk.refused > 0);
    bench.assert_nothing_leaks();
}
