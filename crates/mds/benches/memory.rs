//! Bytes that an inode takes in the metadata server's cache, and the time that it takes to get there:
//! `cargo bench -p mds --bench memory -- 200000`.
//!
//! Files are in directories of 1,000. First a client creates them and keeps its capabilities, with the files
//! open for writing. Then another server takes over and lists all directories, once for a client that gives
//! everything back, and once for one that keeps what listings give it. At last a third one takes over, from
//! which that client claims all that it has.
//!
//! Memory is what the allocator has handed out before the rank is dropped and not after, in the size classes
//! of mimalloc, which is the allocator of the binary. Beside it is printed what the cache estimates, by which
//! it keeps its limit.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the program around the rank: it measures time"
)]

#[path = "../tests/world/mod.rs"]
mod world;

use mds::{MdsOptions, Rank};
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use world::World;
use world::client::{create, mkdir};

const PER_DIR: usize = 1000;
const CLIENT: u64 = 4100;
/// More than fits anywhere.
const NO_LIMIT: u64 = 1 << 40;
/// Number of mimalloc's size classes that are counted; the last one has everything above.
const CLASSES: usize = 96;

/// mimalloc, with counts of what is handed out.
struct Counting;

static ASKED: AtomicI64 = AtomicI64::new(0);
static BLOCKS: [AtomicI64; CLASSES] = [const { AtomicI64::new(0) }; CLASSES];
static LARGE: AtomicI64 = AtomicI64::new(0);

/// The class of a size: multiples of 16 bytes up to 64, then four for each doubling.
fn class(size: usize) -> usize {
    match size {
        0..=64 => size.div_ceil(16).max(1) - 1,
        _ => {
            let log = (size - 1).ilog2() as usize;
            4 + 4 * (log - 6) + ((size - 1) >> (log - 2) & 3)
        }
    }
}

/// Bytes of a block of a class.
fn class_bytes(class: usize) -> i64 {
    match class {
        0..=3 => 16 * (class as i64 + 1),
        _ => {
            let (log, quarter) = (6 + (class - 4) / 4, (class - 4) % 4);
            (1 << log) + ((quarter as i64 + 1) << (log - 2))
        }
    }
}

fn count(size: usize, sign: i64) {
    ASKED.fetch_add(sign * size as i64, Ordering::Relaxed);
    let class = class(size);
    if class < CLASSES && size <= 128 << 10 {
        BLOCKS[class].fetch_add(sign, Ordering::Relaxed);
    } else {
        LARGE.fetch_add(sign * size as i64, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to mimalloc as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: as the caller promises.
        unsafe { mimalloc::MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: as the caller promises.
        unsafe { mimalloc::MiMalloc.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What is handed out: bytes as asked for, blocks by class, and bytes of larger blocks.
struct Counts {
    asked: i64,
    blocks: Vec<i64>,
    large: i64,
}

impl Counts {
    fn now() -> Self {
        let blocks = BLOCKS.iter().map(|n| n.load(Ordering::Relaxed)).collect();
        Self { asked: ASKED.load(Ordering::Relaxed), blocks, large: LARGE.load(Ordering::Relaxed) }
    }
}

/// Drops a rank and prints what it had.
fn weigh(title: &str, rank: Rank, took: Duration) {
    let (stats, before) = (rank.stats(), Counts::now());
    drop(rank);
    let after = Counts::now();
    let inodes = stats.inodes as i64;
    let large = before.large - after.large;
    let used: Vec<(i64, i64)> = (0..CLASSES)
        .map(|class| (class_bytes(class), before.blocks[class] - after.blocks[class]))
        .filter(|(_, blocks)| *blocks > 0)
        .collect();
    let rounded: i64 = used.iter().map(|(bytes, blocks)| bytes * blocks).sum::<i64>() + large;
    println!(
        "{title}: {inodes} inodes, {} entries; an inode takes {} bytes as asked for, {} in blocks; \
         {} are estimated; {:.2} s",
        stats.entries,
        (before.asked - after.asked) / inodes,
        rounded / inodes,
        stats.bytes / stats.inodes as u64,
        took.as_secs_f64(),
    );
    println!("    blocks of an inode: {:8.1} bytes of tables", large as f64 / inodes as f64);
    for (bytes, blocks) in used.iter().filter(|(bytes, blocks)| bytes * blocks >= inodes) {
        let (each, sum) = (*blocks as f64 / inodes as f64, (bytes * blocks) as f64 / inodes as f64);
        println!("    {each:8.3} of {bytes:5} bytes {sum:8.1}");
    }
}

/// Replaces the rank by one that has nothing cached; returns the old one.
fn replace(w: &mut World) -> Rank {
    std::mem::replace(&mut w.rank, Rank::replay(w.cfg.clone(), w.now))
}

/// Creates all files; the client keeps its capabilities, or gives them back after each directory.
fn make_files(w: &mut World, files: usize, gives_back: bool) {
    for dir in 0..files.div_ceil(PER_DIR) {
        assert_eq!(w.call(CLIENT, mkdir(&format!("dir{dir:04}"))).result, 0);
        for file in 0..PER_DIR.min(files - dir * PER_DIR) {
            let reply = w.call(CLIENT, create(&format!("dir{dir:04}/file{file:06}"), 1));
            assert_eq!(reply.result, 0);
        }
        if gives_back {
            w.give_everything_back(CLIENT);
        }
    }
    w.rank.flush_journal();
    w.quiet();
    assert!(w.rank.is_flushed(), "nothing waits to be stored");
}

/// Lists all directories in pages, as clients do.
fn list_all(w: &mut World, files: usize, gives_back: bool) {
    for dir in 0..files.div_ceil(PER_DIR) {
        let names = w.names(CLIENT, &format!("dir{dir:04}")).expect("a directory");
        assert_eq!(names.len(), PER_DIR.min(files - dir * PER_DIR));
        if gives_back {
            w.give_everything_back(CLIENT);
        }
    }
}

fn new_world() -> World {
    let options = MdsOptions { cache_bytes: NO_LIMIT, journal_bytes: 64 << 20, ..MdsOptions::default() };
    let mut w = World::new(1, options);
    w.connect(CLIENT);
    w
}

fn created(files: usize) {
    let mut w = new_world();
    let start = Instant::now();
    make_files(&mut w, files, false);
    let took = start.elapsed();
    let old = replace(&mut w);
    weigh("created, capabilities held", old, took);
}

fn loaded(files: usize) {
    let mut w = new_world();
    make_files(&mut w, files, true);
    for (title, gives_back) in [("loaded, no capabilities", true), ("loaded, capabilities held", false)] {
        drop(replace(&mut w));
        w.connect_all();
        w.until_active(&[CLIENT]);
        let start = Instant::now();
        list_all(&mut w, files, gives_back);
        let took = start.elapsed();
        let old = replace(&mut w);
        weigh(title, old, took);
    }
    w.connect_all();
    let start = Instant::now();
    w.until_active(&[CLIENT]);
    let took = start.elapsed();
    weigh("claimed by the client of a predecessor", replace(&mut w), took);
}

fn main() {
    let asked = std::env::args().skip(1).find_map(|arg| arg.parse().ok());
    let files: usize = asked.unwrap_or(100_000);
    created(files);
    loaded(files);
}
