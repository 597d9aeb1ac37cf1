//! The end of a host's OSDs, once nothing is needed on them: stopped, forgotten by the monitors, erased.

use super::wait::wait_while;
use super::{Host, HostPaths};
use crate::cluster::{advise, ask};
use crate::device;
use anyhow::Result;
use runtime::DiskOpenError;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use wire::{EntityName, EntityType};

/// The time that a daemon has for ending after the record was changed.
const PATIENCE: Duration = Duration::from_secs(60);

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
        let name = EntityName::new(EntityType::OSD, id.to_string());
        wait_for_end(paths, &name)?;
        if let Some(osd) = host.osds.iter().find(|osd| osd.id == Some(id)) {
            wait_until_free(&osd.device)?;
        }
        // Nobody talks to an OSD without data, so nobody would report that it has ended.
        ask(cluster, &json!({ "prefix": "osd down", "ids": [id.to_string()], "definitely_dead": true }))?;
        purge(cluster, id.into())?;
        let dir = paths.daemon(&name);
        if let Some(osd) = host.osds.iter().find(|osd| osd.id == Some(id)) {
            erase(&osd.device);
        }
        remove_dir(&dir)?;
        host.osds.retain(|osd| osd.id != Some(id));
        host.write(paths)?;
        say!("  osd.{id} is removed");
    }
    Ok(())
}

/// Has the monitors forget an OSD that is down: number, place and key.
pub(crate) fn purge(cluster: &client::Cluster, id: u64) -> Result<()> {
    let id = id.to_string();
    ask(cluster, &json!({ "prefix": "osd purge", "id": id, "yes_i_really_mean_it": true })).map(drop)
}

/// Has the monitors forget what is left of a host whose OSDs are gone.
pub(crate) fn forget(cluster: &client::Cluster, hostname: &str, mons: &[String]) -> Result<()> {
    ask(cluster, &json!({ "prefix": "auth rm", "entity": format!("mds.{hostname}") }))?;
    // Otherwise it would be listed until its beacons are missed. It may not be there.
    let _ = ask(cluster, &json!({ "prefix": "mds fail", "role_or_gid": hostname }));
    // An OSD that was added by hand may still be in it: then the bucket stays.
    let _ = ask(cluster, &json!({ "prefix": "osd crush rm", "name": hostname }));
    for mon in mons {
        ask(cluster, &json!({ "prefix": "mon rm", "name": mon }))?;
        say!("  mon.{mon} is removed");
    }
    Ok(())
}

/// Erases a device, unless it is gone, as a dead disk may be.
fn erase(device: &Path) {
    if !device.exists() {
        say!("  {} is not there any more, so nothing is erased", device.display());
        return;
    }
    if let Err(error) = device::erase(device) {
        // What can't be erased, as on a dying disk, must not keep the rest from being done.
        say!("  {} is not erased ({error:#}): see to it that nobody reads it", device.display());
    }
}

/// Removes a daemon's directory, if it is there.
pub(crate) fn remove_dir(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(advise("remove", dir, error)),
        _ => Ok(()),
    }
}

/// Waits until a daemon has ended that the record does not have any more. One that ran on would come back
/// after it was forgotten.
pub(crate) fn wait_for_end(paths: &HostPaths, name: &EntityName) -> Result<()> {
    let pid_file = paths.run_dir().join(format!("{name}.pid"));
    wait_for(|| process_of(&pid_file).map(|pid| format!("{name} runs as process {pid}")))
}

/// Waits until no process has a device open.
fn wait_until_free(device: &Path) -> Result<()> {
    let in_use = || matches!(runtime::open_alone(device, false), Err(DiskOpenError::Locked(_)));
    wait_for(|| in_use().then(|| runtime::in_use(device)))
}

fn wait_for(runs: impl Fn() -> Option<String>) -> Result<()> {
    wait_while(PATIENCE, || Ok(runs()), |what| format!("{what}: end it, then give the command again"))
}

/// The process in a file that daemons remove at their end, if it lives.
pub(super) fn process_of(pid_file: &Path) -> Option<i32> {
    let pid: i32 = std::fs::read_to_string(pid_file).ok()?.trim().parse().ok()?;
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    // The number may be another program's by now, if the daemon was killed.
    program.to_string_lossy().contains("nacre").then_some(pid)
}
