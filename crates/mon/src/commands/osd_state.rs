//! Commands on single OSDs' flags and life, temporary mappings, and what releases may join.

use super::osd_read::existing;
use super::{Failure, Outcome, invalid, missing, said};
use crate::edit::Edit;
use crate::entry::Change;
use crate::health::plural;
use decl::Args;
use maps::{OsdId, OsdMap, PgId, osd_flags, osd_state, release};
use msgs::errno;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use wire::{EntityName, EntityType};

/// Flags that single OSDs, CRUSH buckets and device classes can have.
pub const FLAGS: [(&str, u32); 4] = [
    ("noup", osd_state::NOUP),
    ("nodown", osd_state::NODOWN),
    ("noin", osd_state::NOIN),
    ("noout", osd_state::NOOUT),
];

/// The names of flags.
pub fn flag_names(bits: u32) -> Vec<&'static str> {
    FLAGS.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect()
}

fn flag_bits(text: &str) -> Result<u32, Failure> {
    let one = |name: &str| match FLAGS.iter().find(|(n, _)| *n == name) {
        Some((_, bit)) => Ok(*bit),
        None => invalid(format!("unrecognized flag '{name}', must be one of {{noup,nodown,noin,noout}}")),
    };
    text.split([',', ' ']).filter(|n| !n.is_empty()).try_fold(0, |bits, name| Ok(bits | one(name)?))
}

/// Sets or clears flags of OSDs (`0`, `osd.0`, `all`), CRUSH buckets and device classes by name.
fn set_flags(edit: &mut Edit<'_>, bits: u32, who: &[String], on: bool) -> Outcome {
    let map = edit.osdmap();
    let next = |old: u32| if on { old | bits } else { old & !bits };
    let mut osds = BTreeSet::new();
    for name in who {
        if matches!(name.as_str(), "any" | "all" | "*") {
            osds.extend(map.existing().map(|(id, _)| id));
        } else if let Some(osd) = decl::args::parse_osd(name).map(OsdId) {
            match map.exists(osd) {
                true => drop(osds.insert(osd)),
                false => return missing(format!("osd.{osd} does not exist")),
            }
        } else if let Some(bucket) = map.crush.id_of(name).filter(|id| *id < 0) {
            let old = map.crush_node_flags.get(&bucket).copied().unwrap_or(0);
            edit.osd().new_crush_node_flags.insert(bucket, next(old));
        } else if let Some(class) = map.crush.class_of(name) {
            let old = map.device_class_flags.get(&class).copied().unwrap_or(0);
            edit.osd().new_device_class_flags.insert(class, next(old));
        } else {
            return invalid(format!("unable to parse crush node or OSD or device class '{name}'"));
        }
    }
    for osd in osds {
        let old = map.osd(osd).map_or(0, |o| o.state);
        let flip = old ^ next(old);
        if flip != 0 {
            *edit.osd().new_state.entry(osd).or_default() ^= flip;
        }
    }
    said("")
}

/// The flags that hold for an OSD: its own, and those of the buckets around it and of its device class.
pub fn flags_of(map: &OsdMap, osd: OsdId) -> u32 {
    let own = map.osd(osd).map_or(0, |o| o.state);
    let mut bits = own & FLAGS.iter().fold(0, |all, (_, bit)| all | bit);
    if let Some(class) = map.crush.classes.get(&osd.0) {
        bits |= map.device_class_flags.get(class).copied().unwrap_or(0);
    }
    let mut at = map.crush.parent_of(osd.0).filter(|_| !map.crush_node_flags.is_empty());
    while let Some(bucket) = at {
        bits |= map.crush_node_flags.get(&bucket).copied().unwrap_or(0);
        at = map.crush.parent_of(bucket);
    }
    bits
}

pub fn group(edit: &mut Edit<'_>, args: &Args, on: bool) -> Outcome {
    let bits = flag_bits(args.str("flags"))?;
    if bits == 0 {
        return invalid("must specify flag(s): noup, nodown, noin, noout");
    }
    set_flags(edit, bits, &args.list("who"), on)
}

/// The old commands, one a flag.
pub fn one_flag(edit: &mut Edit<'_>, args: &Args, bit: u32, on: bool) -> Outcome {
    set_flags(edit, bit, &args.list("ids"), on)
}

pub fn pause(edit: &mut Edit<'_>, on: bool) -> Outcome {
    let bits = osd_flags::PAUSERD | osd_flags::PAUSEWR;
    let old = edit.osdmap().flags;
    let flags = if on { old | bits } else { old & !bits };
    if flags != old {
        edit.osd().new_flags = flags as i32;
    }
    said(format!("pauserd,pausewr is {}", if on { "set" } else { "unset" }))
}

/// The OSD of `id` if it exists and is down, ready to be destroyed or purged with consent; `Err` holds the answer where
/// there is nothing to do or it may not be.
pub fn doomed(edit: &Edit<'_>, args: &Args, force: bool) -> Result<OsdId, Outcome> {
    let map = edit.osdmap();
    let Some(osd) = args.osd("id").map(OsdId) else { return Err(invalid("id: write an OSD as 0 or osd.0")) };
    if !map.exists(osd) {
        return Err(said(format!("osd.{osd} does not exist")));
    }
    let busy = |text: String| Err(Err(Failure::new(errno::EBUSY, text)));
    let holds = edit.soft.pgs.pgs_on(osd);
    if holds > 0 && !force {
        return busy(format!(
            "OSD(s) {osd} have {} currently mapped to them. Mark it out and wait, or add --force: data may then be lost",
            plural(holds, "pg", "pgs")
        ));
    }
    if map.is_up(osd) {
        return busy(format!("osd.{osd} is not `down`."));
    }
    if !args.flag("yes_i_really_mean_it") {
        let text = "Are you SURE?  This will mean real, permanent data loss, as well as cephx keys. Pass --yes-i-really-mean-it if you really do.";
        return Err(Err(Failure::new(errno::EPERM, text)));
    }
    Ok(osd)
}

/// Forgets an OSD's key and store; its number and place stay for the next disk.
pub fn destroy(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let osd = match doomed(edit, args, args.flag("force")) {
        Ok(osd) => osd,
        Err(outcome) => return outcome,
    };
    let entry = edit.osdmap().osd(osd).expect("was checked");
    let (state, epoch) = (entry.state, edit.osdmap().epoch.next());
    if state & osd_state::DESTROYED != 0 {
        return said(format!("osd.{osd} is already destroyed"));
    }
    let inc = edit.osd();
    *inc.new_state.entry(osd).or_default() ^= osd_state::DESTROYED;
    inc.new_uuid.insert(osd, wire::Uuid::default());
    inc.new_lost.insert(osd, epoch);
    let name = EntityName::new(EntityType::OSD, osd.to_string());
    edit.push(Change::Auth(name.clone(), None));
    edit.push(Change::Metadata(name, None));
    said(format!("destroyed osd.{osd}"))
}

pub fn setmaxosd(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    /// Numbers beyond would only waste memory in every map.
    const MAX: i64 = 10_000;
    let new = args.int("newmax").unwrap_or(0);
    let map = edit.osdmap();
    if new > MAX {
        return Err(Failure::new(errno::ERANGE, format!("cannot set max_osd to {new}: the most is {MAX}")));
    }
    let used = map.existing().map(|(id, _)| id).find(|id| i64::from(id.0) >= new);
    if let Some(osd) = used {
        let text =
            format!("cannot shrink max_osd to {new} because osd.{osd} (and possibly others) still in use");
        return Err(Failure::new(errno::EBUSY, text));
    }
    edit.osd().new_max_osd = new as i32;
    said(format!("set new max_osd = {new}"))
}

fn release_number(name: &str) -> Option<u8> {
    (1..=u8::MAX).take(30).find(|n| release::name(*n) == name)
}

pub fn require_release(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("release");
    let wanted = release_number(name).expect("was checked");
    let now = edit.osdmap().require_osd_release;
    if wanted < now {
        return Err(Failure::new(errno::EPERM, "require_osd_release cannot be lowered once it has been set"));
    }
    if wanted > now {
        edit.osd().new_require_osd_release = wanted;
    }
    said("")
}

pub fn min_compat_client(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("version");
    let Some(wanted) = release_number(name).filter(|n| *n >= release::JEWEL) else {
        return invalid(format!("version {name} is not recognized"));
    };
    let map = edit.osdmap();
    let least = if map.pg_upmap.is_empty() && map.pg_upmap_items.is_empty() {
        release::JEWEL
    } else {
        release::LUMINOUS
    };
    if wanted < least {
        let text = format!("osdmap current utilizes features that require {}", release::name(least));
        return Err(Failure::new(errno::EPERM, text));
    }
    if wanted > release::PACIFIC && !args.flag("yes_i_really_mean_it") {
        let text =
            format!("clients of pacific could not connect any more with {name}: add --yes-i-really-mean-it");
        return Err(Failure::new(errno::EPERM, text));
    }
    edit.osd().new_require_min_compat_client = wanted;
    said(format!("set require_min_compat_client to {name}"))
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

/// The PG that an argument names, which must exist.
pub fn pg_of(edit: &Edit<'_>, args: &Args) -> Result<PgId, Failure> {
    let text = args.str("pgid");
    let Some(pg) = PgId::parse(text) else {
        return invalid(format!("invalid pgid '{text}': write POOL.SEED, as 1.2f"));
    };
    match edit.osdmap().pools.get(&pg.pool).is_some_and(|p| pg.seed < p.pg_num) {
        true => Ok(pg),
        false => missing(format!("pg '{pg}' does not exist")),
    }
}

/// The OSDs of `id`, all of which must exist.
fn osds(edit: &Edit<'_>, args: &Args) -> Result<Vec<OsdId>, Failure> {
    let mut out = Vec::new();
    for text in args.list("id") {
        match decl::args::parse_osd(&text).map(OsdId) {
            Some(osd) if edit.osdmap().exists(osd) => out.push(osd),
            Some(osd) => return missing(format!("osd.{osd} does not exist")),
            None => return invalid(format!("invalid osd id '{text}'")),
        }
    }
    Ok(out)
}

fn shown(osds: &[OsdId]) -> String {
    super::format::osds(osds)
}

/// Upmaps need clients that understand them.
fn check_upmap_clients(edit: &Edit<'_>) -> Result<(), Failure> {
    match edit.osdmap().require_min_compat_client < release::LUMINOUS {
        true => {
            let text = "min_compat_client must be luminous or newer for upmaps: run `ceph osd set-require-min-compat-client luminous`";
            Err(Failure::new(errno::EPERM, text))
        }
        false => Ok(()),
    }
}

pub fn pg_upmap(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    check_upmap_clients(edit)?;
    let (pg, osds) = (pg_of(edit, args)?, osds(edit, args)?);
    let size = usize::from(edit.osdmap().pools[&pg.pool].size);
    let unique: BTreeSet<OsdId> = osds.iter().copied().collect();
    if unique.len() != osds.len() {
        return invalid("an OSD is named twice");
    }
    if osds.is_empty() || osds.len() > size {
        return invalid(format!("number of osds must be from 1 to the pool's size, {size}"));
    }
    let text = format!("set {pg} pg_upmap mapping to {}", shown(&osds));
    edit.osd().new_pg_upmap.insert(pg, osds);
    said(text)
}

pub fn rm_pg_upmap(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let pg = pg_of(edit, args)?;
    if edit.osdmap().pg_upmap.contains_key(&pg) {
        edit.osd().old_pg_upmap.insert(pg);
    }
    said(format!("clear {pg} pg_upmap mapping"))
}

pub fn upmap_items(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    check_upmap_clients(edit)?;
    let (pg, ids) = (pg_of(edit, args)?, osds(edit, args)?);
    if !ids.len().is_multiple_of(2) || ids.is_empty() {
        return invalid("give pairs of OSDs: from to [from to …]");
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

pub fn pg_temp(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (pg, osds) = (pg_of(edit, args)?, osds(edit, args)?);
    let text = format!("set {pg} pg_temp mapping to {}", shown(&osds));
    edit.osd().new_pg_temp.insert(pg, osds);
    said(text)
}

pub fn primary_temp(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (pg, text) = (pg_of(edit, args)?, args.text("id"));
    let osd = match (text.as_str(), decl::args::parse_osd(&text).map(OsdId)) {
        ("-1", _) => OsdId(-1),
        (_, Some(osd)) if edit.osdmap().exists(osd) => osd,
        (_, Some(osd)) => return missing(format!("osd.{osd} does not exist")),
        _ => return invalid(format!("invalid osd id '{text}'")),
    };
    edit.osd().new_primary_temp.insert(pg, osd);
    said(format!("set {pg} primary_temp mapping to {osd}"))
}

pub fn purge_new(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let osd = existing(edit.osdmap(), args, "id");
    if let Ok(osd) = osd
        && edit.osdmap().osd(osd).is_some_and(|o| o.state & osd_state::NEW == 0)
    {
        return Err(Failure::new(errno::EPERM, format!("osd.{osd} is not new: use `ceph osd purge`")));
    }
    super::osd_change::purge(edit, args, &[])
}
