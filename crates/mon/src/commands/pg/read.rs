//! `pg …`: the state of placement groups. In Ceph the manager answers these; here the monitor does.

use crate::commands::pg::json::{ids, pg as pg_json, store, sums};
use crate::commands::reply::{Outcome, Reply, answer, structured};
use crate::commands::table::Align::{L, R};
use crate::commands::table::Table;
use crate::failure::{Failure, invalid, missing};
use crate::pg_stats::{OsdStat, PoolSum};
use crate::text::{bytes, osds};
use crate::view::View;
use decl::Args;
use maps::{OsdId, PgId, StoreStatfs};
use peer::{PgStat, pg_state};
use serde_json::{Map, Value, json};
use wire::Utime;

pub fn stat(view: &View<'_>, args: &Args) -> Outcome {
    let (map, pgs) = (view.state.osdmap(), &view.pgs);
    let states = pgs.by_state(map);
    let (space, sum) = (pgs.space(map), pgs.total());
    let total: usize = map.pools.values().map(|p| p.pg_num as usize).sum();
    let used = space.total - space.available.min(space.total);
    let json = || {
        let by_state: Vec<Value> = states.iter().map(|(s, n)| json!({ "name": s, "num": n })).collect();
        json!({ "pg_ready": true, "pg_summary": {
            "num_pg_by_state": by_state,
            "num_pgs": total,
            "num_bytes": sum.num_bytes,
            "total_bytes": space.total,
            "total_avail_bytes": space.available,
            "total_used_bytes": used,
            "total_used_raw_bytes": used,
        }})
    };
    let plain = || {
        let list: Vec<String> = states.iter().map(|(s, n)| format!("{n} {s}")).collect();
        format!(
            "{total} pgs: {}; {} data, {} used, {} / {} avail\n",
            list.join(", "),
            bytes(sum.num_bytes.max(0) as u64),
            bytes(used),
            bytes(space.available),
            bytes(space.total)
        )
    };
    answer(args, json, plain)
}

pub fn map(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let Some(pg) = PgId::parse(args.str("pgid")) else {
        return invalid(format!("`{}` is no PG: write POOL.SEED, as 1.2f", args.str("pgid")));
    };
    let Some(pool) = map.pools.get(&pg.pool) else { return missing(format!("pg '{pg}' does not exist")) };
    let real = pool.raw_pg_to_pg(pg);
    let at = map.pg_up_acting(real);
    let json = || {
        json!({
            "epoch": map.epoch.0, "raw_pgid": pg.to_string(), "pgid": real.to_string(),
            "up": ids(&at.up), "acting": ids(&at.acting),
        })
    };
    let plain = || {
        format!("osdmap e{} pg {pg} ({real}) -> up {} acting {}\n", map.epoch, osds(&at.up), osds(&at.acting))
    };
    answer(args, json, plain)
}

/// All PGs of the map: as reported, or unknown.
fn all_pgs(view: &View<'_>) -> Vec<PgStat> {
    let map = view.state.osdmap();
    let mut out = Vec::new();
    for (id, pool) in &map.pools {
        for pg in pool.pgs(*id) {
            out.push(view.pgs.pgs().get(&pg).cloned().unwrap_or_else(|| {
                let at = map.pg_up_acting(pg);
                PgStat { pgid: pg, up: at.up, acting: at.acting, ..PgStat::default() }
            }));
        }
    }
    out
}

/// True if a PG is in all of the requested states (`active`, `degraded`, …).
fn in_states(stat: &PgStat, states: &[String]) -> bool {
    let name = crate::pg_stats::state_name(stat.state);
    let has: Vec<&str> = name.split('+').collect();
    states.iter().flat_map(|s| s.split('+')).all(|s| s == "all" || has.contains(&s))
}

fn list(view: &View<'_>, args: &Args, keep: impl Fn(&PgStat) -> bool) -> Outcome {
    let states = args.list("states");
    let unknown = |name: &&str| *name != "all" && !crate::pg_stats::is_state(name);
    if let Some(bad) = states.iter().flat_map(|s| s.split('+')).find(unknown) {
        return invalid(format!("'{bad}' is not a valid pg state"));
    }
    let pgs: Vec<PgStat> = all_pgs(view).into_iter().filter(|s| keep(s) && in_states(s, &states)).collect();
    let now: Utime = view.now.wall.into();
    let json = || json!({ "pg_ready": true, "pg_stats": pgs.iter().map(pg_json).collect::<Vec<_>>() });
    answer(args, json, || list_text(&pgs, now))
}

fn list_text(pgs: &[PgStat], now: Utime) -> String {
    let mut columns = vec![("PG", L, L)];
    let numbers =
        ["OBJECTS", "DEGRADED", "MISPLACED", "UNFOUND", "BYTES", "OMAP_BYTES*", "OMAP_KEYS*", "LOG"];
    columns.extend(numbers.map(|n| (n, L, R)));
    columns.extend(["STATE", "SINCE", "VERSION", "REPORTED"].map(|n| (n, L, R)));
    columns.extend(["UP", "ACTING", "SCRUB_STAMP", "DEEP_SCRUB_STAMP"].map(|n| (n, L, L)));
    let mut t = Table::new(&columns);
    for s in pgs {
        let n = &s.stats;
        let since = crate::text::age(u64::from(now.sec.saturating_sub(s.last_change.sec)));
        let who = |list: &[OsdId]| format!("{}p{}", osds(list), list.first().map_or(-1, |o| o.0));
        let mut row = vec![s.pgid.to_string()];
        let counts = [
            n.num_objects,
            n.num_objects_degraded,
            n.num_objects_misplaced,
            n.num_objects_unfound,
            n.num_bytes,
            n.num_omap_bytes,
            n.num_omap_keys,
            s.log_size as i64,
        ];
        row.extend(counts.map(|n| n.to_string()));
        row.extend([crate::pg_stats::state_name(s.state), since, s.version.to_string()]);
        row.push(format!("{}:{}", s.reported_epoch, s.reported_seq));
        row.extend([who(&s.up), who(&s.acting), s.last_scrub.iso8601(), s.last_deep_scrub.iso8601()]);
        t.row(row);
    }
    t.render()
}

pub fn ls(view: &View<'_>, args: &Args) -> Outcome {
    let pool = args.int("pool");
    list(view, args, |s| pool.is_none_or(|p| s.pgid.pool == p))
}

pub fn ls_by_pool(view: &View<'_>, args: &Args) -> Outcome {
    match view.state.osdmap().pool_by_name(args.str("poolstr")) {
        Some((id, _)) => list(view, args, |s| s.pgid.pool == id),
        None => missing(format!("pool '{}' does not exist", args.str("poolstr"))),
    }
}

fn osd_arg(view: &View<'_>, args: &Args) -> Result<OsdId, Failure> {
    crate::commands::osd::select::existing(view.state.osdmap(), args, "osd")
}

pub fn ls_by_osd(view: &View<'_>, args: &Args) -> Outcome {
    let (osd, pool) = (osd_arg(view, args)?, args.int("pool"));
    let on = |s: &PgStat| s.up.contains(&osd) || s.acting.contains(&osd);
    list(view, args, |s| on(s) && pool.is_none_or(|p| s.pgid.pool == p))
}

pub fn ls_by_primary(view: &View<'_>, args: &Args) -> Outcome {
    let (osd, pool) = (osd_arg(view, args)?, args.int("pool"));
    list(view, args, |s| s.acting.first() == Some(&osd) && pool.is_none_or(|p| s.pgid.pool == p))
}

/// Seconds in a bad state before a PG counts as stuck.
const STUCK: i64 = 60;

pub fn dump_stuck(view: &View<'_>, args: &Args) -> Outcome {
    let kinds = args.list("stuckops");
    let kinds = if kinds.is_empty() { vec!["unclean".to_owned()] } else { kinds };
    let limit = args.int("threshold").unwrap_or(STUCK).max(0) as u64;
    let now = view.now.wall.split().0;
    let bad = |s: &PgStat, kind: &str| match kind {
        "inactive" => s.state & pg_state::ACTIVE == 0,
        "stale" => s.state & pg_state::STALE != 0,
        "undersized" => s.state & pg_state::UNDERSIZED != 0,
        "degraded" => s.state & pg_state::DEGRADED != 0,
        _ => s.state & pg_state::CLEAN == 0,
    };
    let old = |s: &PgStat| now.saturating_sub(u64::from(s.last_change.sec)) >= limit;
    let stuck = |s: &PgStat| old(s) && kinds.iter().any(|k| bad(s, k));
    let pgs: Vec<PgStat> = all_pgs(view).into_iter().filter(stuck).collect();
    let json = || json!({ "pg_ready": true, "stuck_pg_stats": pgs.iter().map(pg_json).collect::<Vec<_>>() });
    let reply = answer(args, json, || if pgs.is_empty() { String::new() } else { brief_text(&pgs) })?;
    Ok(Reply { status: "ok".into(), ..reply })
}

fn brief_text(pgs: &[PgStat]) -> String {
    let mut t = Table::new(&[
        ("PG_STAT", L, L),
        ("STATE", L, R),
        ("UP", L, L),
        ("UP_PRIMARY", L, R),
        ("ACTING", L, L),
        ("ACTING_PRIMARY", L, R),
    ]);
    let first = |list: &[OsdId]| list.first().map_or(-1, |o| o.0).to_string();
    for s in pgs {
        let state = crate::pg_stats::state_name(s.state);
        t.row(vec![s.pgid.to_string(), state, osds(&s.up), first(&s.up), osds(&s.acting), first(&s.acting)]);
    }
    t.render()
}

pub fn dump(view: &View<'_>, args: &Args) -> Outcome {
    let what = args.list("dumpcontents");
    let what = what.first().map_or("all", String::as_str);
    let plain = || {
        let now: Utime = view.now.wall.into();
        let head = format!(
            "version {}\nstamp {}\nlast_osdmap_epoch {}\nlast_pg_scan 0\n",
            view.pgs.version(),
            now.iso8601(),
            view.state.osd.epoch()
        );
        match what {
            "pgs" => list_text(&all_pgs(view), now),
            "pgs_brief" => brief_text(&all_pgs(view)),
            "pools" => pools_text(view),
            "osds" => osds_text(view),
            "sum" | "summary" => format!("{head}{}{}", pools_text(view), osds_text(view)),
            _ => {
                format!("{head}{}\n{}\n{}", list_text(&all_pgs(view), now), pools_text(view), osds_text(view))
            }
        }
    };
    let reply = answer(args, || dump_json(view, what), plain)?;
    Ok(Reply { status: format!("dumped {what}"), ..reply })
}

/// The same as JSON, whatever format is asked for.
pub fn dump_json_cmd(view: &View<'_>, args: &Args) -> Outcome {
    let what = args.list("dumpcontents");
    let what = what.first().map_or("all", String::as_str);
    let reply = structured(args, &dump_json(view, what))?;
    Ok(Reply { status: format!("dumped {what}"), ..reply })
}

pub fn dump_pools_json(view: &View<'_>, args: &Args) -> Outcome {
    let reply = structured(args, &dump_json(view, "pools"))?;
    Ok(Reply { status: "dumped pools".into(), ..reply })
}

pub fn debug(view: &View<'_>, args: &Args) -> Outcome {
    let pgs = view.pgs.pgs();
    let found = match args.str("debugop") {
        "unfound_objects_exist" => pgs.values().any(|s| s.stats.num_objects_unfound > 0),
        _ => pgs.values().any(|s| s.stats.num_objects_degraded > 0),
    };
    let text = if found { "TRUE" } else { "FALSE" };
    // The original prints this line in every format.
    crate::commands::reply::output(format!("{text}\n"))
}

fn total_sum(view: &View<'_>) -> PoolSum {
    let pgs = &view.pgs;
    let mut out = PoolSum { stats: pgs.total(), ..PoolSum::default() };
    for id in view.state.osdmap().pools.keys() {
        let p = pgs.pool(*id);
        out.log_size += p.log_size;
        out.up += p.up;
        out.acting += p.acting;
    }
    out
}

fn osd_json(view: &View<'_>, id: Option<OsdId>, s: &OsdStat, num_pgs: usize, num: usize) -> Value {
    let up_from = id.and_then(|id| view.state.osdmap().osd(id)).map_or(0, |o| o.info.up_from.0);
    let kb = |n: u64| n >> 10;
    let f = &s.store;
    let (ms, ns) = (s.commit_latency_ms, u64::from(s.commit_latency_ms) * 1_000_000);
    let mut out = Map::new();
    let mut put = |k: &str, v: Value| drop(out.insert(k.into(), v));
    if let Some(id) = id {
        put("osd", id.0.into());
    }
    put("up_from", up_from.into());
    put("seq", 0.into());
    put("num_pgs", num_pgs.into());
    put("num_osds", num.into());
    put("num_per_pool_osds", num.into());
    put("num_per_pool_omap_osds", num.into());
    put("kb", kb(f.total).into());
    put("kb_used", kb(f.total - f.available.min(f.total)).into());
    put("kb_used_data", kb(f.allocated.max(0) as u64).into());
    put("kb_used_omap", kb(f.omap_allocated.max(0) as u64).into());
    put("kb_used_meta", kb(f.internal_metadata.max(0) as u64).into());
    put("kb_avail", kb(f.available).into());
    put("statfs", store(f));
    put("hb_peers", ids(&s.heartbeat_peers).into());
    for name in ["snap_trim_queue_len", "num_snap_trimming"] {
        put(name, 0.into());
    }
    put("num_shards_repaired", s.repaired.into());
    put("op_queue_age_hist", json!({ "histogram": [], "upper_bound": 1 }));
    put(
        "perf_stat",
        json!({
            "commit_latency_ms": ms, "apply_latency_ms": ms, "commit_latency_ns": ns, "apply_latency_ns": ns,
        }),
    );
    put("alerts", json!([]));
    put("network_ping_times", json!([]));
    Value::Object(out)
}

/// Space that each pool uses on each OSD.
fn pool_statfs(view: &View<'_>) -> Value {
    let mut out = Vec::new();
    for (osd, stat) in view.pgs.osds() {
        for (pool, used) in &stat.pools {
            let mut one = store(used);
            (one["poolid"], one["osd"]) = ((*pool).into(), osd.0.into());
            out.push(one);
        }
    }
    out.into()
}

fn dump_json(view: &View<'_>, what: &str) -> Value {
    let (map, pgs) = (view.state.osdmap(), &view.pgs);
    let osds = || {
        let one = |(id, s): (&OsdId, &OsdStat)| osd_json(view, Some(*id), s, pgs.pgs_on(*id), 1);
        pgs.osds().iter().map(one).collect::<Vec<_>>()
    };
    let pools = || {
        let one = |(id, p): (&i64, &maps::Pool)| {
            let mut out = Map::new();
            out.insert("poolid".into(), (*id).into());
            out.insert("num_pg".into(), p.pg_num.into());
            out.extend(sums(&pgs.pool(*id)));
            Value::Object(out)
        };
        map.pools.iter().map(one).collect::<Vec<_>>()
    };
    let stats = || all_pgs(view).iter().map(pg_json).collect::<Vec<_>>();
    let brief = |s: &PgStat| {
        let first = |l: &[OsdId]| l.first().map_or(-1, |o| o.0);
        json!({
            "pgid": s.pgid.to_string(), "state": crate::pg_stats::state_name(s.state),
            "up": ids(&s.up), "acting": ids(&s.acting),
            "up_primary": first(&s.up), "acting_primary": first(&s.acting),
        })
    };
    match what {
        "pgs" => json!({ "pg_ready": true, "pg_stats": stats() }),
        "pgs_brief" => {
            json!({ "pg_ready": true, "pg_stats": all_pgs(view).iter().map(brief).collect::<Vec<_>>() })
        }
        "pools" => json!({ "pg_ready": true, "pool_stats": pools() }),
        "osds" => json!({ "pg_ready": true, "osd_stats": osds(), "pool_statfs": pool_statfs(view) }),
        "delta" => {
            let mut delta = sums(&PoolSum::default());
            delta.insert("stamp_delta".into(), "0.000000".into());
            json!({ "pg_ready": true, "delta": { "pg_stats_delta": delta } })
        }
        _ => {
            let total = OsdStat { store: pgs.space(map), ..OsdStat::default() };
            let shards: usize = pgs.osds().keys().map(|o| pgs.pgs_on(*o)).sum();
            let now: Utime = view.now.wall.into();
            let mut delta = sums(&PoolSum::default());
            delta.insert("stamp_delta".into(), "0.000000".into());
            let mut out = json!({
                "version": pgs.version(),
                "stamp": now.iso8601(),
                "last_osdmap_epoch": view.state.osd.epoch().0,
                "last_pg_scan": 0,
                "pg_stats_sum": sums(&total_sum(view)),
                "osd_stats_sum": osd_json(view, None, &total, shards, pgs.osds().len()),
                "pg_stats_delta": delta,
            });
            if what != "sum" && what != "summary" {
                out["pg_stats"] = stats().into();
                out["pool_stats"] = pools().into();
                out["osd_stats"] = osds().into();
                out["pool_statfs"] = pool_statfs(view);
            }
            json!({ "pg_ready": true, "pg_map": out })
        }
    }
}

fn pools_text(view: &View<'_>) -> String {
    let mut columns = vec![("POOLID", L, L)];
    let numbers = [
        "OBJECTS",
        "MISSING_ON_PRIMARY",
        "DEGRADED",
        "MISPLACED",
        "UNFOUND",
        "BYTES",
        "OMAP_BYTES*",
        "OMAP_KEYS*",
        "LOG",
        "DISK_LOG",
    ];
    columns.extend(numbers.map(|n| (n, L, R)));
    let mut t = Table::new(&columns);
    let mut row = |name: String, sum: &PoolSum| {
        let n = &sum.stats;
        let cells = [
            n.num_objects,
            n.num_objects_missing_on_primary,
            n.num_objects_degraded,
            n.num_objects_misplaced,
            n.num_objects_unfound,
            n.num_bytes,
            n.num_omap_bytes,
            n.num_omap_keys,
            sum.log_size as i64,
            sum.log_size as i64,
        ];
        t.row([name].into_iter().chain(cells.map(|c| c.to_string())).collect());
    };
    for id in view.state.osdmap().pools.keys() {
        row(id.to_string(), &view.pgs.pool(*id));
    }
    row("sum".into(), &total_sum(view));
    t.render()
}

fn osds_text(view: &View<'_>) -> String {
    let names = ["USED", "AVAIL", "USED_RAW", "TOTAL", "HB_PEERS", "PG_SUM", "PRIMARY_PG_SUM"];
    let columns: Vec<_> = [("OSD_STAT", L, L)].into_iter().chain(names.map(|n| (n, L, R))).collect();
    let mut t = Table::new(&columns);
    let pgs = &view.pgs;
    let space = |s: &StoreStatfs| {
        let used = bytes(s.total - s.available.min(s.total));
        [used.clone(), bytes(s.available), used, bytes(s.total)]
    };
    for (id, s) in pgs.osds() {
        let primary = pgs.pgs().values().filter(|p| p.acting.first() == Some(id)).count();
        let more = [osds(&s.heartbeat_peers), pgs.pgs_on(*id).to_string(), primary.to_string()];
        t.row([id.to_string()].into_iter().chain(space(&s.store)).chain(more).collect());
    }
    let sum = space(&pgs.space(view.state.osdmap()));
    t.row(
        ["sum".to_owned()]
            .into_iter()
            .chain(sum)
            .chain([String::new(), String::new(), String::new()])
            .collect(),
    );
    t.render()
}
