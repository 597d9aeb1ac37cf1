//! `nacre store bench`: the store alone on a device, through the same disk layer as the daemons. The
//! measurements that take long are in `store_long`.

use super::store_bench_args::{BenchArgs, Mode};
use super::store_load::{Bench, LARGE, OBJECTS, Results};
use super::store_long;
use super::terminal::progress;
use anyhow::{Context, Result};
use node::DiskId;
use runtime::{DiskPool, DiskSpec};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use store::Config;

pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let in_dir = args.target.is_dir();
    let path = if in_dir { args.target.join("nacre-store-bench") } else { args.target.clone() };
    let made = in_dir || !path.exists();
    let result = measure(args, &path, made.then_some(args.size));
    if made {
        // A file that could not be made need not be removed.
        let _ = std::fs::remove_file(&path);
    }
    result
}

fn measure(args: &BenchArgs, path: &Path, create_size: Option<u64>) -> Result<()> {
    let pool = DiskPool::new(8);
    let config = Config {
        cache_bytes: args.cache as usize,
        data_cache_bytes: args.data_cache as usize,
        log_bytes: args.log,
        batched: true,
        discard_after: Config::default().discard_after.filter(|_| !args.no_discard),
        ..Config::default()
    };
    let open = || -> Result<Bench> {
        let spec = DiskSpec { path: path.to_owned(), id: DiskId(0), create_size, access: args.access.into() };
        Bench::open(runtime::open_disk(&spec, &pool)?, config.clone())
    };
    let mut results = Results::new(args.format, args.only.clone());
    if let Some(size) = create_size {
        // A host allocates the blocks of a sparse file at the first write, which takes longer.
        lay_out(path, size)?;
    }
    let bench = open()?;
    match args.mode {
        Mode::Quick => quick(args, bench, open, &mut results)?,
        Mode::Mixed => store_long::mixed(&mut { bench }, args, &mut results)?,
        Mode::Classes => store_long::classes(&mut { bench }, args, &mut results)?,
        Mode::Steady => store_long::steady(&mut { bench }, args, &mut results)?,
        Mode::Ageing => {
            let fresh = || match create_size {
                None => Ok(None),
                Some(size) => {
                    std::fs::remove_file(path)?;
                    lay_out(path, size)?;
                    open().map(Some)
                }
            };
            store_long::ageing(bench, args, fresh, &mut results)?;
        }
    }
    results.add("resident memory", resident_kib()? as f64 / 1024.0, "MiB");
    results.finish()
}

/// The short measurements.
fn quick(
    args: &BenchArgs,
    mut bench: Bench,
    open: impl Fn() -> Result<Bench>,
    results: &mut Results,
) -> Result<()> {
    bench.fill(results)?;
    let time = Duration::from_secs(args.seconds.unwrap_or(5));
    for (name, len, depth) in [
        ("4 KiB", 4096, 1),
        ("4 KiB", 4096, 16),
        ("4 KiB", 4096, 64),
        ("64 KiB", 65536, 16),
        ("4 MiB", LARGE, 4),
    ] {
        bench.overwrite(&format!("write {name}, {depth} in flight"), len, depth, time, results)?;
    }
    // Reads are measured alone, not beside deferred work of the writes.
    bench.driven.close()?;
    for (name, len, depth) in [("4 KiB", 4096, 16), ("64 KiB", 65536, 16), ("4 MiB", LARGE, 4)] {
        let name = format!("read {name}, {depth} in flight");
        bench.read_at_random(&name, OBJECTS, len, depth, time, results)?;
    }
    // These objects fit the cache.
    bench.read_at_random("read 4 KiB, cached", 2, 4096, 1, time, results)?;
    bench.small_objects(args, results)?;
    if results.wants("open after close") {
        let usage = bench.driven.store.usage();
        results.add(
            "space for each byte of data",
            (usage.allocated + usage.metadata) as f64 / usage.data as f64,
            "",
        );
        bench.driven.close()?;
        drop(bench);
        let begin = Instant::now();
        bench = open()?;
        results.add("open after close", begin.elapsed().as_secs_f64() * 1e3, "ms");
        // Enough to fill the log well, without an orderly shutdown.
        bench.overwrite("", 4096, 16, Duration::from_millis(700), results)?;
        drop(bench);
        let begin = Instant::now();
        bench = open()?;
        results.add("open after a crash", begin.elapsed().as_secs_f64() * 1e3, "ms");
    }
    bench.list(results)
}

/// Makes a file of zeros whose blocks are all allocated.
fn lay_out(path: &Path, size: u64) -> Result<()> {
    let what = || format!("cannot make {}", path.display());
    let mut file = std::fs::File::create_new(path).with_context(what)?;
    let zeros = vec![0; LARGE as usize];
    let bar = progress("{bytes} of {total_bytes} laid out");
    bar.set_length(size);
    for at in (0..size).step_by(zeros.len()) {
        let len = (size - at).min(LARGE);
        file.write_all(&zeros[..len as usize]).with_context(what)?;
        bar.set_position(at + len);
    }
    file.sync_all().with_context(what)?;
    bar.finish_and_clear();
    Ok(())
}

/// The most memory that the process ever had, in KiB.
fn resident_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    line.trim().trim_end_matches(" kB").parse().context("VmHWM is no number")
}
