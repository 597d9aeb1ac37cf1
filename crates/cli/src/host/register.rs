//! Tells the monitors of a host's daemons, and makes the daemons' directories.

use super::query::query;
use super::{Host, HostPaths};
use crate::cluster::{advise, ask_with, daemon_caps, files, keyring_of};
use crate::device;
use anyhow::{Context, Result, bail};
use auth::Keyring;
use serde_json::{Value, json};
use std::net::SocketAddr;
use wire::{EntityName, EntityType};

/// The monitors' names and addresses, in the order of their ranks.
pub(crate) fn monitors(cluster: &client::Cluster) -> Result<Vec<(String, SocketAddr)>> {
    let dump = query(cluster, "mon dump")?;
    let one = |mon: &Value| {
        let addrs = mon["public_addrs"]["addrvec"].as_array()?;
        let addr = addrs.iter().find(|addr| addr["type"] == "v2")?["addr"].as_str()?;
        Some((mon["name"].as_str()?.to_owned(), addr.parse().ok()?))
    };
    let mons = dump["mons"].as_array().context("no monitors in their map")?;
    mons.iter().map(|mon| one(mon).with_context(|| format!("a monitor's address: {mon}"))).collect()
}

/// Makes a daemon's directory with its key; nothing that is there is changed.
pub(crate) fn write_key(paths: &HostPaths, name: &EntityName, ring: &Keyring) -> Result<()> {
    let dir = paths.daemon(name);
    std::fs::create_dir_all(&dir).map_err(|e| advise("create", &dir, e))?;
    let path = dir.join("keyring");
    if path.exists() {
        return Ok(());
    }
    files::write(&path, &ring.to_string(), 0o600)
}

/// Gives the record's OSDs that have no number theirs, and makes their directories. The record is written
/// after each; one that is cut short is found again by its UUID.
pub(crate) fn register_osds(cluster: &client::Cluster, paths: &HostPaths, host: &mut Host) -> Result<()> {
    for at in 0..host.osds.len() {
        let osd = &host.osds[at];
        let (None, Some(secret)) = (osd.id, osd.secret.clone()) else { continue };
        let new = json!({ "prefix": "osd new", "uuid": osd.uuid.to_string(), "format": "json" });
        let input = json!({ "cephx_secret": secret.to_base64() }).to_string();
        let reply = ask_with(cluster, &new, input.into_bytes().into())?;
        let reply: Value = serde_json::from_slice(&reply).context("the new OSD's number")?;
        let id = reply["osdid"].as_u64().and_then(|id| u32::try_from(id).ok());
        let id = id.with_context(|| format!("no number for a new OSD in `{reply}`"))?;
        let name = EntityName::new(EntityType::OSD, id.to_string());
        let dir = paths.daemon(&name);
        let uuid = dir.join("fsid");
        if std::fs::read_to_string(&uuid).is_ok_and(|text| text.trim() != osd.uuid.to_string()) {
            bail!("{} belongs to a former {name}: move it away, then give the command again", dir.display());
        }
        write_key(paths, &name, &keyring_of(name.clone(), secret, daemon_caps(EntityType::OSD)))?;
        files::write(&uuid, &format!("{}\n", osd.uuid), 0o644)?;
        device::check_link(&osd.device, &dir)?;
        device::link(&osd.device, &dir)?;
        say!("  {name} on {}", osd.device.display());
        let osd = &mut host.osds[at];
        (osd.id, osd.secret) = (Some(id), None);
        host.write(paths)?;
    }
    Ok(())
}
