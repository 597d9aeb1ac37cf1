//! Checks that OSDs can be stopped or destroyed without data loss.

use crate::commands::reply::{Outcome, output, structured};
use crate::failure::{Failure, invalid, missing};
use crate::view::View;
use decl::Args;
use maps::{EVersion, OsdId, OsdMap, PgId};
use peer::pg_state;
use serde_json::json;
use wire::Errno;

/// The OSDs of an argument list.
fn ids(map: &OsdMap, args: &Args) -> Result<Vec<OsdId>, Failure> {
    let mut out = Vec::new();
    for text in args.list("ids") {
        match decl::args::parse_osd(&text).map(OsdId) {
            Some(osd) if map.exists(osd) => out.push(osd),
            Some(osd) => return missing(format!("osd.{osd} does not exist")),
            None => return invalid(format!("`{text}` is no OSD: write 0 or osd.0")),
        }
    }
    Ok(out)
}

pub fn ok_to_stop(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let stop = ids(map, args)?;
    let (mut ok, mut bad, mut degraded) = (0usize, Vec::<String>::new(), Vec::<String>::new());
    for (id, pool) in &map.pools {
        for pg in pool.pgs(*id) {
            let acting = map.pg_up_acting(pg).acting;
            if !acting.iter().any(|o| stop.contains(o)) {
                continue;
            }
            let stat = view.pgs.pgs().get(&pg);
            let active = stat.is_some_and(|s| s.state & pg_state::ACTIVE != 0);
            let left = acting.iter().filter(|o| o.is_some() && !stop.contains(o)).count();
            if active && left >= usize::from(pool.min_size) {
                ok += 1;
                degraded.push(pg.to_string());
            } else {
                bad.push(pg.to_string());
            }
        }
    }
    if !bad.is_empty() {
        let some = bad.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        return Err(Failure::new(
            Errno::EBUSY,
            format!("unsafe to stop: {} PGs would become unavailable ({some} …)", bad.len()),
        ));
    }
    let ids: Vec<i32> = stop.iter().map(|o| o.0).collect();
    let json = json!({
        "ok_to_stop": true, "osds": ids,
        "num_ok_pgs": ok, "num_not_ok_pgs": 0, "ok_become_degraded": degraded,
    });
    output(format!("{json}\n"))
}

pub fn safe_to_destroy(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let (mut safe, mut active) = (Vec::new(), Vec::new());
    for osd in ids(map, args)? {
        let mapped = view.pgs.pgs_on(osd);
        let by_map = map.pools.iter().any(|(id, pool)| {
            pool.pgs(*id).any(|pg: PgId| {
                let at = map.pg_up_acting(pg);
                at.up.contains(&osd) || at.acting.contains(&osd)
            })
        });
        let unclean = view
            .pgs
            .pgs()
            .values()
            .any(|s| s.state & pg_state::CLEAN == 0 && s.version > EVersion::default());
        if mapped > 0 || by_map || map.is_in(osd) && unclean {
            active.push(osd.0);
        } else {
            safe.push(osd.0);
        }
    }
    // With a format, the original answers and leaves the judgement to the reader.
    if !active.is_empty() && args.format() == "plain" {
        let names: Vec<_> = active.iter().map(ToString::to_string).collect();
        return Err(Failure::new(
            Errno::EBUSY,
            format!("OSD(s) {} still have PGs mapped to them", names.join(",")),
        ));
    }
    let json = json!({ "safe_to_destroy": safe, "active": active, "missing_stats": [], "stored_pgs": [] });
    structured(args, &json)
}
