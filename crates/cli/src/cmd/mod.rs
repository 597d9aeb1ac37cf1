//! The commands, one file each.

mod crush;
mod daemon;
mod dev;
mod mount;
mod osd;
mod pg_file;
pub(crate) mod probe;
mod rados;
mod status;
mod store;
mod store_bench;
mod store_driver;
mod store_import;
mod store_local;
mod store_long;
mod store_pg;
mod version;

use clap::{Parser, Subcommand, ValueEnum};

/// A Ceph-compatible storage system in one binary.
#[derive(Parser)]
#[command(name = "nacre", version, about, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The form in which results are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people to read.
    #[default]
    Plain,
    /// For programs to read.
    Json,
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
    /// Put, get, list and remove objects.
    Rados(rados::RadosArgs),
    /// Try a CRUSH map out.
    Crush(crush::CrushArgs),
    /// Check or measure the store of a daemon.
    Store(store::StoreArgs),
    /// Show what is stored; never writes.
    Inspect(store::InspectArgs),
    /// Show the state of a cluster.
    Status(status::StatusArgs),
    /// Print the version.
    Version(version::VersionArgs),
}

/// A size with a suffix: `512M`, `16G`.
fn size(text: &str) -> Result<u64, String> {
    decl::options::parse_size(text)
        .ok_or_else(|| format!("`{text}` is no size: give bytes, or a number with K, M, G or T"))
}

/// Runs one command.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Dev(args) => dev::run(&args),
        Command::Mon(args) => daemon::run(wire::EntityType::MON, &args),
        Command::Osd(args) => osd::run(&args),
        Command::Mds(args) => daemon::run(wire::EntityType::MDS, &args),
        Command::Mount(args) => mount::run(&args),
        Command::Rados(args) => rados::run(&args),
        Command::Crush(args) => crush::run(&args),
        Command::Store(args) => store::run(&args),
        Command::Inspect(args) => store::inspect(&args),
        Command::Status(args) => status::run(&args),
        Command::Version(args) => version::run(&args),
    }
}

/// A progress bar on standard error; `what` is its template.
fn progress(what: &str) -> indicatif::ProgressBar {
    let bar = indicatif::ProgressBar::with_draw_target(None, indicatif::ProgressDrawTarget::stderr());
    let template = format!("{{bar:40}} {{percent}}% {what}, {{eta}} left");
    match indicatif::ProgressStyle::with_template(&template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
