//! Commands that change OSDs and the flags of the OSD map.

use super::{Failure, Outcome, invalid, missing, osd_read::existing, said};
use crate::crush_edit;
use crate::edit::Edit;
use crate::entry::Change;
use crate::osd_wishes::{create_osd, mark_down, mark_in, mark_out};
use auth::{EntityAuth, Key};
use decl::Args;
use maps::{OsdId, PgId, osd_flags};
use msgs::errno;
use serde_json::Value;
use std::time::Duration;
use wire::{EntityAddr, EntityName, EntityType, Uuid};

/// Registers an OSD: gives it a number, remembers its uuid and makes its key.
pub fn new(edit: &mut Edit<'_>, args: &Args, input: &[u8]) -> Outcome {
    let uuid = Uuid::parse(args.str("uuid")).expect("was checked");
    let map = edit.osdmap();
    let secret = match input.is_empty() {
        true => None,
        false => Some(secret_of(input)?),
    };
    let answer =
        |osd: OsdId| Ok(super::Reply { status: String::new(), data: format!("{osd}\n").into_bytes() });
    let known = map.existing().find(|(_, o)| o.uuid == uuid).map(|(id, _)| id);
    if let Some(osd) = known {
        return match args.osd("id").filter(|id| *id != osd.0) {
            Some(id) => Err(Failure::new(errno::EEXIST, format!("uuid {uuid} is osd.{osd}, not osd.{id}"))),
            None => answer(osd),
        };
    }
    let osd = match args.osd("id").map(OsdId) {
        Some(osd) if map.exists(osd) => {
            return Err(Failure::new(errno::EEXIST, format!("osd.{osd} exists with another uuid")));
        }
        Some(osd) => osd,
        None => (0..).map(OsdId).find(|o| !map.exists(*o)).expect("numbers do not end"),
    };
    create_osd(edit, osd, uuid);
    let name = EntityName::new(EntityType::OSD, osd.to_string());
    if let Some(key) = secret {
        let caps = [("mon", "allow profile osd"), ("mgr", "allow profile osd"), ("osd", "allow *")];
        let caps = caps.map(|(s, c)| (s.to_owned(), c.to_owned())).into();
        edit.push(Change::Auth(name, Some(EntityAuth { key, caps })));
    }
    answer(osd)
}

fn secret_of(input: &[u8]) -> Result<Key, Failure> {
    let json: Value = serde_json::from_slice(input)
        .map_err(|e| Failure::new(errno::EINVAL, format!("the secrets are not valid JSON: {e}")))?;
    match json.get("cephx_secret").and_then(Value::as_str) {
        Some(text) => {
            Key::from_base64(text).map_err(|e| Failure::new(errno::EINVAL, format!("cephx_secret: {e}")))
        }
        None => invalid("the secrets lack `cephx_secret`"),
    }
}

/// The OSDs of a list; `any`, `all` and `*` mean every one.
fn each(edit: &mut Edit<'_>, args: &Args, mut apply: impl FnMut(&mut Edit<'_>, OsdId) -> String) -> Outcome {
    let map = edit.osdmap();
    let list = args.list("ids");
    let mut status = String::new();
    let mut ids = Vec::new();
    for text in &list {
        match (text.as_str(), decl::args::parse_osd(text).map(OsdId)) {
            ("any" | "all" | "*", _) => ids.extend(map.existing().map(|(id, _)| id)),
            (_, Some(osd)) if map.exists(osd) => ids.push(osd),
            (_, Some(osd)) => status.push_str(&format!("osd.{osd} does not exist. ")),
            _ => return invalid(format!("`{text}` is no OSD: write 0, osd.0 or all")),
        }
    }
    for osd in ids {
        status.push_str(&apply(edit, osd));
    }
    said(status)
}

pub fn out(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    each(edit, args, |edit, osd| {
        if !edit.osdmap().is_in(osd) {
            return format!("osd.{osd} is already out. ");
        }
        mark_out(edit, osd, false);
        format!("marked out osd.{osd}. ")
    })
}

pub fn r#in(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    each(edit, args, |edit, osd| {
        if edit.osdmap().is_in(osd) {
            return format!("osd.{osd} is already in. ");
        }
        mark_in(edit, osd);
        format!("marked in osd.{osd}. ")
    })
}

pub fn down(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let dead = args.flag("definitely_dead");
    each(edit, args, |edit, osd| {
        if edit.osdmap().is_down(osd) {
            return format!("osd.{osd} is already down. ");
        }
        mark_down(edit, osd, dead);
        format!("marked down osd.{osd}. ")
    })
}

fn needs_consent(args: &Args, what: &str) -> Result<(), Failure> {
    match args.flag("yes_i_really_mean_it") {
        true => Ok(()),
        false => {
            Err(Failure::new(errno::EPERM, format!("{what} If you are sure, add --yes-i-really-mean-it.")))
        }
    }
}

pub fn lost(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    needs_consent(args, "Declaring an OSD lost gives up what only it has.")?;
    let map = edit.osdmap();
    let osd = existing(map, args, "id")?;
    let entry = map.osd(osd).expect("was checked");
    if entry.is_up() {
        return Err(Failure::new(
            errno::EBUSY,
            format!("osd.{osd} is up: only one that is down can be lost"),
        ));
    }
    let (epoch, down_at) = (map.epoch.next(), entry.info.down_at);
    edit.osd().new_lost.insert(osd, epoch);
    said(format!("marked osd lost in epoch {epoch} (down since {down_at})"))
}

/// Takes an OSD that is down out of the map, of CRUSH and of the keys.
fn forget(edit: &mut Edit<'_>, osd: OsdId, with_key: bool) -> Result<(), Failure> {
    let map = edit.osdmap();
    let entry = map.osd(osd).expect("was checked");
    if entry.is_up() {
        return Err(Failure::new(errno::EBUSY, format!("osd.{osd} is up: stop it first")));
    }
    let state = entry.state;
    // Turning EXISTS over takes the number away with everything that belongs to it.
    edit.osd().new_state.insert(osd, state);
    if with_key {
        let mut crush = edit.crush();
        crush_edit::remove(&mut crush, osd.0);
        edit.set_crush(&crush);
        let name = EntityName::new(EntityType::OSD, osd.to_string());
        edit.push(Change::Auth(name.clone(), None));
        edit.push(Change::Metadata(name, None));
    }
    edit.nacre().dead.remove(&osd);
    Ok(())
}

pub fn purge(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    needs_consent(args, "This forgets the OSD and its key; its data can't be used any more.")?;
    let Some(osd) = args.osd("id").map(OsdId) else { return invalid("write an OSD as 0 or osd.0") };
    if !edit.osdmap().exists(osd) {
        return said(format!("osd.{osd} does not exist"));
    }
    if !args.flag("force") {
        let holds = edit.soft.pgs.pgs_on(osd);
        if holds > 0 {
            let text =
                format!("osd.{osd} still has {holds} PGs mapped to it: mark it out and wait, or add --force");
            return Err(Failure::new(errno::EBUSY, text));
        }
    }
    forget(edit, osd, true)?;
    said(format!("purged osd.{osd}"))
}

pub fn rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let mut failed = None;
    let outcome = each(edit, args, |edit, osd| match forget(edit, osd, false) {
        Ok(()) => format!("removed osd.{osd}. "),
        Err(failure) => {
            failed = Some(failure);
            String::new()
        }
    });
    failed.map_or(outcome, Err)
}

const FLAGS: [(&str, u32); 13] = [
    ("full", osd_flags::FULL),
    ("pause", osd_flags::PAUSERD | osd_flags::PAUSEWR),
    ("noup", osd_flags::NOUP),
    ("nodown", osd_flags::NODOWN),
    ("noout", osd_flags::NOOUT),
    ("noin", osd_flags::NOIN),
    ("nobackfill", osd_flags::NOBACKFILL),
    ("norebalance", osd_flags::NOREBALANCE),
    ("norecover", osd_flags::NORECOVER),
    ("noscrub", osd_flags::NOSCRUB),
    ("nodeep-scrub", osd_flags::NODEEP_SCRUB),
    ("notieragent", osd_flags::NOTIERAGENT),
    ("nosnaptrim", osd_flags::NOSNAPTRIM),
];

pub fn flag(edit: &mut Edit<'_>, args: &Args, on: bool) -> Outcome {
    let key = args.str("key");
    let (_, bit) = FLAGS.iter().find(|(name, _)| *name == key).expect("was checked");
    let old = edit.osdmap().flags;
    let flags = if on { old | bit } else { old & !bit };
    if flags != old {
        edit.osd().new_flags = flags as i32;
    }
    let shown = if key == "pause" { "pauserd,pausewr" } else { key };
    said(format!("{shown} is {}", if on { "set" } else { "unset" }))
}

fn share(args: &Args, name: &str) -> u32 {
    (args.float(name).unwrap_or(0.0) * 65536.0).round() as u32
}

pub fn reweight(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let osd = existing(edit.osdmap(), args, "id")?;
    let weight = share(args, "weight");
    edit.osd().new_weight.insert(osd, weight);
    said(format!(
        "reweighted osd.{osd} to {} ({weight:x})",
        super::format::float(f64::from(weight) / 65536.0)
    ))
}

pub fn primary_affinity(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let osd = existing(edit.osdmap(), args, "id")?;
    let weight = share(args, "weight");
    edit.osd().new_primary_affinity.insert(osd, weight);
    let shown = super::format::float(f64::from(weight) / 65536.0);
    said(format!("set osd.{osd} primary-affinity to {shown} ({weight:x})"))
}

pub fn ratio(edit: &mut Edit<'_>, args: &Args, name: &str) -> Outcome {
    let value = args.float("ratio").unwrap_or(0.0) as f32;
    let map = edit.osdmap();
    let (mut near, mut backfill, mut full) = (map.nearfull_ratio, map.backfillfull_ratio, map.full_ratio);
    match name {
        "full_ratio" => full = value,
        "backfillfull_ratio" => backfill = value,
        _ => near = value,
    }
    if near > backfill || backfill > full {
        return invalid(format!(
            "{name}: nearfull {near} <= backfillfull {backfill} <= full {full} must hold"
        ));
    }
    let inc = edit.osd();
    (inc.new_nearfull_ratio, inc.new_backfillfull_ratio, inc.new_full_ratio) = (near, backfill, full);
    said(format!("osd set-{} {value}", name.replace("_ratio", "-ratio")))
}

/// Default time on the blocklist.
const BLOCKLIST: f64 = 3600.0;

pub fn blocklist(edit: &mut Edit<'_>, args: &Args, op: &str) -> Outcome {
    let text = args.str("addr");
    let Some(mut addr) = EntityAddr::parse(text) else {
        return invalid(format!("`{text}` is no address: write IP:PORT/NONCE or IP"));
    };
    // Entries match any protocol, as clients are known by address and nonce alone.
    if !text.starts_with("v1:") && !text.starts_with("v2:") {
        addr.ty = wire::AddrType::ANY;
    }
    let shown = addr.legacy_string();
    if args.str(op) == "rm" {
        let same = |a: &&EntityAddr| a.addr == addr.addr && a.nonce == addr.nonce;
        let listed: Vec<EntityAddr> = edit.osdmap().blocklist.keys().filter(same).copied().collect();
        if listed.is_empty() {
            return said(format!("{shown} isn't blocklisted"));
        }
        edit.osd().old_blocklist.extend(listed);
        return said(format!("un-blocklisting {shown}"));
    }
    let secs = args.float("expire").unwrap_or(BLOCKLIST).max(0.0);
    let until = edit.now.wall + Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX / 4);
    let until: wire::Utime = until.into();
    edit.osd().new_blocklist.insert(addr, until);
    said(format!("blocklisting {shown} until {} ({} sec)", until.iso8601(), super::format::float(secs)))
}

pub fn blocklist_clear(edit: &mut Edit<'_>, _: &Args, _: &[u8]) -> Outcome {
    let all: Vec<EntityAddr> = edit.osdmap().blocklist.keys().copied().collect();
    if !all.is_empty() {
        edit.osd().old_blocklist = all;
    }
    said(" removed all blocklist entries")
}

/// The PG that an argument names, which must exist.
fn pg_of(edit: &Edit<'_>, args: &Args) -> Result<PgId, Failure> {
    let text = args.str("pgid");
    let Some(pg) = PgId::parse(text) else {
        return invalid(format!("`{text}` is no PG: write POOL.SEED, as 1.2f"));
    };
    match edit.osdmap().pools.get(&pg.pool).is_some_and(|p| pg.seed < p.pg_num) {
        true => Ok(pg),
        false => missing(format!("pg {pg} does not exist")),
    }
}

pub fn upmap_items(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let pg = pg_of(edit, args)?;
    let ids: Vec<OsdId> =
        args.list("id").iter().filter_map(|t| decl::args::parse_osd(t)).map(OsdId).collect();
    if !ids.len().is_multiple_of(2) || ids.is_empty() {
        return invalid("give pairs of OSDs: from to [from to …]");
    }
    if let Some(unknown) = ids.iter().find(|o| !edit.osdmap().exists(**o)) {
        return missing(format!("osd.{unknown} does not exist"));
    }
    let pairs: Vec<(OsdId, OsdId)> = ids.chunks(2).map(|p| (p[0], p[1])).collect();
    if let Some((from, _)) = pairs.iter().find(|(a, b)| a == b) {
        return invalid(format!("osd.{from} is both source and destination"));
    }
    let shown: Vec<String> = pairs.iter().map(|(a, b)| format!("{a}->{b}")).collect();
    edit.osd().new_pg_upmap_items.insert(pg, pairs);
    said(format!("set {pg} pg_upmap_items mapping to [{}]", shown.join(",")))
}

pub fn rm_upmap_items(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let pg = pg_of(edit, args)?;
    if edit.osdmap().pg_upmap_items.contains_key(&pg) {
        edit.osd().old_pg_upmap_items.insert(pg);
    }
    said(format!("clear {pg} pg_upmap_items mapping"))
}
