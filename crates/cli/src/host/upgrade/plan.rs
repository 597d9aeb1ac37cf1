//! What an upgrade of a host would do, and what is in its way.

use crate::host::Host;
use crate::host::query::{list, query, query_with};
use anyhow::Result;
use peer::level::Build;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::{EntityName, EntityType};

/// A daemon that is to be replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Planned {
    /// Its name.
    pub(crate) name: EntityName,
    /// The version that it runs.
    pub(crate) from: String,
    /// The version that it is to run.
    pub(crate) to: String,
}

/// The daemons of a host that run another version than this program, in the order of their replacement:
/// monitors, metadata servers, OSDs.
pub(crate) fn plan(cluster: &client::Cluster, host: &Host, build: &Build) -> Result<Vec<Planned>> {
    let mut versions = BTreeMap::new();
    for (role, key) in [(EntityType::MON, "name"), (EntityType::MDS, "name"), (EntityType::OSD, "id")] {
        versions_in(&query(cluster, &format!("{} metadata", role.name()))?, role, key, &mut versions);
    }
    Ok(planned(host.daemons(), &versions, &build.version))
}

/// The versions that daemons of a role have named.
fn versions_in(metadata: &Value, role: EntityType, key: &str, versions: &mut BTreeMap<EntityName, String>) {
    for one in list(metadata) {
        let id = one[key].as_str().map(str::to_owned).or_else(|| one[key].as_u64().map(|id| id.to_string()));
        let version = one["ceph_version_short"].as_str().unwrap_or("an unknown version");
        if let Some(id) = id {
            versions.insert(EntityName::new(role, id), version.to_owned());
        }
    }
}

fn planned(daemons: Vec<EntityName>, versions: &BTreeMap<EntityName, String>, to: &str) -> Vec<Planned> {
    let order = [EntityType::MON, EntityType::MDS, EntityType::OSD];
    let place = |name: &EntityName| order.iter().position(|role| *role == name.ty);
    let mut out: Vec<Planned> = daemons
        .into_iter()
        .map(|name| {
            let from = versions.get(&name).map_or("an unknown version", String::as_str).to_owned();
            Planned { name, from, to: to.to_owned() }
        })
        .filter(|planned| planned.from != to)
        .collect();
    out.sort_by_key(|planned| place(&planned.name));
    out
}

/// The version that a daemon has named to the monitors.
pub(super) fn version_of(cluster: &client::Cluster, name: &EntityName) -> Result<Option<String>> {
    let key = match name.ty {
        EntityType::MDS => "who",
        _ => "id",
    };
    let mut command = json!({ "prefix": format!("{} metadata", name.ty.name()) });
    command[key] = name.id.clone().into();
    let metadata = query_with(cluster, command)?;
    Ok(metadata["ceph_version_short"].as_str().map(str::to_owned))
}

/// The reason why daemons of this build could not work in the cluster.
pub(crate) fn refusal(cluster: &client::Cluster, build: &Build) -> Option<String> {
    // Monitors that do not know the command know no levels either.
    let found = query_with(cluster, json!({ "prefix": "finalize", "dry_run": true })).ok()?;
    let level = u32::try_from(found["was"].as_u64()?).ok()?;
    build.levels.refusal("this program", level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_another_version_is_replaced_monitors_first_and_osds_last() {
        let named = |text: &str| EntityName::parse(text).expect("a name");
        let mut versions = BTreeMap::new();
        let metadata = json!([{ "name": "h1", "ceph_version_short": "0.0.9" }]);
        versions_in(&metadata, EntityType::MON, "name", &mut versions);
        versions_in(&metadata, EntityType::MDS, "name", &mut versions);
        let metadata =
            json!([{ "id": 3, "ceph_version_short": "0.1.0" }, { "id": 4, "ceph_version_short": "0.0.9" }]);
        versions_in(&metadata, EntityType::OSD, "id", &mut versions);
        let daemons = ["osd.3", "osd.4", "osd.5", "mds.h1", "mon.h1"].map(named).to_vec();
        let plan = planned(daemons, &versions, "0.1.0");
        let told: Vec<String> = plan.iter().map(|p| format!("{} {}", p.name, p.from)).collect();
        assert_eq!(told, ["mon.h1 0.0.9", "mds.h1 0.0.9", "osd.4 0.0.9", "osd.5 an unknown version"]);
    }
}
