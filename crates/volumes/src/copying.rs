//! Copies clones in the background. A copy that was interrupted begins again and overwrites what it finds.

use crate::attributes::{Attributes, quota};
use crate::clones;
use crate::failure::{Done, Failure};
use crate::place::Place;
use crate::subvolume::{State, Subvolume};
use crate::tree::{Io, Node, Tree, is_dir, is_file, is_symlink};
use client::SetAttr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wire::Errno;

/// Interval at which a copy looks whether it was canceled.
const LOOKS: Duration = Duration::from_secs(1);

/// Works on all clones of a file system. `files` guards `.meta` files against commands.
pub(crate) fn work(tree: &Tree, files: &Mutex<()>, go_on: &mut dyn FnMut() -> Io<()>) -> Done<()> {
    for (number, place) in clones::index(tree)? {
        go_on()?;
        if let Err(failure) = one(tree, files, &place, go_on) {
            if failure.errno == Errno::ENOTCONN {
                return Err(failure);
            }
            let guard = files.lock().unwrap_or_else(PoisonError::into_inner);
            tracing::warn!(clone = place.base(), error = failure.text, "a clone has failed");
            if let Ok(mut sub) = Subvolume::load(tree, &place)
                && matches!(sub.state(), Some(State::Pending | State::InProgress))
            {
                clones::fail(&mut sub, State::Failed, failure.errno, &failure.text);
                sub.store(tree)?;
            }
            drop(guard);
        }
        let _guard = files.lock().unwrap_or_else(PoisonError::into_inner);
        clones::detach(tree, &number, &place)?;
    }
    Ok(())
}

/// Copies one clone, unless it has ended already.
fn one(tree: &Tree, files: &Mutex<()>, place: &Place, go_on: &mut dyn FnMut() -> Io<()>) -> Done<()> {
    let begun = change(tree, files, place, State::InProgress)?;
    let Some(sub) = begun else { return Ok(()) };
    let Some((from, snap)) = sub.source() else {
        return Err(Failure::new(Errno::EINVAL, "error fetching subvolume metadata"));
    };
    let source = tree.find(&Subvolume::load(tree, &from)?.snapshot_data(tree, &snap)?)?;
    let target = sub.data(tree)?;
    let mut looked = Instant::now();
    let mut may_go_on = || {
        go_on()?;
        if looked.elapsed() >= LOOKS {
            looked = Instant::now();
            let state = Subvolume::load(tree, place).map_err(|failure| failure.errno)?.state();
            if state != Some(State::InProgress) {
                return Err(Errno::EINTR);
            }
        }
        Ok(())
    };
    copy_tree(tree, source, target, &mut may_go_on)?;
    let source = tree.find(&Subvolume::load(tree, &from)?.snapshot_data(tree, &snap)?)?;
    let target = sub.data(tree)?;
    Attributes { size: quota(tree, &source)?, ..Attributes::default() }.apply(tree, &target)?;
    if let Some(files) = tree.xattr(&source, "ceph.quota.max_files")?.filter(|files| files != "0") {
        tree.set_xattr(&target, "ceph.quota.max_files", &files)?;
    }
    sync_attributes(tree, &source, &target)?;
    change(tree, files, place, State::Complete).map(drop)
}

/// Moves a clone to a state, unless it has ended: then there is nothing to return.
fn change(tree: &Tree, files: &Mutex<()>, place: &Place, state: State) -> Done<Option<Subvolume>> {
    let _guard = files.lock().unwrap_or_else(PoisonError::into_inner);
    let mut sub = match Subvolume::load(tree, place) {
        Err(failure) if failure.errno == Errno::ENOENT => return Ok(None),
        loaded => loaded?,
    };
    if !matches!(sub.state(), Some(State::Pending | State::InProgress)) {
        return Ok(None);
    }
    sub.set_state(state);
    sub.store(tree)?;
    Ok(Some(sub))
}

/// Copies everything below a directory. Directories get their times when nothing is made in them any more.
fn copy_tree(tree: &Tree, from: Node, to: Node, go_on: &mut dyn FnMut() -> Io<()>) -> Io<()> {
    let mut way = vec![Level { dirs: copy_entries(tree, &from, &to, go_on)?, from, to }];
    while let Some(level) = way.last_mut() {
        match level.dirs.pop() {
            Some(name) => {
                let from = tree.child(&level.from, &name)?;
                let to = match tree.mkdir_in(&level.to, &name, 0o700) {
                    Err(Errno::EEXIST) => tree.child(&level.to, &name)?,
                    made => made?,
                };
                let dirs = copy_entries(tree, &from, &to, go_on)?;
                way.push(Level { from, to, dirs });
            }
            None => {
                if let Some(done) = way.pop()
                    && !way.is_empty()
                {
                    sync_attributes(tree, &done.from, &done.to)?;
                }
            }
        }
    }
    Ok(())
}

/// A directory on the way down, with the directories in it that are still to be copied.
struct Level {
    from: Node,
    to: Node,
    dirs: Vec<Vec<u8>>,
}

/// Copies the files and symlinks of a directory. Returns the names of its directories.
fn copy_entries(tree: &Tree, from: &Node, to: &Node, go_on: &mut dyn FnMut() -> Io<()>) -> Io<Vec<Vec<u8>>> {
    let mut dirs = Vec::new();
    for entry in tree.list(from)? {
        go_on()?;
        if is_dir(entry.kind) {
            dirs.push(entry.name);
            continue;
        }
        let source = tree.child(from, &entry.name)?;
        let copy = if is_file(entry.kind) {
            tree.copy_file(&source, to, &entry.name, go_on)?
        } else if is_symlink(entry.kind) {
            match tree.symlink_in(to, &entry.name, &tree.readlink(&source)?) {
                Err(Errno::EEXIST) => tree.child(to, &entry.name)?,
                made => made?,
            }
        } else {
            // As in Ceph, devices, pipes and sockets are not copied.
            continue;
        };
        sync_attributes(tree, &source, &copy)?;
    }
    Ok(dirs)
}

/// Gives owner, mode and times of one inode to another.
fn sync_attributes(tree: &Tree, from: &Node, to: &Node) -> Io<()> {
    let attr = from.attr();
    let owner = SetAttr { uid: Some(attr.uid), gid: Some(attr.gid), ..SetAttr::default() };
    tree.set(to, owner)?;
    let mode = (!is_symlink(attr.mode)).then_some(attr.mode & 0o7777);
    let times = SetAttr { mode, atime: Some(attr.atime), mtime: Some(attr.mtime), ..SetAttr::default() };
    tree.set(to, times)
}
