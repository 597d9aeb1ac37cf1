//! The commands, one file each; this file only chooses one. What they share is in files of its own.

mod crush;
mod daemon;
mod dev;
mod fs_bench;
mod inspect;
pub(crate) mod mount;
mod osd;
mod pg_file;
pub(crate) mod probe;
mod rados;
mod status;
mod store;
mod store_bench;
mod store_bench_args;
mod store_driver;
mod store_import;
mod store_load;
mod store_local;
mod store_long;
mod store_pg;
mod terminal;
mod version;

use clap::{Parser, Subcommand};

/// A Ceph-compatible storage system in one binary.
#[derive(Parser)]
#[command(name = "nacre", version, about, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start a whole cluster in the foreground, with its data in a directory.
    Dev(dev::DevArgs),
    /// Run a monitor.
    Mon(daemon::DaemonArgs),
    /// Run an object storage daemon.
    Osd(osd::OsdArgs),
    /// Run a metadata server.
    Mds(daemon::DaemonArgs),
    /// Mount the file system of a cluster, in the foreground.
    Mount(mount::MountArgs),
    /// Unmount it, and return when everything that was written there is saved.
    Umount(mount::UmountArgs),
    /// Measure a mounted file system.
    Fs(fs_bench::FsArgs),
    /// Put, get, list and remove objects.
    Rados(rados::RadosArgs),
    /// Try a CRUSH map out.
    Crush(crush::CrushArgs),
    /// Check or measure the store of a daemon.
    Store(store::StoreArgs),
    /// Show what is stored; never writes.
    Inspect(inspect::InspectArgs),
    /// Show the state of a cluster.
    Status(status::StatusArgs),
    /// Print the version.
    Version(version::VersionArgs),
}

/// Runs one command.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Dev(args) => dev::run(&args),
        Command::Mon(args) => daemon::run(wire::EntityType::MON, &args),
        Command::Osd(args) => osd::run(&args),
        Command::Mds(args) => daemon::run(wire::EntityType::MDS, &args),
        Command::Mount(args) => mount::run(&args),
        Command::Umount(args) => mount::umount(&args),
        Command::Fs(args) => fs_bench::run(&args),
        Command::Rados(args) => rados::run(&args),
        Command::Crush(args) => crush::run(&args),
        Command::Store(args) => store::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Version(args) => version::run(&args),
    }
}
