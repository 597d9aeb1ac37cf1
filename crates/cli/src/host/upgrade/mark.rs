//! The mark of an upgrade in the monitors: which host is upgraded, and whether the upgrade has set `noout`.
//! So one host is upgraded at a time, and an upgrade that was cut short takes back what it has set.

use crate::cluster::ask;
use crate::host::query::{list, query};
use anyhow::{Result, bail};
use serde_json::{Value, json};

/// The key under which it is kept.
const KEY: &str = "nacre/upgrade";
/// An OSD that is replaced is back in a moment: nothing is to be copied.
const FLAG: &str = "noout";

/// The mark.
#[derive(Debug)]
pub(super) struct Mark {
    /// True if `noout` is ours.
    flag: bool,
}

impl Mark {
    /// Marks that this host is being upgraded, and sets `noout` unless an administrator has.
    pub(super) fn set(cluster: &client::Cluster, hostname: &str) -> Result<Self> {
        if let Some(found) = read(cluster) {
            let owner = found["host"].as_str().unwrap_or_default();
            if owner != hostname {
                bail!(
                    "{owner} is being upgraded, or its upgrade was cut short: give `nacre upgrade` there \
                     first, or, if that host is gone, `ceph config-key rm {KEY}` and `ceph osd unset {FLAG}`"
                );
            }
            return Ok(Self { flag: found["flag"] == true });
        }
        let flags = query(cluster, "osd dump")?;
        let flag = !list(&flags["flags_set"]).iter().any(|set| set == FLAG);
        let value = json!({ "host": hostname, "flag": flag }).to_string();
        ask(cluster, &json!({ "prefix": "config-key set", "key": KEY, "val": value }))?;
        if flag {
            ask(cluster, &json!({ "prefix": "osd set", "key": FLAG }))?;
        }
        Ok(Self { flag })
    }

    /// True if an upgrade of this host was cut short.
    pub(super) fn is_left(cluster: &client::Cluster, hostname: &str) -> bool {
        read(cluster).is_some_and(|found| found["host"] == hostname)
    }

    /// Takes back what it has set.
    pub(super) fn clear(self, cluster: &client::Cluster) -> Result<()> {
        if self.flag {
            ask(cluster, &json!({ "prefix": "osd unset", "key": FLAG }))?;
        }
        ask(cluster, &json!({ "prefix": "config-key rm", "key": KEY })).map(drop)
    }
}

fn read(cluster: &client::Cluster) -> Option<Value> {
    // Without the key the command fails.
    let found = ask(cluster, &json!({ "prefix": "config-key get", "key": KEY })).ok()?;
    serde_json::from_slice(&found).ok()
}
