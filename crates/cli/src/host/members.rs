//! The hosts of a cluster, with what each runs and stores.

use super::query::{list, query};
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A host of the cluster.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Member {
    /// The rack that it is in, by the CRUSH map.
    pub(crate) rack: Option<String>,
    /// Its monitors, each with whether it is in the quorum.
    pub(crate) mons: Vec<(String, bool)>,
    /// Its metadata servers, with their states.
    pub(crate) mds: Vec<(String, String)>,
    /// Its OSDs.
    pub(crate) osds: Vec<MemberOsd>,
}

/// An OSD of a host.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct MemberOsd {
    /// Its number.
    pub(crate) id: u64,
    /// True if it runs.
    pub(crate) up: bool,
    /// True if data is kept on it.
    pub(crate) is_in: bool,
    /// The size of its device, in bytes.
    pub(crate) size: u64,
    /// The bytes in use.
    pub(crate) used: u64,
}

impl Member {
    /// One word for how it is.
    pub(crate) fn state(&self) -> &'static str {
        let quorum = self.mons.iter().all(|(_, inside)| *inside);
        match (self.osds.iter().all(|osd| osd.up) && quorum, self.osds.iter().any(|osd| osd.up)) {
            _ if !self.osds.is_empty() && self.osds.iter().all(|osd| !osd.is_in) => "drained",
            (true, _) => "up",
            (false, true) => "partly up",
            (false, false) if quorum && !self.mons.is_empty() => "partly up",
            (false, false) => "down",
        }
    }

    /// The bytes of its devices, and of those the ones in use.
    pub(crate) fn space(&self) -> (u64, u64) {
        self.osds.iter().fold((0, 0), |(size, used), osd| (size + osd.size, used + osd.used))
    }

    /// For programs.
    pub(crate) fn json(&self, name: &str) -> Value {
        let osds = self.osds.iter().map(|osd| {
            json!({ "id": osd.id, "up": osd.up, "in": osd.is_in, "bytes": osd.size, "bytes_used": osd.used })
        });
        let mons = self.mons.iter().map(|(name, inside)| json!({ "name": name, "in_quorum": inside }));
        let mds = self.mds.iter().map(|(name, state)| json!({ "name": name, "state": state }));
        json!({
            "hostname": name,
            "rack": self.rack,
            "state": self.state(),
            "mons": mons.collect::<Vec<_>>(),
            "mds": mds.collect::<Vec<_>>(),
            "osds": osds.collect::<Vec<_>>(),
        })
    }
}

/// Asks the monitors for the hosts, by name.
pub(crate) fn members(cluster: &client::Cluster) -> Result<BTreeMap<String, Member>> {
    let query = |prefix| query(cluster, prefix);
    let answers = Answers {
        nodes: query("node ls")?,
        tree: query("osd tree")?,
        usage: query("osd df")?,
        quorum: query("quorum_status")?,
        fs: query("fs dump")?,
    };
    Ok(answers.members())
}

/// The monitors' answers that it is made of.
struct Answers {
    nodes: Value,
    tree: Value,
    usage: Value,
    quorum: Value,
    fs: Value,
}

impl Answers {
    fn members(&self) -> BTreeMap<String, Member> {
        let mut out: BTreeMap<String, Member> = BTreeMap::new();
        for (host, name) in of_role(&self.nodes["mon"]) {
            let name = name.as_str().unwrap_or_default().to_owned();
            let inside = list(&self.quorum["quorum_names"]).iter().any(|n| *n == name);
            out.entry(host).or_default().mons.push((name, inside));
        }
        let states = self.mds_states();
        for (host, name) in of_role(&self.nodes["mds"]) {
            let name = name.as_str().unwrap_or_default().to_owned();
            let state = states.get(&name).cloned().unwrap_or_else(|| "unknown".to_owned());
            out.entry(host).or_default().mds.push((name, state));
        }
        let nodes = list(&self.tree["nodes"]);
        for bucket in nodes.iter().filter(|node| node["type"] == "host") {
            let member = out.entry(bucket["name"].as_str().unwrap_or_default().to_owned()).or_default();
            let holds = |node: &&Value| list(&node["children"]).contains(&bucket["id"]);
            let rack = nodes.iter().filter(|node| node["type"] == "rack").find(holds);
            member.rack = rack.and_then(|rack| rack["name"].as_str()).map(str::to_owned);
            let children = list(&bucket["children"]);
            let osds = nodes.iter().filter(|node| node["type"] == "osd" && children.contains(&node["id"]));
            member.osds = osds.map(|node| self.osd(node)).collect();
            member.osds.sort_by_key(|osd| osd.id);
        }
        out
    }

    fn osd(&self, node: &Value) -> MemberOsd {
        let usage = list(&self.usage["nodes"]).iter().find(|of| of["id"] == node["id"]);
        let bytes = |key: &str| usage.and_then(|of| of[key].as_u64()).unwrap_or(0) << 10;
        MemberOsd {
            id: node["id"].as_u64().unwrap_or(0),
            up: node["status"] == "up",
            is_in: node["reweight"].as_f64().is_some_and(|weight| weight > 0.0),
            size: bytes("kb"),
            used: bytes("kb_used"),
        }
    }

    /// The states of metadata servers, by name.
    fn mds_states(&self) -> BTreeMap<String, String> {
        let ranks = list(&self.fs["filesystems"]).iter();
        let ranks = ranks.filter_map(|fs| fs["mdsmap"]["info"].as_object()).flat_map(|info| info.values());
        let all = ranks.chain(list(&self.fs["standbys"]));
        let state = |mds: &Value| {
            let state = mds["state"].as_str()?.trim_start_matches("up:");
            Some((mds["name"].as_str()?.to_owned(), state.to_owned()))
        };
        all.filter_map(state).collect()
    }
}

/// Hosts and daemons of a part of `node ls`.
fn of_role(part: &Value) -> impl Iterator<Item = (String, &Value)> {
    let hosts = part.as_object().into_iter().flatten();
    hosts.flat_map(|(host, daemons)| list(daemons).iter().map(move |daemon| (host.clone(), daemon)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_put_together_from_what_monitors_say() {
        let answers = Answers {
            nodes: json!({ "mon": { "h1": ["h1"], "h2": ["h2"] }, "mds": { "h1": ["h1"] }, "osd": {} }),
            tree: json!({ "nodes": [
                { "id": -1, "type": "root", "name": "default", "children": [-9, -3] },
                { "id": -9, "type": "rack", "name": "r1", "children": [-2] },
                { "id": -2, "type": "host", "name": "h1", "children": [1, 0] },
                { "id": -3, "type": "host", "name": "h3", "children": [2] },
                { "id": 0, "type": "osd", "status": "up", "reweight": 1.0 },
                { "id": 1, "type": "osd", "status": "down", "reweight": 1.0 },
                { "id": 2, "type": "osd", "status": "up", "reweight": 0.0 },
            ]}),
            usage: json!({ "nodes": [
                { "id": 0, "kb": 4, "kb_used": 1 },
                { "id": 1, "kb": 8, "kb_used": 2 },
            ]}),
            quorum: json!({ "quorum_names": ["h1"] }),
            fs: json!({ "filesystems": [
                { "mdsmap": { "info": { "gid_1": { "name": "h1", "state": "up:active" } } } },
            ]}),
        };
        let found = answers.members();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["h1", "h2", "h3"]);
        let h1 = &found["h1"];
        assert_eq!((h1.rack.as_deref(), h1.space()), (Some("r1"), (12 << 10, 3 << 10)));
        assert_eq!(h1.mds, [("h1".to_owned(), "active".to_owned())]);
        assert_eq!(h1.osds.iter().map(|osd| osd.id).collect::<Vec<_>>(), [0, 1]);
        let states: Vec<&str> = found.values().map(Member::state).collect();
        assert_eq!(states, ["partly up", "down", "drained"]);
    }
}
