//! The pools and the file system of a new cluster, made by the monitor's ordinary commands.

use super::client::ask;
use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The name of the file system that `nacre dev` makes.
pub(crate) const FS_NAME: &str = "cephfs";

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
