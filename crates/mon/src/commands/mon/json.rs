//! The map of monitors as JSON.

use crate::text::{addrvec, legacy_addr, stamp_z};
use maps::{MonMap, release};
use serde_json::{Value, json};

/// Features that Pacific's monitors require of one another, by bit of the feature mask.
pub(crate) const FEATURES: [&str; 8] =
    ["kraken", "luminous", "mimic", "osdmap-prune", "nautilus", "octopus", "pacific", "elector-pinging"];

/// The map of monitors in JSON.
pub(crate) fn monmap_json(map: &MonMap) -> Value {
    let mons: Vec<Value> = map
        .ranks
        .iter()
        .enumerate()
        .filter_map(|(rank, name)| map.mons.get(name).map(|info| (rank, info)))
        .map(|(rank, info)| {
            json!({
                "rank": rank,
                "name": info.name,
                "public_addrs": addrvec(&info.addrs),
                "addr": legacy_addr(&info.addrs),
                "public_addr": legacy_addr(&info.addrs),
                "priority": info.priority,
                "weight": info.weight,
                "crush_location": "{}",
            })
        })
        .collect();
    json!({
        "epoch": map.epoch,
        "fsid": map.fsid.to_string(),
        "modified": stamp_z(map.last_changed),
        "created": stamp_z(map.created),
        "min_mon_release": map.min_mon_release,
        "min_mon_release_name": release::name(map.min_mon_release),
        "election_strategy": map.strategy,
        "disallowed_leaders: ": "",
        "stretch_mode": map.stretch_mode,
        "tiebreaker_mon": map.tiebreaker,
        "removed_ranks: ": "",
        "features": {
            "persistent": features(map.persistent_features.bits),
            "optional": features(map.optional_features.bits),
        },
        "mons": mons,
    })
}

pub(crate) fn features(bits: u64) -> Vec<&'static str> {
    FEATURES.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, f)| *f).collect()
}
