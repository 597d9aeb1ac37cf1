//! Disks, partitions, files and directories that become an OSD's device.

use crate::cmd::probe;
use anyhow::{Context, Result, bail};
use node::DiskId;
use runtime::{Access, DiskBackend, DiskOpenError, DiskPool, DiskSpec};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

/// The range at the beginning and end of a device that identifies its content, in bytes.
const ERASED: u64 = 2 << 20;
/// The least size of a store, in bytes.
pub(crate) const SMALLEST: u64 = 64 << 20;

/// The file or device that a target names: for an empty directory the file that is made in it.
pub(crate) fn path_of(target: &Path) -> Result<PathBuf> {
    if target.is_dir() { in_directory(target) } else { Ok(target.to_owned()) }
}

/// Makes a target ready: allocates a new file of `size` bytes, or checks that what is there is empty and not
/// in use; with `wipe` its content is erased.
pub(crate) fn prepare(target: &Path, size: u64, wipe: bool) -> Result<PathBuf> {
    let path = path_of(target)?;
    if std::fs::symlink_metadata(&path).is_err() {
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.with_context(|| format!("cannot create {}", path.display()))?;
        allocate(&file, &path, size).inspect_err(|_| {
            // The file was empty.
            let _ = std::fs::remove_file(&path);
        })?;
    } else {
        take_over(&path, size, wipe)?;
    }
    Ok(path)
}

/// Says what a device can do, found out by asking it.
pub(crate) fn describe(path: &Path) -> Result<String> {
    let spec =
        DiskSpec { path: path.to_owned(), id: DiskId(0), create_size: None, access: Access::default() };
    let disk = runtime::open_disk(&spec, &DiskPool::new(1))?;
    let info = disk.info();
    Ok(format!(
        "{} MiB, sectors of {} bytes, {}; {}",
        info.size >> 20,
        info.sector,
        disk.describe(),
        disk.describe_discards()
    ))
}

/// Allocates a new file's space, so that the file system can't become full under the store.
fn allocate(file: &File, path: &Path, size: u64) -> Result<()> {
    if size < SMALLEST {
        bail!("--size {size}: an OSD needs at least {} MiB", SMALLEST >> 20);
    }
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size) {
        Ok(()) => {}
        Err(Errno::OPNOTSUPP) => {
            eprintln!(
                "nacre: the file system of {} can not reserve space: the file is sparse",
                path.display()
            );
            file.set_len(size).with_context(|| format!("cannot size {}", path.display()))?;
        }
        Err(error) => {
            let large = matches!(error, Errno::NOSPC | Errno::FBIG | Errno::DQUOT);
            let hint = if large { ": free some space, or give a smaller --size" } else { "" };
            bail!("cannot allocate {} MiB for {} ({error}){hint}", size >> 20, path.display());
        }
    }
    let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = file.sync_all().and_then(|()| File::open(dir)?.sync_all());
    synced.with_context(|| format!("cannot sync {}", path.display()))
}

/// The file in a directory that holds nothing else.
fn in_directory(dir: &Path) -> Result<PathBuf> {
    let block = dir.join("block");
    let names = std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut names: Vec<String> = names
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| name != "block" && name != "lost+found" && name != "keyring")
        .collect();
    names.sort_unstable();
    if let Some(first) = names.first()
        && std::fs::symlink_metadata(&block).is_err()
    {
        let more = match names.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        bail!("{} is not empty, it holds {first}{more}: give an empty directory", dir.display());
    }
    Ok(block)
}

/// Refuses a target that is in use, or that holds something that may not be erased.
fn take_over(path: &Path, new_size: u64, erase: bool) -> Result<()> {
    let kind =
        std::fs::metadata(path).with_context(|| format!("cannot examine {}", path.display()))?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        bail!("{} is neither a directory, a file nor a block device", path.display());
    }
    if let Some(found) = runtime::kernel_use(path) {
        bail!(
            "{} {found}: free it first, or give another target; no option erases what is in use",
            path.display()
        );
    }
    let file = runtime::open_alone(path, false).map_err(|error| match error {
        DiskOpenError::Locked(path) => anyhow::anyhow!("{}: stop that one first", probe::held(&path)),
        error => error.into(),
    })?;
    let size = probe::size(&file)?;
    if kind.is_file() && size == 0 {
        return allocate(&file, path, new_size);
    }
    if size < SMALLEST {
        bail!("{} has {size} bytes: an OSD needs at least {} MiB", path.display(), SMALLEST >> 20);
    }
    let parts = runtime::partitions(path);
    let with_parts = |what: String| match parts.len() {
        0 => what,
        _ => format!("{what} with {}", parts.join(", ")),
    };
    let found = probe::find(&file, path)?.or_else(|| (!parts.is_empty()).then(|| "partitions".to_owned()));
    let Some(found) = found.map(with_parts) else { return Ok(()) };
    if !erase {
        let path = path.display();
        bail!("{path} holds {found}: give another, or erase it with `nacre osd create --wipe {path}`");
    }
    wipe(&file, path)?;
    if !parts.is_empty() {
        runtime::forget_partitions(&file).with_context(|| {
            format!("erased {found}, but the kernel still knows partitions of {}", path.display())
        })?;
    }
    println!("erased: {found}");
    Ok(())
}

/// Erases the identification of a device's content, at its beginning and its end.
fn wipe(file: &File, path: &Path) -> Result<()> {
    let size = probe::size(file)?;
    let zeros = vec![0; 1 << 16];
    let ends = [0..ERASED.min(size), size.saturating_sub(ERASED)..size];
    for range in ends {
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).min(zeros.len() as u64) as usize;
            file.write_all_at(&zeros[..len], at)
                .with_context(|| format!("cannot erase {}", path.display()))?;
            at += len as u64;
        }
    }
    file.sync_all().with_context(|| format!("cannot erase {}", path.display()))
}

/// Erases the store of an OSD that has been removed, so that its device counts as empty.
pub(crate) fn erase(path: &Path) -> Result<()> {
    wipe(&runtime::open_alone(path, false)?, path)
}

/// Refuses if `block` in an OSD's directory names something else already.
pub(crate) fn check_link(path: &Path, data: &Path) -> Result<()> {
    if !data.is_dir() {
        bail!("{} is no directory: make it first", data.display());
    }
    let block = data.join("block");
    let Ok(there) = std::fs::symlink_metadata(&block) else { return Ok(()) };
    let same = std::fs::canonicalize(&block).ok().zip(std::fs::canonicalize(path).ok());
    if same.is_some_and(|(a, b)| a == b) {
        return Ok(());
    }
    let what = if there.is_symlink() { "names another device" } else { "is a device of its own" };
    bail!("{} is there already and {what}: give another --data", block.display());
}

/// Has `block` in an OSD's directory name the device.
pub(crate) fn link(path: &Path, data: &Path) -> Result<()> {
    let block = data.join("block");
    if std::fs::symlink_metadata(&block).is_ok() {
        return Ok(());
    }
    let path = std::fs::canonicalize(path)?;
    std::os::unix::fs::symlink(&path, &block)
        .with_context(|| format!("cannot link {} to {}", block.display(), path.display()))
}
