//! Clones of snapshots: the commands. Each clone that is not complete has a symlink in an index, and its
//! source subvolume names it in `.meta`; the copying itself is in [`crate::copying`].

use crate::attributes::Attributes;
use crate::cluster::FileSystem;
use crate::failure::{Done, Failure, invalid};
use crate::lifecycle;
use crate::meta::{CLONES, FAILURE, SOURCE};
use crate::output;
use crate::place::{CLONE_INDEX, Group, Place};
use crate::subvolume::{Op, State, Subvolume, open_group};
use crate::trash::unique;
use crate::tree::{Tree, join};
use decl::Args;
use serde_json::{Value, json};
use wire::Errno;

/// Begins a clone.
pub(crate) fn create(tree: &Tree, fs: &FileSystem, source: &Place, args: &Args) -> Done<()> {
    let snap = args.str("snap_name");
    let mut from = Subvolume::open(tree, source, Op::CLONE_SOURCE)?;
    from.check_snapshot(tree, snap)?;
    let target = Place::new(Group::new(args.opt_str("target_group_name"))?, args.str("target_sub_name"))?;
    open_group(tree, target.group())?;
    let retained = match Subvolume::load(tree, &target) {
        Ok(old) if old.state() == Some(State::Retained) => Some(old),
        Ok(_) => {
            return Err(Failure::new(Errno::EEXIST, format!("subvolume '{}' exists", target.name())));
        }
        Err(failure) if failure.errno == Errno::ENOENT => None,
        Err(failure) => return Err(failure),
    };
    let data = tree.find(&from.snapshot_data(tree, snap)?)?;
    // The quota follows when everything is copied: the source may have exceeded it.
    let mut attributes = Attributes { size: None, ..Attributes::of_node(tree, &data)? };
    if let Some(pool) = args.opt_str("pool_layout").filter(|pool| !pool.is_empty()) {
        (attributes.pool, attributes.namespace) = (Some(pool.to_owned()), None);
    }
    let mut clone = lifecycle::make(tree, fs, &target, retained, ("clone", State::Pending), attributes)?;
    clone.meta.remove_section(SOURCE);
    clone.meta.remove_section(FAILURE);
    clone.meta.set(SOURCE, "volume", fs.name.as_str());
    if let Some(group) = source.group().name() {
        clone.meta.set(SOURCE, "group", group);
    }
    clone.meta.set(SOURCE, "subvolume", source.name());
    clone.meta.set(SOURCE, "snapshot", snap);
    let number = unique();
    if source == &target {
        // The clone brings back the subvolume whose snapshot it is of.
        clone.meta.set(CLONES, &number, snap);
        clone.store(tree)?;
    } else {
        clone.store(tree)?;
        from.meta.set(CLONES, &number, snap);
        from.store(tree)?;
    }
    tree.mkdirs(CLONE_INDEX, 0o755)?;
    Ok(tree.symlink(&join(CLONE_INDEX, &number), &target.base())?)
}

/// The clones in the index: their numbers and places, those that wait longest first.
pub(crate) fn index(tree: &Tree) -> Done<Vec<(String, Place)>> {
    let dir = match tree.find(CLONE_INDEX) {
        Err(Errno::ENOENT) => return Ok(Vec::new()),
        found => found?,
    };
    let mut out = Vec::new();
    for entry in tree.list(&dir)? {
        let node = tree.child(&dir, &entry.name)?;
        let target = String::from_utf8(tree.readlink(&node)?).unwrap_or_default();
        let number = String::from_utf8(entry.name).unwrap_or_default();
        match Place::of_path(&target) {
            Some(place) => out.push((node.attr().ctime, number, place)),
            None => tree.unlink(&join(CLONE_INDEX, &number))?,
        }
    }
    out.sort();
    Ok(out.into_iter().map(|(_, number, place)| (number, place)).collect())
}

/// The clones of a snapshot that are not complete.
pub(crate) fn pending(tree: &Tree, sub: &Subvolume, snap: &str) -> Done<Vec<Place>> {
    if !sub.has_pending_clones(snap) {
        return Ok(Vec::new());
    }
    let numbers = sub.meta.items(CLONES).iter().filter(|(_, of)| of == snap).map(|(number, _)| number);
    let numbers: Vec<&String> = numbers.collect();
    let all = index(tree)?;
    Ok(all.into_iter().filter(|(number, _)| numbers.contains(&number)).map(|(_, place)| place).collect())
}

/// The snapshot that a clone is of, as it is told.
pub(crate) fn source(sub: &Subvolume) -> Option<Value> {
    let get = |key| sub.meta.get(SOURCE, key);
    let mut out =
        json!({ "volume": get("volume")?, "subvolume": get("subvolume")?, "snapshot": get("snapshot")? });
    if let Some(group) = get("group") {
        out["group"] = group.into();
    }
    Some(out)
}

/// The state of a clone.
pub(crate) fn status(tree: &Tree, place: &Place) -> Done<String> {
    let sub = Subvolume::open(tree, place, Op::CLONE_STATUS)?;
    let mut status = json!({ "state": sub.state().map_or("", State::name) });
    if sub.state() != Some(State::Complete) {
        let source = source(&sub).unwrap_or_default();
        status["source"] = source;
    }
    if let (Some(errno), Some(text)) = (sub.meta.get(FAILURE, "errno"), sub.meta.get(FAILURE, "error_msg"))
        && matches!(sub.state(), Some(State::Failed | State::Canceled))
    {
        status["failure"] = json!({ "errno": errno, "error_msg": text });
    }
    Ok(output::json(&json!({ "status": status })))
}

/// Ends a clone that is not complete. Whoever copies it sees its state.
pub(crate) fn cancel(tree: &Tree, place: &Place) -> Done<()> {
    let mut sub = Subvolume::open(tree, place, Op::CLONE_CANCEL)?;
    match sub.state() {
        Some(State::Pending | State::InProgress) => {
            fail(&mut sub, State::Canceled, Errno::EINTR, "user interrupted clone operation");
            sub.store(tree)
        }
        _ => invalid("cannot cancel -- clone finished (check clone status)"),
    }
}

/// Notes why a clone ended.
pub(crate) fn fail(sub: &mut Subvolume, state: State, errno: Errno, text: &str) {
    sub.set_state(state);
    sub.meta.set(FAILURE, "errno", errno.get().to_string());
    sub.meta.set(FAILURE, "error_msg", text);
}

/// Takes a clone that has ended out of the index, and lets its snapshot go.
pub(crate) fn detach(tree: &Tree, number: &str, place: &Place) -> Done<()> {
    let source = match Subvolume::load(tree, place) {
        Ok(clone) => clone.source(),
        Err(failure) if failure.errno == Errno::ENOENT => None,
        Err(failure) => return Err(failure),
    };
    if let Some((from, _)) = source {
        match Subvolume::load(tree, &from) {
            Ok(mut from) => {
                if from.meta.remove(CLONES, number) {
                    from.store(tree)?;
                }
            }
            Err(failure) if failure.errno == Errno::ENOENT => {}
            Err(failure) => return Err(failure),
        }
    }
    match tree.unlink(&join(CLONE_INDEX, number)) {
        Err(Errno::ENOENT) => Ok(()),
        other => Ok(other?),
    }
}
