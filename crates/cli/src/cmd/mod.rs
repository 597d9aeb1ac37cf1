//! The commands, one file each; this file only chooses one. What they share is in files of its own.

mod block;
mod completions;
mod crush;
mod daemon;
mod dev;
mod disk;
mod drain;
mod exporter;
mod finalize;
mod fs_bench;
mod host;
mod init;
mod inspect;
mod join;
mod leave;
mod manual;
pub(crate) mod mount;
mod osd;
mod pg_file;
pub(crate) mod probe;
mod rados;
mod run;
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
pub(crate) mod terminal;
mod token;
mod upgrade;
mod version;

use crate::host::MemberArgs;
use clap::{CommandFactory, Parser, Subcommand};

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
    /// Make a new cluster, of this host.
    Init(init::InitArgs),
    /// Make this host a member of a cluster.
    Join(join::JoinArgs),
    /// Make a token by which hosts join.
    Token(token::TokenArgs),
    /// Run the daemons of this host, in the foreground.
    Run(run::RunArgs),
    /// Serve the counters of this host's daemons, for Prometheus. `nacre run` does so by itself.
    Exporter(exporter::ExporterArgs),
    /// Show the hosts of a cluster.
    Host(host::HostCommands),
    /// Move all data away from a host.
    Drain(drain::DrainArgs),
    /// Take this host out of its cluster.
    Leave(MemberArgs),
    /// Replace the daemons of this host by those of this version, one after another.
    Upgrade(upgrade::UpgradeArgs),
    /// End an upgrade: let daemons use what is new in their version.
    Finalize(finalize::FinalizeArgs),
    /// List, add or remove disks of this host.
    Disk(disk::DiskCommands),
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
    /// Make, map, snapshot, clone and remove block-device images.
    Block(Box<block::BlockArgs>),
    /// Try a CRUSH map out.
    Crush(crush::CrushArgs),
    /// Check or measure the store of a daemon.
    Store(store::StoreArgs),
    /// Show what is stored; never writes.
    Inspect(inspect::InspectArgs),
    /// Show the state of a cluster.
    Status(status::StatusArgs),
    /// Print what makes a shell complete this command.
    Completions(completions::CompletionsArgs),
    /// Write the pages of man(1) to a directory.
    #[command(hide = true)]
    Manual(manual::ManualArgs),
    /// Print the version.
    Version(version::VersionArgs),
}

/// Runs one command.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Dev(args) => dev::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Join(args) => join::run(&args),
        Command::Token(args) => token::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Exporter(args) => exporter::run(&args),
        Command::Host(args) => host::run(&args),
        Command::Drain(args) => drain::run(&args),
        Command::Leave(args) => leave::run(&args),
        Command::Upgrade(args) => upgrade::run(&args),
        Command::Finalize(args) => finalize::run(&args),
        Command::Disk(args) => disk::run(&args),
        Command::Mon(args) => daemon::run(wire::EntityType::MON, &args),
        Command::Osd(args) => osd::run(&args),
        Command::Mds(args) => daemon::run(wire::EntityType::MDS, &args),
        Command::Mount(args) => mount::run(&args),
        Command::Umount(args) => mount::umount(&args),
        Command::Fs(args) => fs_bench::run(&args),
        Command::Rados(args) => rados::run(&args),
        Command::Block(args) => block::run(&args),
        Command::Crush(args) => crush::run(&args),
        Command::Store(args) => store::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Completions(args) => completions::run(&args, Args::command()),
        Command::Manual(args) => manual::run(&args, Args::command()),
        Command::Version(args) => version::run(&args),
    }
}
