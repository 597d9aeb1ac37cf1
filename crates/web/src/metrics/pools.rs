//! Metrics of space, pools and PGs.

use super::text::Exposition;
use crate::facts::Facts;
use crate::value::{fields, int, num, rows, text};

/// Statistics of `df detail`. Those of requests only grow.
const DF: [&str; 16] = [
    "max_avail",
    "avail_raw",
    "stored",
    "stored_raw",
    "objects",
    "dirty",
    "quota_bytes",
    "quota_objects",
    "rd",
    "rd_bytes",
    "wr",
    "wr_bytes",
    "compress_bytes_used",
    "compress_under_bytes",
    "bytes_used",
    "percent_used",
];

/// Statistics of a pool's PGs in `pg summary`, with the metric's name, type and help.
const SUMMED: [(&str, &str, &str, &str); 5] = [
    (
        "num_objects_recovered",
        "ceph_pool_num_objects_recovered",
        "gauge",
        "Objects that recovery has brought to where they lacked",
    ),
    (
        "num_bytes_recovered",
        "ceph_pool_num_bytes_recovered",
        "gauge",
        "Bytes that recovery has brought to where they lacked",
    ),
    (
        "recovering_objects_per_sec",
        "ceph_pool_recovering_objects_per_sec",
        "gauge",
        "Objects recovered in a second",
    ),
    (
        "recovering_bytes_per_sec",
        "ceph_pool_recovering_bytes_per_sec",
        "gauge",
        "Bytes recovered in a second",
    ),
    ("num_objects_repaired", "ceph_pool_objects_repaired", "counter", "Objects repaired by scrubs"),
];

/// States of PGs. A PG counts in each of those that it is in.
const STATES: [&str; 34] = [
    "active",
    "clean",
    "down",
    "recovery_unfound",
    "backfill_unfound",
    "scrubbing",
    "degraded",
    "inconsistent",
    "peering",
    "repair",
    "recovering",
    "forced_recovery",
    "backfill_wait",
    "incomplete",
    "stale",
    "remapped",
    "deep",
    "backfilling",
    "forced_backfill",
    "backfill_toofull",
    "recovery_wait",
    "recovery_toofull",
    "undersized",
    "activating",
    "peered",
    "snaptrim",
    "snaptrim_wait",
    "snaptrim_error",
    "creating",
    "unknown",
    "premerge",
    "failed_repair",
    "laggy",
    "wait",
];

pub(super) fn cluster(facts: &Facts, out: &mut Exposition) {
    let names = ["total_bytes", "total_used_bytes", "total_used_raw_bytes"];
    for name in names {
        let help = format!("DF {name}");
        out.one(&format!("ceph_cluster_{name}"), "gauge", &help, num(&facts.df["stats"][name]));
    }
    for name in names {
        let (metric, help) = (format!("ceph_cluster_by_class_{name}"), format!("DF {name} by device class"));
        let mut family = out.family(&metric, "gauge", &help);
        for (class, stats) in fields(&facts.df["stats_by_class"]) {
            family.add(&[("device_class", class)], num(&stats[name]));
        }
    }
    let pools = rows(&facts.summary["pools"]);
    for name in ["degraded", "misplaced", "unfound"] {
        let (metric, field) = (format!("ceph_num_objects_{name}"), format!("num_objects_{name}"));
        let sum = pools.iter().map(|pool| num(&pool[field.as_str()])).sum();
        out.one(&metric, "gauge", &format!("Objects that are {name}"), sum);
    }
}

pub(super) fn pools(facts: &Facts, out: &mut Exposition) {
    let mut family = out.family("ceph_pool_metadata", "untyped", "Pools");
    for pool in rows(&facts.maps.osdmap["pools"]) {
        let id = int(&pool["pool"]).to_string();
        let (kind, description) = match int(&pool["type"]) {
            3 => ("erasure", format!("erasure profile: {}", text(&pool["erasure_code_profile"]))),
            _ => ("replicated", format!("replica: {}", int(&pool["size"]))),
        };
        let labels = [
            ("pool_id", id.as_str()),
            ("name", text(&pool["pool_name"])),
            ("type", kind),
            ("description", &description),
            ("compression_mode", "none"),
            ("application", &applications(pool)),
        ];
        family.add(&labels, 1.0);
    }
    for name in DF {
        let kind = if crate::steady::COUNTERS.contains(&name) { "counter" } else { "gauge" };
        let (metric, help) = (format!("ceph_pool_{name}"), format!("DF pool {name}"));
        let mut family = out.family(&metric, kind, &help);
        for pool in rows(&facts.df["pools"]) {
            // Not every build says all of them.
            let Some(value) = pool["stats"][name].as_f64() else { continue };
            family.add(&[("pool_id", &int(&pool["id"]).to_string())], value);
        }
    }
    for (field, metric, kind, help) in SUMMED {
        let mut family = out.family(metric, kind, help);
        for pool in rows(&facts.summary["pools"]) {
            family.add(&[("pool_id", &int(&pool["pool_id"]).to_string())], num(&pool[field]));
        }
    }
}

/// What a pool is used for, in the words that Ceph's dashboards look for.
fn applications(pool: &serde_json::Value) -> String {
    let word = |name: &str| match name {
        "rbd" => "Block".to_owned(),
        "cephfs" => "Filesystem".to_owned(),
        "rgw" => "Object".to_owned(),
        other => other.to_owned(),
    };
    let names = fields(&pool["application_metadata"]).map(|(name, _)| word(name));
    names.collect::<Vec<_>>().join(", ")
}

pub(super) fn pgs(facts: &Facts, out: &mut Exposition) {
    let pools = rows(&facts.summary["pools"]);
    let mut family = out.family("ceph_pg_total", "gauge", "PGs of each pool");
    for pool in pools {
        family.add(&[("pool_id", &int(&pool["pool_id"]).to_string())], num(&pool["num_pgs"]));
    }
    for state in STATES {
        let (metric, help) = (format!("ceph_pg_{state}"), format!("PGs of each pool that are {state}"));
        let mut family = out.family(&metric, "gauge", &help);
        for pool in pools {
            let has = fields(&pool["states"]).filter(|(name, _)| name.split('+').any(|part| part == state));
            let sum = has.map(|(_, count)| num(count)).sum();
            family.add(&[("pool_id", &int(&pool["pool_id"]).to_string())], sum);
        }
    }
}
