//! Snapshots of subvolumes, and the values that users store with subvolumes and snapshots.

use crate::attributes::layout;
use crate::clones;
use crate::cluster::FileSystem;
use crate::failure::{Done, Failure, if_missing, invalid, missing};
use crate::meta::{USER, snapshot_section};
use crate::output;
use crate::place::{Place, SNAPDIR, snapshot_name};
use crate::subvolume::{Op, Subvolume};
use crate::trash;
use crate::tree::{Tree, join};
use decl::Args;
use serde_json::{Value, json};
use wire::Errno;

pub(crate) fn create(tree: &Tree, place: &Place, snap: &str) -> Done<()> {
    let snap = snapshot_name(snap)?;
    let sub = Subvolume::open(tree, place, Op::SNAP_CREATE)?;
    if tree.exists(&join(&join(&place.group().path(), SNAPDIR), snap))? {
        return invalid("subvolumegroup and subvolume snapshot name can't be same");
    }
    match tree.mkdir(&join(&sub.snapdir(), snap), 0o755) {
        // A repeated command.
        Ok(_) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes a snapshot. Returns true if that was the last of its subvolume.
pub(crate) fn remove(tree: &Tree, place: &Place, snap: &str, force: bool) -> Done<bool> {
    match try_remove(tree, place, snap) {
        Err(failure) if failure.errno == Errno::ENOENT && force => Ok(false),
        other => other,
    }
}

fn try_remove(tree: &Tree, place: &Place, snap: &str) -> Done<bool> {
    let snap = snapshot_name(snap)?;
    let mut sub = Subvolume::open(tree, place, Op::SNAP_REMOVE)?;
    if sub.has_pending_clones(snap) {
        return Err(Failure::new(Errno::EAGAIN, format!("snapshot '{snap}' has pending clones")));
    }
    let section = snapshot_section(snap);
    if !sub.meta.items(&section).is_empty() {
        sub.meta.remove_section(&section);
        sub.store(tree)?;
    }
    let text = format!("snapshot '{snap}' does not exist");
    tree.rmdir(&join(&sub.snapdir(), snap)).map_err(if_missing(text))?;
    trash::dump_if_empty(tree, &sub)?;
    Ok(sub.path().is_empty())
}

pub(crate) fn list(tree: &Tree, place: &Place) -> Done<String> {
    Ok(output::names(Subvolume::open(tree, place, Op::SNAP_LIST)?.snapshots(tree)?))
}

pub(crate) fn info(tree: &Tree, fs: &FileSystem, place: &Place, snap: &str) -> Done<String> {
    let snap = snapshot_name(snap)?;
    let sub = Subvolume::open(tree, place, Op::SNAP_INFO)?;
    let path = sub.snapshot_data(tree, snap)?;
    let node = tree.find(&path)?;
    let made_at = tree.xattr(&node, "ceph.snap.btime")?.unwrap_or_default();
    let mut out = json!({
        "created_at": output::time_of_xattr(&made_at),
        "data_pool": layout(tree, &path, fs.usual_pool())?.0,
        "has_pending_clones": "no",
    });
    let pending = clones::pending(tree, &sub, snap)?;
    if !pending.is_empty() {
        out["has_pending_clones"] = "yes".into();
        out["pending_clones"] = pending.iter().map(pending_clone).collect();
    }
    Ok(output::json(&out))
}

fn pending_clone(place: &Place) -> Value {
    match place.group().name() {
        Some(group) => json!({ "name": place.name(), "target_group": group }),
        None => json!({ "name": place.name() }),
    }
}

/// Checks that a snapshot may be (un)protected, which has no effect.
pub(crate) fn protect(tree: &Tree, place: &Place, what: &str) -> Done<String> {
    let op = if what == "protect" { Op::SNAP_PROTECT } else { Op::SNAP_UNPROTECT };
    Subvolume::open(tree, place, op)?;
    Ok(format!(
        "Deprecation warning: 'snapshot {what}' call is deprecated and will be removed in a future release"
    ))
}

/// A subvolume, and the section of the values that a command is about: those of the snapshot that it names,
/// or of the subvolume.
fn values(tree: &Tree, place: &Place, args: &Args) -> Done<(Subvolume, String)> {
    match args.opt_str("snap_name") {
        None => Ok((Subvolume::open(tree, place, Op::USER_METADATA)?, USER.to_owned())),
        Some(snap) => {
            let sub = Subvolume::open(tree, place, Op::SNAP_METADATA)?;
            sub.check_snapshot(tree, snap)?;
            Ok((sub, snapshot_section(snap)))
        }
    }
}

pub(crate) fn set_value(tree: &Tree, place: &Place, args: &Args) -> Done<()> {
    let (mut sub, section) = values(tree, place, args)?;
    let (key, value) = (args.text("key_name"), args.text("value"));
    if key.trim().is_empty() || key.contains(['\n', '=']) || key.starts_with(['[', '#', ';', ' ', '\t']) {
        return invalid(format!("'{key}' can't be a key"));
    }
    sub.meta.set(&section, &key, value);
    sub.store(tree)
}

pub(crate) fn get_value(tree: &Tree, place: &Place, args: &Args) -> Done<String> {
    let (sub, section) = values(tree, place, args)?;
    let key = args.text("key_name");
    match sub.meta.get(&section, &key) {
        Some(value) => Ok(value.to_owned()),
        None => missing(format!("key '{key}' does not exist.")),
    }
}

pub(crate) fn list_values(tree: &Tree, place: &Place, args: &Args) -> Done<String> {
    let (sub, section) = values(tree, place, args)?;
    let all: serde_json::Map<String, Value> =
        sub.meta.items(&section).iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    Ok(output::json(&Value::Object(all)))
}

pub(crate) fn remove_value(tree: &Tree, place: &Place, args: &Args) -> Done<()> {
    let found = values(tree, place, args).and_then(|(mut sub, section)| {
        let key = args.text("key_name");
        match sub.meta.remove(&section, &key) {
            true => sub.store(tree),
            false => missing(format!("key '{key}' does not exist.")),
        }
    });
    match found {
        Err(failure) if failure.errno == Errno::ENOENT && args.flag("force") => Ok(()),
        other => other,
    }
}
