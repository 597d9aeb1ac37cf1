//! Names, as `mdtest` measures them: each worker has its files and directories, all in one directory, and
//! then each worker's in one of its own.

use super::super::round::{Round, Unit, content};
use super::super::workers::Worker;
use anyhow::{Context, Result};
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

pub(super) const PHASES: u64 = 20;
/// Bytes that are written to each file.
const CONTENT: u64 = 4096;

pub(super) fn measure(round: &mut Round<'_>) -> Result<()> {
    for (place, is_shared) in [("one directory", true), ("private", false)] {
        let top = round.dir.join(if is_shared { "shared" } else { "private" });
        fs::create_dir(&top).with_context(|| top.display().to_string())?;
        let dir_of = |worker: u64| if is_shared { top.clone() } else { top.join(worker.to_string()) };
        if !is_shared {
            (0..round.args.threads).try_for_each(|worker| fs::create_dir(dir_of(worker)))?;
        }
        directories(round, place, &dir_of)?;
        files(round, place, &dir_of)?;
    }
    Ok(())
}

/// The names of a worker in a phase, `kind` in each.
fn names(dir: &Path, kind: &str, worker: u64, count: u64) -> Vec<PathBuf> {
    (0..count).map(|n| dir.join(format!("{kind}-{worker}-{n}"))).collect()
}

/// A phase in which each worker does something to each of its names, in their order or in another one.
fn each(
    round: &mut Round<'_>,
    name: &str,
    kind: &str,
    shuffled: bool,
    dir_of: &(impl Fn(u64) -> PathBuf + Sync),
    act: impl Fn(&Path) -> std::io::Result<()> + Sync,
) -> Result<()> {
    let count = round.args.files;
    let work = |paths: &mut Vec<PathBuf>, worker: &mut Worker<'_>| {
        if shuffled {
            worker.rng.shuffle(paths);
        }
        paths.iter().try_for_each(|path| worker.op(|| act(path)).with_context(|| path.display().to_string()))
    };
    round.phase(name, Unit::Operations, |n| Ok(names(&dir_of(n), kind, n, count)), work)
}

fn stat(path: &Path) -> std::io::Result<()> {
    fs::symlink_metadata(path).map(drop)
}

/// Gives a path another name in the same directory.
fn rename(path: &Path) -> std::io::Result<()> {
    fs::rename(path, path.with_extension("moved"))
}

fn directories(round: &mut Round<'_>, place: &str, dir_of: &(impl Fn(u64) -> PathBuf + Sync)) -> Result<()> {
    each(round, &format!("mkdir, {place}"), "dir", false, dir_of, |path| fs::create_dir(path))?;
    each(round, &format!("stat of directories, {place}"), "dir", true, dir_of, stat)?;
    each(round, &format!("rename of directories, {place}"), "dir", false, dir_of, rename)?;
    each(round, &format!("rmdir, {place}"), "dir", false, dir_of, |path| {
        fs::remove_dir(path.with_extension("moved"))
    })
}

fn files(round: &mut Round<'_>, place: &str, dir_of: &(impl Fn(u64) -> PathBuf + Sync)) -> Result<()> {
    let bytes = content(&mut round.rng, CONTENT);
    each(round, &format!("create, {place}"), "file", false, dir_of, |path| {
        OpenOptions::new().write(true).create_new(true).open(path).map(drop)
    })?;
    each(round, &format!("stat, {place}"), "file", true, dir_of, stat)?;
    each(round, &format!("write 4 KiB, {place}"), "file", false, dir_of, |path| {
        OpenOptions::new().write(true).open(path)?.write_all(&bytes)
    })?;
    each(round, &format!("read 4 KiB, {place}"), "file", true, dir_of, |path| {
        fs::File::open(path)?.read_exact(&mut [0; CONTENT as usize])
    })?;
    each(round, &format!("rename, {place}"), "file", false, dir_of, rename)?;
    each(round, &format!("unlink, {place}"), "file", false, dir_of, |path| {
        fs::remove_file(path.with_extension("moved"))
    })
}
