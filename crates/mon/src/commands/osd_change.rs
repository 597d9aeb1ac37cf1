//! Commands that change OSDs and the flags of the OSD map.

use super::crush_change::crush_failure;
use super::{Failure, Outcome, invalid, osd_read::existing, said};
use crate::edit::Edit;
use crate::entry::Change;
use crate::osd_wishes::{create_osd, mark_down, mark_in, mark_out};
use auth::{EntityAuth, Key};
use decl::Args;
use maps::{OsdId, osd_flags, osd_state};
use msgs::errno;
use serde_json::{Value, json};
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
        |osd: OsdId| super::format::answer(args, || json!({ "osdid": osd.0 }), || format!("{osd}\n"));
    let known = map.existing().find(|(_, o)| o.uuid == uuid).map(|(id, _)| id);
    if let Some(osd) = known {
        return match args.osd("id").filter(|id| *id != osd.0) {
            Some(id) => Err(Failure::new(errno::EEXIST, format!("uuid {uuid} is osd.{osd}, not osd.{id}"))),
            None => answer(osd),
        };
    }
    let osd = match args.osd("id").map(OsdId) {
        Some(osd) if map.osd(osd).is_some_and(|o| o.state & osd_state::DESTROYED != 0) => {
            return revive(edit, osd, uuid, secret).and_then(|()| answer(osd));
        }
        Some(osd) if map.exists(osd) => {
            return Err(Failure::new(errno::EEXIST, format!("osd.{osd} exists with another uuid")));
        }
        Some(osd) => osd,
        None => (0..).map(OsdId).find(|o| !map.exists(*o)).expect("numbers do not end"),
    };
    create_osd(edit, osd, uuid);
    give_key(edit, osd, secret);
    answer(osd)
}

fn give_key(edit: &mut Edit<'_>, osd: OsdId, secret: Option<Key>) {
    let Some(key) = secret else { return };
    let caps = [("mon", "allow profile osd"), ("mgr", "allow profile osd"), ("osd", "allow *")];
    let caps = caps.map(|(s, c)| (s.to_owned(), c.to_owned())).into();
    let name = EntityName::new(EntityType::OSD, osd.to_string());
    edit.push(Change::Auth(name, Some(EntityAuth { key, caps })));
}

/// A destroyed OSD's number gets a new store.
fn revive(edit: &mut Edit<'_>, osd: OsdId, uuid: Uuid, secret: Option<Key>) -> Result<(), Failure> {
    let inc = edit.osd();
    *inc.new_state.entry(osd).or_default() ^= osd_state::DESTROYED;
    inc.new_uuid.insert(osd, uuid);
    give_key(edit, osd, secret);
    Ok(())
}

/// The old form of `osd new`: number and uuid are both optional, and there is no key.
pub fn create(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let map = edit.osdmap();
    let answer =
        |osd: OsdId| super::format::answer(args, || json!({ "osdid": osd.0 }), || format!("{osd}\n"));
    let uuid = args.opt_str("uuid").and_then(Uuid::parse).unwrap_or_default();
    let known = map.existing().find(|(_, o)| o.uuid == uuid && uuid != Uuid::default()).map(|(id, _)| id);
    if let Some(osd) = known {
        return answer(osd);
    }
    let osd = match args.osd("id").map(OsdId) {
        Some(osd) if map.exists(osd) => {
            return Err(Failure::new(errno::EEXIST, format!("osd.{osd} exists already")));
        }
        Some(osd) => osd,
        None => (0..).map(OsdId).find(|o| !map.exists(*o)).expect("numbers do not end"),
    };
    create_osd(edit, osd, uuid);
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
    needs_consent(args, "are you SURE?  Declaring an OSD lost gives up what only it has.")?;
    let map = edit.osdmap();
    let osd = existing(map, args, "id")?;
    let entry = map.osd(osd).expect("was checked");
    if entry.is_up() {
        return Err(Failure::new(errno::EBUSY, format!("osd.{osd} is not down")));
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
        return Err(Failure::new(
            errno::EBUSY,
            format!("osd.{osd} is still up; must be down before removal."),
        ));
    }
    let state = entry.state;
    // Turning EXISTS over takes the number away with everything that belongs to it.
    edit.osd().new_state.insert(osd, state);
    if with_key {
        let mut crush = edit.crush();
        if crush.names.contains_key(&osd.0) {
            crush.remove(osd.0).map_err(crush_failure)?;
            edit.set_crush(crush);
        }
        let name = EntityName::new(EntityType::OSD, osd.to_string());
        edit.push(Change::Auth(name.clone(), None));
        edit.push(Change::Metadata(name, None));
    }
    edit.nacre().dead.remove(&osd);
    Ok(())
}

pub fn purge(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let osd = match super::osd_state::doomed(edit, args, args.flag("force")) {
        Ok(osd) => osd,
        Err(outcome) => return outcome,
    };
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

const FLAGS: [(&str, u32); 14] = [
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
    ("pglog_hardlimit", osd_flags::PGLOG_HARDLIMIT),
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
    said("removed all blocklist entries")
}
