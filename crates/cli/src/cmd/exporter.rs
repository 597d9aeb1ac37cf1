//! `nacre exporter`: serves the counters of this host's daemons, where neither `nacre run` nor `nacre dev`
//! does.

use crate::cluster::hostname;
use crate::logging;
use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;
use web::{ExportedHost, ExporterPlace};

#[derive(Args)]
pub(crate) struct ExporterArgs {
    /// The directory of the daemons' admin sockets.
    #[arg(long, default_value = "/run/ceph")]
    sock_dir: PathBuf,
    /// The IP address to serve on [default: all].
    #[arg(long, default_value = "", hide_default_value = true)]
    addr: String,
    /// The port.
    #[arg(long, default_value = "9926")]
    port: u16,
}

pub(crate) fn run(args: &ExporterArgs) -> Result<()> {
    logging::start(None)?;
    if !args.sock_dir.is_dir() {
        bail!(
            "{} is no directory: name that of the daemons' admin sockets with --sock-dir",
            args.sock_dir.display()
        );
    }
    let host = ExportedHost { sockets: args.sock_dir.clone(), hostname: hostname() };
    let place = ExporterPlace { addr: args.addr.clone(), port: args.port };
    host.serve(&place).map_err(anyhow::Error::msg)
}
