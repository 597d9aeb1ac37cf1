//! `nacre osd`: runs an object storage daemon, or prepares a device for one.

use super::daemon::{self, DaemonArgs};
use super::probe;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct OsdArgs {
    #[command(flatten)]
    daemon: Option<DaemonArgs>,
    #[command(subcommand)]
    command: Option<OsdCommand>,
}

#[derive(Subcommand)]
enum OsdCommand {
    /// Prepare a directory, a file, a partition or a disk for an OSD; refuses what is not empty.
    Create(CreateArgs),
}

#[derive(Args)]
struct CreateArgs {
    /// A directory (a file is made in it), a file, a partition, or a whole disk.
    target: PathBuf,
    /// Size of a new file.
    #[arg(long, default_value = "16G", value_parser = super::size)]
    size: u64,
    /// The data directory of the OSD, where a link to the device is put.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Erase what is on the target. What is mounted or in use is never erased.
    #[arg(long)]
    wipe: bool,
}

pub(crate) fn run(args: &OsdArgs) -> Result<()> {
    match (&args.command, &args.daemon) {
        (Some(OsdCommand::Create(create)), _) => make(create),
        (None, Some(daemon)) => daemon::run(wire::EntityType::OSD, daemon),
        (None, None) => bail!("give --conf and --id, or `create TARGET`; see `nacre osd --help`"),
    }
}

/// What at its beginning says what a device holds, in bytes.
const ERASED: u64 = 2 << 20;

fn make(args: &CreateArgs) -> Result<()> {
    let path = if args.target.is_dir() { in_directory(args)? } else { args.target.clone() };
    let new = !path.exists();
    if new {
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.with_context(|| format!("cannot create {}", path.display()))?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, args.size)
            .with_context(|| format!("cannot allocate {} bytes for {}", args.size, path.display()))?;
        file.sync_all()?;
    } else {
        refuse_what_is_in_use(&path)?;
        match probe::find(&path)? {
            None => {}
            Some(found) if args.wipe => {
                wipe(&path)?;
                println!("erased: {found}");
            }
            Some(found) => bail!("{} holds {found}: --wipe would erase it", path.display()),
        }
    }
    if let Some(data) = &args.data {
        link(&path, data)?;
    }
    println!("{}: ready for an OSD, which makes its store at its first start", path.display());
    Ok(())
}

/// The file in a directory, which holds nothing else.
fn in_directory(args: &CreateArgs) -> Result<PathBuf> {
    let dir = &args.target;
    let block = dir.join("block");
    let names = std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let names: Vec<String> = names
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| name != "block" && name != "lost+found" && name != "keyring")
        .collect();
    if let Some(first) = names.first()
        && !block.exists()
    {
        bail!(
            "{} is not empty, it holds {first} and {} more: give an empty directory",
            dir.display(),
            names.len() - 1
        );
    }
    Ok(block)
}

fn refuse_what_is_in_use(path: &Path) -> Result<()> {
    let kind =
        std::fs::metadata(path).with_context(|| format!("cannot examine {}", path.display()))?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        bail!("{} is neither a directory, a file nor a block device", path.display());
    }
    if let Some(found) = probe::in_use(path)? {
        bail!("{} {found}: nothing can be made there", path.display());
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared).is_err() {
        bail!("{}: stop that one first", runtime::in_use(path));
    }
    Ok(())
}

/// Overwrites what says what the device holds, at its beginning and its end.
fn wipe(path: &Path) -> Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    let size = probe::size(&file)?;
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

/// Lets `block` in an OSD's directory name the device.
fn link(path: &Path, data: &Path) -> Result<()> {
    let block = data.join("block");
    let path = std::fs::canonicalize(path)?;
    if std::fs::canonicalize(&block).is_ok_and(|there| there == path) {
        return Ok(());
    }
    std::os::unix::fs::symlink(&path, &block)
        .with_context(|| format!("cannot link {} to {}", block.display(), path.display()))
}
