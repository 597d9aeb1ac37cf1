//! Random transactions and reads against a plain model, without crashes; many under way at once.

mod common;

use common::disk::SimDisk;
use common::model::Model;
use common::work::{SMALL, Scale, any_read, any_txn, state};
use common::*;
use stdx::Rng;
use store::{Config, ReadId, ReadReply, TxnOp};

/// Compares the answers that have come with what was true when they were asked for.
fn compare(bench: &mut Bench, asked: &mut Vec<(ReadId, ReadReply)>) {
    for (id, reply) in std::mem::take(&mut bench.replies) {
        let at = asked.iter().position(|a| a.0 == id).expect("asked for, answered once");
        let expected = asked.swap_remove(at).1;
        assert_eq!(reply.as_ref(), Ok(&expected), "{id}");
    }
}

/// Removes everything: then nothing may be left in use.
fn drain(bench: &mut Bench, model: &mut Model) {
    for key in std::mem::take(&mut model.objects).into_keys() {
        bench.commit(txn(vec![TxnOp::Remove(key)]));
    }
    bench.assert_nothing_leaks();
    let usage = bench.store.usage();
    assert_eq!((usage.allocated, usage.data, usage.omap, usage.objects), (0, 0, 0, 0));
}

fn one(seed: u64, steps: u64, scale: Scale, mib: u64) -> u64 {
    let mut rng = Rng::from_seed(seed);
    let config = Config { host_cache: seed.is_multiple_of(2), ..small() };
    let mut bench = Bench::open(SimDisk::new(mib << 20, *rng.pick(&[512, 4096]), seed), config.clone());
    let (mut model, mut asked) = (Model::default(), Vec::new());
    let (mut refused, mut ops) = (0, 0);
    for _ in 0..steps {
        match rng.below(10) {
            0..=3 => {
                let txn = any_txn(&mut rng, scale);
                if bench.store.fits(&txn).is_ok() {
                    model.apply(&txn);
                    ops += txn.ops.len();
                    bench.submit(txn);
                } else {
                    refused += 1;
                }
            }
            4..=5 => {
                let read = any_read(&mut rng, scale);
                let expected = model.read(&read);
                asked.push((bench.ask(read), expected));
            }
            _ => (0..rng.below(6)).for_each(|_| {
                bench.step();
            }),
        }
        assert_eq!(bench.failed, None);
        if rng.chance(1, 400) {
            bench.run();
            compare(&mut bench, &mut asked);
            assert!(asked.is_empty(), "all were answered");
            if rng.chance(1, 2) {
                bench.assert_nothing_leaks();
            }
            bench = bench.reopen(config.clone());
            assert_eq!(state(&mut bench), model);
        }
        compare(&mut bench, &mut asked);
    }
    bench.run();
    compare(&mut bench, &mut asked);
    assert_eq!(state(&mut bench), model);
    assert_eq!(bench.disk.host_reads > 0, config.host_cache);
    drain(&mut bench, &mut model);
    println!("seed {seed}: {ops} operations");
    refused
}

#[test]
fn equals_the_model_over_random_transactions() {
    for seed in first_seed()..first_seed() + seeds(5) {
        one(seed, 2500, SMALL, 16);
    }
}

#[test]
fn equals_the_model_with_many_objects_and_long_omaps() {
    let scale = Scale { objects: 400, size: 20_000, write: 9000, omap_keys: 500, value: 100 };
    for seed in first_seed()..first_seed() + seeds(1) {
        one(1000 + seed, 6000, scale, 32);
    }
}

#[test]
fn equals_the_model_on_a_device_that_is_too_small() {
    let scale = Scale { objects: 40, size: 800_000, write: 300_000, omap_keys: 100, value: 400 };
    let seeds = first_seed()..first_seed() + seeds(2);
    let refused: u64 = seeds.map(|seed| one(2000 + seed, 2500, scale, 10)).sum();
    assert!(refused > 50, "the device was full at times: {refused}");
}
