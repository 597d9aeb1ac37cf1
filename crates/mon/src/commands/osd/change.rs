//! Commands that create OSDs, mark them, and set their weights and limits.

use crate::commands::osd::remove::each;
use crate::commands::osd::select::existing;
use crate::commands::reply::{Outcome, said};
use crate::domain::osd_marks::{create_osd, mark_down, mark_in, mark_out};
use crate::edit::Edit;
use crate::entry::Change;
use crate::failure::{Failure, invalid, missing};
use auth::{EntityAuth, Key};
use decl::Args;
use maps::{OsdId, osd_state};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::{EntityName, EntityType, Errno, Uuid};

/// Registers an OSD: gives it a number, remembers its uuid and makes its key.
pub fn new(edit: &mut Edit<'_>, args: &Args, input: &[u8]) -> Outcome {
    let uuid = Uuid::parse(args.str("uuid")).expect("was checked");
    let map = edit.osdmap();
    let secret = match input.is_empty() {
        true => None,
        false => Some(secret_of(input)?),
    };
    let answer = |osd: OsdId| {
        crate::commands::reply::answer(args, || json!({ "osdid": osd.0 }), || format!("{osd}\n"))
    };
    let known = map.existing().find(|(_, o)| o.uuid == uuid).map(|(id, _)| id);
    if let Some(osd) = known {
        return match args.osd("id").filter(|id| *id != osd.0) {
            Some(id) => Err(Failure::new(Errno::EEXIST, format!("uuid {uuid} is osd.{osd}, not osd.{id}"))),
            None => answer(osd),
        };
    }
    let osd = match args.osd("id").map(OsdId) {
        Some(osd) if map.osd(osd).is_some_and(|o| o.state & osd_state::DESTROYED != 0) => {
            return revive(edit, osd, uuid, secret).and_then(|()| answer(osd));
        }
        Some(osd) if map.exists(osd) => {
            return Err(Failure::new(Errno::EEXIST, format!("osd.{osd} exists with another uuid")));
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
    let answer = |osd: OsdId| {
        crate::commands::reply::answer(args, || json!({ "osdid": osd.0 }), || format!("{osd}\n"))
    };
    let uuid = args.opt_str("uuid").and_then(Uuid::parse).unwrap_or_default();
    let known = map.existing().find(|(_, o)| o.uuid == uuid && uuid != Uuid::default()).map(|(id, _)| id);
    if let Some(osd) = known {
        return answer(osd);
    }
    let osd = match args.osd("id").map(OsdId) {
        Some(osd) if map.exists(osd) => {
            return Err(Failure::new(Errno::EEXIST, format!("osd.{osd} exists already")));
        }
        Some(osd) => osd,
        None => (0..).map(OsdId).find(|o| !map.exists(*o)).expect("numbers do not end"),
    };
    create_osd(edit, osd, uuid);
    answer(osd)
}

fn secret_of(input: &[u8]) -> Result<Key, Failure> {
    let json: Value = serde_json::from_slice(input)
        .map_err(|e| Failure::new(Errno::EINVAL, format!("the secrets are not valid JSON: {e}")))?;
    match json.get("cephx_secret").and_then(Value::as_str) {
        Some(text) => {
            Key::from_base64(text).map_err(|e| Failure::new(Errno::EINVAL, format!("cephx_secret: {e}")))
        }
        None => invalid("the secrets lack `cephx_secret`"),
    }
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

fn share(args: &Args, name: &str) -> u32 {
    (args.float(name).unwrap_or(0.0) * 65536.0).round() as u32
}

pub fn reweight(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let osd = existing(edit.osdmap(), args, "id")?;
    let weight = share(args, "weight");
    edit.osd().new_weight.insert(osd, weight);
    said(format!("reweighted osd.{osd} to {} ({weight:x})", crate::text::float(f64::from(weight) / 65536.0)))
}

pub fn primary_affinity(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let osd = existing(edit.osdmap(), args, "id")?;
    let weight = share(args, "weight");
    edit.osd().new_primary_affinity.insert(osd, weight);
    let shown = crate::text::float(f64::from(weight) / 65536.0);
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

pub fn setmaxosd(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    /// Numbers beyond would only waste memory in every map.
    const MAX: i64 = 10_000;
    let new = args.int("newmax").unwrap_or(0);
    let map = edit.osdmap();
    if new > MAX {
        return Err(Failure::new(Errno::ERANGE, format!("cannot set max_osd to {new}: the most is {MAX}")));
    }
    let used = map.existing().map(|(id, _)| id).find(|id| i64::from(id.0) >= new);
    if let Some(osd) = used {
        let text =
            format!("cannot shrink max_osd to {new} because osd.{osd} (and possibly others) still in use");
        return Err(Failure::new(Errno::EBUSY, text));
    }
    edit.osd().new_max_osd = new as i32;
    said(format!("set new max_osd = {new}"))
}

/// Weights of several OSDs, as JSON of number to weight in 1/65536.
pub fn reweightn(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let text = args.str("weights");
    let parsed: Option<BTreeMap<String, Value>> = serde_json::from_str(text).ok();
    let Some(parsed) = parsed else { return invalid(format!("unable to parse 'weights' value '{text}'")) };
    let mut weights = Vec::new();
    for (osd, weight) in parsed {
        let weight = weight.as_u64().or_else(|| weight.as_str().and_then(|w| w.parse().ok()));
        match (decl::args::parse_osd(&osd).map(OsdId), weight) {
            (Some(osd), Some(w)) if w <= u64::from(maps::WEIGHT_IN) => weights.push((osd, w as u32)),
            _ => return invalid(format!("unable to parse 'weights' value '{text}'")),
        }
    }
    if let Some((osd, _)) = weights.iter().find(|(osd, _)| !edit.osdmap().exists(*osd)) {
        return missing(format!("osd.{osd} does not exist"));
    }
    edit.osd().new_weight.extend(weights);
    said("reweighted osd(s)")
}
