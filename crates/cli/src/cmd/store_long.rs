//! The long measurements of `nacre store bench`: mixed load on a store that is nearly full, ageing by
//! overwrites, and write amplification in the long run.

use super::store_bench_args::BenchArgs;
use super::store_load::{Bench, LARGE, OBJECTS, Results, data_of, mib};
use super::terminal::progress;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use stdx::Buf;
use store::{ReadClass, ReadId, TxnOp};

/// The sizes of reads and writes, with the percentage of each.
const SIZES: [(u64, &str, u64); 6] = [
    (4 << 10, "4 KiB", 40),
    (16 << 10, "16 KiB", 20),
    (64 << 10, "64 KiB", 20),
    (256 << 10, "256 KiB", 10),
    (1 << 20, "1 MiB", 7),
    (4 << 20, "4 MiB", 3),
];

/// A histogram of latencies, in classes a 64th wide.
#[derive(Clone, Default)]
struct Latencies {
    classes: BTreeMap<u32, u64>,
    count: u64,
    most: f64,
}

impl Latencies {
    fn add(&mut self, took: Duration) {
        let us = took.as_secs_f64() * 1e6;
        *self.classes.entry((us.max(1.0).log2() * 64.0) as u32).or_default() += 1;
        self.count += 1;
        self.most = self.most.max(us);
    }

    /// The quantile `part` in milliseconds.
    fn part(&self, part: f64) -> f64 {
        let mut left = (self.count as f64 * part) as u64;
        for (class, count) in &self.classes {
            if left < *count {
                return (f64::from(*class) / 64.0).exp2() / 1e3;
            }
            left -= count;
        }
        self.most / 1e3
    }
}

impl Latencies {
    fn say(&self, what: &str, secs: f64, results: &mut Results) {
        if self.count == 0 {
            return;
        }
        results.add(what, self.count as f64 / secs, "a second");
        results.add("  median", self.part(0.5), "ms");
        results.add("  99 %", self.part(0.99), "ms");
        results.add("  99.9 %", self.part(0.999), "ms");
        results.add("  the longest", self.most / 1e3, "ms");
        results.add("  99.9 % / median", self.part(0.999) / self.part(0.5), "");
    }
}

/// Reads and writes in flight, and the latencies of those that have ended.
struct Mix {
    writes: VecDeque<(u64, usize, Instant)>,
    reads: BTreeMap<ReadId, (usize, Instant)>,
    took: [[Latencies; SIZES.len()]; 2],
}

impl Mix {
    fn new() -> Self {
        Self { writes: VecDeque::new(), reads: BTreeMap::new(), took: Default::default() }
    }

    /// Starts a write of this size at a random place.
    fn write(&mut self, bench: &mut Bench, kind: usize, objects: u64, data: &Buf) -> Result<()> {
        let (object, offset) = place(bench, kind, objects);
        let now = Instant::now();
        let id = bench.submit(vec![TxnOp::Write(object, offset, part(data, SIZES[kind].0))])?;
        self.writes.push_back((id, kind, now));
        self.take(bench);
        Ok(())
    }

    /// Starts a read of this size at a random place.
    fn read(&mut self, bench: &mut Bench, kind: usize, objects: u64, class: ReadClass) -> Result<()> {
        let (object, offset) = place(bench, kind, objects);
        let now = Instant::now();
        // The answer may be here already.
        let id = bench.driven.ask_as(class, data_of(object, offset, SIZES[kind].0))?;
        self.reads.insert(id, (kind, now));
        self.take(bench);
        Ok(())
    }

    /// The number in flight of the chosen kinds.
    fn under_way(&self, is_it: impl Fn(usize) -> bool) -> u64 {
        let writes = self.writes.iter().map(|w| w.1);
        writes.chain(self.reads.values().map(|r| r.0)).filter(|kind| is_it(*kind)).count() as u64
    }

    fn drain(&mut self, bench: &mut Bench) -> Result<()> {
        while self.under_way(|_| true) > 0 {
            bench.driven.step()?;
            self.take(bench);
        }
        Ok(())
    }

    fn take(&mut self, bench: &mut Bench) {
        while let Some((id, kind, at)) = self.writes.front().copied()
            && id <= bench.driven.committed
        {
            self.writes.pop_front();
            self.took[1][kind].add(at.elapsed());
        }
        for (id, _) in std::mem::take(&mut bench.driven.answers) {
            if let Some((kind, at)) = self.reads.remove(&id) {
                self.took[0][kind].add(at.elapsed());
            }
        }
    }
}

/// Random reads and writes of all sizes, half and half, on a store filled to a given percentage.
pub(super) fn mixed(bench: &mut Bench, args: &BenchArgs, results: &mut Results) -> Result<()> {
    let objects = fill_to(bench, args.full, results)?;
    let time = Duration::from_secs(args.seconds.unwrap_or(600));
    let data = Buf::pattern(1, LARGE as usize);
    let bar = progress("{pos} of {len} s of mixed load");
    bar.set_length(time.as_secs());
    let mut mix = Mix::new();
    let (begin, before, mut bytes) = (Instant::now(), bench.driven.written, 0);
    while begin.elapsed() < time {
        bar.set_position(begin.elapsed().as_secs());
        let kind = draw(bench);
        if bench.rng.chance(1, 2) {
            mix.write(bench, kind, objects, &data)?;
            bytes += SIZES[kind].0;
        } else {
            mix.read(bench, kind, objects, ReadClass::Client)?;
        }
        while mix.under_way(|_| true) >= args.in_flight {
            bench.driven.step()?;
            mix.take(bench);
        }
    }
    mix.drain(bench)?;
    bar.finish_and_clear();
    let secs = begin.elapsed().as_secs_f64();
    for (what, took) in ["read", "write"].into_iter().zip(&mix.took) {
        for ((_, size, _), took) in SIZES.iter().zip(took) {
            took.say(&format!("{what} {size}"), secs, results);
        }
    }
    let written = bench.driven.written - before;
    results.add("bytes to disk for each byte", written as f64 / bytes as f64, "");
    Ok(())
}

/// A random object, and an offset in it for something of this size.
fn place(bench: &mut Bench, kind: usize, objects: u64) -> (store::ObjectKey, u64) {
    let len = SIZES[kind].0;
    (Bench::object(bench.rng.below(objects)), bench.rng.below(LARGE / len) * len)
}

/// The load beside the small reads and writes of [`classes`].
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    Reads(ReadClass),
    Writes,
}

/// Measures latencies of small reads and writes, half and half, and the throughput of other load at the same
/// time.
pub(super) fn classes(bench: &mut Bench, args: &BenchArgs, results: &mut Results) -> Result<()> {
    const OTHERS: u64 = 4;
    bench.fill(results)?;
    let time = Duration::from_secs(args.seconds.unwrap_or(10));
    let data = Buf::pattern(1, LARGE as usize);
    let large = SIZES.len() - 1;
    for (name, beside) in [
        ("alone", Beside::Nothing),
        ("beside 4 reads of 4 MiB like a client's", Beside::Reads(ReadClass::Client)),
        ("beside 4 reads of 4 MiB for recovery", Beside::Reads(ReadClass::Recovery)),
        ("beside 4 reads of 4 MiB for scrub", Beside::Reads(ReadClass::Scrub)),
        ("beside 4 writes of 64 KiB to 4 MiB", Beside::Writes),
    ] {
        let mut mix = Mix::new();
        let (begin, mut bytes) = (Instant::now(), 0);
        while begin.elapsed() < time {
            while mix.under_way(|kind| kind > 0) < OTHERS && !matches!(beside, Beside::Nothing) {
                let kind = if let Beside::Writes = beside { 2 + bench.rng.below(4) as usize } else { large };
                match beside {
                    Beside::Reads(class) => mix.read(bench, kind, OBJECTS, class)?,
                    _ => mix.write(bench, kind, OBJECTS, &data)?,
                }
                bytes += SIZES[kind].0;
            }
            if mix.under_way(|kind| kind == 0) >= args.in_flight {
                bench.driven.step()?;
                mix.take(bench);
            } else if bench.rng.chance(1, 2) {
                mix.write(bench, 0, OBJECTS, &data)?;
            } else {
                mix.read(bench, 0, OBJECTS, ReadClass::Client)?;
            }
        }
        mix.drain(bench)?;
        let secs = begin.elapsed().as_secs_f64();
        mix.took[0][0].say(&format!("read 4 KiB {name}"), secs, results);
        mix.took[1][0].say(&format!("write 4 KiB {name}"), secs, results);
        results.add("the others", mib(bytes, begin), "MiB/s");
    }
    Ok(())
}

/// A random size, by the percentages.
fn draw(bench: &mut Bench) -> usize {
    let mut left = bench.rng.below(SIZES.iter().map(|s| s.2).sum());
    let is_it = |share: u64| {
        let is_it = left < share;
        left = left.wrapping_sub(share);
        is_it
    };
    SIZES.iter().map(|s| s.2).position(is_it).expect("less than all shares")
}

/// The percentage of the device that is used.
fn taken(bench: &Bench) -> f64 {
    let usage = bench.driven.store.usage();
    (usage.allocated + usage.metadata) as f64 * 100.0 / usage.total as f64
}

/// Writes large objects until a percentage of the device is used. Returns their number.
fn fill_to(bench: &mut Bench, percent: u64, results: &mut Results) -> Result<u64> {
    let bar = progress("{pos} of {len} % full");
    bar.set_length(percent);
    let mut objects = 0;
    while taken(bench) < percent as f64 {
        bench.write_large(objects, 1)?;
        objects += 1;
        bar.set_position(taken(bench) as u64);
    }
    bar.finish_and_clear();
    bench.settle()?;
    results.add("full", taken(bench), "%");
    Ok(objects)
}

/// The objects of a store that ages.
#[derive(Default)]
struct Population {
    /// The number and size of each object.
    objects: Vec<(u64, u64)>,
    next: u64,
    /// The bytes of all objects, and the bytes ever written.
    bytes: u64,
    written: u64,
}

impl Population {
    /// Creates, overwrites or deletes an object; all together stay between `least` and `most` bytes.
    fn change(&mut self, bench: &mut Bench, least: u64, most: u64, data: &Buf) -> Result<u64> {
        let (what, size) = (bench.rng.below(4), SIZES[bench.rng.below(SIZES.len() as u64) as usize].0);
        let creates = self.bytes < least || what == 0 && self.bytes + size <= most;
        if creates {
            let id = self.next;
            self.next += 1;
            self.objects.push((id, size));
            (self.bytes, self.written) = (self.bytes + size, self.written + size);
            return bench.submit(vec![TxnOp::Write(Bench::object(id), 0, part(data, size))]);
        }
        let at = bench.rng.below(self.objects.len() as u64) as usize;
        let (id, size) = self.objects[at];
        if what <= 1 || self.bytes > most {
            self.objects.swap_remove(at);
            self.bytes -= size;
            return bench.submit(vec![TxnOp::Remove(Bench::object(id))]);
        }
        let few = SIZES.iter().filter(|s| s.0 <= size).count() as u64;
        let len = SIZES[bench.rng.below(few) as usize].0;
        let offset = bench.rng.below((size - len) / 4096 + 1) * 4096;
        self.written += len;
        bench.submit(vec![TxnOp::Write(Bench::object(id), offset, part(data, len))])
    }

    /// The large objects, in the order in which they were created.
    fn large(&self) -> Vec<u64> {
        let mut large: Vec<u64> = self.objects.iter().filter(|o| o.1 == LARGE).map(|o| o.0).collect();
        large.sort_unstable();
        large
    }

    /// Removes half of the objects.
    fn halve(&mut self, bench: &mut Bench) -> Result<()> {
        let half = self.bytes / 2;
        while self.bytes > half
            && let Some((id, size)) = self.objects.pop()
        {
            self.bytes -= size;
            let last = bench.submit(vec![TxnOp::Remove(Bench::object(id))])?;
            bench.driven.wait(last, 15)?;
        }
        bench.settle()
    }
}

fn part(data: &Buf, len: u64) -> stdx::Bufs {
    data.slice(0..len as usize).into()
}

/// Measures sequential reads of large objects before and after the store was overwritten a number of times;
/// `fresh` makes a new store on the same device, which shows changes of the device itself.
pub(super) fn ageing(
    mut bench: Bench,
    args: &BenchArgs,
    fresh: impl Fn() -> Result<Option<Bench>>,
    results: &mut Results,
) -> Result<()> {
    let total = bench.driven.store.usage().total;
    let few: Vec<u64> = (0..total / 4 / LARGE).collect();
    write_all(&mut bench, &few)?;
    let first = read_all(&mut bench, &few, "fresh", results)?;
    for id in &few {
        bench.submit(vec![TxnOp::Remove(Bench::object(*id))])?;
    }
    bench.settle()?;
    let mut all = Population { next: few.len() as u64, ..Population::default() };
    let goal = total * args.turns.unwrap_or(20);
    let most = total / 100 * args.full;
    let data = Buf::pattern(1, LARGE as usize);
    let bar = progress("{bytes} of {total_bytes} written");
    bar.set_length(goal);
    let (begin, before) = (Instant::now(), bench.driven.written);
    while all.written < goal {
        let last = all.change(&mut bench, most / 8 * 7, most, &data)?;
        bench.driven.wait(last, args.in_flight - 1)?;
        bar.set_position(all.written);
    }
    bench.settle()?;
    bar.finish_and_clear();
    results.add("growing old", mib(all.written, begin), "MiB/s");
    results.add("  full", taken(&bench), "%");
    let written = bench.driven.written - before;
    results.add("  bytes to disk for each byte", written as f64 / all.written as f64, "");
    let old = read_all(&mut bench, &all.large(), "old, objects as they are", results)?;
    all.halve(&mut bench)?;
    let few: Vec<u64> = (all.next..all.next + few.len() as u64).collect();
    write_all(&mut bench, &few)?;
    let new = read_all(&mut bench, &few, "old, objects written now", results)?;
    drop(bench);
    let again = match fresh()? {
        Some(mut bench) => {
            write_all(&mut bench, &few)?;
            read_all(&mut bench, &few, "fresh again", results)?
        }
        None => first,
    };
    let reference = f64::midpoint(first, again);
    results.add("old / fresh, objects as they are", old / reference, "");
    results.add("old / fresh, objects written now", new / reference, "");
    Ok(())
}

fn write_all(bench: &mut Bench, objects: &[u64]) -> Result<()> {
    objects.iter().try_for_each(|i| bench.write_large(*i, 4))?;
    bench.settle()
}

/// Reads whole objects one after another, four in flight. Returns the median of three rounds in MiB/s.
fn read_all(bench: &mut Bench, objects: &[u64], what: &str, results: &mut Results) -> Result<f64> {
    if objects.is_empty() {
        bail!("there are no objects of 4 MiB to read: give it more room");
    }
    let mut rounds = Vec::new();
    for _ in 0..3 {
        let (begin, mut missing, mut bytes) = (Instant::now(), 0, 0);
        for (i, id) in objects.iter().enumerate() {
            bench.driven.ask(data_of(Bench::object(*id), 0, LARGE))?;
            missing += 1;
            let left = if i + 1 == objects.len() { 0 } else { 3 };
            while missing > left {
                for (_, answer) in std::mem::take(&mut bench.driven.answers) {
                    missing -= 1;
                    let store::ReadReply::Object(Some(view)) = answer else { bail!("an object is gone") };
                    bytes += view.data.iter().map(|data| data.len() as u64).sum::<u64>();
                }
                if missing > left {
                    bench.driven.step()?;
                }
            }
        }
        rounds.push(mib(bytes, begin));
    }
    rounds.sort_by(f64::total_cmp);
    results.add(&format!("sequential reads, {what}"), rounds[1], "MiB/s");
    results.add("  objects", objects.len() as f64, "");
    Ok(rounds[1])
}

/// Overwrites live data at random a number of times, and counts the bytes written to the disk.
pub(super) fn steady(bench: &mut Bench, args: &BenchArgs, results: &mut Results) -> Result<()> {
    let (live, len) = (args.live.unwrap_or(bench.driven.store.usage().total / 2), args.io_size);
    if !len.is_multiple_of(4096) || len == 0 || !LARGE.is_multiple_of(len) || live < LARGE {
        bail!("--io-size divides 4M and is a multiple of 4K, and --live is at least 4M");
    }
    let objects = live / LARGE;
    let bar = progress("{bytes} of {total_bytes} written");
    let turns = args.turns.unwrap_or(10);
    bar.set_length(live * (turns + 1));
    for i in 0..objects {
        bench.write_large(i, 4)?;
        bar.set_position((i + 1) * LARGE);
    }
    bench.settle()?;
    results.add("full", taken(bench), "%");
    let data: Vec<Buf> = (0..4).map(|i| Buf::pattern(i, len as usize)).collect();
    let mut steady = (0, 0);
    for turn in 0..turns {
        let (begin, before) = (Instant::now(), bench.driven.written);
        for i in 0..live / len {
            let (object, at) = (Bench::object(bench.rng.below(objects)), bench.rng.below(LARGE / len) * len);
            let bytes = data[i as usize % data.len()].clone();
            let last = bench.submit(vec![TxnOp::Write(object, at, bytes.into())])?;
            bench.driven.wait(last, args.in_flight - 1)?;
            if i.is_multiple_of(64) {
                bar.set_position(live * (turn + 1) + i * len);
            }
        }
        let written = bench.driven.written - before;
        results.add(
            &format!("turn {}", turn + 1),
            (live / len) as f64 / begin.elapsed().as_secs_f64(),
            "a second",
        );
        results.add("  bytes to disk for each byte", written as f64 / live as f64, "");
        if turn > 0 || turns == 1 {
            steady = (steady.0 + written, steady.1 + live);
        }
    }
    bar.finish_and_clear();
    results.add("bytes to disk for each byte, after the first turn", steady.0 as f64 / steady.1 as f64, "");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_latencies_is_within_a_64th() {
        let mut took = Latencies::default();
        (1..=1000).for_each(|ms| took.add(Duration::from_millis(ms)));
        for part in [0.5, 0.99, 0.999] {
            let exact = 1000.0 * part;
            let found = took.part(part);
            assert!((found / exact - 1.0).abs() < 0.02, "{part}: {found} ms");
        }
        assert_eq!(took.part(1.0), 1000.0);
    }
}
