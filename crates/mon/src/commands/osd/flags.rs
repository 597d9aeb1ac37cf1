//! Commands on the flags of the OSD map, of single OSDs, of CRUSH buckets and of device classes.

use crate::commands::reply::{Outcome, said};
use crate::domain::osd_flags::FLAGS as OSD_FLAGS;
use crate::edit::Edit;
use crate::failure::{Failure, invalid, missing};
use decl::Args;
use maps::{OsdId, osd_flags};
use std::collections::BTreeSet;

fn flag_bits(text: &str) -> Result<u32, Failure> {
    let one = |name: &str| match OSD_FLAGS.iter().find(|(n, _)| *n == name) {
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
