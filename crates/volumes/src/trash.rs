//! The trash: removed trees, which are deleted in the background.

use crate::attributes::DEFAULT_MODE;
use crate::failure::Done;
use crate::place::{Place, TRASH};
use crate::subvolume::{State, Subvolume};
use crate::tree::{Io, Node, Tree, is_dir, is_symlink, join};
use wire::{Errno, Uuid};

/// A new unique name.
pub(crate) fn unique() -> String {
    let mut bytes = [0; 16];
    runtime::rng().fill(&mut bytes);
    Uuid::from_random(bytes).to_string()
}

/// Moves a tree to the trash.
pub(crate) fn dump(tree: &Tree, path: &str) -> Done<()> {
    tree.mkdirs(TRASH, 0o700)?;
    Ok(tree.rename(path, &join(TRASH, &unique()))?)
}

/// Moves an incarnation of a subvolume whose snapshots are kept to the trash beside it.
pub(crate) fn dump_incarnation(tree: &Tree, place: &Place, path: &str) -> Done<()> {
    tree.mkdirs(&place.trash(), 0o700)?;
    tree.mkdirs(TRASH, DEFAULT_MODE)?;
    let name = path.rsplit('/').next().unwrap_or_default();
    let to = join(&place.trash(), name);
    tree.rename(path, &to)?;
    Ok(tree.symlink(&join(TRASH, name), &to)?)
}

/// Moves a subvolume to the trash of which nothing is left.
pub(crate) fn dump_if_empty(tree: &Tree, sub: &Subvolume) -> Done<()> {
    let is_retained = sub.state() == Some(State::Retained);
    if is_retained && sub.snapshots(tree)?.is_empty() && !sub.has_pending_purges(tree)? {
        dump(tree, &sub.place.base())?;
    }
    Ok(())
}

/// The number of trees in the trash.
pub(crate) fn count(tree: &Tree) -> Done<usize> {
    match tree.names(TRASH) {
        Ok(names) => Ok(names.len()),
        Err(Errno::ENOENT) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}

/// Deletes what is in the trash; `go_on` is asked before each file.
pub(crate) fn purge(tree: &Tree, go_on: &mut dyn FnMut() -> Io<()>) -> Done<()> {
    let trash = match tree.find(TRASH) {
        Err(Errno::ENOENT) => return Ok(()),
        found => found?,
    };
    for entry in tree.list(&trash)? {
        let node = tree.child(&trash, &entry.name)?;
        if is_symlink(entry.kind) {
            let target = String::from_utf8(tree.readlink(&node)?).unwrap_or_default();
            purge_incarnation(tree, &target, go_on)?;
            tree.unlink_in(&trash, &entry.name)?;
        } else if node.is_dir() {
            delete_below(tree, &node, go_on)?;
            tree.rmdir_in(&trash, &entry.name)?;
        } else {
            tree.unlink_in(&trash, &entry.name)?;
        }
    }
    Ok(())
}

/// Deletes an incarnation in the trash of its subvolume, and the subvolume if that was the last of it.
fn purge_incarnation(tree: &Tree, path: &str, go_on: &mut dyn FnMut() -> Io<()>) -> Done<()> {
    let Some((base, _)) = path.rsplit_once("/.trash/") else { return Ok(()) };
    match tree.find(path) {
        Err(Errno::ENOENT) => {}
        found => {
            delete_below(tree, &found?, go_on)?;
            tree.rmdir(path)?;
        }
    }
    match Place::of_path(base).map(|place| Subvolume::load(tree, &place)) {
        Some(Ok(sub)) => dump_if_empty(tree, &sub),
        _ => Ok(()),
    }
}

/// Deletes everything below a directory. The way down is a list, as trees may be deep.
fn delete_below(tree: &Tree, root: &Node, go_on: &mut dyn FnMut() -> Io<()>) -> Io<()> {
    let mut way: Vec<Level> = vec![Level { name: Vec::new(), dir: None, dirs: Vec::new() }];
    enter(tree, root, &mut way, go_on)?;
    while let Some(level) = way.last_mut() {
        match level.dirs.pop() {
            Some(name) => {
                let dir = tree.child(level.dir.as_ref().unwrap_or(root), &name)?;
                way.push(Level { name, dir: None, dirs: Vec::new() });
                enter(tree, &dir, &mut way, go_on)?;
                if let Some(level) = way.last_mut() {
                    level.dir = Some(dir);
                }
            }
            None => {
                let Some(done) = way.pop() else { break };
                let above = way.last().and_then(|level| level.dir.as_ref()).unwrap_or(root);
                if done.dir.is_some() {
                    tree.rmdir_in(above, &done.name)?;
                }
            }
        }
    }
    Ok(())
}

/// A directory on the way down.
struct Level {
    /// Its name in the one above.
    name: Vec<u8>,
    /// Itself; `None` for the first.
    dir: Option<Node>,
    /// Directories in it that are still to be deleted.
    dirs: Vec<Vec<u8>>,
}

/// Deletes the files of a directory, and notes its directories in the last level.
fn enter(tree: &Tree, dir: &Node, way: &mut [Level], go_on: &mut dyn FnMut() -> Io<()>) -> Io<()> {
    for entry in tree.list(dir)? {
        go_on()?;
        if is_dir(entry.kind) {
            if let Some(level) = way.last_mut() {
                level.dirs.push(entry.name);
            }
        } else {
            tree.unlink_in(dir, &entry.name)?;
        }
    }
    Ok(())
}
