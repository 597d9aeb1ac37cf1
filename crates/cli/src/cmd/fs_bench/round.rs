//! One round of a measurement: its directory, the load, and what was measured.

use super::args::BenchArgs;
use super::workers::{self, Phase, Worker};
use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use stdx::Rng;

/// What is measured of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// Operations a second.
    Operations,
    /// MiB a second.
    Bytes,
}

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Operations => "a second",
            Self::Bytes => "MiB/s",
        }
    }

    /// The rate of a phase.
    pub(super) fn rate(self, phase: &Phase) -> f64 {
        let amount = match self {
            Self::Operations => phase.latencies.total() as f64,
            Self::Bytes => phase.bytes as f64 / f64::from(1 << 20),
        };
        // A clock may be too coarse for very little work.
        amount / phase.seconds.max(1e-9)
    }
}

/// A round of one shape.
pub(super) struct Round<'a> {
    pub(super) dir: &'a Path,
    pub(super) args: &'a BenchArgs,
    pub(super) rng: Rng,
    pub(super) stop: &'a AtomicBool,
    pub(super) bar: &'a indicatif::ProgressBar,
    /// What was measured so far.
    pub(super) done: Vec<(String, Unit, Phase)>,
}

impl Round<'_> {
    /// Measures one phase: see [`workers::run`].
    pub(super) fn phase<S>(
        &mut self,
        name: &str,
        unit: Unit,
        prepare: impl Fn(u64) -> Result<S> + Sync,
        work: impl Fn(&mut S, &mut Worker<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        self.bar.set_message(name.to_owned());
        let phase = workers::run(self.args.threads, &mut self.rng, self.stop, prepare, work);
        self.done.push((name.to_owned(), unit, phase.with_context(|| format!("cannot measure `{name}`"))?));
        self.bar.inc(1);
        Ok(())
    }

    /// A worker's own path.
    pub(super) fn path(&self, name: &str, worker: u64) -> PathBuf {
        self.dir.join(format!("{name}-{worker}"))
    }
}

/// Opens a file for reading and writing, and makes it if it is not there.
pub(super) fn open_or_make(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    file.with_context(|| path.display().to_string())
}

/// Opens a file for reading. Its pages leave the kernel's cache, as far as the kernel heeds that: what the
/// file system's client, server and disks have in memory stays there.
pub(super) fn open_cold(path: &Path) -> Result<File> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    file.sync_all()?;
    // Without it reads are faster than they should be: the results say what is done.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(file)
}

/// Bytes to write, which cannot be compressed.
pub(super) fn content(rng: &mut Rng, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    rng.fill(&mut bytes);
    bytes
}
