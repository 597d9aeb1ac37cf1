//! The processor time of moving a directory to another rank, with files that a client has:
//! `cargo bench -p mds --bench pause -- 100000`.
//!
//! Printed are the longest steps of either rank: one input each, with what follows from it. *Meanwhile*
//! nobody has the directory. Objects, clients and the way between the ranks take no time here, so this is
//! what the two ranks themselves add to the pause.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the program around the ranks: it measures time"
)]

#[path = "../tests/world/mod.rs"]
mod world;

use mds::MdsOptions;
use std::time::{Duration, Instant};
use world::client::{create, mkdir};
use world::ranks::Ranks;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WRITE_ONLY: u32 = 1;
/// Steps that are printed.
const PRINTED: usize = 12;

fn main() {
    let files: usize = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(100_000);
    let options = MdsOptions { cache_bytes: 1 << 40, split_size: 1_000_000, ..MdsOptions::default() };
    let mut r = Ranks::with_options(7, 2, &options);
    r.ok(0, mkdir("d"));
    for file in 0..files {
        r.ok(0, create(&format!("d/f{file}"), WRITE_ONLY));
    }
    r.settle();
    r.export(0, "/d", 1);
    let (mut steps, mut waited, mut total) = (Vec::new(), Duration::ZERO, Duration::ZERO);
    while !r.is_quiet() {
        let before = Instant::now();
        r.step();
        let took = before.elapsed();
        total += took;
        let is_apart = r.authorities("/d").is_empty();
        if is_apart {
            waited += took;
        }
        steps.push((took, is_apart, r.last_of_trace()));
    }
    assert_eq!(r.authorities("/d"), [1], "it has moved");
    steps.sort_unstable_by_key(|(took, ..)| std::cmp::Reverse(*took));
    println!("{files} files: {total:?} in all, {waited:?} while nobody has the directory");
    for (took, is_apart, what) in steps.iter().take(PRINTED) {
        let when = if *is_apart { "meanwhile" } else { "" };
        println!("{took:>12.3?} {when:9}  after {}", what.trim());
    }
}
