//! A store under the load of `nacre store bench`, and the results of measurements.

use super::store_bench_args::BenchArgs;
use super::store_driver::Driven;
use super::terminal::Format;
use anyhow::{Result, anyhow, bail};
use runtime::FileDisk;
use serde_json::json;
use std::io::Write;
use std::time::{Duration, Instant};
use stdx::{Buf, Rng};
use store::{Config, MkfsInfo, ObjectKey, Read, ReadReply, Transaction, TxnOp};

/// The size of the objects that are overwritten, in bytes.
pub(super) const LARGE: u64 = 4 << 20;
/// The number of objects that are overwritten.
pub(super) const OBJECTS: u64 = 256;

/// What was measured.
pub(super) struct Results {
    format: Format,
    only: Vec<String>,
    lines: Vec<serde_json::Value>,
}

impl Results {
    /// Nothing measured yet; only what has a part of `only` in its name will be, if there are any.
    pub(super) fn new(format: Format, only: Vec<String>) -> Self {
        Self { format, only, lines: Vec::new() }
    }

    pub(super) fn wants(&self, name: &str) -> bool {
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

    pub(super) fn finish(self) -> Result<()> {
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
    pub(super) fn open(disk: FileDisk, config: Config) -> Result<Self> {
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

    pub(super) fn overwrite(
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

    pub(super) fn read_at_random(
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
    pub(super) fn small_objects(&mut self, args: &BenchArgs, results: &mut Results) -> Result<()> {
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

    pub(super) fn list(&mut self, results: &mut Results) -> Result<()> {
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
