//! Health checks of what scrub finds, and of PGs that are not scrubbed.

use crate::health::check::{Check, push_pgs};
use crate::text::plural;
use crate::view::View;
use decl::Code;
use maps::{Pool, PoolOpt, pool_opt};
use peer::{PgStat, pg_state};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::Utime;

/// States of PGs whose data may be damaged.
const DAMAGED: [(u64, &str); 3] = [
    (pg_state::INCONSISTENT, "inconsistent"),
    (pg_state::FAILED_REPAIR, "failed_repair"),
    (pg_state::RECOVERY_UNFOUND, "recovery_unfound"),
];

/// Everything that is wrong.
pub(super) fn checks(view: &View<'_>, out: &mut Vec<Check>) {
    damaged(view, out);
    not_scrubbed(view, out);
    let limit: u64 = view.option("mon_osd_warn_num_repaired");
    let osds = view.pgs.osds().iter().filter(|(_, stat)| u64::from(stat.repaired) > limit);
    let detail: Vec<String> =
        osds.map(|(osd, stat)| format!("osd.{} had {} reads repaired", osd.0, stat.repaired)).collect();
    if !detail.is_empty() && limit > 0 {
        let summary = format!("Too many repaired reads on {}", plural(detail.len(), "OSDs", "OSDs"));
        out.push(Check { code: Code::OsdTooManyRepairs, summary, count: detail.len(), detail });
    }
}

fn damaged(view: &View<'_>, out: &mut Vec<Check>) {
    let pgs = view.pgs.pgs();
    let errors: i64 = pgs.values().map(|stat| stat.stats.num_scrub_errors).sum();
    if errors > 0 {
        let summary = format!("{errors} scrub errors");
        out.push(Check { code: Code::OsdScrubErrors, summary, count: errors as usize, detail: Vec::new() });
    }
    let mut kinds = BTreeMap::<&str, usize>::new();
    let mut detail = Vec::new();
    for (pg, stat) in pgs {
        let has: Vec<&str> =
            DAMAGED.iter().filter(|(bit, _)| stat.state & bit != 0).map(|(_, n)| *n).collect();
        if !has.is_empty() {
            has.into_iter().for_each(|name| *kinds.entry(name).or_default() += 1);
            let acting = crate::text::osds(&stat.acting);
            detail.push(format!("pg {pg} is {}, acting {acting}", crate::pg_stats::state_name(stat.state)));
        }
    }
    if !detail.is_empty() {
        let kinds: Vec<String> =
            kinds.iter().map(|(name, n)| format!("{} {name}", plural(*n, "pg", "pgs"))).collect();
        let summary = format!("Possible data damage: {}", kinds.join(", "));
        push_pgs(out, Code::PgDamaged, summary, detail);
    }
}

/// A pool's setting in seconds, or else the option.
fn interval(pool: &Pool, key: i32, default: Duration) -> Duration {
    match pool.opts.get(&key) {
        Some(PoolOpt::Double(secs)) => Duration::try_from_secs_f64(*secs).unwrap_or(default),
        _ => default,
    }
}

fn not_scrubbed(view: &View<'_>, out: &mut Vec<Check>) {
    type Of = fn(&PgStat) -> Utime;
    let kinds: [(Code, &str, &str, &str, i32, Of); 2] = [
        (
            Code::PgNotScrubbed,
            "scrubbed",
            "mon_warn_pg_not_scrubbed_ratio",
            "osd_scrub_max_interval",
            pool_opt::SCRUB_MAX_INTERVAL,
            |stat| stat.last_scrub,
        ),
        (
            Code::PgNotDeepScrubbed,
            "deep-scrubbed",
            "mon_warn_pg_not_deep_scrubbed_ratio",
            "osd_deep_scrub_interval",
            pool_opt::DEEP_SCRUB_INTERVAL,
            |stat| stat.last_deep_scrub,
        ),
    ];
    let now = view.now.wall.split().0;
    let pools = &view.state.osdmap().pools;
    for (code, what, ratio, option, key, stamp) in kinds {
        let ratio: f64 = view.option(ratio);
        if ratio <= 0.0 {
            continue;
        }
        let default: Duration = view.option(option);
        let mut late = Vec::new();
        for (pg, stat) in view.pgs.pgs() {
            let Some(pool) = pools.get(&pg.pool) else { continue };
            let longest = interval(pool, key, default).mul_f64((1.0 + ratio).min(1000.0));
            let since = stamp(stat);
            // PGs that were never clean have other checks.
            let is_late = since != Utime::default() && u64::from(since.sec) + longest.as_secs() < now;
            if is_late {
                late.push(format!("pg {pg} not {what} since {}", since.iso8601()));
            }
        }
        if !late.is_empty() {
            let summary = format!("{} pgs not {what} in time", late.len());
            push_pgs(out, code, summary, late);
        }
    }
}
