//! The unit of systemd that runs a host's daemons, where there is systemd.

use super::HostPaths;
use crate::cluster::files;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

const UNIT: &str = "nacre.service";

/// True if this host is started by systemd.
fn is_here(paths: &HostPaths) -> bool {
    paths.is_machine() && Path::new("/run/systemd/system").is_dir()
}

/// Has systemd run the host's daemons, now and from each boot on. Returns false where there is no systemd.
pub(crate) fn hand_over(paths: &HostPaths) -> Result<bool> {
    if !is_here(paths) {
        return Ok(false);
    }
    let program = std::env::current_exe().context("cannot find the own program")?;
    let unit = format!(
        "[Unit]\nDescription=Nacre storage daemons of this host\n\
         Wants=network-online.target time-sync.target\nAfter=network-online.target time-sync.target\n\
         \n[Service]\nExecStart={} run\nRestart=always\nRestartSec=2\nKillMode=mixed\nTimeoutStopSec=60\n\
         LimitNOFILE=1048576\nTasksMax=infinity\nRuntimeDirectory=ceph\nRuntimeDirectoryPreserve=yes\n\
         \n[Install]\nWantedBy=multi-user.target\n",
        program.display()
    );
    files::write(&Path::new("/etc/systemd/system").join(UNIT), &unit, 0o644)?;
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", UNIT])?;
    systemctl(&["restart", UNIT])?;
    Ok(true)
}

/// Has systemd stop the host's daemons for good.
pub(crate) fn stop(paths: &HostPaths) -> Result<()> {
    let unit = Path::new("/etc/systemd/system").join(UNIT);
    if !is_here(paths) || !unit.exists() {
        return Ok(());
    }
    systemctl(&["disable", "--now", UNIT])?;
    std::fs::remove_file(&unit).with_context(|| format!("cannot remove {}", unit.display()))?;
    systemctl(&["daemon-reload"])
}

fn systemctl(args: &[&str]) -> Result<()> {
    let ran = Command::new("systemctl").args(args).output().context("cannot run systemctl")?;
    if !ran.status.success() {
        bail!("systemctl {}: {}", args.join(" "), String::from_utf8_lossy(&ran.stderr).trim());
    }
    Ok(())
}
