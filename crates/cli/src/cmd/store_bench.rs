//! `nacre store bench`: the store alone on a device, through the same disk layer as the daemons. The
//! measurements that take long are in `store_long`.

use super::store_driver::Driven;
use super::{Format, store_long};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use node::DiskId;
use runtime::{Access, DiskPool, DiskSpec, FileDisk};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stdx::{Buf, Rng};
use store::{Config, MkfsInfo, ObjectKey, Read, ReadReply, Transaction, TxnOp};

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// A directory, in which a file is made and removed again, or a blank file or device.
    target: PathBuf,
    /// The size of a new file.
    #[arg(long, default_value = "8G", value_parser = super::size)]
    size: u64,
    /// The measurement.
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// Seconds for each measurement [default: 5 of `quick`, 10 of `classes`, 600 of `mixed`].
    #[arg(long)]
    pub(super) seconds: Option<u64>,
    /// Percent of the device that `mixed` fills and `ageing` does not exceed.
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u64).range(1..=95))]
    pub(super) full: u64,
    /// Times that `ageing` writes the capacity [default: 20] and `steady` the live data [default: 10].
    #[arg(long)]
    pub(super) turns: Option<u64>,
    /// Live data of `steady` [default: half of the device].
    #[arg(long, value_parser = super::size)]
    pub(super) live: Option<u64>,
    /// The size of the overwrites of `steady`.
    #[arg(long, default_value = "4K", value_parser = super::size)]
    pub(super) io_size: u64,
    /// Operations in flight of `mixed`, `ageing`, `steady`, and small ones of `classes`.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(super) in_flight: u64,
    /// The size of the index cache.
    #[arg(long, default_value = "64M", value_parser = super::size)]
    cache: u64,
    /// The size of the data cache.
    #[arg(long, default_value = "16M", value_parser = super::size)]
    data_cache: u64,
    /// The size of the log [default: by the size of the device].
    #[arg(long, value_parser = super::size)]
    log: Option<u64>,
    /// Number of small objects that are made, listed, and found after a restart.
    #[arg(long, default_value_t = 100_000)]
    objects: u64,
    /// The size of a small object, in bytes.
    #[arg(long, default_value = "4K", value_parser = super::size)]
    object_size: u64,
    /// Give no free space back to the device.
    #[arg(long)]
    no_discard: bool,
    /// The way to access the device.
    #[arg(long, value_enum, default_value_t)]
    access: Way,
    /// Only measurements whose names contain this; may be given more than once.
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum Mode {
    /// Writes and reads of three sizes, small objects, opening, listing.
    #[default]
    Quick,
    /// Latencies of random reads and writes of 4 KiB to 4 MiB on a store that is nearly full.
    Mixed,
    /// Sequential reads of a store that was overwritten many times, beside those of a fresh one.
    Ageing,
    /// Bytes written to the disk for each byte that is overwritten at random, in the long run.
    Steady,
    /// Small reads and writes beside large ones of other classes.
    Classes,
}

#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum Way {
    /// As the daemons do: the best way that the host allows.
    #[default]
    Best,
    /// Direct I/O by threads.
    Threads,
    /// Through the page cache.
    Buffered,
}

impl From<Way> for Access {
    fn from(way: Way) -> Self {
        match way {
            Way::Best => Self::Best,
            Way::Threads => Self::Threads,
            Way::Buffered => Self::Buffered,
        }
    }
}

/// The size of the objects that are overwritten, in bytes.
pub(super) const LARGE: u64 = 4 << 20;
/// The number of objects that are overwritten.
pub(super) const OBJECTS: u64 = 256;

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
    let mut results = Results { format: args.format, only: args.only.clone(), lines: Vec::new() };
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
    let progress = super::progress("{bytes} of {total_bytes} laid out");
    progress.set_length(size);
    for at in (0..size).step_by(zeros.len()) {
        let len = (size - at).min(LARGE);
        file.write_all(&zeros[..len as usize]).with_context(what)?;
        progress.set_position(at + len);
    }
    file.sync_all().with_context(what)?;
    progress.finish_and_clear();
    Ok(())
}

/// The most memory that the process ever had, in KiB.
fn resident_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    line.trim().trim_end_matches(" kB").parse().context("VmHWM is no number")
}

pub(super) struct Results {
    format: Format,
    only: Vec<String>,
    lines: Vec<serde_json::Value>,
}

impl Results {
    fn wants(&self, name: &str) -> bool {
        name.is_empty() || self.only.is_empty() || self.only.iter().any(|part| name.contains(part))
    }

    pub(super) fn add(&mut self, name: &str, value: f64, unit: &str) {
        if name.is_empty() {
            return;
        }
        if self.format == Format::Plain {
            // Nobody misses the output if its reader is gone.
            let _ = writeln!(std::io::stdout(), "{name:<32} {value:>12.2} {unit}");
        }
        self.lines.push(json!({"name": name, "value": value, "unit": unit}));
    }

    fn finish(self) -> Result<()> {
        if self.format == Format::Json {
            writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&self.lines)?)?;
        }
        Ok(())
    }
}

/// A store, and the randomness for its load.
pub(super) struct Bench {
    pub(super) driven: Driven,
    pub(super) rng: Rng,
    /// The content of large objects.
    large: Buf,
    /// The last transaction submitted.
    last: u64,
}

impl Bench {
    fn open(disk: FileDisk, config: Config) -> Result<Self> {
        let mut rng = runtime::rng();
        let info = MkfsInfo { uuid: wire::Uuid::default(), label: b"nacre store bench".to_vec() };
        let driven = Driven::open(disk, config, rng.fork(), Some(info))?;
        if driven.store.identity().label != b"nacre store bench" {
            bail!("it holds a store: give a blank device");
        }
        Ok(Self { driven, rng, large: Buf::pattern(1, LARGE as usize), last: 0 })
    }

    pub(super) fn submit(&mut self, ops: Vec<TxnOp>) -> Result<u64> {
        let refused = |refusal| anyhow!("the device is too small for the measurement: {refusal:?}");
        self.last = self.driven.submit(Transaction { ops })?.map_err(refused)?;
        Ok(self.last)
    }

    pub(super) fn object(i: u64) -> ObjectKey {
        ObjectKey::head(1, (i as u32).wrapping_mul(0x9e37_79b9), b"", b"", format!("large-{i:08}").as_bytes())
    }

    fn small(i: u64) -> ObjectKey {
        ObjectKey::head(
            2,
            (i as u32).wrapping_mul(0x9e37_79b9),
            b"",
            b"",
            format!("1000000{i:x}.00000000").as_bytes(),
        )
    }

    /// Writes the large objects once.
    pub(super) fn fill(&mut self, results: &mut Results) -> Result<()> {
        let begin = Instant::now();
        for i in 0..OBJECTS {
            self.write_large(i, 4)?;
        }
        self.settle()?;
        results.add("fill with 4 MiB, 4 in flight", mib(OBJECTS * LARGE, begin), "MiB/s");
        Ok(())
    }

    /// Writes an object of 4 MiB, then waits until fewer than `in_flight` are not durable.
    pub(super) fn write_large(&mut self, i: u64, in_flight: u64) -> Result<()> {
        let last = self.submit(vec![TxnOp::Write(Self::object(i), 0, self.large.clone().into())])?;
        self.driven.wait(last, in_flight - 1)
    }

    /// Waits until all is durable.
    pub(super) fn settle(&mut self) -> Result<()> {
        self.driven.wait(self.last, 0)
    }

    fn overwrite(
        &mut self,
        name: &str,
        len: u64,
        depth: u64,
        time: Duration,
        results: &mut Results,
    ) -> Result<()> {
        if !results.wants(name) {
            return Ok(());
        }
        // Few large ones: they would be most of the memory that is counted.
        let kinds = ((1 << 20) / len).clamp(2, 16);
        let data: Vec<Buf> = (0..kinds).map(|i| Buf::pattern(i, len as usize)).collect();
        let (begin, before) = (Instant::now(), self.driven.written);
        let (mut count, mut last) = (0, self.driven.committed);
        // Submission times of the transactions in flight, and latencies of those that are durable.
        let (mut waiting, mut took) = (std::collections::VecDeque::new(), Vec::new());
        while begin.elapsed() < time {
            let object = Self::object(self.rng.below(OBJECTS));
            let offset = self.rng.below(LARGE / len) * len;
            let bytes = data[count as usize % data.len()].clone();
            waiting.push_back(Instant::now());
            last = self.submit(vec![TxnOp::Write(object, offset, bytes.into())])?;
            count += 1;
            self.driven.wait(last, depth - 1)?;
            while waiting.len() as u64 > last - self.driven.committed {
                took.extend(waiting.pop_front().map(|at: Instant| at.elapsed()));
            }
        }
        self.driven.wait(last, 0)?;
        if name.is_empty() {
            return Ok(());
        }
        took.sort();
        results.add(name, count as f64 / begin.elapsed().as_secs_f64(), "a second");
        for (what, part) in [("median", 0.5), ("99.9 %", 0.999)] {
            let at = ((took.len() as f64 * part) as usize).min(took.len().saturating_sub(1));
            let ms = took.get(at).map_or(0.0, |t| t.as_secs_f64() * 1e3);
            results.add(&format!("  {what}"), ms, "ms");
        }
        results.add(
            "  bytes to disk for each byte",
            (self.driven.written - before) as f64 / (count * len) as f64,
            "",
        );
        Ok(())
    }

    fn read_at_random(
        &mut self,
        name: &str,
        objects: u64,
        len: u64,
        depth: u64,
        time: Duration,
        results: &mut Results,
    ) -> Result<()> {
        if !results.wants(name) {
            return Ok(());
        }
        let begin = Instant::now();
        let (mut asked, mut count) = (0, 0);
        while begin.elapsed() < time {
            let key = Self::object(self.rng.below(objects));
            self.driven.ask(data_of(key, self.rng.below(LARGE / len) * len, len))?;
            asked += 1;
            count += std::mem::take(&mut self.driven.answers).len() as u64;
            while asked - count >= depth {
                self.driven.step()?;
                count += std::mem::take(&mut self.driven.answers).len() as u64;
            }
        }
        results.add(name, count as f64 / begin.elapsed().as_secs_f64(), "a second");
        while count < asked {
            self.driven.step()?;
            count += std::mem::take(&mut self.driven.answers).len() as u64;
        }
        Ok(())
    }

    /// Makes small objects, as an OSD does: with an xattr each.
    fn small_objects(&mut self, args: &BenchArgs, results: &mut Results) -> Result<()> {
        if !results.wants("small objects") || args.objects == 0 {
            return Ok(());
        }
        let data = Buf::pattern(7, args.object_size as usize);
        let begin = Instant::now();
        let mut last = 0;
        for i in 0..args.objects {
            let key = Self::small(i);
            last = self.submit(vec![TxnOp::Write(key, 0, data.clone().into())])?;
            self.driven.wait(last, 63)?;
        }
        self.driven.wait(last, 0)?;
        results.add("small objects made", args.objects as f64 / begin.elapsed().as_secs_f64(), "a second");
        Ok(())
    }

    fn list(&mut self, results: &mut Results) -> Result<()> {
        if !results.wants("names listed") {
            return Ok(());
        }
        let (mut from, to) = (ObjectKey::first_at(2, -1, 0), ObjectKey::first_at(3, -1, 0));
        let (begin, mut count) = (Instant::now(), 0);
        loop {
            self.driven.ask(Read::List { from: from.clone(), to: to.clone(), max: 4096 })?;
            while self.driven.answers.is_empty() {
                self.driven.step()?;
            }
            let Some((_, ReadReply::List(keys))) = self.driven.answers.pop_front() else { bail!("no list") };
            let Some(last) = keys.last() else { break };
            count += keys.len();
            from = ObjectKey { generation: u64::MAX, snap: u64::MAX, ..last.clone() };
        }
        results.add("names listed", count as f64 / begin.elapsed().as_secs_f64(), "a second");
        Ok(())
    }
}

/// A read of bytes of an object.
pub(super) fn data_of(key: ObjectKey, offset: u64, len: u64) -> Read {
    Read::Object {
        key,
        attrs: false,
        data: vec![(offset, len)],
        omap_header: false,
        omap_keys: vec![],
        omap_range: None,
    }
}

pub(super) fn mib(bytes: u64, begin: Instant) -> f64 {
    bytes as f64 / f64::from(1 << 20) / begin.elapsed().as_secs_f64()
}
