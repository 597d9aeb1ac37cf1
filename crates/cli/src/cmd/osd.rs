//! `nacre osd`: runs an object storage daemon, or prepares a device for one.

use super::daemon;
use crate::device;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use wire::{EntityName, EntityType};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct OsdArgs {
    #[command(flatten)]
    run: Option<RunArgs>,
    #[command(subcommand)]
    command: Option<OsdCommand>,
}

#[derive(Args)]
struct RunArgs {
    /// The cluster's configuration file.
    #[arg(long, short = 'c')]
    conf: PathBuf,
    /// The number: `0` of osd.0. Several OSDs of a host (`--id 0,1,2`) share this process and its memory.
    #[arg(long, short = 'i', required = true, value_delimiter = ',')]
    id: Vec<String>,
    /// The size of a new OSD's file.
    #[arg(long, default_value = "16G", value_parser = super::terminal::size)]
    osd_size: u64,
}

#[derive(Subcommand)]
enum OsdCommand {
    /// Prepare a directory, a file, a partition or a disk for an OSD; it must be empty.
    Create(CreateArgs),
}

#[derive(Args)]
struct CreateArgs {
    /// A directory (a file is made in it), a file, a partition, or a whole disk.
    target: PathBuf,
    /// The size of a new file.
    #[arg(long, default_value = "16G", value_parser = super::terminal::size)]
    size: u64,
    /// The data directory of the OSD, which gets a link to the device.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Erase the content of the target, unless it is mounted or in use.
    #[arg(long)]
    wipe: bool,
}

pub(crate) fn run(args: &OsdArgs) -> Result<()> {
    match (&args.command, &args.run) {
        (Some(OsdCommand::Create(create)), _) => make(create),
        (None, Some(run)) => {
            let names = run.id.iter().map(|id| EntityName::new(EntityType::OSD, id));
            daemon::run_all(&names.collect::<Vec<_>>(), &run.conf, run.osd_size)
        }
        (None, None) => bail!("give --conf and --id, or `create TARGET`; see `nacre osd --help`"),
    }
}

fn make(args: &CreateArgs) -> Result<()> {
    if let Some(data) = &args.data {
        device::check_link(&device::path_of(&args.target)?, data)?;
    }
    let path = device::prepare(&args.target, args.size, args.wipe)?;
    if let Some(data) = &args.data {
        device::link(&path, data)?;
    }
    say!("{}: ready for an OSD: {}", path.display(), device::describe(&path)?);
    say!(
        "The OSD whose `osd data` has it as `block` makes its store there when it is started: \
         nacre osd --conf CONF --id ID"
    );
    Ok(())
}
