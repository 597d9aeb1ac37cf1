//! Reads and writes of files, as `fio` is mostly used: each worker has a file.

use super::super::round::{Round, Unit, content, open_cold, open_or_make};
use super::super::workers::Worker;
use anyhow::Result;
use std::fs::File;
use std::os::unix::fs::FileExt;
use stdx::Rng;

pub(super) const PHASES: u64 = 7;
/// The size of random operations.
const SMALL: u64 = 4096;
/// The size of sequential operations; of small files, the file's.
const LARGE: u64 = 1 << 20;

/// When a write is made durable.
#[derive(Clone, Copy, PartialEq)]
enum Sync {
    Never,
    AtEnd,
    Each,
    EachData,
}

pub(super) fn measure(round: &mut Round<'_>) -> Result<()> {
    let (size, large) = (round.args.size, LARGE.min(round.args.size));
    let ops = round.args.ops.min(size / SMALL);
    let (data, small) = (content(&mut round.rng, large), content(&mut round.rng, SMALL));
    let sequential = (0..size / large).map(|n| n * large).collect::<Vec<_>>();
    let at_random = |rng: &mut Rng| (0..ops).map(|_| rng.below(size / SMALL) * SMALL).collect::<Vec<_>>();
    let paths: Vec<_> = (0..round.args.threads).map(|n| round.path("fio", n)).collect();
    let open = |n: u64| open_or_make(&paths[n as usize]);
    let cold = |n: u64| open_cold(&paths[n as usize]);

    let write = |sync| {
        let (data, sequential) = (&data, &sequential);
        move |file: &mut File, w: &mut Worker<'_>| write_all(file, w, sequential, data, sync)
    };
    round.phase("sequential write", Unit::Bytes, open, write(Sync::Never))?;
    round.phase("sequential write, fsync at the end", Unit::Bytes, open, write(Sync::AtEnd))?;
    let write = |sync| {
        let small = &small;
        move |file: &mut File, w: &mut Worker<'_>| {
            let offsets = at_random(&mut w.rng);
            write_all(file, w, &offsets, small, sync)
        }
    };
    round.phase("random write 4 KiB", Unit::Operations, open, write(Sync::Never))?;
    round.phase("random write 4 KiB, fsync each", Unit::Operations, open, write(Sync::Each))?;
    round.phase("random write 4 KiB, fdatasync each", Unit::Operations, open, write(Sync::EachData))?;
    round.phase("sequential read", Unit::Bytes, cold, |file, w| read_all(file, w, &sequential, large))?;
    round.phase("random read 4 KiB", Unit::Operations, cold, |file, w| {
        let offsets = at_random(&mut w.rng);
        read_all(file, w, &offsets, SMALL)
    })
}

fn write_all(
    file: &mut File,
    worker: &mut Worker<'_>,
    offsets: &[u64],
    data: &[u8],
    sync: Sync,
) -> Result<()> {
    for &at in offsets {
        worker.moved(data.len() as u64, || {
            file.write_all_at(data, at)?;
            match sync {
                Sync::Each => file.sync_all(),
                Sync::EachData => file.sync_data(),
                Sync::Never | Sync::AtEnd => Ok(()),
            }
        })?;
    }
    if sync == Sync::AtEnd {
        // Counts in the time, and is no operation.
        file.sync_all()?;
    }
    Ok(())
}

fn read_all(file: &mut File, worker: &mut Worker<'_>, offsets: &[u64], len: u64) -> Result<()> {
    let mut buffer = vec![0; len as usize];
    offsets.iter().try_for_each(|&at| worker.moved(len, || file.read_exact_at(&mut buffer, at)))
}
