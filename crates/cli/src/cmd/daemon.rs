//! `nacre mon|osd|mds`: a daemon in the foreground, or several OSDs that share a process.

use crate::cluster::{Daemon, Daemons, InUse, ready_line};
use crate::{logging, signals};
use anyhow::{Context, Result, bail};
use clap::Args;
use node::Never;
use runtime::{Handle, Notice};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use wire::{EntityName, EntityType};

#[derive(Args)]
pub(crate) struct DaemonArgs {
    /// The cluster's configuration file.
    #[arg(long, short = 'c')]
    conf: PathBuf,
    /// The part of the daemon's name behind the dot: `a` of mon.a, `0` of osd.0.
    #[arg(long, short = 'i')]
    id: String,
    /// The size of a new OSD's file.
    #[arg(long, default_value = "16G", value_parser = super::terminal::size)]
    osd_size: u64,
}

pub(crate) fn run(role: EntityType, args: &DaemonArgs) -> Result<()> {
    run_all(&[EntityName::new(role, &args.id)], &args.conf, args.osd_size)
}

/// Runs daemons until the last one has ended.
pub(crate) fn run_all(names: &[EntityName], conf: &Path, osd_size: u64) -> Result<()> {
    let daemons = names.iter().map(|name| Ok(Daemon::new(name.clone(), conf, osd_size)?.among(names.len())));
    let daemons: Vec<Daemon> = daemons.collect::<Result<_>>()?;
    check_apart(&daemons)?;
    logging::start(None)?;
    let (tx, notices) = mpsc::channel();
    signals::watch(tx.clone())?;
    let several = daemons.len() > 1;
    let world = Daemons::new(tx);
    let mut process =
        Process { world, several, running: BTreeMap::new(), failed: Vec::new(), stopping: false };
    for daemon in daemons {
        process.start_first(daemon)?;
    }
    while !process.running.is_empty() {
        process.take(notices.recv()?)?;
    }
    match process.failed.is_empty() {
        true => Ok(()),
        false => bail!("{}", process.failed.join("; ")),
    }
}

/// Refuses OSDs that can't share a process: twice the same, two on one device, or one whose device another
/// process uses. Nothing runs before.
fn check_apart(daemons: &[Daemon]) -> Result<()> {
    let mut devices = BTreeMap::new();
    if daemons.len() < 2 {
        return Ok(());
    }
    for (number, daemon) in daemons.iter().enumerate() {
        let name = daemon.name();
        if daemons[..number].iter().any(|other| other.name() == name) {
            bail!("{name} is given twice: give each OSD once");
        }
        let device = daemon.device();
        // A file that does not exist yet is made by the first start.
        let real = std::fs::canonicalize(&device).unwrap_or(device);
        if let Some(other) = devices.insert(real.clone(), name.clone()) {
            bail!("{other} and {name} would both store on {}: give each OSD a device", real.display());
        }
        if daemon.is_in_use() {
            bail!("{name}: {}", InUse::of(&real));
        }
    }
    Ok(())
}

/// The daemons of this process.
struct Process {
    world: Daemons,
    /// It was started with more than one.
    several: bool,
    running: BTreeMap<EntityName, Running>,
    /// The daemons that failed, with their errors.
    failed: Vec<String>,
    stopping: bool,
}

/// A daemon that has not ended.
struct Running {
    daemon: Daemon,
    handle: Handle<Never, Never>,
    _pid: PidFile,
}

impl Process {
    /// Starts a daemon with the process. One whose device fails does not keep others from starting; one that
    /// runs in another process already is a mistake of the caller.
    fn start_first(&mut self, daemon: Daemon) -> Result<()> {
        let name = daemon.name().clone();
        match self.world.start(&daemon) {
            Ok(handle) => {
                let pid = PidFile::write(daemon.pid_file())?;
                self.running.insert(name, Running { daemon, handle, _pid: pid });
                Ok(())
            }
            Err(error) if self.several && error.downcast_ref::<InUse>().is_none() => {
                self.failed(&name, &format!("{error:#}"));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn take(&mut self, notice: Notice) -> Result<()> {
        match notice {
            Notice::Ready(name) => {
                if let Some(running) = self.running.get(&name) {
                    running.daemon.note_ready()?;
                }
                // The process that started this one may have gone.
                let _ = writeln!(std::io::stdout(), "{}", ready_line(&name));
            }
            Notice::Signal if self.stopping => bail!("stopped by a second signal"),
            Notice::Signal => {
                self.stopping = true;
                self.running.values().for_each(|running| running.handle.stop());
            }
            Notice::Restart(name, _) if self.stopping => drop(self.running.remove(&name)),
            Notice::Restart(name, why) => {
                tracing::warn!(%name, "begins anew: {why}");
                let Some(running) = self.running.get_mut(&name) else { return Ok(()) };
                match self.world.start(&running.daemon) {
                    Ok(handle) => running.handle = handle,
                    Err(error) => self.ended(&name, Err(format!("{error:#}"))),
                }
            }
            Notice::Ended(name, result) => self.ended(&name, result.map_err(|why| format!("{name}: {why}"))),
        }
        Ok(())
    }

    /// A daemon has ended: the others go on.
    fn ended(&mut self, name: &EntityName, result: Result<(), String>) {
        self.running.remove(name);
        match result {
            Err(why) => self.failed(name, &why),
            Ok(()) if self.several && !self.stopping => {
                tracing::info!(%name, others = self.running.len(), "has stopped")
            }
            Ok(()) => {}
        }
    }

    fn failed(&mut self, name: &EntityName, why: &str) {
        if self.several {
            tracing::error!(%name, "has ended, the others of this process go on: {why}");
        }
        self.failed.push(why.to_owned());
    }
}

/// A file with the process id, removed at the end.
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
