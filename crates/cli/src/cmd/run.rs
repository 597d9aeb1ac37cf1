//! `nacre run`: all daemons of this host, in the foreground.

use crate::host::{HostPaths, supervise};
use crate::logging;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct RunArgs {
    /// A directory in place of `/` for all files.
    #[arg(long, default_value = "/")]
    root: PathBuf,
}

pub(crate) fn run(args: &RunArgs) -> Result<()> {
    logging::start(None)?;
    supervise(&HostPaths::new(&args.root)?)
}
