//! `nacre mon|osd|mds`: one daemon in the foreground.

use crate::cluster::{Daemon, Daemons, ready_line};
use crate::{logging, signals};
use anyhow::{Context, Result, bail};
use clap::Args;
use runtime::Notice;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc;
use wire::{EntityName, EntityType};

#[derive(Args)]
pub(crate) struct DaemonArgs {
    /// The cluster's configuration file.
    #[arg(long, short = 'c')]
    conf: PathBuf,
    /// What follows the dot in the daemon's name: `a` of mon.a, `0` of osd.0.
    #[arg(long, short = 'i')]
    id: String,
    /// Size of a new OSD's file.
    #[arg(long, default_value = "16G", value_parser = super::size)]
    osd_size: u64,
}

pub(crate) fn run(role: EntityType, args: &DaemonArgs) -> Result<()> {
    let name = EntityName::new(role, &args.id);
    let daemon = Daemon::new(name.clone(), &args.conf, args.osd_size)?;
    logging::start(None)?;
    let (tx, notices) = mpsc::channel();
    signals::watch(tx.clone())?;
    let mut daemons = Daemons::new(1, tx)?;
    let mut handle = daemons.start(&daemon)?;
    let _pid = PidFile::write(daemon.pid_file())?;
    let mut stopping = false;
    for notice in &notices {
        match notice {
            Notice::Ready(_) => {
                daemon.note_ready()?;
                // Whoever started it may have gone.
                let _ = writeln!(std::io::stdout(), "{}", ready_line(&name));
            }
            Notice::Signal if stopping => bail!("stopped by a second signal"),
            Notice::Signal => {
                stopping = true;
                handle.stop();
            }
            Notice::Restart(_, _) if stopping => return Ok(()),
            Notice::Restart(name, why) => {
                tracing::warn!(%name, "begins anew: {why}");
                handle = daemons.start(&daemon)?;
            }
            Notice::Ended(_, result) => return result.map_err(|why| anyhow::anyhow!("{name}: {why}")),
        }
    }
    Ok(())
}

/// The process id in a file, removed at the end.
struct PidFile(Option<PathBuf>);

impl PidFile {
    fn write(path: Option<PathBuf>) -> Result<Self> {
        if let Some(path) = &path {
            std::fs::write(path, format!("{}\n", std::process::id()))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(Self(path))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // A stale file does no harm.
            let _ = std::fs::remove_file(path);
        }
    }
}
