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

/// A rank whose journal was trimmed and has several objects.
fn with_long_journal() -> World {
    let options = MdsOptions { journal_bytes: 512 << 10, ..MdsOptions::default() };
    let mut w = World::new(1, options);
    w.connect(A);
    for i in 0..1000 {
        assert_eq!(w.call(A, create(&format!("f{i}"), 1)).result, 0);
    }
    w
}

/// Loses all copies of an object.
fn lose(w: &mut World, name: &str) {
    let before = w.objects.len();
    w.objects.retain(|id, _| id.name != name);
    assert_eq!(w.objects.len(), before - 1, "there was {name}");
}

fn journal_objects(w: &World) -> Vec<u64> {
    let of = |n: &u64| w.objects.keys().any(|id| id.name == fsfmt::names::journal_object(0, *n));
    (1..1000).filter(of).collect()
}

#[test]
fn a_journal_of_several_objects_is_whole() {
    let mut w = with_long_journal();
    let objects = journal_objects(&w);
    assert!(objects.len() > 4 && objects[0] > 1, "{objects:?}");
    w.restart(&[A]);
    assert_eq!(w.call(A, getattr("f999", 0)).result, 0);
}

#[test]
#[should_panic(expected = "is missing, although object")]
fn a_lost_object_of_the_journal_is_not_its_end() {
    let mut w = with_long_journal();
    let objects = journal_objects(&w);
    lose(&mut w, &fsfmt::names::journal_object(0, objects[objects.len() - 2]));
    w.restart(&[A]);
}

#[test]
#[should_panic(expected = "is missing, although object")]
fn nor_is_the_first_one_or_several() {
    let mut w = with_long_journal();
    for segment in &journal_objects(&w)[..3] {
        lose(&mut w, &fsfmt::names::journal_object(0, *segment));
    }
    w.restart(&[A]);
}

#[test]
#[should_panic(expected = "without it inode numbers of existing files would be given out again")]
fn without_the_table_of_inode_numbers_none_are_given_out() {
    let mut w = with_long_journal();
    lose(&mut w, &fsfmt::names::ino_table(0));
    w.restart(&[A]);
}

/// Makes the stored object one that needs a later version.
fn make_newer(w: &mut World, name: &str, place: impl FnOnce(&mut world::Object) -> &mut Vec<u8>) {
    let (_, object) = w.objects.iter_mut().find(|(id, _)| id.name == name).expect("it is stored");
    place(object)[..2].copy_from_slice(&[9, 9]);
}

#[test]
#[should_panic(expected = "this one knows 1: a later version of nacre has written it")]
fn a_table_of_inode_numbers_of_a_later_version_is_refused() {
    let mut w = with_long_journal();
    make_newer(&mut w, &fsfmt::names::ino_table(0), |object| &mut object.data);
    w.restart(&[A]);
}

#[test]
#[should_panic(expected = "this one knows 1: a later version of nacre has written it")]
fn sessions_of_a_later_version_are_refused() {
    let mut w = with_long_journal();
    make_newer(&mut w, &fsfmt::names::session_table(0), |object| {
        object.omap.values_mut().next().expect("one")
    });
    w.restart(&[A]);
}

#[test]
#[should_panic(expected = "this one knows 2: a later version of nacre has written it")]
fn a_partition_of_a_later_version_is_refused() {
    let mut w = World::new(1, MdsOptions::default());
    let header = w.objects.keys().find(|id| id.name == fsfmt::names::journal_object(0, 0)).expect("a header");
    let partition = mds::ObjectId { name: fsfmt::names::partition(), ..header.clone() };
    let mut later = wire::Writer::encode(&fsfmt::SubtreeRecord::default());
    later[..2].copy_from_slice(&[9, 9]);
    w.objects.entry(partition).or_default().omap.insert(fsfmt::subtree_key(fsfmt::Ino(1 << 40)), later);
    w.restart(&[]);
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
