//! Questions to the monitors whose answers are JSON.

use crate::cluster::ask;
use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The answer to a command without arguments.
pub(crate) fn query(cluster: &client::Cluster, prefix: &str) -> Result<Value> {
    query_with(cluster, json!({ "prefix": prefix }))
}

/// The answer to a command.
pub(crate) fn query_with(cluster: &client::Cluster, mut command: Value) -> Result<Value> {
    command["format"] = "json".into();
    let reply = ask(cluster, &command)?;
    serde_json::from_slice(&reply).with_context(|| format!("the monitors' answer to {}", command["prefix"]))
}

/// The members of a JSON array; none if it is something else.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The hosts that have an OSD that is up.
pub(crate) fn hosts_up(tree: &Value) -> usize {
    let nodes = list(&tree["nodes"]);
    let is_up = |id: &Value| nodes.iter().any(|node| node["id"] == *id && node["status"] == "up");
    let has_one = |host: &&Value| list(&host["children"]).iter().any(is_up);
    nodes.iter().filter(|node| node["type"] == "host").filter(has_one).count()
}

/// The PGs that are not `active+clean`, by `ceph status`.
pub(crate) fn unclean(status: &Value) -> u64 {
    let map = &status["pgmap"];
    let is_clean = |s: &&Value| s["state_name"].as_str().is_some_and(|n| n.starts_with("active+clean"));
    let clean = list(&map["pgs_by_state"]).iter().filter(is_clean).filter_map(|s| s["count"].as_u64());
    map["num_pgs"].as_u64().unwrap_or(0).saturating_sub(clean.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_count_when_an_osd_of_theirs_is_up() {
        let tree = json!({ "nodes": [
            { "id": -1, "type": "root", "children": [-2, -3, -4] },
            { "id": -2, "type": "host", "children": [0, 1] },
            { "id": -3, "type": "host", "children": [2] },
            { "id": -4, "type": "host", "children": [] },
            { "id": 0, "type": "osd", "status": "down" },
            { "id": 1, "type": "osd", "status": "up" },
            { "id": 2, "type": "osd", "status": "down" },
        ]});
        assert_eq!(hosts_up(&tree), 1);
    }

    #[test]
    fn pgs_are_unclean_that_are_not_reported_as_clean() {
        let status = |states: Value| json!({ "pgmap": { "num_pgs": 3, "pgs_by_state": states } });
        let two = json!({ "state_name": "active+clean", "count": 2 });
        let one = |name: &str| json!({ "state_name": name, "count": 1 });
        assert_eq!(unclean(&status(json!([two, one("active+clean+scrubbing")]))), 0);
        assert_eq!(unclean(&status(json!([two, one("active+undersized+degraded")]))), 1);
        assert_eq!((unclean(&status(json!([two]))), unclean(&json!({}))), (1, 0));
    }
}
