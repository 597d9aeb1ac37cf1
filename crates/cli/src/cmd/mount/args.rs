//! The arguments of `nacre mount`.

use crate::cluster::ClientArgs;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Clone)]
pub(crate) struct MountArgs {
    /// What is mounted, as in /etc/fstab, and the mount point, or the mount point alone.
    #[arg(required = true, num_args = 1..=2, value_names = ["[SOURCE] DIR"])]
    pub(super) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) client: ClientArgs,
    /// Options as of mount.ceph and mount(8), such as ro,name=me; see docs/mount.md.
    #[arg(long = "options", short = 'o')]
    pub(super) options: Vec<String>,
    /// Ignore unknown options of `-o`.
    #[arg(long)]
    pub(super) sloppy: bool,
    /// Return once the file system is mounted.
    #[arg(long)]
    pub(super) fork: bool,
    /// Be the process that `--fork` starts.
    #[arg(long, hide = true, conflicts_with = "fork")]
    pub(super) detached: bool,
    /// Refuse writes.
    #[arg(long, short = 'r')]
    pub(super) read_only: bool,
    /// Admit other users [default for root].
    #[arg(long)]
    pub(super) allow_other: bool,
    /// Seconds to wait for the cluster.
    #[arg(long, default_value_t = 60)]
    pub(super) timeout: u64,
    /// Limit of buffered writes, beyond which writers wait.
    #[arg(long, default_value = "32M", value_parser = super::super::terminal::size)]
    pub(super) dirty: u64,
    /// The log file [default: standard error, or none with --fork].
    #[arg(long)]
    pub(super) log: Option<PathBuf>,
}
