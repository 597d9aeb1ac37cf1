//! Groups of subvolumes.

use crate::attributes::{self, Attributes, DEFAULT_MODE};
use crate::cluster::Cluster;
use crate::failure::{Done, Failure, if_missing, missing};
use crate::info;
use crate::output;
use crate::place::{BASE, Group, INTERNAL, SNAPDIR, snapshot_name};
use crate::subvolume::{Owner, open_group};
use crate::tree::{Tree, join};
use decl::Args;
use serde_json::json;
use wire::Errno;

/// The names of all groups.
pub(crate) fn list(tree: &Tree) -> Done<Vec<String>> {
    match tree.dirs(BASE) {
        Ok(names) => Ok(names.into_iter().filter(|name| !INTERNAL.contains(&name.as_str())).collect()),
        Err(Errno::ENOENT) => Ok(Vec::new()),
        Err(errno) => Err(errno.into()),
    }
}

pub(crate) fn create(tree: &Tree, group: &Group, args: &Args) -> Done<()> {
    let attributes = Attributes::of_command(args, Owner::default())?;
    match tree.find(&group.path()) {
        Ok(node) => attributes.apply(tree, &node),
        Err(Errno::ENOENT) => {
            tree.mkdirs(BASE, DEFAULT_MODE)?;
            let node = tree.mkdir(&group.path(), attributes.mode.unwrap_or(DEFAULT_MODE))?;
            let applied = attributes.apply(tree, &node);
            if applied.is_err() {
                // What is left does no harm: the command may be repeated.
                let _ = tree.rmdir(&group.path());
            }
            applied
        }
        Err(errno) => Err(errno.into()),
    }
}

pub(crate) fn remove(tree: &Tree, group: &Group, force: bool) -> Done<()> {
    let name = group.name().unwrap_or_default();
    match tree.rmdir(&group.path()) {
        Err(Errno::ENOENT) if force => Ok(()),
        Err(Errno::ENOTEMPTY) => {
            Err(Failure::new(Errno::ENOTEMPTY, format!("subvolume group {name} contains subvolume(s)")))
        }
        other => other.map_err(if_missing(format!("subvolume group '{name}' does not exist"))),
    }
}

pub(crate) fn info(cluster: &Cluster, tree: &Tree, fs: &str, group: &Group) -> Done<String> {
    open_group(tree, group)?;
    let node = tree.find(&group.path())?;
    let fs = cluster.file_system(fs)?;
    let (pool, _) = attributes::layout(tree, &group.path(), fs.usual_pool())?;
    let mut out = info::of_directory(tree, &node)?;
    out["data_pool"] = pool.into();
    out["mon_addrs"] = cluster.mon_addrs()?.into();
    Ok(output::json(&out))
}

pub(crate) fn path(tree: &Tree, group: &Group) -> Done<String> {
    open_group(tree, group)?;
    Ok(group.path())
}

pub(crate) fn resize(tree: &Tree, group: &Group, args: &Args) -> Done<String> {
    open_group(tree, group)?;
    let node = tree.find(&group.path())?;
    let (size, used) = attributes::resize(tree, &node, &args.text("new_size"), args.flag("no_shrink"))?;
    Ok(resized(size, used))
}

/// The answer of `resize`; programs want a number there also without a quota.
pub(crate) fn resized(size: u64, used: u64) -> String {
    let percent = output::percent(used, Some(size).filter(|size| *size > 0));
    output::json(&json!([{ "bytes_used": used }, { "bytes_quota": size }, { "bytes_pcent": percent }]))
}

/// The snapshots of a group's directory.
pub(crate) fn snapshots(tree: &Tree, group: &Group) -> Done<Vec<String>> {
    open_group(tree, group)?;
    Ok(tree.snapshots(&join(&group.path(), SNAPDIR))?)
}

pub(crate) fn remove_snapshot(tree: &Tree, group: &Group, args: &Args) -> Done<()> {
    let snap = snapshot_name(args.str("snap_name"))?;
    open_group(tree, group)?;
    match tree.rmdir(&join(&join(&group.path(), SNAPDIR), snap)) {
        Err(Errno::ENOENT) if args.flag("force") => Ok(()),
        Err(Errno::ENOENT) => missing(format!("snapshot '{snap}' does not exist")),
        other => Ok(other?),
    }
}
