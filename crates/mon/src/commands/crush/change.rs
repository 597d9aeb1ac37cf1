//! Commands that change the hierarchy, weights and tunables of the CRUSH map.

use crate::commands::crush::failure::crush_failure;
use crate::commands::crush::tunables::profile;
use crate::commands::reply::{Outcome, Reply, said};
use crate::edit::Edit;
use crate::failure::{Failure, invalid, missing};
use crush::{BucketData, CrushMap};
use decl::Args;
use maps::OsdId;
use std::collections::BTreeMap;
use wire::Errno;

/// A weight as people write it (1.0 is a TiB) in 16.16.
fn weight_of(args: &Args) -> u32 {
    (args.float("weight").unwrap_or(0.0) * 65536.0).round() as u32
}

fn shown(weight: u32) -> String {
    crate::text::float(f64::from(weight) / 65536.0)
}

/// Parses words of the form `TYPE=NAME`.
fn location(args: &Args) -> Result<Vec<(String, String)>, Failure> {
    let pair = |word: &String| match word.split_once('=') {
        Some((ty, name)) if !ty.is_empty() && !name.is_empty() => Ok((ty.to_owned(), name.to_owned())),
        _ => invalid(format!("`{word}` is no location: write TYPE=NAME, as host=h1")),
    };
    args.list("args").iter().map(pair).collect()
}

fn location_text(place: &[(String, String)]) -> String {
    let sorted: BTreeMap<_, _> = place.iter().cloned().collect();
    let pairs: Vec<String> = sorted.iter().map(|(t, n)| format!("{t}={n}")).collect();
    format!("{{{}}}", pairs.join(","))
}

fn borrowed(place: &[(String, String)]) -> Vec<(&str, &str)> {
    place.iter().map(|(t, n)| (t.as_str(), n.as_str())).collect()
}

/// The item of this name, which must be on the map.
fn item(crush: &CrushMap, name: &str) -> Result<i32, Failure> {
    crush.id_of(name).map_or_else(|| missing(format!("item {name} does not exist in the CRUSH map")), Ok)
}

/// Puts the changed map into the edit.
pub(super) fn keep(edit: &mut Edit<'_>, crush: CrushMap, status: impl Into<String>) -> Outcome {
    edit.set_crush(crush);
    said(status)
}

pub fn add_bucket(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (name, ty, place) = (args.str("name"), args.str("type"), location(args)?);
    let mut crush = edit.crush();
    if crush.id_of(name).is_some() {
        return said(format!("bucket '{name}' already exists"));
    }
    let id = crush.add_bucket(name, ty).map_err(crush_failure)?;
    if place.is_empty() {
        return keep(edit, crush, format!("added bucket {name} type {ty} to crush map"));
    }
    crush.move_to(id, &borrowed(&place)).map_err(crush_failure)?;
    keep(edit, crush, format!("added bucket {name} type {ty} to location {}", location_text(&place)))
}

pub fn rename_bucket(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (from, to) = (args.str("srcname"), args.str("dstname"));
    let mut crush = edit.crush();
    let id = match (crush.id_of(from), crush.id_of(to)) {
        (Some(id), None) => id,
        (Some(_), Some(_)) => {
            return Err(Failure::new(Errno::EEXIST, format!("dstname '{to}' already exists")));
        }
        // Sent again after the answer was lost.
        (None, Some(_)) => return said(format!("renamed bucket {from} into {to}")),
        (None, None) => return missing(format!("srcname '{from}' does not exist")),
    };
    if id >= 0 {
        return Err(Failure::new(Errno::ENOTDIR, format!("srcname '{from}' is not a bucket")));
    }
    crush.rename(id, to).map_err(crush_failure)?;
    keep(edit, crush, format!("renamed bucket {from} into {to}"))
}

/// The OSD of `id`, which must exist.
fn osd_arg(edit: &Edit<'_>, args: &Args) -> Result<i32, Failure> {
    let Some(osd) = args.osd("id") else { return invalid("id: write an OSD as 0 or osd.0") };
    match edit.osdmap().exists(OsdId(osd)) {
        true => Ok(osd),
        false => missing(format!("osd.{osd} does not exist. Create it before updating the crush map")),
    }
}

/// `crush set` and `crush add`: puts an OSD somewhere, wherever it is now.
pub fn set(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (osd, place, weight) = (osd_arg(edit, args)?, location(args)?, weight_of(args));
    let mut crush = edit.crush();
    crush.place(osd, weight, &borrowed(&place)).map_err(crush_failure)?;
    let text = format!(
        "set item id {osd} name 'osd.{osd}' weight {} at location {} to crush map",
        shown(weight),
        location_text(&place)
    );
    keep(edit, crush, text)
}

/// Places an OSD with its present weight, or else with the given one.
pub fn create_or_move(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (osd, place) = (osd_arg(edit, args)?, location(args)?);
    let mut crush = edit.crush();
    let weight = crate::crush_edit::weight(&crush, osd).unwrap_or_else(|| weight_of(args));
    crush.place(osd, weight, &borrowed(&place)).map_err(crush_failure)?;
    let text = format!(
        "create-or-move updating item name 'osd.{osd}' weight {} at location {} to crush map",
        shown(weight),
        location_text(&place)
    );
    keep(edit, crush, text)
}

/// True if the item already lies in the innermost bucket of `place`.
fn is_there(crush: &CrushMap, id: i32, place: &[(String, String)]) -> bool {
    let here = crush.location(id);
    let parent = crush.parent_of(id).map(|p| crush.name(p));
    place.iter().all(|pair| here.contains(pair))
        && place.iter().any(|(_, name)| Some(name) == parent.as_ref())
}

pub fn r#move(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (name, place) = (args.str("name"), location(args)?);
    let mut crush = edit.crush();
    let id = item(&crush, name)?;
    let at = location_text(&place);
    if is_there(&crush, id, &place) {
        return said(format!("no need to move item id {id} name '{name}' to location {at} in crush map"));
    }
    crush.move_to(id, &borrowed(&place)).map_err(crush_failure)?;
    keep(edit, crush, format!("moved item id {id} name '{name}' to location {at} in crush map"))
}

/// The item called `name`, provided that it lies below `ancestor` if that is given.
fn below(crush: &CrushMap, args: &Args) -> Result<Option<i32>, Failure> {
    let Some(id) = crush.id_of(args.str("name")) else { return Ok(None) };
    let Some(ancestor) = args.opt_str("ancestor") else { return Ok(Some(id)) };
    let ancestor = item(crush, ancestor)?;
    let is_above = crush.location(id).iter().any(|(_, name)| *name == crush.name(ancestor));
    match is_above {
        true => Ok(Some(id)),
        false => {
            missing(format!("item {} does not appear in bucket {}", args.str("name"), crush.name(ancestor)))
        }
    }
}

pub fn rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("name");
    let mut crush = edit.crush();
    let Some(id) = below(&crush, args)? else {
        return said(format!("device '{name}' does not appear in the crush map"));
    };
    if crush.bucket(id).is_some_and(|b| !b.items.is_empty()) {
        return Err(Failure::new(Errno::ENOTEMPTY, format!("bucket '{name}' is not empty")));
    }
    crush.remove(id).map_err(crush_failure)?;
    keep(edit, crush, format!("removed item id {id} name '{name}' from crush map"))
}

/// Removes a bucket from its parent; its content stays in it.
pub fn unlink(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("name");
    let mut crush = edit.crush();
    let Some(id) = below(&crush, args)? else {
        return said(format!("device '{name}' does not appear in the crush map"));
    };
    if crush.parent_of(id).is_some() {
        crush.detach(id).map_err(crush_failure)?;
        edit.set_crush(crush);
    }
    said(format!("removed item id {id} name '{name}' from crush map"))
}

pub fn reweight(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (name, weight) = (args.str("name"), weight_of(args));
    let mut crush = edit.crush();
    let id = match crush.id_of(name) {
        Some(id) if id >= 0 => id,
        Some(_) => return invalid(format!("device '{name}' is not a leaf in the crush map")),
        None => return missing(format!("device '{name}' does not appear in the crush map")),
    };
    crush.reweight(id, weight).map_err(crush_failure)?;
    keep(edit, crush, format!("reweighted item id {id} name '{name}' to {} in crush map", shown(weight)))
}

pub fn reweight_subtree(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (name, weight) = (args.str("name"), weight_of(args));
    let mut crush = edit.crush();
    let Some(id) = crush.id_of(name) else {
        return missing(format!("device '{name}' does not appear in the crush map"));
    };
    if id >= 0 {
        return invalid(format!("device '{name}' is not a subtree in the crush map"));
    }
    for device in crate::crush_edit::devices(&crush, id) {
        crush.reweight(device, weight).map_err(crush_failure)?;
    }
    let text = format!("reweighted subtree id {id} name '{name}' to {} in crush map", shown(weight));
    keep(edit, crush, text)
}

/// Recomputes the weights of all buckets. Our sums are always right; those of an imported map may not be.
pub fn reweight_all(edit: &mut Edit<'_>, _: &Args, _: &[u8]) -> Outcome {
    let mut crush = edit.crush();
    for root in crush.roots() {
        for device in crate::crush_edit::devices(&crush, root) {
            let weight = crush.weight_of(device);
            crush.reweight(device, weight).map_err(crush_failure)?;
        }
    }
    keep(edit, crush, "reweighted crush hierarchy")
}

pub fn tunables(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("profile");
    let mut crush = edit.crush();
    crush.tunables = profile(name, &crush.tunables);
    keep(edit, crush, format!("adjusted tunables profile to {name}"))
}

pub fn set_tunable(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (name, value) = (args.str("tunable"), args.int("value").unwrap_or(-1));
    if !(0..=1).contains(&value) {
        return invalid(format!("value must be 0 or 1; got {value}"));
    }
    let mut crush = edit.crush();
    crush.tunables.straw_calc_version = value as u8;
    keep(edit, crush, format!("adjusted tunable {name} to {value}"))
}

pub fn straw_to_straw2(edit: &mut Edit<'_>, _: &Args, _: &[u8]) -> Outcome {
    let mut crush = edit.crush();
    let mut changed = 0usize;
    for bucket in crush.buckets.iter_mut().flatten() {
        if let BucketData::Straw { item_weights, .. } = &bucket.data {
            bucket.data = BucketData::Straw2 { item_weights: item_weights.clone() };
            changed += 1;
        }
    }
    if changed > 0 {
        edit.set_crush(crush);
    }
    said("")
}

/// Takes a whole map, as `crushtool -c` writes it, from the input.
pub fn set_map(edit: &mut Edit<'_>, args: &Args, input: &[u8]) -> Outcome {
    if input.is_empty() {
        return invalid("give a compiled CRUSH map with -i");
    }
    let version = edit.osdmap().crush_version;
    if let Some(prior) = args.int("prior_version").filter(|p| *p != i64::from(version)) {
        let text = format!("prior_version {prior} is not the map's version, which is {version}");
        return Err(Failure::new(Errno::EPERM, text));
    }
    let crush: CrushMap = wire::Reader::new(input)
        .get()
        .or_else(|e| invalid(format!("Failed to parse crushmap: {}", e.to_string().replace('\n', " "))))?;
    if wire::Reader::new(&wire::Writer::encode(&crush)).get::<CrushMap>().as_ref() != Ok(&crush) {
        return invalid("the crushmap has names that are empty or parts that contradict each other");
    }
    check_map(edit, &crush)?;
    edit.set_crush(crush);
    Ok(Reply { status: (version + 1).to_string(), data: Vec::new() })
}

/// Refuses a map that lacks a pool's rule or an item's bucket: it would lose data.
fn check_map(edit: &Edit<'_>, crush: &CrushMap) -> Result<(), Failure> {
    for (id, pool) in &edit.osdmap().pools {
        let rule = crush.rule(u32::from(pool.crush_rule));
        if rule.is_none_or(|r| r.mask.ty != pool.ty) {
            let name = edit.osdmap().pool_name(*id);
            return invalid(format!("the map lacks rule {}, which pool '{name}' uses", pool.crush_rule));
        }
    }
    for bucket in crush.buckets.iter().flatten() {
        let lost = bucket.items.iter().find(|i| **i < 0 && crush.bucket(**i).is_none());
        if let Some(lost) = lost {
            return invalid(format!("bucket {} holds item {lost}, which is not in the map", bucket.id));
        }
        if !crush.types.contains_key(&i32::from(bucket.ty)) {
            return invalid(format!("bucket {} is of type {}, which has no name", bucket.id, bucket.ty));
        }
    }
    let max = edit.osdmap().max_osd().max(0);
    match has_device_from(crush, max) {
        true => invalid(format!("the map has devices beyond max_osd {max}: run `ceph osd setmaxosd` first")),
        false => Ok(()),
    }
}

fn has_device_from(crush: &CrushMap, first: i32) -> bool {
    crush.buckets.iter().flatten().any(|b| b.items.iter().any(|i| *i >= first))
}
