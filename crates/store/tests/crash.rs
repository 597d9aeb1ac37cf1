//! Random work cut at random points by power loss or death of the process, also while recovering; what is
//! found after must be the state after one of the transactions, not before the last acknowledged.

mod common;

use common::disk::SimDisk;
use common::model::Model;
use common::work::{SMALL, any_txn, state, try_state};
use common::*;
use stdx::Rng;
use store::{Config, StoreError, Transaction, TxnId, TxnOp};

struct Life {
    /// The state after each transaction of this incarnation, the first before any.
    states: Vec<Model>,
    acknowledged: usize,
}

/// Opens, perhaps cut again and again.
fn recover(mut disk: SimDisk, config: &Config, rng: &mut Rng) -> Bench {
    loop {
        let mut bench = Bench::start(disk, config.clone(), rng.u64());
        let mut left = if rng.chance(1, 3) { rng.below(40) } else { u64::MAX };
        while left > 0 && bench.step() {
            left -= 1;
        }
        assert_eq!(bench.failed, None, "recovers");
        if bench.opened && left > 0 {
            return bench;
        }
        disk = crash(bench, rng);
    }
}

fn crash(bench: Bench, rng: &mut Rng) -> SimDisk {
    let mut disk = bench.disk;
    if rng.chance(1, 4) {
        disk.kill(rng.u64())
    } else {
        disk.lose_power(rng.u64())
    }
    disk
}

/// Works until the cut.
fn live(bench: &mut Bench, life: &mut Life, rng: &mut Rng) {
    let mut left = rng.below(150);
    while left > 0 {
        if rng.chance(1, 3) {
            let txn: Transaction = any_txn(rng, SMALL);
            if bench.store.fits(&txn).is_ok() {
                let mut state = life.states.last().expect("one").clone();
                state.apply(&txn);
                life.states.push(state);
                let id = bench.submit(txn);
                assert_eq!(id, TxnId(life.states.len() as u64 - 1));
            }
        } else if bench.step() {
            left -= 1;
        }
        if rng.chance(1, 200) {
            let mut out = Vec::new();
            bench.store.request_checkpoint(&mut out);
            for o in out {
                let store::StoreOut::Disk(id, op) = o else { panic!("{o:?}") };
                bench.disk.submit(id, op);
            }
        }
    }
    assert_eq!(bench.failed, None);
    life.acknowledged = life.acknowledged.max(bench.committed.len());
}

fn one(seed: u64) {
    let mut rng = Rng::from_seed(seed);
    let mut config = Config { batched: seed.is_multiple_of(2), ..small() };
    if rng.chance(1, 2) {
        config.table_bytes = 30 << 10;
    }
    let mut disk = SimDisk::new(12 << 20, *rng.pick(&[512, 4096]), seed);
    let mut model = Model::default();
    for _ in 0..4 {
        let mut bench = recover(disk, &config, &mut rng);
        assert_eq!(state(&mut bench), model, "opened twice, the same twice");
        let mut life = Life { states: vec![model], acknowledged: 0 };
        live(&mut bench, &mut life, &mut rng);
        let mut bench = recover(crash(bench, &mut rng), &config, &mut rng);
        let found = state(&mut bench);
        let at = life.states.iter().rposition(|s| *s == found);
        let at = at.unwrap_or_else(|| {
            let least: Vec<_> = life.states.iter().map(|s| s.difference(&found)).enumerate().collect();
            panic!(
                "seed {seed}: no state that ever was, of {} to {}: {least:?}",
                life.acknowledged,
                life.states.len()
            )
        });
        assert!(at >= life.acknowledged, "seed {seed}: state {at}, acknowledged {}", life.acknowledged);
        model = life.states.swap_remove(at);
        disk = crash(bench, &mut rng);
    }
    let mut bench = recover(disk, &config, &mut rng);
    bench.assert_nothing_leaks();
    for key in std::mem::take(&mut model.objects).into_keys() {
        bench.commit(txn(vec![TxnOp::Remove(key)]));
    }
    bench.assert_nothing_leaks();
    let usage = bench.store.usage();
    assert_eq!((usage.allocated, usage.data, usage.omap, usage.objects), (0, 0, 0, 0), "seed {seed}: leaks");
}

#[test]
fn a_cut_leaves_the_state_after_some_transaction_not_before_the_last_acknowledged() {
    for seed in first_seed()..first_seed() + seeds(30) {
        println!("seed {seed}");
        one(seed);
    }
}

/// Lives on a disk that says that it has flushed and has not. What is found must be a state that was, as far
/// as it can be read, or be refused; it need not be the last acknowledged. Says whether it opened.
fn on_a_lying_disk(seed: u64) -> bool {
    let mut rng = Rng::from_seed(seed);
    let mut config = small();
    config.table_bytes = 40 << 10;
    let mut bench = Bench::open(SimDisk::new(12 << 20, *rng.pick(&[512, 4096]), seed), config.clone());
    let mut life = Life { states: vec![Model::default()], acknowledged: 0 };
    live(&mut bench, &mut life, &mut rng);
    bench.disk.lies = true;
    live(&mut bench, &mut life, &mut rng);
    live(&mut bench, &mut life, &mut rng);
    let disk = crash(bench, &mut rng);
    let mut bench = Bench::start(disk, config, rng.u64());
    bench.run();
    match &bench.failed {
        Some(StoreError::Corrupt(what)) | Some(StoreError::NotAStore(what)) => {
            assert!(!what.is_empty(), "says why");
            return false;
        }
        Some(other) => panic!("seed {seed}: {other}"),
        None => assert!(bench.opened),
    }
    let Ok((found, damaged)) = try_state(&mut bench) else { return false };
    let was = |state: &Model| {
        let same = found.objects.iter().all(|(key, object)| state.objects.get(key) == Some(object));
        let named = damaged.iter().all(|(key, _)| state.objects.contains_key(key));
        same && named && found.objects.len() + damaged.len() == state.objects.len()
    };
    assert!(life.states.iter().any(was), "seed {seed}: no state that ever was; {damaged:?}");
    true
}

#[test]
fn a_disk_that_lies_about_flushes_never_makes_it_give_wrong_data() {
    let opened = (first_seed()..first_seed() + seeds(60)).filter(|seed| on_a_lying_disk(*seed)).count();
    assert!(opened > 10, "{opened} opened");
}

#[test]
fn each_planted_fault_is_caught() {
    let faults = [
        "store_acknowledges_before_the_flush",
        "store_accepts_torn_records",
        "store_believes_large_writes",
        "store_points_to_pages_that_are_not_durable",
        "store_discards_what_may_be_needed",
    ];
    for fault in faults {
        let caught = (0..400)
            .any(|seed| std::panic::catch_unwind(|| stdx::mutants::with(fault, || one(seed))).is_err());
        assert!(caught, "{fault} is not caught");
    }
}
