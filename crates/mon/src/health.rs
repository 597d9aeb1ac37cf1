//! Health checks: what is wrong, where, and what to do about it.

use crate::commands::View;
use crate::pgstat::PgTable;
use decl::{Code, Severity};
use maps::{MdsRank, MdsState, OsdMap, osd_flags, osd_state, pool_flags};
use peer::pg_state;
use serde_json::{Map, Value, json};

/// One finding.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Check {
    /// What.
    pub code: Code,
    /// One line.
    pub summary: String,
    /// How many things are concerned.
    pub count: usize,
    /// A line each.
    pub detail: Vec<String>,
}

/// The overall state.
pub(crate) fn status(view: &View<'_>) -> &'static str {
    status_of(&checks(view))
}

/// The overall state of findings.
pub(crate) fn status_of(checks: &[Check]) -> &'static str {
    checks.iter().map(|c| c.code.severity()).max().map_or("HEALTH_OK", Severity::status)
}

/// Everything that is wrong.
pub(crate) fn checks(view: &View<'_>) -> Vec<Check> {
    let map = view.state.osdmap();
    let mut out = Vec::new();
    mds_checks(view, &mut out);
    osd_checks(map, &mut out);
    full_checks(view, &mut out);
    flag_checks(map, &mut out);
    pg_checks(map, &view.soft.pgs, &mut out);
    pool_checks(view, &mut out);
    let wanted: u64 = view.option("osd_pool_default_size");
    let osds = map.existing().count();
    if (osds as u64) < wanted {
        let summary = format!("OSD count {osds} < osd_pool_default_size {wanted}");
        out.push(Check { code: Code::TooFewOsds, summary, count: 1, detail: Vec::new() });
    }
    out.sort_by_key(|c| (std::cmp::Reverse(c.code.severity()), c.code));
    out
}

/// As `health` gives it in JSON.
pub(crate) fn json(checks: &[Check], detail: bool) -> Value {
    let mut all = Map::new();
    for c in checks {
        let mut one = json!({
            "severity": c.code.severity().status(),
            "summary": { "message": c.summary, "count": c.count },
        });
        if detail {
            let lines = c.detail.iter().map(|d| json!({ "message": d })).collect::<Vec<_>>();
            one["detail"] = Value::from(lines);
        }
        one["muted"] = Value::from(false);
        all.insert(c.code.name().to_owned(), one);
    }
    json!({ "status": status_of(checks), "checks": all, "mutes": [] })
}

fn plural(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn mds_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let fsmap = &view.state.fsmap;
    let (mut offline, mut degraded, mut short) = (Vec::new(), Vec::new(), Vec::new());
    for fs in fsmap.filesystems.values().map(|f| &f.mds_map) {
        let name = &fs.fs_name;
        if fs.up.is_empty() {
            offline.push(format!("fs {name} is offline because no MDS is active for it."));
        }
        let recovering =
            |r: &MdsRank| fs.state_of(*r) != MdsState::ACTIVE && fs.state_of(*r) != MdsState::CREATING;
        if !fs.failed.is_empty() || !fs.damaged.is_empty() || fs.up.keys().any(recovering) {
            degraded.push(format!("fs {name} is degraded"));
        }
        let up = fs.up.len() as i32;
        if up < fs.max_mds {
            short.push(format!("fs {name} has {up} MDS online, but wants {}", fs.max_mds));
        }
        for rank in &fs.damaged {
            let detail = vec![format!("fs {name} rank {rank} is damaged")];
            let summary = format!("{} damaged", plural(1, "mds daemon", "mds daemons"));
            out.push(Check { code: Code::MdsDamage, summary, count: 1, detail });
        }
    }
    let mut add = |code, list: Vec<String>, what: &str| {
        if !list.is_empty() {
            let summary = format!("{} {what}", plural(list.len(), "filesystem is", "filesystems are"));
            out.push(Check { code, summary, count: list.len(), detail: list });
        }
    };
    add(Code::MdsAllDown, offline, "offline");
    add(Code::FsDegraded, degraded, "degraded");
    add(Code::MdsUpLessThanMax, short, "online with fewer MDS than max_mds");
}

fn osd_checks(map: &OsdMap, out: &mut Vec<Check>) {
    let down: Vec<_> = map.existing().filter(|(_, o)| !o.is_up() && o.is_in()).collect();
    if down.is_empty() {
        return;
    }
    let place = |osd: i32| {
        let parts: Vec<_> = crate::crush_edit::location(&map.crush, osd);
        parts.iter().rev().map(|(t, n)| format!("{t}={n}")).collect::<Vec<_>>().join(",")
    };
    let detail = down.iter().map(|(id, _)| format!("osd.{id} ({}) is down", place(id.0))).collect();
    let summary = format!("{} down", plural(down.len(), "osds", "osds"));
    out.push(Check { code: Code::OsdDown, summary, count: down.len(), detail });
    let host_type = map.crush.type_of("host");
    let hosts = map.crush.buckets.iter().flatten().filter(|b| Some(i32::from(b.ty)) == host_type);
    let mut dead_hosts = Vec::new();
    for host in hosts {
        let devices = crate::crush_edit::devices(&map.crush, host.id);
        let all_down = |d: &i32| map.is_down(maps::OsdId(*d)) && map.is_in(maps::OsdId(*d));
        if !devices.is_empty() && devices.iter().all(all_down) {
            let name = map.crush.names.get(&host.id).cloned().unwrap_or_default();
            dead_hosts.push(format!("host {name} ({} osds) is down", devices.len()));
        }
    }
    if !dead_hosts.is_empty() {
        let count = dead_hosts.len();
        let summary = format!("{} down", plural(count, "host", "hosts"));
        out.push(Check { code: Code::OsdHostDown, summary, count, detail: dead_hosts });
    }
}

/// How full an OSD's device is, from 0 to 1.
pub(crate) fn fullness(pgs: &PgTable, osd: maps::OsdId) -> f64 {
    pgs.osd(osd)
        .filter(|s| s.store.total > 0)
        .map_or(0.0, |s| (s.store.total - s.store.available.min(s.store.total)) as f64 / s.store.total as f64)
}

fn full_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let (map, pgs) = (view.state.osdmap(), &view.soft.pgs);
    let levels = [
        (Code::OsdFull, "full", f64::from(map.full_ratio)),
        (Code::OsdBackfillFull, "backfillfull", f64::from(map.backfillfull_ratio)),
        (Code::OsdNearFull, "nearfull", f64::from(map.nearfull_ratio)),
    ];
    let mut found: [Vec<String>; 3] = Default::default();
    for (osd, _) in map.existing().filter(|(_, o)| o.is_in()) {
        let used = fullness(pgs, osd);
        if let Some(i) = levels.iter().position(|(_, _, ratio)| *ratio > 0.0 && used >= *ratio) {
            found[i].push(format!("osd.{osd} is {} at {:.0}%", levels[i].1, used * 100.0));
        }
    }
    for ((code, name, _), detail) in levels.into_iter().zip(found) {
        if !detail.is_empty() {
            let summary = format!("{} {name} osd(s)", detail.len());
            out.push(Check { code, summary, count: detail.len(), detail });
        }
    }
}

fn flag_checks(map: &OsdMap, out: &mut Vec<Check>) {
    const WARN: u32 = osd_flags::PAUSERD
        | osd_flags::PAUSEWR
        | osd_flags::PAUSEREC
        | osd_flags::NOUP
        | osd_flags::NODOWN
        | osd_flags::NOOUT
        | osd_flags::NOIN
        | osd_flags::NOBACKFILL
        | osd_flags::NORECOVER
        | osd_flags::NOSCRUB
        | osd_flags::NODEEP_SCRUB
        | osd_flags::NOREBALANCE
        | osd_flags::NOTIERAGENT
        | osd_flags::NOSNAPTRIM
        | osd_flags::FULL;
    let names: Vec<_> =
        osd_flags::NAMES.iter().filter(|(bit, _)| map.flags & WARN & bit != 0).map(|(_, n)| *n).collect();
    if !names.is_empty() {
        let summary = format!("{} flag(s) set", names.join(","));
        out.push(Check { code: Code::OsdmapFlags, summary, count: names.len(), detail: Vec::new() });
    }
    let odd = osd_state::NOUP | osd_state::NODOWN | osd_state::NOIN | osd_state::NOOUT;
    let marked = map.existing().filter(|(_, o)| o.state & odd != 0).count();
    if marked > 0 {
        let summary = format!("{marked} OSDs have flags of their own set");
        out.push(Check { code: Code::OsdmapFlags, summary, count: marked, detail: Vec::new() });
    }
}

/// Lines of detail for each check of PGs.
const MAX_DETAIL: usize = 50;

fn pg_checks(map: &OsdMap, pgs: &PgTable, out: &mut Vec<Check>) {
    let (mut inactive, mut degraded, mut unfound) = (Vec::new(), Vec::new(), 0i64);
    let (mut objects, mut copies) = (0i64, 0i64);
    let mut kinds = std::collections::BTreeMap::<&str, usize>::new();
    let mut degraded_kinds = std::collections::BTreeMap::<&str, usize>::new();
    let bump = |kinds: &mut std::collections::BTreeMap<&'static str, usize>, name| {
        *kinds.entry(name).or_default() += 1;
    };
    for (id, pool) in &map.pools {
        for pg in pool.pgs(*id) {
            let Some(stat) = pgs.pgs().get(&pg) else {
                bump(&mut kinds, "inactive");
                inactive.push(format!("pg {pg} is unknown: no OSD has reported it yet"));
                continue;
            };
            let state = crate::pgstat::state_name(stat.state);
            let acting = crate::commands::format::osds(&stat.acting);
            let line = || format!("pg {pg} is {state}, acting {acting}");
            if stat.state & pg_state::ACTIVE == 0 || stat.state & pg_state::STALE != 0 {
                bump(&mut kinds, "inactive");
                let more = [
                    (pg_state::PEERING, "peering"),
                    (pg_state::DOWN, "down"),
                    (pg_state::INCOMPLETE, "incomplete"),
                    (pg_state::STALE, "stale"),
                ];
                more.iter().filter(|(bit, _)| stat.state & bit != 0).for_each(|(_, n)| bump(&mut kinds, n));
                inactive.push(line());
            } else if stat.state & (pg_state::DEGRADED | pg_state::UNDERSIZED) != 0 {
                let more = [(pg_state::DEGRADED, "degraded"), (pg_state::UNDERSIZED, "undersized")];
                let have = more.iter().filter(|(bit, _)| stat.state & bit != 0);
                have.for_each(|(_, n)| bump(&mut degraded_kinds, n));
                degraded.push(line());
            }
            objects += stat.stats.num_objects_degraded;
            copies += stat.stats.num_object_copies;
            unfound += stat.stats.num_objects_unfound;
        }
    }
    let list = |kinds: &std::collections::BTreeMap<&str, usize>| {
        let mut parts: Vec<_> =
            kinds.iter().map(|(k, n)| format!("{} {k}", plural(*n, "pg", "pgs"))).collect();
        parts.sort();
        parts.join(", ")
    };
    if !inactive.is_empty() {
        let summary = format!("Reduced data availability: {}", list(&kinds));
        push_pgs(out, Code::PgAvailability, summary, inactive);
    }
    if !degraded.is_empty() || objects > 0 {
        let share = crate::commands::format::percent(objects as f64, copies as f64);
        let amount = (objects > 0).then(|| format!("{objects}/{copies} objects degraded ({share:.3}%)"));
        let parts: Vec<_> =
            amount.into_iter().chain((!degraded.is_empty()).then(|| list(&degraded_kinds))).collect();
        push_pgs(out, Code::PgDegraded, format!("Degraded data redundancy: {}", parts.join(", ")), degraded);
    }
    if unfound > 0 {
        let summary = format!("{unfound} objects unfound");
        out.push(Check { code: Code::ObjectUnfound, summary, count: unfound as usize, detail: Vec::new() });
    }
}

fn push_pgs(out: &mut Vec<Check>, code: Code, summary: String, mut detail: Vec<String>) {
    let count = detail.len();
    if count > MAX_DETAIL {
        detail.truncate(MAX_DETAIL);
        detail.push(format!("and {} more", count - MAX_DETAIL));
    }
    out.push(Check { code, summary, count, detail });
}

fn pool_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let (map, pgs) = (view.state.osdmap(), &view.soft.pgs);
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
}
