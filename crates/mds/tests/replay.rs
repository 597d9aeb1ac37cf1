//! Replaying a journal: its length does not bound the memory that it takes.

mod world;

use mds::MdsOptions;
use world::World;
use world::client::{create, getattr, mkdir};

const A: u64 = 10;
const CACHE: usize = 200;
const FILES: usize = 3000;

#[test]
fn a_journal_much_larger_than_the_cache_is_replayed_within_the_cache() {
    for seed in 0..4 {
        let options = MdsOptions { cache_inodes: 50_000, journal_bytes: 8 << 20, ..MdsOptions::default() };
        let mut w = World::new(seed, options);
        w.connect(A);
        assert_eq!(w.call(A, mkdir("d")).result, 0);
        for i in 0..FILES {
            assert_eq!(w.call(A, create(&format!("d/f{i}"), 1)).result, 0);
        }
        assert!(w.max_entries >= FILES, "nothing left the cache: {}", w.max_entries);
        // The successor has a far smaller cache than its predecessor.
        w.cfg.options.cache_inodes = CACHE;
        w.clients.get_mut(&A).expect("a").held.retain(|ino, _| *ino == 1);
        w.max_entries = 0;
        w.restart(&[A]);
        // The journal's objects have 512 KiB: some 500 events.
        assert!(w.max_entries < CACHE + 1500, "seed {seed}: {} entries at once", w.max_entries);
        for i in (0..FILES).step_by(97) {
            assert_eq!(w.call(A, getattr(&format!("d/f{i}"), 0)).result, 0, "seed {seed}: file {i}");
        }
    }
}

#[test]
fn a_crash_while_a_replay_writes_back_repeats_it() {
    for seed in 0..20 {
        let options = MdsOptions { cache_inodes: 50_000, journal_bytes: 4 << 20, ..MdsOptions::default() };
        let mut w = World::new(seed, options);
        w.connect(A);
        assert_eq!(w.call(A, mkdir("d")).result, 0);
        for i in 0..600 {
            assert_eq!(w.call(A, create(&format!("d/f{i}"), 1)).result, 0);
        }
        w.cfg.options.cache_inodes = 100;
        w.clients.get_mut(&A).expect("a").held.retain(|ino, _| *ino == 1);
        for crash in 1..4 {
            w.begin_replay();
            for _ in 0..crash * (5 + seed) {
                w.io_step();
            }
        }
        w.restart(&[A]);
        for i in 0..600 {
            assert_eq!(w.call(A, getattr(&format!("d/f{i}"), 0)).result, 0, "seed {seed}: file {i}");
        }
    }
}

#[test]
#[should_panic(expected = "a later version of nacre has written it (features 0x4)")]
fn a_journal_with_features_of_a_later_version_is_refused() {
    let mut w = World::new(1, MdsOptions::default());
    let header = w.objects.iter_mut().find(|(id, _)| id.name == fsfmt::names::journal_object(0, 0));
    let (_, object) = header.expect("the journal's header");
    let mut stored: fsfmt::journal::JournalHeader =
        wire::Reader::new(&object.data).get().expect("a header of ours");
    stored.needs = 4;
    object.data = wire::Writer::encode(&stored);
    w.restart(&[]);
}
