//! `nacre disk`: the disks of this host.

use super::terminal::Format;
use crate::device;
use crate::host::{
    Disk, Host, HostPaths, MemberArgs, Osd, agrees, check_drain, choose, disk_table, drain, find_disks, list,
    prepare, query, register_osds, retire, wait_while,
};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time in which `nacre run` starts a new OSD.
const START: Duration = Duration::from_secs(30);

#[derive(Args)]
pub(crate) struct DiskCommands {
    #[command(subcommand)]
    command: DiskCommand,
}

#[derive(Subcommand)]
enum DiskCommand {
    /// List the disks of this host, and what they are used for.
    Ls(LsArgs),
    /// Store on further disks.
    Add(AddArgs),
    /// Move the data of a disk to others, then give the disk back.
    Remove(RemoveArgs),
    /// Store on a new disk in place of another one, which may be dead.
    Replace(ReplaceArgs),
}

#[derive(Args)]
struct LsArgs {
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Args)]
struct AddArgs {
    /// Disks, partitions, files, or directories in which files are made [default: asks for each unused disk].
    paths: Vec<PathBuf>,
    /// The size of a file that is made in a directory.
    #[arg(long, default_value = "16G", value_parser = super::terminal::size)]
    disk_size: u64,
    #[command(flatten)]
    common: MemberArgs,
}

#[derive(Args)]
struct RemoveArgs {
    /// The OSD (`osd.3`), or its disk.
    disk: String,
    #[command(flatten)]
    common: MemberArgs,
}

#[derive(Args)]
struct ReplaceArgs {
    /// The OSD (`osd.3`), or its disk.
    old: String,
    /// A disk, a partition, a file, or a directory in which a file is made.
    new: PathBuf,
    /// The size of a file that is made in a directory.
    #[arg(long, default_value = "16G", value_parser = super::terminal::size)]
    disk_size: u64,
    #[command(flatten)]
    common: MemberArgs,
}

pub(crate) fn run(args: &DiskCommands) -> Result<()> {
    match &args.command {
        DiskCommand::Ls(args) => ls(args),
        DiskCommand::Add(args) => add(args),
        DiskCommand::Remove(args) => remove(args),
        DiskCommand::Replace(args) => replace(args),
    }
}

fn ls(args: &LsArgs) -> Result<()> {
    let disks = find_disks();
    match args.format {
        Format::Plain => say!("{}", disk_table(&disks)),
        Format::Json => {
            let one = |disk: &Disk| {
                let path = disk.path.to_string_lossy();
                json!({ "path": path, "bytes": disk.size, "model": disk.model, "used": disk.used })
            };
            say!("{}", Value::from(disks.iter().map(one).collect::<Vec<_>>()));
        }
    }
    Ok(())
}

fn add(args: &AddArgs) -> Result<()> {
    let paths = HostPaths::new(&args.common.root)?;
    let mut host = Host::member(&paths)?;
    let cluster = paths.administer(args.common.keyring.as_deref())?;
    let unfinished = host.osds.iter().any(|osd| osd.id.is_none());
    if args.paths.is_empty() && unfinished {
        say!("nacre: goes on with the disks that were begun");
    } else {
        let targets = if args.paths.is_empty() { choose(args.common.yes)? } else { args.paths.clone() };
        let new = prepare(&targets, args.disk_size, &host.osds)?;
        host.osds.extend(new);
        host.write(&paths)?;
    }
    register_osds(&cluster, &paths, &mut host)?;
    say!("nacre: `nacre run` starts them, and data moves to them by itself");
    Ok(())
}

fn remove(args: &RemoveArgs) -> Result<()> {
    let paths = HostPaths::new(&args.common.root)?;
    let mut host = Host::member(&paths)?;
    let osd = find(&host, &args.disk)?.clone();
    let cluster = paths.administer(args.common.keyring.as_deref())?;
    remove_osd(&cluster, &paths, &mut host, &osd, args.common.yes)
}

/// Moves the data of an OSD to others, and ends it. One that is dead has its data copied from the others.
fn remove_osd(
    cluster: &client::Cluster,
    paths: &HostPaths,
    host: &mut Host,
    osd: &Osd,
    yes: bool,
) -> Result<()> {
    let id = osd.id.context("it has no number yet: finish adding it with `nacre disk add` first")?;
    let device = osd.device.display();
    let osds = [u64::from(id)].into();
    if !osd.removing {
        check_drain(cluster, &osds)?;
        if !agrees(&format!("Move all data of osd.{id} to other disks, then erase {device}?"), yes)? {
            return Ok(());
        }
        say!("nacre: osd.{id} is drained; Ctrl-C only ends the wait, `ceph osd in {id}` takes it back");
        drain(cluster, &osds)?;
    }
    retire(cluster, paths, host, &[id])?;
    say!("nacre: {device} is not used any more");
    Ok(())
}

/// Adds the new disk first, so that there is a place for what the old one had.
fn replace(args: &ReplaceArgs) -> Result<()> {
    let paths = HostPaths::new(&args.common.root)?;
    let mut host = Host::member(&paths)?;
    let old = find(&host, &args.old)?.clone();
    let cluster = paths.administer(args.common.keyring.as_deref())?;
    let path = device::path_of(&args.new).unwrap_or_else(|_| args.new.clone());
    let path = path.canonicalize().unwrap_or(path);
    if path == old.device {
        bail!("{} is the disk that is to be replaced: give another one", path.display());
    }
    // It is there already if the command was cut short.
    if !host.osds.iter().any(|osd| osd.device == path) {
        let question = format!("Store on {} in place of {}?", args.new.display(), old.device.display());
        if !agrees(&question, args.common.yes)? {
            return Ok(());
        }
        let new = prepare(std::slice::from_ref(&args.new), args.disk_size, &host.osds)?;
        host.osds.extend(new);
        host.write(&paths)?;
    }
    register_osds(&cluster, &paths, &mut host)?;
    let new = host.osds.iter().find(|osd| osd.device == path).or(host.osds.last());
    let id = new.and_then(|osd| osd.id).context("the new OSD has no number")?;
    wait_until_up(&cluster, id)?;
    remove_osd(&cluster, &paths, &mut host, &old, true)
}

/// Waits until `nacre run` has started an OSD.
fn wait_until_up(cluster: &client::Cluster, id: u32) -> Result<()> {
    let is_up = || -> Result<bool> {
        let tree = query(cluster, "osd tree")?;
        Ok(list(&tree["nodes"]).iter().any(|node| node["id"] == id && node["status"] == "up"))
    };
    wait_while(
        START,
        || Ok((!is_up()?).then_some(())),
        |()| format!("osd.{id} does not start: see the output of `nacre run`, then give the command again"),
    )
}

/// The OSD of this host with this name, number or device.
fn find<'a>(host: &'a Host, text: &str) -> Result<&'a Osd> {
    let id = text.strip_prefix("osd.").unwrap_or(text).parse::<u32>().ok();
    let device = Path::new(text).canonicalize().unwrap_or_else(|_| text.into());
    let is_it =
        |osd: &&Osd| id.is_some() && osd.id == id || osd.device == device || osd.device == Path::new(text);
    match host.osds.iter().find(is_it) {
        Some(osd) => Ok(osd),
        None => {
            let known = host
                .osds
                .iter()
                .filter_map(|osd| Some(format!("{} on {}", osd.name()?, osd.device.display())));
            bail!("`{text}` is no OSD of this host: it has {}", known.collect::<Vec<_>>().join(", "))
        }
    }
}
