//! The block devices of a host: which are unused, and why the others are not taken.

use super::ask::agrees;
use crate::cmd::probe;
use crate::device::SMALLEST;
use anyhow::{Result, bail};
use comfy_table::{Table, presets};
use runtime::DiskOpenError;
use std::path::{Path, PathBuf};

/// A block device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Disk {
    /// `/dev/sdb`.
    pub(crate) path: PathBuf,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// What its maker calls it.
    pub(crate) model: String,
    /// What it is used for, or why it can't be used; `None` if it is unused.
    pub(crate) used: Option<String>,
}

/// Drivers whose devices are not disks, or are made of others: these are taken only if they are named.
const SKIPPED: [&str; 9] = ["loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "zd"];

/// The host's disks, by name.
pub(crate) fn find() -> Vec<Disk> {
    let entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| !SKIPPED.iter().any(|driver| name.starts_with(driver))).collect();
    names.sort();
    names.iter().map(|name| look_at(name)).collect()
}

fn look_at(name: &str) -> Disk {
    let attribute = |file: &str| {
        let text = std::fs::read_to_string(Path::new("/sys/block").join(name).join(file));
        text.map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let path = Path::new("/dev").join(name.replace('!', "/"));
    let size = attribute("size").parse::<u64>().unwrap_or(0) * 512;
    let used = if attribute("ro") == "1" {
        Some("is read-only".to_owned())
    } else if attribute("removable") == "1" {
        Some("is removable: name it to take it".to_owned())
    } else if size < SMALLEST {
        Some(format!("is smaller than {} MiB", SMALLEST >> 20))
    } else {
        content(&path)
    };
    Disk { path, size, model: attribute("device/model"), used }
}

/// The use of a device; `None` if it is empty and nobody has it open.
fn content(path: &Path) -> Option<String> {
    if let Some(used) = runtime::kernel_use(path) {
        return Some(used);
    }
    let parts = runtime::partitions(path);
    if !parts.is_empty() {
        return Some(format!("has {}", parts.join(", ")));
    }
    match runtime::open_alone(path, false) {
        Err(DiskOpenError::Locked(_)) => Some("is in use by a process".to_owned()),
        Err(error) => Some(error.to_string()),
        Ok(file) => match probe::find(&file, path) {
            Ok(found) => found.map(|found| format!("holds {found}")),
            Err(error) => Some(format!("{error:#}")),
        },
    }
}

/// Disks as a table for people.
pub(crate) fn table(disks: &[Disk]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["DISK", "SIZE", "MODEL", "STATE"]);
    for disk in disks {
        let gib = format!("{:.1} GiB", disk.size as f64 / f64::from(1 << 30));
        let state = disk.used.clone().unwrap_or_else(|| "unused".to_owned());
        table.add_row([disk.path.display().to_string(), gib, disk.model.clone(), state]);
    }
    table
}

/// The unused disks, shown and asked for.
pub(crate) fn choose(yes: bool) -> Result<Vec<PathBuf>> {
    let disks = find();
    let free: Vec<PathBuf> = disks.iter().filter(|d| d.used.is_none()).map(|d| d.path.clone()).collect();
    say!("{}\n", table(&disks));
    if free.is_empty() {
        bail!(
            "no disk is unused: name a disk, partition, file or directory with --disk, or give --no-disks to \
             store nothing on this host"
        );
    }
    let names: Vec<String> = free.iter().map(|path| path.display().to_string()).collect();
    if !agrees(&format!("Give {} to the cluster?", names.join(", ")), yes)? {
        bail!("nothing was taken: name the disks with --disk, or give --no-disks");
    }
    Ok(free)
}
