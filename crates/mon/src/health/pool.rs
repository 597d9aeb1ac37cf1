//! Health checks of pools.

use crate::domain::autoscale::{Settings, scales};
use crate::domain::pool::WARN;
use crate::health::check::Check;
use crate::text::plural;
use crate::view::View;
use decl::Code;
use maps::{OsdMap, pool_flags};

pub(super) fn pool_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let (map, pgs) = (view.state.osdmap(), &view.pgs);
    let (mut single, mut no_app, mut full) = (Vec::new(), Vec::new(), Vec::new());
    for (id, pool) in &map.pools {
        let name = map.pool_name(*id);
        if pool.size == 1 {
            single.push(format!("pool '{name}' has no replicas configured"));
        }
        if pool.application_metadata.is_empty() && pgs.pool(*id).stats.num_objects > 0 {
            no_app.push(format!("application not enabled on pool '{name}'"));
        }
        if pool.has_flag(pool_flags::FULL_QUOTA) {
            full.push(format!("pool '{name}' is full (running out of quota)"));
        }
    }
    let mut add = |code, list: Vec<String>, what: &str| {
        if !list.is_empty() {
            let summary = format!("{} {what}", plural(list.len(), "pool(s)", "pool(s)"));
            out.push(Check { code, summary, count: list.len(), detail: list });
        }
    };
    if view.option("mon_warn_on_pool_no_redundancy") {
        add(Code::PoolNoRedundancy, single, "have no replicas configured");
    }
    if view.option("mon_warn_on_pool_no_app") {
        add(Code::PoolAppNotEnabled, no_app, "do not have an application enabled");
    }
    add(Code::PoolFull, full, "full");
    too_many_pgs(view, out);
}

/// More copies of PGs than OSDs should have. New pools can't lead to that, but the loss of OSDs can.
fn too_many_pgs(view: &View<'_>, out: &mut Vec<Check>) {
    let map = view.state.osdmap();
    let osds = map.existing().filter(|(_, osd)| osd.is_in()).count() as u64;
    let copies: u64 = map.pools.values().map(|pool| u64::from(pool.pg_num) * u64::from(pool.size)).sum();
    let max: u64 = view.option("mon_max_pg_per_osd");
    if osds > 0 && copies / osds > max {
        let summary = format!("too many PGs per OSD ({} > max {max})", copies / osds);
        out.push(Check { code: Code::TooManyPgs, summary, count: 1, detail: Vec::new() });
    }
}

/// Pools whose autoscale mode asks for a warning.
pub(super) fn autoscale_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let map = view.state.osdmap();
    let warns = |map: &OsdMap, id: i64| map.pools[&id].pg_autoscale_mode == WARN;
    if !map.pools.keys().any(|id| warns(map, *id)) || Settings::of(view).off {
        return;
    }
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for scale in scales(view).into_iter().filter(|s| s.differs && warns(map, s.id)) {
        let name = map.pool_name(scale.id);
        let line = format!("Pool {name} has {} placement groups, should have {}", scale.pg_num, scale.ideal);
        if scale.ideal > scale.pg_num { few.push(line) } else { many.push(line) }
    }
    for (code, detail, what) in [(Code::PoolTooFewPgs, few, "few"), (Code::PoolTooManyPgs, many, "many")] {
        if !detail.is_empty() {
            let count = detail.len();
            let summary = format!("{} too {what} placement groups", plural(count, "pool has", "pools have"));
            out.push(Check { code, summary, count, detail });
        }
    }
}
