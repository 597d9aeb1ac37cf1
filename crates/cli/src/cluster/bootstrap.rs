//! The pools and the file system of a new cluster, made by the monitor's ordinary commands.

use super::client::{ask, ask_with};
use super::layout::advise;
use super::setup::{Cluster, daemon_names};
use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The name of the file system that `nacre dev` makes.
pub(crate) const FS_NAME: &str = "cephfs";

/// Tells the monitors the keys of metadata servers that were added to an existing cluster.
pub(crate) fn import_keys(admin: &client::Cluster, cluster: &Cluster) -> Result<()> {
    let names = daemon_names(0, &[], cluster.mds).into_iter().map(|name| name.to_string());
    for name in names {
        let get = json!({ "prefix": "auth get", "entity": name, "format": "json" });
        if ask(admin, &get).is_err() {
            let path = cluster.layout.daemon(&name).join("keyring");
            let ring = std::fs::read(&path).map_err(|e| advise("read", &path, e))?;
            ask_with(admin, &json!({ "prefix": "auth import" }), ring.into())?;
        }
    }
    Ok(())
}

/// True if a metadata server serves the file system.
pub(crate) fn is_served(admin: &client::Cluster) -> Result<bool> {
    let status = ask(admin, &json!({ "prefix": "status", "format": "json" }))?;
    let status: Value = serde_json::from_slice(&status).context("the monitor's status")?;
    let ranks = status["fsmap"]["by_rank"].as_array();
    Ok(ranks.is_some_and(|ranks| ranks.iter().any(|rank| rank["status"] == "up:active")))
}

/// Makes the pools and the file system, unless there is a file system.
pub(crate) fn make_file_system(admin: &client::Cluster) -> Result<()> {
    let found = ask(admin, &json!({ "prefix": "fs ls", "format": "json" }))?;
    let found: Value = serde_json::from_slice(&found).context("the monitor's list of file systems")?;
    if found.as_array().is_some_and(|list| !list.is_empty()) {
        return Ok(());
    }
    for (pool, pgs) in [("cephfs_metadata", 16), ("cephfs_data", 32)] {
        ask(admin, &json!({ "prefix": "osd pool create", "pool": pool, "pg_num": pgs }))?;
    }
    let (metadata, data) = ("cephfs_metadata", "cephfs_data");
    let make = json!({ "prefix": "fs new", "fs_name": FS_NAME, "metadata": metadata, "data": data });
    ask(admin, &make).map(|_| ())
}
