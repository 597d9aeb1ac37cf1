//! The daemons of the cluster with what they said of their builds: monitors of the map, OSDs that are up or
//! hold data, and metadata servers.

use crate::state::State;
use peer::level::Levels;
use std::collections::BTreeMap;
use wire::{EntityName, EntityType};

/// The key of a daemon's version in its metadata, as of Ceph.
const VERSION: &str = "ceph_version_short";

/// A daemon, and what its build is.
pub struct Daemon {
    /// Its name.
    pub name: EntityName,
    /// The levels that it can work at.
    pub levels: Levels,
    /// Its version, if it named one.
    pub version: Option<String>,
    /// True if it runs, as far as is known.
    pub is_up: bool,
}

/// The daemons by name, monitors first, then metadata servers and OSDs.
pub fn daemons(state: &State) -> Vec<Daemon> {
    let mons = state.monmap.mons.keys().map(|name| (EntityName::new(EntityType::MON, name.clone()), true));
    let servers = mds_names(state).into_iter().map(|name| (EntityName::new(EntityType::MDS, name), true));
    // An OSD that was never up holds no data.
    let counts = |osd: &maps::OsdEntry| osd.is_up() || osd.is_in() && osd.info.up_from.0 > 0;
    let osds = state.osdmap().existing().filter(|(_, osd)| counts(osd));
    let osds = osds.map(|(id, osd)| (EntityName::new(EntityType::OSD, id.0.to_string()), osd.is_up()));
    let none = BTreeMap::new();
    let daemon = |(name, is_up)| {
        let metadata = state.metadata.get(&name).unwrap_or(&none);
        let version = metadata.get(VERSION).cloned();
        Daemon { levels: Levels::announced(metadata), version, is_up, name }
    };
    mons.chain(servers).chain(osds).map(daemon).collect()
}

/// The names of metadata servers that hold a rank or stand by.
pub fn mds_names(state: &State) -> Vec<String> {
    let fsmap = &state.fsmap;
    let ranks = fsmap.filesystems.values().flat_map(|f| f.mds_map.mds_info.values());
    ranks.chain(fsmap.standby_daemons.values()).map(|info| info.name.clone()).collect()
}

/// A version as numbers, to be compared: `0.10.1` is after `0.9.2`.
pub fn parts(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(parts("0.10.1") > parts("0.9.2"));
        assert!(parts("1.0.0") > parts("0.9.2"));
        assert_eq!(parts("1.2.0-rc1"), [1, 2, 0]);
    }
}
