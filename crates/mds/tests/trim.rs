//! A cache that holds next to nothing: what an operation has loaded stays until it has used it.

mod world;

use mds::MdsOptions;
use msgs::{MdsOp, ReaddirReply};
use std::time::Duration;
use world::World;
use world::client::{create, getattr, mkdir, readdir, request, setattr_size, setxattr, two};

const A: u64 = 10;
const OTHERS: usize = 12;

/// A directory of files and of further names of files that live elsewhere.
fn tree(w: &mut World) -> Vec<String> {
    let mut names = Vec::new();
    for dir in ["d", "e"] {
        assert_eq!(w.call(A, mkdir(dir)).result, 0);
    }
    for i in 0..OTHERS {
        assert_eq!(w.call(A, create(&format!("e/t{i}"), 1)).result, 0);
        if i % 2 == 0 {
            assert_eq!(w.call(A, two(MdsOp::LINK, &format!("d/l{i}"), &format!("e/t{i}"))).result, 0);
            names.push(format!("l{i}"));
        }
        assert_eq!(w.call(A, create(&format!("d/f{i}"), 1)).result, 0);
        names.push(format!("f{i}"));
        w.give_everything_back(A);
    }
    names.sort();
    names
}

#[test]
fn a_listing_that_waits_for_inodes_elsewhere_loses_no_name() {
    for seed in 0..10 {
        let mut w = World::new(
            seed,
            MdsOptions { cache_inodes: 8, journal_bytes: 64 << 10, ..MdsOptions::default() },
        );
        w.connect(A);
        let names = tree(&mut w);
        for _ in 0..20 {
            for _ in 0..w.rng.below(6) {
                let path = format!("e/t{}", w.rng.below(OTHERS as u64));
                let tid = w.start(A, getattr(&path, 0));
                w.quiet();
                w.reply(A, tid);
            }
            w.give_everything_back(A);
            let reply = w.call(A, readdir("d", b"", 100));
            let listing: ReaddirReply = wire::Reader::new(&reply.extra).get().expect("a listing");
            let mut seen: Vec<String> =
                listing.entries.iter().map(|e| String::from_utf8_lossy(&e.name).into_owned()).collect();
            seen.sort();
            assert_eq!(seen, names, "seed {seed}");
            w.give_everything_back(A);
        }
    }
}

#[test]
fn what_the_directory_above_does_not_count_yet_stays_until_it_does() {
    let options = MdsOptions { cache_inodes: 8, journal_bytes: 64 << 10, ..MdsOptions::default() };
    let mut w = World::new(1, options);
    w.connect(A);
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    for i in 0..OTHERS {
        assert_eq!(w.call(A, create(&format!("d/f{i}"), 1)).result, 0);
        assert_eq!(w.call(A, setattr_size(&format!("d/f{i}"), 100)).result, 0);
        w.give_everything_back(A);
    }
    for _ in 0..20 {
        w.advance(Duration::from_secs(1));
        w.quiet();
    }
    let of = |w: &mut World, path| w.call(A, getattr(path, 0)).trace.target.expect("a directory").rbytes;
    assert_eq!((of(&mut w, "d"), of(&mut w, "")), (100 * OTHERS as u64, 100 * OTHERS as u64));
}

#[test]
fn in_a_full_cache_what_is_used_here_and_there_is_loaded_alone() {
    const DIRS: u64 = 50;
    const FILES: u64 = 40;
    let mut w =
        World::new(2, MdsOptions { cache_inodes: 400, journal_bytes: 64 << 10, ..MdsOptions::default() });
    w.connect(A);
    for dir in 0..DIRS {
        assert_eq!(w.call(A, mkdir(&format!("d{dir}"))).result, 0);
        for file in 0..FILES {
            assert_eq!(w.call(A, create(&format!("d{dir}/f{file}"), 1)).result, 0);
        }
        w.give_everything_back(A);
    }
    let look = |w: &mut World, dir: u64, file: u64| {
        assert_eq!(w.call(A, getattr(&format!("d{dir}/f{file}"), 0)).result, 0);
        w.give_everything_back(A);
    };
    w.entries_read = 0;
    for _ in 0..500 {
        let (dir, file) = (w.rng.below(DIRS), w.rng.below(FILES));
        look(&mut w, dir, file);
    }
    let read = w.entries_read;
    // One whole directory with each would be 20,000.
    assert!(read < 8_000, "{read} entries for 500 files");
    w.entries_read = 0;
    (0..FILES).for_each(|file| look(&mut w, 7, file));
    let read = w.entries_read;
    assert!(read < 3 * FILES as usize, "{read} entries for a directory that is used one after the other");
}

#[test]
fn large_xattrs_count_against_the_memory_of_the_cache() {
    const FILES: usize = 300;
    let options = MdsOptions { cache_bytes: 1 << 20, journal_bytes: 64 << 10, ..MdsOptions::default() };
    let mut w = World::new(3, options);
    w.connect(A);
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    for i in 0..FILES {
        assert_eq!(w.call(A, create(&format!("d/f{i:03}"), 1)).result, 0);
        w.give_everything_back(A);
    }
    assert!(w.rank.stats().inodes > FILES, "files without xattrs fit: {:?}", w.rank.stats());
    for i in 0..FILES {
        assert_eq!(w.call(A, setxattr(&format!("d/f{i:03}"), "user.x", &[7; 16 << 10])).result, 0);
        w.give_everything_back(A);
    }
    w.rank.flush_journal();
    w.quiet();
    w.advance(Duration::from_secs(1));
    w.quiet();
    let stats = w.rank.stats();
    assert!(stats.bytes < 5 << 18 && stats.inodes > 20, "xattrs of 16 KiB, limit 1 MiB: {stats:?}");
}

#[test]
fn directories_that_come_and_go_leave_nothing_behind() {
    let mut w = World::new(4, MdsOptions { journal_bytes: 64 << 10, ..MdsOptions::default() });
    w.connect(A);
    assert_eq!(w.call(A, create("file", 1)).result, 0);
    for _ in 0..60 {
        assert_eq!(w.call(A, mkdir("d")).result, 0);
        for i in 0..50 {
            let path = format!("d/l{i}");
            assert_eq!(w.call(A, two(MdsOp::LINK, &path, "file")).result, 0);
            assert_eq!(w.call(A, request(MdsOp::UNLINK, &path)).result, 0);
        }
        assert_eq!(w.call(A, request(MdsOp::RMDIR, "d")).result, 0);
        w.give_everything_back(A);
    }
    // What trimming has to examine is bounded, too, which the cache asserts.
    assert!(w.rank.stats().entries < 200, "{:?}", w.rank.stats());
}
