//! Damaged metadata: what can't be read fails, everything else goes on, and a scrub finds it and puts right
//! what can be told from the rest.

mod world;

use fsfmt::{BackPointer, Dentry, DentryKey, DirFrag, Ino, Link, names};
use mds::{MdsOptions, ObjectId, ScrubOptions};
use msgs::MdsOp;
use std::collections::BTreeSet;
use std::time::Duration;
use wire::{Errno, Reader, Writer};
use world::World;
use world::client::{create, getattr, lookup, mkdir, request, setattr_size, two};

const A: u64 = 10;
/// A cache that holds next to nothing, and a journal that is written back soon.
const TIGHT: MdsOptions = MdsOptions {
    cache_grows: false,
    spare_bytes: 0,
    cache_bytes: 1 << 40,
    cache_inodes: 16,
    split_size: 10_000,
    merge_size: 50,
    journal_bytes: 64 << 10,
    trim_warn_percent: 200,
    max_completed: (100_000, 100_000),
    balance_interval: Duration::from_secs(5),
    balance_least: 100,
    replicate_least: 0,
    journal_delay: Duration::ZERO,
    handover_part: 500,
    handover_most: 4000,
};
const EVERYTHING: ScrubOptions = ScrubOptions { recursive: true, repair: false, force: false };

fn world(seed: u64) -> World {
    let mut w = World::new(seed, TIGHT);
    w.connect(A);
    w
}

fn must(w: &mut World, request: msgs::ClientRequest) -> u64 {
    let reply = w.call(A, request);
    assert_eq!(reply.result, 0);
    reply.trace.target.map_or(0, |target| target.ino)
}

/// Writes everything back, and lets it leave the cache.
fn store(w: &mut World) {
    for _ in 0..2 {
        w.advance(Duration::from_secs(4));
        w.quiet();
    }
    w.rank.flush_journal();
    w.quiet();
    assert!(w.rank.is_flushed());
    must(w, mkdir("elsewhere"));
    for i in 0..60 {
        must(w, create(&format!("elsewhere/f{i}"), 1));
        must(w, request(MdsOp::UNLINK, &format!("elsewhere/f{i}")));
        w.give_everything_back(A);
    }
    must(w, request(MdsOp::RMDIR, "elsewhere"));
    w.give_everything_back(A);
}

fn metadata(name: String) -> ObjectId {
    ObjectId { pool: 1, ns: String::new(), name }
}

/// Changes a stored entry.
fn edit(w: &mut World, dir: u64, name: &str, change: impl FnOnce(&mut Dentry)) {
    let object = metadata(names::dir_object(DirFrag::whole(Ino(dir))));
    let value = w.objects.get_mut(&object).and_then(|o| o.omap.get_mut(&key(name))).expect("it is stored");
    let mut dentry: Dentry = Reader::new(value).get().expect("an entry");
    change(&mut dentry);
    *value = Writer::encode(&dentry);
}

fn spoil(w: &mut World, dir: u64, name: &str) {
    let object = metadata(names::dir_object(DirFrag::whole(Ino(dir))));
    let value = w.objects.get_mut(&object).and_then(|o| o.omap.get_mut(&key(name))).expect("it is stored");
    value.truncate(5);
    w.has_damage = true;
}

fn key(name: &str) -> Vec<u8> {
    DentryKey::new(name.as_bytes()).to_omap()
}

/// Scrubs to the end: how it ended.
fn scrub(w: &mut World, path: &str, options: ScrubOptions) -> serde_json::Value {
    w.rank.start_scrub("t".into(), path.into(), options);
    for _ in 0..1000 {
        w.quiet();
        if w.rank.scrub_status()["scrubs"].as_object().is_some_and(serde_json::Map::is_empty) {
            w.give_everything_back(A);
            return w.rank.scrub_status()["last"].clone();
        }
        w.advance(Duration::from_millis(50));
    }
    panic!("the scrub never ends: {}", w.rank.scrub_status());
}

fn counts(last: &serde_json::Value) -> (u64, u64) {
    let count = |name| last["progress"][name].as_u64().expect("a count");
    (count("damaged"), count("repaired"))
}

fn kinds(w: &World) -> Vec<String> {
    let list = w.rank.damage_list();
    list.iter().map(|d| d["damage_type"].as_str().expect("a type").to_owned()).collect()
}

const EIO: i32 = -5;

/// `d` with 10 files and `d/sub` with one; its inode, and that of `d/sub`.
fn tree(w: &mut World) -> (u64, u64) {
    let (dir, sub) = (must(w, mkdir("d")), must(w, mkdir("d/sub")));
    for i in 0..10 {
        must(w, create(&format!("d/f{i}"), 1));
        must(w, setattr_size(&format!("d/f{i}"), 100));
    }
    must(w, create("d/sub/x", 1));
    must(w, mkdir("fine"));
    must(w, create("fine/y", 1));
    store(w);
    (dir, sub)
}

#[test]
fn a_directory_that_cant_be_read_fails_and_the_rest_goes_on() {
    let mut w = world(1);
    let (dir, _) = tree(&mut w);
    w.has_damage = true;
    w.unreadable.insert(names::dir_object(DirFrag::whole(Ino(dir))));
    assert_eq!(w.names(A, "d"), Err(EIO));
    assert_eq!(w.call(A, lookup("d/f1")).result, EIO);
    assert_eq!(w.call(A, create("d/new", 1)).result, EIO);
    assert_eq!(w.call(A, getattr("d/sub/x", 0)).result, EIO);
    assert_eq!(w.names(A, "fine").expect("the rest"), BTreeSet::from(["y".to_owned()]));
    must(&mut w, create("fine/z", 1));
    assert_eq!(kinds(&w), ["dir_frag"]);
    assert_eq!(w.rank.damage_list()[0]["path"], "/d");
    // Its OSDs have mended the object.
    w.unreadable.clear();
    assert_eq!(w.names(A, "d").expect("it can be read again").len(), 11);
    w.rank.forget_damage(1);
    assert_eq!(w.rank.damage_list().len(), 0);
    assert_eq!(counts(&scrub(&mut w, "/", EVERYTHING)), (0, 0));
}

#[test]
fn a_directory_whose_object_is_gone_is_not_empty() {
    let mut w = world(2);
    let (dir, _) = tree(&mut w);
    w.has_damage = true;
    w.objects.remove(&metadata(names::dir_object(DirFrag::whole(Ino(dir))))).expect("it is stored");
    assert_eq!(w.names(A, "d"), Err(EIO));
    assert_eq!(w.call(A, create("d/f1", 1)).result, EIO);
    assert_eq!(w.call(A, request(MdsOp::RMDIR, "d")).result, Errno::ENOTEMPTY.to_result_code());
    let found = scrub(&mut w, "/", ScrubOptions { repair: true, ..EVERYTHING });
    assert_eq!((counts(&found), kinds(&w)), ((1, 0), vec!["dir_frag".to_owned()]), "{found}");
    let given_up = ScrubOptions { repair: true, force: true, ..EVERYTHING };
    assert_eq!(counts(&scrub(&mut w, "/d", given_up)), (1, 1));
    assert_eq!(w.names(A, "d").expect("it can be used again").len(), 0);
    must(&mut w, create("d/f1", 1));
    must(&mut w, request(MdsOp::UNLINK, "d/f1"));
    must(&mut w, request(MdsOp::RMDIR, "d"));
}

#[test]
fn an_entry_that_cant_be_read_hides_no_other_and_is_not_made_again() {
    for seed in 0..5 {
        let mut w = world(seed);
        let (dir, _) = tree(&mut w);
        spoil(&mut w, dir, "f3");
        let names = w.names(A, "d").expect("the others");
        assert!(names.len() == 10 && !names.contains("f3"), "{names:?}");
        assert_eq!(w.call(A, lookup("d/f3")).result, EIO);
        assert_eq!(w.call(A, create("d/f3", 1)).result, EIO);
        assert_eq!(w.call(A, two(MdsOp::RENAME, "d/f3", "d/f1")).result, EIO);
        must(&mut w, create("d/f11", 1));
        must(&mut w, request(MdsOp::UNLINK, "d/f11"));
        assert_eq!((kinds(&w), &w.rank.damage_list()[0]["dname"]), (vec!["dentry".into()], &"f3".into()));
        store(&mut w);
        let found = counts(&scrub(&mut w, "/", ScrubOptions { repair: true, ..EVERYTHING }));
        assert_eq!(found, (1, 0), "it is not given up unless asked for");
        let given_up = ScrubOptions { repair: true, force: true, ..EVERYTHING };
        scrub(&mut w, "/", given_up);
        assert_eq!(w.names(A, "d").expect("all").len(), 10);
        must(&mut w, create("d/f3", 1));
        store(&mut w);
        assert_eq!(counts(&scrub(&mut w, "/", EVERYTHING)), (0, 0), "statistics are right again");
    }
}

#[test]
fn wrong_statistics_are_found_and_put_right_up_to_the_root() {
    let mut w = world(4);
    let (dir, _) = tree(&mut w);
    edit(&mut w, 1, "d", |dentry| {
        let Link::Primary(data) = &mut dentry.link else { panic!("a directory") };
        data.dirstat.edit(|stat| stat.nfiles = 77);
        data.rstat.rbytes += 4000;
        data.accounted.rbytes += 4000;
    });
    w.has_damage = true;
    let found = scrub(&mut w, "/", EVERYTHING);
    assert_eq!(counts(&found), (2, 0), "of the directory, and of the root: {found}");
    assert_eq!(kinds(&w), ["inode", "inode"]);
    assert!(counts(&scrub(&mut w, "/", ScrubOptions { repair: true, ..EVERYTHING })).1 >= 2);
    for _ in 0..5 {
        w.advance(Duration::from_secs(3));
        w.quiet();
    }
    let of = |w: &mut World, path| {
        let stat = w.call(A, getattr(path, 0)).trace.target.expect("a directory");
        (stat.rbytes, stat.rfiles, stat.nfiles)
    };
    assert_eq!(of(&mut w, "d"), (1000, 11, 10));
    assert_eq!(of(&mut w, "").0, 1000);
    store(&mut w);
    assert_eq!(counts(&scrub(&mut w, "/", EVERYTHING)), (0, 0));
    assert_eq!(dir, must(&mut w, lookup("d")));
}

#[test]
fn wrong_places_in_the_inode_index_are_found_and_put_right() {
    let mut w = world(5);
    tree(&mut w);
    let file = must(&mut w, lookup("d/f5"));
    let other = must(&mut w, lookup("d/f6"));
    store(&mut w);
    let object = metadata(names::index_object(Ino(file)));
    let index = &mut w.objects.get_mut(&object).expect("the index").omap;
    index.remove(&names::index_key(Ino(file))).expect("it is stored");
    let back = BackPointer { dir: Ino(1), name: b"nowhere".to_vec(), ..BackPointer::default() };
    index.insert(names::index_key(Ino(other)), Writer::encode(&back));
    w.has_damage = true;
    assert_eq!(counts(&scrub(&mut w, "/", EVERYTHING)), (2, 0));
    assert_eq!(kinds(&w), ["backtrace", "backtrace"]);
    assert_eq!(counts(&scrub(&mut w, "/d", ScrubOptions { repair: true, ..EVERYTHING })), (0, 2));
    store(&mut w);
    assert_eq!(counts(&scrub(&mut w, "/", EVERYTHING)), (0, 0));
    let mut by_number = request(MdsOp::LOOKUPINO, "");
    by_number.path.ino = file;
    assert_eq!(w.call(A, by_number).result, 0);
}

#[test]
fn a_further_name_of_an_inode_that_is_gone_is_found_and_hides_no_other() {
    let mut w = world(6);
    let (dir, _) = tree(&mut w);
    must(&mut w, two(MdsOp::LINK, "fine/link", "d/f7"));
    store(&mut w);
    let object = metadata(names::dir_object(DirFrag::whole(Ino(dir))));
    w.objects.get_mut(&object).expect("d").omap.remove(&key("f7"));
    w.has_damage = true;
    assert_eq!(w.names(A, "fine").expect("a listing"), BTreeSet::from(["y".to_owned()]));
    scrub(&mut w, "/", EVERYTHING);
    assert!(kinds(&w).contains(&"dentry".to_owned()), "{:?}", w.rank.damage_list());
}

#[test]
fn a_scrub_of_a_path_that_is_not_there_says_so() {
    let mut w = world(7);
    tree(&mut w);
    for path in ["/nowhere", "/d/f1/x", "/d/sub/none"] {
        w.has_damage = true;
        assert_eq!(scrub(&mut w, path, EVERYTHING)["result"], "no such path", "{path}");
    }
    assert_eq!(counts(&scrub(&mut w, "/d/f1", EVERYTHING)), (0, 0));
    w.rank.pause_scrub(true);
    w.rank.start_scrub("p".into(), "/".into(), EVERYTHING);
    w.quiet();
    assert_eq!(w.rank.scrub_status()["scrubs"]["p"]["options"], "recursive");
    w.rank.abort_scrub();
    assert!(w.rank.scrub_status()["scrubs"].as_object().expect("scrubs").is_empty());
}

/// A random change below `t`.
fn change(w: &mut World) {
    let name = |w: &mut World| match w.rng.below(3) {
        0 => format!("t/a{}", w.rng.below(8)),
        1 => format!("t/s{}/b{}", w.rng.below(2), w.rng.below(8)),
        _ => format!("t/s{}", w.rng.below(2)),
    };
    let (one, other) = (name(w), name(w));
    let asked = match w.rng.below(8) {
        0..=2 => create(&one, 1),
        3 => mkdir(&one),
        4 => setattr_size(&one, w.rng.below(5000)),
        5 => two(MdsOp::RENAME, &one, &other),
        6 => two(MdsOp::LINK, &one, &other),
        _ if w.rng.chance(1, 2) => request(MdsOp::UNLINK, &one),
        _ => request(MdsOp::RMDIR, &one),
    };
    w.start(A, asked);
}

#[test]
fn a_scrub_beside_changes_finds_nothing_wrong() {
    for seed in 0..30 {
        let mut w = world(seed);
        must(&mut w, mkdir("t"));
        for round in 0..15 {
            for _ in 0..30 {
                change(&mut w);
                if w.rng.chance(1, 4) {
                    w.quiet();
                }
            }
            // Beside its reads.
            w.rank.start_scrub(format!("{round}"), "/".into(), ScrubOptions { repair: true, ..EVERYTHING });
            w.effects();
            for _ in 0..200 {
                match w.rng.below(12) {
                    0 => change(&mut w),
                    1 => w.advance(Duration::from_millis(40)),
                    _ => drop(w.io_step()),
                }
            }
            w.quiet();
            if w.rng.chance(1, 3) {
                w.give_everything_back(A);
                w.advance(Duration::from_secs(3));
                w.quiet();
            }
        }
        let last = scrub(&mut w, "/", ScrubOptions { repair: true, ..EVERYTHING });
        assert_eq!(counts(&last), (0, 0), "seed {seed}: {last} {:?}", w.rank.damage_list());
        assert_eq!(w.rank.damage_list(), Vec::<serde_json::Value>::new(), "seed {seed}");
    }
}
