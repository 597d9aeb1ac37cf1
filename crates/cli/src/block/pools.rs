//! The pools of a cluster, by name and id.

use crate::cluster::ask;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// The pools of a cluster.
pub(crate) struct Pools(Vec<(i64, String)>);

impl Pools {
    /// Asks the monitors.
    pub(crate) fn read(cluster: &client::Cluster) -> Result<Self> {
        let output = ask(cluster, &json!({ "prefix": "osd lspools", "format": "json" }))?;
        let list: Value =
            serde_json::from_slice(&output).context("the monitors' list of pools is no JSON")?;
        let pool = |pool: &Value| Some((pool["poolnum"].as_i64()?, pool["poolname"].as_str()?.to_owned()));
        Ok(Self(list.as_array().into_iter().flatten().filter_map(pool).collect()))
    }

    pub(crate) fn id(&self, name: &str) -> Result<i64> {
        if let Some((id, _)) = self.0.iter().find(|(_, known)| known == name) {
            return Ok(*id);
        }
        let names: Vec<&str> = self.0.iter().map(|(_, name)| name.as_str()).collect();
        bail!(
            "there is no pool `{name}` (there are: {}): make it with `ceph osd pool create`",
            names.join(", ")
        );
    }

    /// The name, or the id of a pool that is gone.
    pub(crate) fn name(&self, id: i64) -> String {
        let found = self.0.iter().find(|(known, _)| *known == id);
        found.map_or_else(|| format!("#{id}"), |(_, name)| name.clone())
    }

    pub(crate) fn place(&self, pool: &str, namespace: &str) -> Result<block::Place> {
        Ok(block::Place { pool: self.id(pool)?, namespace: namespace.as_bytes().to_vec() })
    }
}
