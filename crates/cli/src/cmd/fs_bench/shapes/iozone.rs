//! Sizes of records, as `iozone` measures them: each worker writes a new file, writes it again, reads it and
//! reads it again. The second read may come from caches.

use super::super::round::{Round, Unit, content, open_cold, open_or_make};
use super::super::workers::Worker;
use anyhow::Result;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The sizes of records, and their names.
const RECORDS: [(u64, &str); 4] =
    [(4 << 10, "4 KiB"), (16 << 10, "16 KiB"), (128 << 10, "128 KiB"), (1 << 20, "1 MiB")];

/// Sizes that fit a file.
fn records(size: u64) -> impl Iterator<Item = (u64, &'static str)> {
    RECORDS.into_iter().filter(move |(record, _)| *record <= size)
}

pub(super) fn phases(size: u64) -> u64 {
    4 * records(size).count() as u64
}

pub(super) fn measure(round: &mut Round<'_>) -> Result<()> {
    let size = round.args.size;
    for (record, name) in records(size) {
        let data = content(&mut round.rng, record);
        let offsets = || (0..size / record).map(|n| n * record);
        let paths: Vec<_> = (0..round.args.threads).map(|n| round.path(name, n)).collect();
        let path = |n: u64| &paths[n as usize];
        let write = |file: &mut File, w: &mut Worker<'_>| {
            offsets().try_for_each(|at| w.moved(record, || file.write_all_at(&data, at)))?;
            Ok(file.sync_all()?)
        };
        round.phase(&format!("write {name}"), Unit::Bytes, |n| open_or_make(path(n)), write)?;
        round.phase(&format!("rewrite {name}"), Unit::Bytes, |n| open_or_make(path(n)), write)?;
        let read = |file: &mut File, w: &mut Worker<'_>| {
            let mut buffer = vec![0; record as usize];
            offsets().try_for_each(|at| w.moved(record, || file.read_exact_at(&mut buffer, at)))
        };
        round.phase(&format!("read {name}"), Unit::Bytes, |n| open_cold(path(n)), read)?;
        round.phase(&format!("reread {name}"), Unit::Bytes, |n| Ok(File::open(path(n))?), read)?;
        paths.iter().try_for_each(std::fs::remove_file)?;
    }
    Ok(())
}
