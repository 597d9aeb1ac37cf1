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
        ];
        family.add(&labels, 1.0);
    }
    for name in DF {
        let kind = if ["rd", "rd_bytes", "wr", "wr_bytes"].contains(&name) { "counter" } else { "gauge" };
        let (metric, help) = (format!("ceph_pool_{name}"), format!("DF pool {name}"));
        let mut family = out.family(&metric, kind, &help);
        for pool in rows(&facts.df["pools"]) {
            // Not every build says all of them.
            let Some(value) = pool["stats"][name].as_f64() else { continue };
            family.add(&[("pool_id", &int(&pool["id"]).to_string())], value);
        }
    }
    let metric = "ceph_pool_num_objects_recovered";
    let mut family = out.family(metric, "gauge", "Objects that recovery has written");
    for pool in rows(&facts.summary["pools"]) {
        family.add(&[("pool_id", &int(&pool["pool_id"]).to_string())], num(&pool["num_objects_recovered"]));
    }
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
