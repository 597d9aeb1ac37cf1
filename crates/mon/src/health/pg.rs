//! Health checks of placement groups: availability, redundancy, space for recovery.

use crate::health::check::{Check, push_pgs};
use crate::pg_stats::PgTable;
use crate::text::plural;
use decl::Code;
use maps::OsdMap;
use peer::pg_state;
use std::collections::BTreeMap;

pub(super) fn pg_checks(map: &OsdMap, pgs: &PgTable, out: &mut Vec<Check>) {
    let (mut inactive, mut degraded) = (Vec::new(), Vec::new());
    let (mut unfound, mut all, mut lacking) = (0i64, 0i64, Vec::new());
    let (mut objects, mut copies) = (0i64, 0i64);
    let mut kinds = BTreeMap::<&str, usize>::new();
    let mut degraded_kinds = BTreeMap::<&str, usize>::new();
    let bump = |kinds: &mut BTreeMap<&'static str, usize>, name| {
        *kinds.entry(name).or_default() += 1;
    };
    for (id, pool) in &map.pools {
        for pg in pool.pgs(*id) {
            let Some(stat) = pgs.pgs().get(&pg) else {
                bump(&mut kinds, "inactive");
                inactive.push(format!("pg {pg} is unknown: no OSD has reported it yet"));
                continue;
            };
            let state = crate::pg_stats::state_name(stat.state);
            let acting = crate::text::osds(&stat.acting);
            let line = || format!("pg {pg} is {state}, acting {acting}");
            // PGs that are ready to merge wait for seconds only.
            let merges = stat.state & pg_state::PREMERGE != 0 && stat.state & pg_state::CLEAN != 0;
            if stat.state & pg_state::ACTIVE == 0 && !merges || stat.state & pg_state::STALE != 0 {
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
            all += stat.stats.num_objects;
            if stat.stats.num_objects_unfound > 0 {
                unfound += stat.stats.num_objects_unfound;
                lacking.push(format!("pg {pg} has {} unfound objects", stat.stats.num_objects_unfound));
            }
        }
    }
    let list = |kinds: &BTreeMap<&str, usize>| {
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
        let share = crate::text::percent(objects as f64, copies as f64);
        let amount = (objects > 0).then(|| format!("{objects}/{copies} objects degraded ({share:.3}%)"));
        let parts: Vec<_> =
            amount.into_iter().chain((!degraded.is_empty()).then(|| list(&degraded_kinds))).collect();
        push_pgs(out, Code::PgDegraded, format!("Degraded data redundancy: {}", parts.join(", ")), degraded);
    }
    if unfound > 0 {
        let share = crate::text::percent(unfound as f64, all as f64);
        push_pgs(out, Code::ObjectUnfound, format!("{unfound}/{all} objects unfound ({share:.3}%)"), lacking);
    }
}

/// PGs whose recovery or backfill waits for space.
pub(super) fn space_checks(map: &OsdMap, pgs: &PgTable, out: &mut Vec<Check>) {
    let kinds = [
        (Code::PgRecoveryFull, pg_state::RECOVERY_TOOFULL, "Full OSDs blocking recovery", "recovery_toofull"),
        (
            Code::PgBackfillFull,
            pg_state::BACKFILL_TOOFULL,
            "Low space hindering backfill (add storage if this doesn't resolve itself)",
            "backfill_toofull",
        ),
    ];
    for (code, bit, what, name) in kinds {
        let here =
            pgs.pgs().iter().filter(|(pg, stat)| map.pools.contains_key(&pg.pool) && stat.state & bit != 0);
        let line = |(pg, stat): (&maps::PgId, &peer::PgStat)| {
            let (state, acting) = (crate::pg_stats::state_name(stat.state), crate::text::osds(&stat.acting));
            format!("pg {pg} is {state}, acting {acting}")
        };
        let detail: Vec<String> = here.map(line).collect();
        if !detail.is_empty() {
            let summary = format!("{what}: {} {name}", plural(detail.len(), "pg", "pgs"));
            push_pgs(out, code, summary, detail);
        }
    }
}
