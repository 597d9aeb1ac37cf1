//! `pg summary`: what OSDs report, in one pass over the PGs and in little space: for the dashboard and the
//! metrics, which ask for it every few seconds in clusters of any size. Ceph has no such command.

use crate::commands::reply::{Outcome, structured};
use crate::pg_stats::state_name;
use crate::view::View;
use decl::Args;
use maps::OsdId;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The PGs of a pool.
#[derive(Default)]
struct PoolPgs {
    /// Their number by state.
    states: BTreeMap<u64, usize>,
    /// Objects that recovery has written since the monitor leads.
    recovered: i64,
    degraded: i64,
    misplaced: i64,
    unfound: i64,
    copies: i64,
    recovered_bytes: i64,
    repaired: i64,
}

pub fn summary(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let mut pools: BTreeMap<i64, PoolPgs> = map.pools.keys().map(|id| (*id, PoolPgs::default())).collect();
    let mut on: BTreeMap<OsdId, usize> = BTreeMap::new();
    for (id, pg) in view.pgs.pgs() {
        let Some(pool) = pools.get_mut(&id.pool) else { continue };
        *pool.states.entry(pg.state).or_default() += 1;
        pool.recovered += pg.stats.num_objects_recovered;
        pool.degraded += pg.stats.num_objects_degraded;
        pool.misplaced += pg.stats.num_objects_misplaced;
        pool.unfound += pg.stats.num_objects_unfound;
        pool.copies += pg.stats.num_object_copies;
        pool.recovered_bytes += pg.stats.num_bytes_recovered;
        pool.repaired += pg.stats.num_objects_repaired;
        for osd in &pg.acting {
            *on.entry(*osd).or_default() += 1;
        }
        for osd in pg.up.iter().filter(|osd| !pg.acting.contains(osd)) {
            *on.entry(*osd).or_default() += 1;
        }
    }
    let pools: Vec<Value> = pools.iter().map(|(id, pool)| pool_json(view, *id, pool)).collect();
    let osd = |(id, stat): (&OsdId, &crate::pg_stats::OsdStat)| {
        let used = stat.store.total - stat.store.available.min(stat.store.total);
        json!({
            "osd": id.0, "num_pgs": on.get(id).copied().unwrap_or(0), "total_bytes": stat.store.total,
            "used_bytes": used, "commit_latency_ms": stat.commit_latency_ms,
            "slow_ops": stat.slow_ops.0, "oldest_slow_op_s": stat.slow_ops.1, "repaired": stat.repaired,
            "used": usage(&stat.used),
        })
    };
    let osds: Vec<Value> = view.pgs.osds().iter().map(osd).collect();
    structured(args, &json!({ "pools": pools, "osds": osds, "used_fields": USED }))
}

/// The columns of [`usage`]: there may be a thousand OSDs, so names come once.
const USED: [&str; 12] = [
    "at_ms",
    "pid",
    "process_cpu_ms",
    "net_in_bytes",
    "net_out_bytes",
    "disk_read_bytes",
    "disk_written_bytes",
    "ops",
    "client_read_bytes",
    "client_written_bytes",
    "host_busy_millicores",
    "host_idle_millicores",
];

/// What an OSD has used; null if it does not tell.
fn usage(u: &peer::OsdUsage) -> Option<[u64; USED.len()]> {
    let told = [
        u.at_ms,
        u.pid.into(),
        u.process_cpu_ms,
        u.net_in,
        u.net_out,
        u.disk_read,
        u.disk_written,
        u.ops,
        u.client_read,
        u.client_written,
        u.host_busy.into(),
        u.host_idle.into(),
    ];
    (u.at_ms > 0).then_some(told)
}

fn pool_json(view: &View<'_>, id: i64, sum: &PoolPgs) -> Value {
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    for (state, count) in &sum.states {
        *states.entry(state_name(*state)).or_default() += count;
    }
    let pgs = view.state.osdmap().pools.get(&id).map_or(0, |pool| pool.pg_num as usize);
    let unknown = pgs.saturating_sub(states.values().sum());
    if unknown > 0 {
        *states.entry("unknown".into()).or_default() += unknown;
    }
    let states: Map<String, Value> = states.into_iter().map(|(name, n)| (name, n.into())).collect();
    let rates = view.pgs.pool_rates(view.now.mono, id);
    json!({
        "pool_id": id, "num_pgs": pgs, "states": states, "num_objects_recovered": sum.recovered,
        "num_objects_degraded": sum.degraded, "num_objects_misplaced": sum.misplaced,
        "num_objects_unfound": sum.unfound, "num_object_copies": sum.copies,
        "num_bytes_recovered": sum.recovered_bytes, "num_objects_repaired": sum.repaired,
        "recovering_objects_per_sec": rates.recover_objects,
        "recovering_bytes_per_sec": rates.recover_bytes,
    })
}
