//! `pg scrub`, `pg repair` and their like. They are sent to OSDs directly and change no replicated state.

use crate::commands::reply::Reply;
use crate::failure::{Failure, invalid, missing};
use crate::view::View;
use decl::{Args, Cmd};
use maps::{OsdId, PgId};
use std::collections::{BTreeMap, BTreeSet};
use wire::{EntityType, Errno};

/// Scrub orders by OSD.
pub(crate) type Orders = BTreeMap<OsdId, peer::OsdScrub>;

/// The last word of the answer.
fn verb(cmd: Cmd) -> &'static str {
    match cmd {
        Cmd::PgRepair | Cmd::OsdRepair => "repair",
        Cmd::PgDeepScrub | Cmd::OsdDeepScrub => "deep-scrub",
        _ => "scrub",
    }
}

fn order(cmd: Cmd, pgs: Vec<PgId>) -> peer::OsdScrub {
    let what = verb(cmd);
    peer::OsdScrub { pgs, deep: what != "scrub", repair: what == "repair" }
}

/// OSDs with a session at any monitor.
fn connected(view: &View<'_>) -> BTreeSet<OsdId> {
    let osds = view.sessions.iter().filter(|s| s.is(EntityType::OSD));
    osds.filter_map(|s| s.name().id.parse().ok().map(OsdId)).collect()
}

fn one_pg(view: &View<'_>, cmd: Cmd, args: &Args) -> Result<(Reply, Orders), Failure> {
    let text = args.str("pgid");
    let Some(pg) = PgId::parse(text) else { return invalid(format!("invalid pgid '{text}'")) };
    let map = view.state.osdmap();
    if map.pools.get(&pg.pool).is_none_or(|pool| pg.seed >= pool.pg_num) {
        return missing(format!("pg {pg} does not exist"));
    }
    let later = |text: String| Err(Failure::new(Errno::EAGAIN, text));
    let Some(osd) = map.pg_up_acting(pg).acting_primary else {
        return later(format!("pg {pg} has no primary osd"));
    };
    if !connected(view).contains(&osd) {
        return later(format!("pg {pg} primary osd.{osd} is not currently connected"));
    }
    let status = format!("instructing pg {pg} on osd.{osd} to {}", verb(cmd));
    Ok((Reply { status, data: Vec::new() }, Orders::from([(osd, order(cmd, vec![pg]))])))
}

fn all_pgs(view: &View<'_>, cmd: Cmd, args: &Args) -> Result<(Reply, Orders), Failure> {
    let (map, who) = (view.state.osdmap(), args.str("who"));
    let osds: BTreeSet<OsdId> = match who {
        "*" | "all" | "any" => map.existing().filter(|(_, o)| o.is_up()).map(|(id, _)| id).collect(),
        one => match one.trim_start_matches("osd.").parse().ok().filter(|id: &i32| *id >= 0) {
            Some(id) => [OsdId(id)].into_iter().filter(|osd| map.is_up(*osd)).collect(),
            None => return invalid(format!("invalid osd '{one}'")),
        },
    };
    let there = connected(view);
    let list =
        |osds: &mut dyn Iterator<Item = &OsdId>| osds.map(|o| o.to_string()).collect::<Vec<_>>().join(",");
    let (sent, failed): (BTreeSet<OsdId>, BTreeSet<OsdId>) = osds.iter().partition(|osd| there.contains(osd));
    if sent.is_empty() {
        let text =
            format!("failed to instruct osd(s) {} to {} (not connected)", list(&mut osds.iter()), verb(cmd));
        return Err(Failure::new(Errno::EAGAIN, text));
    }
    let mut by_osd: BTreeMap<OsdId, Vec<PgId>> = BTreeMap::new();
    for pg in map.pools.iter().flat_map(|(id, pool)| pool.pgs(*id)) {
        if let Some(osd) = map.pg_up_acting(pg).acting_primary.filter(|osd| sent.contains(osd)) {
            by_osd.entry(osd).or_default().push(pg);
        }
    }
    let mut status = format!("instructed osd(s) {} to {}", list(&mut sent.iter()), verb(cmd));
    if !failed.is_empty() {
        status += &format!("; osd(s) {} were not connected", list(&mut failed.iter()));
    }
    let orders = by_osd.into_iter().map(|(osd, pgs)| (osd, order(cmd, pgs))).collect();
    Ok((Reply { status, data: Vec::new() }, orders))
}

/// Translates a command into scrub orders for OSDs.
pub(crate) fn order_scrub(view: &View<'_>, cmd: Cmd, args: &Args) -> Result<(Reply, Orders), Failure> {
    match cmd {
        Cmd::PgScrub | Cmd::PgDeepScrub | Cmd::PgRepair => one_pg(view, cmd, args),
        _ => all_pgs(view, cmd, args),
    }
}
