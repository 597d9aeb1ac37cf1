//! Large files, as `IOR` measures them: one that all workers share, or one for each. What one worker has
//! written another one reads, and writes count until they are durable.

use super::super::round::{Round, Unit, content, open_cold, open_or_make};
use super::super::workers::Worker;
use anyhow::Result;
use std::fs::File;
use std::os::unix::fs::FileExt;

pub(super) const PHASES_SHARED: u64 = 4;
pub(super) const PHASES_EACH: u64 = 2;
/// The size of transfers; of small files, the file's.
const LARGE: u64 = 1 << 20;
/// The size of transfers that take turns in the file: they fit no block of it, as in IO500's hard part.
const ODD: u64 = 47_008;

/// One file: each worker has a part of it, and then every n-th transfer of it.
pub(super) fn shared(round: &mut Round<'_>) -> Result<()> {
    let (threads, size) = (round.args.threads, round.args.size);
    let large = LARGE.min(size);
    let parts = move |worker: u64| (0..size / large).map(move |n| worker * size + n * large);
    transfers(round, "", large, |_| "shared".into(), parts)?;
    let turns = round.args.ops.min((size / ODD).max(1));
    let strided = move |worker: u64| (0..turns).map(move |n| (n * threads + worker) * ODD);
    transfers(round, " 47008 bytes in turn", ODD, |_| "strided".into(), strided)
}

/// A file for each worker.
pub(super) fn each(round: &mut Round<'_>) -> Result<()> {
    let size = round.args.size;
    let large = LARGE.min(size);
    transfers(round, "", large, |n| format!("each-{n}"), move |_| (0..size / large).map(move |n| n * large))
}

/// Writes and reads. `file` and `offsets` are those of a worker.
fn transfers<I: Iterator<Item = u64>>(
    round: &mut Round<'_>,
    name: &str,
    len: u64,
    file: impl Fn(u64) -> String + Sync,
    offsets: impl Fn(u64) -> I + Sync,
) -> Result<()> {
    let (dir, threads) = (round.dir, round.args.threads);
    let data = content(&mut round.rng, len);
    let write = |to: &mut File, w: &mut Worker<'_>| {
        offsets(w.number).try_for_each(|at| w.moved(len, || to.write_all_at(&data, at)))?;
        Ok(to.sync_all()?)
    };
    round.phase(&format!("write{name}"), Unit::Bytes, |n| open_or_make(&dir.join(file(n))), write)?;
    let other = |n: u64| (n + 1) % threads;
    let read = |from: &mut File, w: &mut Worker<'_>| {
        let mut buffer = vec![0; len as usize];
        offsets(other(w.number)).try_for_each(|at| w.moved(len, || from.read_exact_at(&mut buffer, at)))
    };
    round.phase(&format!("read{name}"), Unit::Bytes, |n| open_cold(&dir.join(file(other(n)))), read)
}
