//! Commands on weight sets: weights that replace those of the CRUSH hierarchy while PGs are placed, for one
//! pool or, as the compat set, for all pools without one of their own.

use crate::commands::crush::change::keep;
use crate::commands::reply::{Outcome, said};
use crate::edit::Edit;
use crate::failure::{Failure, invalid, missing};
use crush::{BucketData, ChooseArg, ChooseArgMap, CrushMap, DEFAULT_CHOOSE_ARGS};
use decl::Args;
use maps::release;
use wire::Errno;

fn pool(edit: &Edit<'_>, args: &Args) -> Result<i64, Failure> {
    let name = args.str("pool");
    let found = edit.osdmap().pool_by_name(name).map(|(id, _)| id);
    found.map_or_else(|| missing(format!("pool '{name}' not found")), Ok)
}

/// The slot of a bucket in a weight set.
fn slot(bucket: i32) -> u32 {
    (-1 - bucket) as u32
}

/// Makes a set of the weights that the buckets have, `positions` times.
fn make(edit: &mut Edit<'_>, pool: i64, positions: usize, exists: &str) -> Outcome {
    let mut crush = edit.crush();
    if crush.buckets.iter().flatten().any(|b| !matches!(b.data, BucketData::Straw2 { .. })) {
        let text = "crush map contains one or more bucket(s) that are not straw2";
        return Err(Failure::new(Errno::EPERM, text));
    }
    if crush.choose_args.contains_key(&pool) {
        return said(exists);
    }
    let own = |b: &crush::Bucket| vec![own_weights(b); positions];
    let args = crush.buckets.iter().flatten();
    let args = args.map(|b| (slot(b.id), ChooseArg { weight_set: own(b), ids: Vec::new() })).collect();
    crush.choose_args.insert(pool, args);
    keep(edit, crush, "")
}

fn own_weights(bucket: &crush::Bucket) -> Vec<u32> {
    (0..bucket.items.len()).map(|at| bucket.item_weight(at)).collect()
}

pub fn create_compat(edit: &mut Edit<'_>, _: &Args, _: &[u8]) -> Outcome {
    make(edit, DEFAULT_CHOOSE_ARGS, 1, "compat weight-set already created")
}

pub fn create(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let client = edit.osdmap().require_min_compat_client;
    if client != 0 && client < release::LUMINOUS {
        let text = format!(
            "require_min_compat_client {} < luminous, which is required for per-pool weight-sets: run \
             `ceph osd set-require-min-compat-client luminous` first",
            release::name(client)
        );
        return Err(Failure::new(Errno::EPERM, text));
    }
    let id = pool(edit, args)?;
    let positions = match args.str("mode") {
        "positional" => usize::from(edit.osdmap().pools[&id].size),
        _ => 1,
    };
    make(edit, id, positions, &format!("weight-set for pool '{}' already created", args.str("pool")))
}

pub fn rm_compat(edit: &mut Edit<'_>, _: &Args, _: &[u8]) -> Outcome {
    remove(edit, DEFAULT_CHOOSE_ARGS)
}

pub fn rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = pool(edit, args)?;
    remove(edit, id)
}

/// Removes a weight set; a missing one is no error.
fn remove(edit: &mut Edit<'_>, pool: i64) -> Outcome {
    let mut crush = edit.crush();
    match crush.choose_args.remove(&pool) {
        Some(_) => keep(edit, crush, ""),
        None => said(""),
    }
}

pub fn reweight_compat(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    match edit.crush_now().choose_args.contains_key(&DEFAULT_CHOOSE_ARGS) {
        true => reweight_item(edit, DEFAULT_CHOOSE_ARGS, args),
        false => missing("no backward-compatible weight-set"),
    }
}

pub fn reweight(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = pool(edit, args)?;
    match edit.crush_now().choose_args.contains_key(&id) {
        true => reweight_item(edit, id, args),
        false => missing(format!("no weight-set for pool '{}'", args.str("pool"))),
    }
}

fn reweight_item(edit: &mut Edit<'_>, pool: i64, args: &Args) -> Outcome {
    let mut weights = Vec::new();
    for word in args.list("weight") {
        // Cut off as Ceph does, and at what CRUSH holds.
        match word.parse::<f64>() {
            Ok(weight) if weight.is_finite() && weight >= 0.0 => weights.push((weight * 65536.0) as u32),
            _ => return invalid(format!("`{word}` is no weight: write a number from 0 on")),
        }
    }
    let mut crush = edit.crush();
    let mut set = crush.choose_args.remove(&pool).unwrap_or_default();
    let positions = set.values().map(|arg| arg.weight_set.len()).find(|n| *n > 0).unwrap_or(1);
    if weights.len() != positions && pool != DEFAULT_CHOOSE_ARGS {
        return invalid(format!("must specify exact {positions} weight values"));
    }
    let name = args.str("item");
    let Some(item) = crush.id_of(name) else { return missing(format!("item '{name}' does not exist")) };
    if weights.len() != positions {
        // Ceph finds no bucket then whose weights have as many positions.
        return missing(format!(
            "the weight-set has {positions} weight for each item, not {}",
            weights.len()
        ));
    }
    if !adjust(&crush, &mut set, item, &weights) {
        return missing(format!("item {item} not found in crush map"));
    }
    crush.choose_args.insert(pool, set);
    keep(edit, crush, "")
}

/// Sets an item's weights in every bucket that holds it, including shadow buckets, and adjusts the sums
/// above. Returns true if any bucket holds it.
fn adjust(crush: &CrushMap, set: &mut ChooseArgMap, item: i32, weights: &[u32]) -> bool {
    let mut found = false;
    for bucket in crush.buckets.iter().flatten().filter(|b| b.items.contains(&item)) {
        found = true;
        let arg = set.entry(slot(bucket.id)).or_default();
        if arg.weight_set.is_empty() {
            arg.weight_set = vec![own_weights(bucket); weights.len()];
        }
        for (at, _) in bucket.items.iter().enumerate().filter(|(_, id)| **id == item) {
            arg.weight_set.iter_mut().zip(weights).for_each(|(set, weight)| set[at] = *weight);
        }
        let sum = |set: &Vec<u32>| set.iter().fold(0u32, |sum, weight| sum.saturating_add(*weight));
        let sums: Vec<u32> = arg.weight_set.iter().map(sum).collect();
        adjust(crush, set, bucket.id, &sums);
    }
    found
}
