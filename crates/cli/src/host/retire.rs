//! The end of a host's OSDs, once nothing is needed on them: stopped, forgotten by the monitors, erased.

use super::{Host, HostPaths};
use crate::cluster::{advise, ask};
use crate::device;
use anyhow::{Result, bail};
use runtime::DiskOpenError;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use wire::{EntityName, EntityType};

/// The time that a daemon has for ending after the record was changed.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);

/// Removes these OSDs of the host, which hold nothing that is needed. `nacre run` stops what the record
/// marks.
pub(crate) fn retire(
    cluster: &client::Cluster,
    paths: &HostPaths,
    host: &mut Host,
    ids: &[u32],
) -> Result<()> {
    for osd in host.osds.iter_mut().filter(|osd| osd.id.is_some_and(|id| ids.contains(&id))) {
        osd.removing = true;
    }
    host.write(paths)?;
    for &id in ids {
        if let Some(osd) = host.osds.iter().find(|osd| osd.id == Some(id)) {
            wait_until_stopped(&osd.device)?;
        }
        // Nobody talks to an OSD without data, so nobody would report that it has ended.
        ask(cluster, &json!({ "prefix": "osd down", "ids": [id.to_string()], "definitely_dead": true }))?;
        ask(cluster, &json!({ "prefix": "osd purge", "id": id.to_string(), "yes_i_really_mean_it": true }))?;
        let dir = paths.daemon(&EntityName::new(EntityType::OSD, id.to_string()));
        if let Some(osd) = host.osds.iter().find(|osd| osd.id == Some(id)) {
            erase(&osd.device)?;
        }
        remove_dir(&dir)?;
        host.osds.retain(|osd| osd.id != Some(id));
        host.write(paths)?;
        println!("  osd.{id} is removed");
    }
    Ok(())
}

/// Erases a device, unless it is gone, as a dead disk may be.
fn erase(device: &Path) -> Result<()> {
    if !device.exists() {
        println!("  {} is not there any more, so nothing is erased", device.display());
        return Ok(());
    }
    device::erase(device)
}

/// Removes a daemon's directory, if it is there.
pub(crate) fn remove_dir(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(advise("remove", dir, error)),
        _ => Ok(()),
    }
}

/// Waits until no process has the device open.
fn wait_until_stopped(device: &Path) -> Result<()> {
    let began = Instant::now();
    while matches!(runtime::open_alone(device, false), Err(DiskOpenError::Locked(_))) {
        if began.elapsed() > PATIENCE {
            bail!("{}: end it, then give the command again", runtime::in_use(device));
        }
        std::thread::park_timeout(LOOK);
    }
    Ok(())
}
