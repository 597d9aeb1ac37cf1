//! What repeated requests are about, until they are carried out. Their clients were told that they had
//! succeeded, so what others do meanwhile must not bring them to fail.

use super::path::base;
use super::plan::Plan;
use crate::cache::Cache;
use fsfmt::{DentryKey, DirFrag, Ino, Link, Update};
use msgs::{ClientRequest, FilePath, MdsOp};
use std::collections::BTreeMap;

/// What one request is about.
#[derive(Clone, Debug, Default)]
pub struct Promise {
    /// Directories and names in them.
    names: Vec<(Ino, Vec<u8>)>,
    /// The inode that gets a further name.
    target: Option<Ino>,
    /// The inode that gets other attributes.
    changed: Option<Ino>,
    is_rename: bool,
    /// A path has several names: what they lead to is not known before the request runs.
    is_deep: bool,
}

impl Promise {
    /// What a request is about that may have been answered before it was durable, or is asynchronous.
    pub fn of(request: &ClientRequest) -> Self {
        let mut out = Self::default();
        out.add_name(&request.path);
        match request.op {
            MdsOp::RENAME | MdsOp::RENAME_FLAGS => {
                out.add_name(&request.path2);
                out.is_rename = true;
            }
            MdsOp::LINK => {
                out.add_name(&request.path2);
                out.target = Some(base(&request.path2).ino);
            }
            op if changes_attributes(op) => out.changed = Some(base(&request.path).ino),
            // The other path is the target of a symlink, or is empty.
            _ => {}
        }
        out
    }

    fn add_name(&mut self, path: &FilePath) {
        let mut names = path.path.split(|b| *b == b'/').filter(|name| !name.is_empty());
        if let Some(name) = names.next() {
            self.names.push((base(path).ino, name.to_vec()));
        }
        self.is_deep |= names.next().is_some();
    }
}

/// Operations that replace attributes: the later one of two counts.
fn changes_attributes(op: MdsOp) -> bool {
    use MdsOp as Op;
    matches!(op, Op::SETATTR | Op::SETXATTR | Op::RMXATTR | Op::SETLAYOUT | Op::SETDIRLAYOUT)
}

/// What all repeated requests are about that are not carried out yet.
#[derive(Debug, Default)]
pub struct Promises {
    /// By directory, the names with the number of requests about each.
    names: BTreeMap<Ino, BTreeMap<Vec<u8>, usize>>,
    /// Inodes that get names, with the number of requests.
    targets: BTreeMap<Ino, usize>,
    /// Inodes that get attributes, with the number of requests.
    changed: BTreeMap<Ino, usize>,
    renames: usize,
    deep: usize,
    requests: usize,
}

impl Promises {
    /// Adds a request.
    pub fn add(&mut self, promise: &Promise) {
        for (dir, name) in &promise.names {
            *self.names.entry(*dir).or_default().entry(name.clone()).or_default() += 1;
        }
        promise.target.into_iter().for_each(|ino| *self.targets.entry(ino).or_default() += 1);
        promise.changed.into_iter().for_each(|ino| *self.changed.entry(ino).or_default() += 1);
        self.renames += usize::from(promise.is_rename);
        self.deep += usize::from(promise.is_deep);
        self.requests += 1;
    }

    /// Removes a request that was added.
    pub fn remove(&mut self, promise: &Promise) {
        for (dir, name) in &promise.names {
            if let Some(names) = self.names.get_mut(dir) {
                uncount(names, name);
                if names.is_empty() {
                    self.names.remove(dir);
                }
            }
        }
        promise.target.into_iter().for_each(|ino| uncount(&mut self.targets, &ino));
        promise.changed.into_iter().for_each(|ino| uncount(&mut self.changed, &ino));
        self.renames -= usize::from(promise.is_rename);
        self.deep -= usize::from(promise.is_deep);
        self.requests -= 1;
    }

    /// True if there is no request.
    pub fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// True if a request is about a name.
    pub fn has_name(&self, dir: Ino, key: &DentryKey) -> bool {
        self.names.get(&dir).is_some_and(|names| names.contains_key(&*key.name))
    }

    /// True if a request is about a name in a directory.
    pub fn has_name_in(&self, dir: Ino) -> bool {
        self.names.contains_key(&dir)
    }

    /// True if a plan of another client may bring a request to fail, or is undone by one. If a name that a
    /// request is about is among those that it read, it stopped before (`Cx::entry`).
    pub fn forbid(&self, cache: &Cache, request: &ClientRequest, plan: &Plan) -> bool {
        match request.op {
            _ if self.is_empty() || plan.local.is_empty() => false,
            // A snapshot contains what was promised; and a directory that has one can't be removed.
            MdsOp::MKSNAP => true,
            op if changes_attributes(op) => plan.local.iter().any(|update| match update {
                Update::Dentry { value: Some(dentry), .. } => self.changed.contains_key(&dentry.link.ino()),
                Update::Base { inode } => self.changed.contains_key(&inode.ino),
                _ => false,
            }),
            _ => plan.local.iter().any(|update| match update {
                Update::Dentry { dir, key, value } => {
                    let link = value.as_ref().map(|dentry| &dentry.link);
                    self.forbid_link(cache, (*dir, key), link)
                }
                _ => false,
            }),
        }
    }

    /// True if a name must not lead to `link` instead of what it leads to.
    fn forbid_link(&self, cache: &Cache, (dir, key): (DirFrag, &DentryKey), link: Option<&Link>) -> bool {
        let old = cache.slot(dir, key).and_then(|slot| slot.link(key).inode());
        if old.map(|inode| inode.ino) == link.map(Link::ino) {
            return false;
        }
        // A request may be about to remove the directory, which must be empty then.
        let place = cache.inodes.get(&dir.inode()).and_then(|inode| inode.place.as_ref());
        if self.deep > 0 || place.is_some_and(|(dir, key)| self.has_name(dir.ino, key)) {
            return true;
        }
        // What is removed or moved may be where a request makes a name, or what it makes a name for. A
        // directory that moves may come to lie below one that a request moves into it.
        old.is_some_and(|old| {
            let is_dir = cache.inodes.get(&old).is_some_and(|inode| inode.data.is_dir());
            let is_awaited = self.has_name_in(old.ino) || self.targets.contains_key(&old.ino);
            is_awaited || is_dir && self.renames > 0
        })
    }
}

/// Counts one less.
fn uncount<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
