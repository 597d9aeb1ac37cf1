//! `nacre block`: block-device images.

mod images;
mod map;
mod one;
mod show;
mod snaps;
mod unmap;

use super::terminal::{Format, size};
use crate::block::ImageSpec;
use crate::cluster::ClientArgs;
use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct BlockArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The form of the output.
    #[arg(long, short = 'f', value_enum, default_value_t, global = true)]
    format: Format,
    /// The directory of records about mapped images [default: /run/nacre/block for root].
    #[arg(long, global = true)]
    run_dir: Option<PathBuf>,
    #[command(subcommand)]
    command: BlockCommand,
}

#[derive(Subcommand)]
enum BlockCommand {
    /// Make an image: POOL[/NAMESPACE]/IMAGE.
    Create(CreateArgs),
    /// List the images of a pool, or what is mapped on this host.
    Ls {
        /// POOL[/NAMESPACE].
        #[arg(required_unless_present = "mapped")]
        pool: Option<String>,
        /// List what is mapped on this host.
        #[arg(long, conflicts_with = "pool")]
        mapped: bool,
    },
    /// Describe an image.
    Info {
        #[arg(value_parser = ImageSpec::parse)]
        image: ImageSpec,
    },
    /// Serve an image or a snapshot as a disk, by NBD.
    Map(MapArgs),
    /// End what `map` serves, after everything written is safe.
    Unmap {
        /// The image as `ls --mapped` shows it, its socket, or ADDRESS:PORT.
        what: String,
    },
    /// Take, list, remove or go back to snapshots.
    Snap {
        #[command(subcommand)]
        command: SnapCommand,
    },
    /// Make an image that shares the data of a snapshot until they change.
    Clone(CloneArgs),
    /// Change the size of an image.
    Resize {
        #[arg(value_parser = ImageSpec::parse)]
        image: ImageSpec,
        /// The new size, such as 20G.
        #[arg(long, value_parser = size)]
        size: u64,
        /// Permit a smaller size, which loses data.
        #[arg(long)]
        allow_shrink: bool,
    },
    /// Remove an image.
    Rm {
        #[arg(value_parser = ImageSpec::parse)]
        image: ImageSpec,
    },
}

/// What a new image is like.
#[derive(Args)]
struct NewArgs {
    /// The size of its objects, a power of two.
    #[arg(long, value_parser = size)]
    object_size: Option<u64>,
    /// Its features, by name.
    #[arg(long, value_delimiter = ',')]
    features: Option<Vec<String>>,
    /// The pool of its data, if not that of the image.
    #[arg(long)]
    data_pool: Option<String>,
    /// Bytes that go to one object before the next.
    #[arg(long, value_parser = size, requires = "stripe_count")]
    stripe_unit: Option<u64>,
    /// Objects that take turns.
    #[arg(long, requires = "stripe_unit")]
    stripe_count: Option<u64>,
}

#[derive(Args)]
struct CreateArgs {
    #[arg(value_parser = ImageSpec::parse)]
    image: ImageSpec,
    /// The size, such as 20G.
    #[arg(long, value_parser = size)]
    size: u64,
    #[command(flatten)]
    new: NewArgs,
}

#[derive(Args)]
struct CloneArgs {
    /// The snapshot: POOL/IMAGE@SNAPSHOT.
    #[arg(value_parser = ImageSpec::parse)]
    from: ImageSpec,
    /// The new image.
    #[arg(value_parser = ImageSpec::parse)]
    to: ImageSpec,
    #[command(flatten)]
    new: NewArgs,
}

#[derive(Args)]
struct MapArgs {
    /// POOL[/NAMESPACE]/IMAGE[@SNAPSHOT].
    #[arg(value_parser = ImageSpec::parse)]
    image: ImageSpec,
    /// The unix socket [default: a file in the directory of records].
    #[arg(long, conflicts_with = "listen")]
    socket: Option<PathBuf>,
    /// Serve on a TCP port: ADDRESS:PORT, port 0 for any. NBD has no protection: see --plain.
    #[arg(long)]
    listen: Option<std::net::SocketAddr>,
    /// Permit an address that others than this host reach, without authentication and encryption.
    #[arg(long, requires = "listen")]
    plain: bool,
    /// Refuse writes.
    #[arg(long, short = 'r')]
    read_only: bool,
    /// Return once the image is served, by a process of its own.
    #[arg(long)]
    daemonize: bool,
    /// Be the process that `--daemonize` starts.
    #[arg(long, hide = true, conflicts_with = "daemonize")]
    detached: bool,
    /// The log file of that process.
    #[arg(long)]
    log: Option<PathBuf>,
}

#[derive(Subcommand)]
enum SnapCommand {
    /// Take a snapshot: POOL/IMAGE@SNAPSHOT.
    Create {
        #[arg(value_parser = ImageSpec::parse)]
        snap: ImageSpec,
    },
    /// List the snapshots of an image.
    Ls {
        #[arg(value_parser = ImageSpec::parse)]
        image: ImageSpec,
    },
    /// Remove a snapshot.
    Rm {
        #[arg(value_parser = ImageSpec::parse)]
        snap: ImageSpec,
    },
    /// Make an image what it was at a snapshot.
    Rollback {
        #[arg(value_parser = ImageSpec::parse)]
        snap: ImageSpec,
    },
}

/// Runs a command.
pub(crate) fn run(args: &BlockArgs) -> Result<()> {
    match &args.command {
        BlockCommand::Create(create) => images::create(args, create),
        BlockCommand::Ls { pool: Some(pool), .. } => show::list(args, pool),
        BlockCommand::Ls { .. } => unmap::list(args),
        BlockCommand::Info { image } => show::info(args, image),
        BlockCommand::Map(map) => map::run(args, map),
        BlockCommand::Unmap { what } => unmap::run(args, what),
        BlockCommand::Snap { command } => match command {
            SnapCommand::Create { snap } => snaps::create(args, snap),
            SnapCommand::Ls { image } => show::snaps(args, image),
            SnapCommand::Rm { snap } => snaps::remove(args, snap),
            SnapCommand::Rollback { snap } => snaps::rollback(args, snap),
        },
        BlockCommand::Clone(clone) => images::clone(args, clone),
        BlockCommand::Resize { image, size, allow_shrink } => {
            images::resize(args, image, *size, *allow_shrink)
        }
        BlockCommand::Rm { image } => images::remove(args, image),
    }
}

impl BlockArgs {
    /// The directory of records about mapped images.
    fn run_dir(&self) -> PathBuf {
        self.run_dir.clone().unwrap_or_else(crate::block::run_dir)
    }
}
