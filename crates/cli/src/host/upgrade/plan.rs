//! What an upgrade of a host would do, and what is in its way.

use crate::cluster::{PROGRAM, program};
use crate::host::Host;
use crate::host::query::{list, query, query_with};
use anyhow::Result;
use peer::level::Build;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::{EntityName, EntityType};

/// What a daemon runs, by what it has told the monitors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Runs {
    version: String,
    /// The file; former builds do not name it.
    program: Option<String>,
}

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

impl Runs {
    /// What this program is.
    pub(super) fn this(build: &Build) -> Self {
        Self { version: build.version.clone(), program: program() }
    }

    /// The version.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    fn named_in(metadata: &Value) -> Option<Self> {
        let named = |key: &str| metadata[key].as_str().map(str::to_owned);
        Some(Self { version: named("ceph_version_short")?, program: named(PROGRAM) })
    }
}

/// The daemons of a host that run another program than this one, of the same version or not, in the order of
/// their replacement: monitors, metadata servers, OSDs.
pub(crate) fn plan(cluster: &client::Cluster, host: &Host, build: &Build) -> Result<Vec<Planned>> {
    let mut running = BTreeMap::new();
    for (role, key) in [(EntityType::MON, "name"), (EntityType::MDS, "name"), (EntityType::OSD, "id")] {
        running_in(&query(cluster, &format!("{} metadata", role.name()))?, role, key, &mut running);
    }
    Ok(planned(host.daemons(), &running, &Runs::this(build)))
}

/// What daemons of a role run.
fn running_in(metadata: &Value, role: EntityType, key: &str, running: &mut BTreeMap<EntityName, Runs>) {
    for one in list(metadata) {
        let id = one[key].as_str().map(str::to_owned).or_else(|| one[key].as_u64().map(|id| id.to_string()));
        if let (Some(id), Some(runs)) = (id, Runs::named_in(one)) {
            running.insert(EntityName::new(role, id), runs);
        }
    }
}

fn planned(daemons: Vec<EntityName>, running: &BTreeMap<EntityName, Runs>, to: &Runs) -> Vec<Planned> {
    let order = [EntityType::MON, EntityType::MDS, EntityType::OSD];
    let place = |name: &EntityName| order.iter().position(|role| *role == name.ty);
    let one = |name: EntityName| {
        let from = match running.get(&name) {
            Some(runs) if runs == to => return None,
            Some(runs) if runs.version == to.version => format!("another build of {}", runs.version),
            Some(runs) => runs.version.clone(),
            None => "an unknown version".to_owned(),
        };
        Some(Planned { name, from, to: to.version.clone() })
    };
    let mut out: Vec<Planned> = daemons.into_iter().filter_map(one).collect();
    out.sort_by_key(|planned| place(&planned.name));
    out
}

/// What a daemon has told the monitors that it runs.
pub(super) fn runs(cluster: &client::Cluster, name: &EntityName) -> Result<Option<Runs>> {
    let key = match name.ty {
        EntityType::MDS => "who",
        _ => "id",
    };
    let mut command = json!({ "prefix": format!("{} metadata", name.ty.name()) });
    command[key] = name.id.clone().into();
    Ok(Runs::named_in(&query_with(cluster, command)?))
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
    fn what_runs_another_program_is_replaced_monitors_first_and_osds_last() {
        let named = |text: &str| EntityName::parse(text).expect("a name");
        let mut running = BTreeMap::new();
        let metadata = json!([{ "name": "h1", "ceph_version_short": "0.0.9" }]);
        running_in(&metadata, EntityType::MON, "name", &mut running);
        running_in(&metadata, EntityType::MDS, "name", &mut running);
        let metadata = json!([
            { "id": 2, "ceph_version_short": "0.1.0" },
            { "id": 3, "ceph_version_short": "0.1.0", "program": "1-1.0" },
            { "id": 4, "ceph_version_short": "0.0.9", "program": "1-0.0" },
            { "id": 6, "ceph_version_short": "0.1.0", "program": "2-1.0" },
        ]);
        running_in(&metadata, EntityType::OSD, "id", &mut running);
        let daemons = ["osd.2", "osd.3", "osd.4", "osd.5", "osd.6", "mds.h1", "mon.h1"].map(named).to_vec();
        let this = Runs { version: "0.1.0".to_owned(), program: Some("1-1.0".to_owned()) };
        let told: Vec<String> = planned(daemons, &running, &this)
            .iter()
            .map(|planned| format!("{} {}", planned.name, planned.from))
            .collect();
        let expected = [
            "mon.h1 0.0.9",
            "mds.h1 0.0.9",
            "osd.2 another build of 0.1.0",
            "osd.4 0.0.9",
            "osd.5 an unknown version",
            "osd.6 another build of 0.1.0",
        ];
        assert_eq!(told, expected);
    }
}
