//! Checker `snapshots_constant`: what a snapshot of a directory shows once, it shows for ever, to every
//! reader and by every path: names, links, sizes, modes, xattrs and bytes. A name that it shows leads
//! somewhere, and a snapshot that nobody removes stays.
//!
//! That it is what the tree was at one moment of the snapshot's creation is the business of the checkers of
//! names ([`super::namespace`]) and contents ([`super::contents`]), which are given what was seen
//! (docs/adr/0015-snapshots-wait-for-writers.md).

use super::contents;
use super::linear::Judgement;
use std::collections::BTreeMap;

/// The entries of a directory in a snapshot.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Listing {
    /// The number of each inode, and if it is a directory.
    pub names: BTreeMap<String, (u64, bool)>,
}

impl Listing {
    /// The number of each name's inode.
    pub fn numbers(&self) -> BTreeMap<String, u64> {
        self.names.iter().map(|(name, (ino, _))| (name.clone(), *ino)).collect()
    }
}

/// The part of a snapshot that was seen. Inodes have the numbers of the live ones.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Shown {
    /// Directories.
    pub dirs: BTreeMap<u64, Listing>,
    /// Targets of symbolic links.
    pub links: BTreeMap<u64, u32>,
    /// Link counts of what is no directory.
    pub counts: BTreeMap<u64, u32>,
}

/// The directory of a snapshot, and its name there.
pub type Name = (u64, String);

/// A part of what a snapshot shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// The entries of a directory.
    Dir(u64, Listing),
    /// A symbolic link.
    Link(u64, u32),
    /// A link count.
    Count(u64, u32),
    /// Something of a file.
    File(u64, contents::Action, contents::Answer),
}

/// A snapshot that somebody was asked to make.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) client: usize,
    /// The call in the history of names.
    pub(super) number: usize,
    /// The times of the call and of the return in the histories of contents. Without an answer it was made
    /// before it was first seen.
    pub(super) call: u64,
    pub(super) ret: Option<u64>,
    pub(super) shown: Shown,
    pub(super) files: BTreeMap<u64, Vec<(contents::Action, contents::Answer)>>,
    /// A removal was called: it may be gone from now on.
    may_be_gone: bool,
}

/// All snapshots of directories.
#[derive(Clone, Debug, Default)]
pub struct Snapshots {
    pub(super) known: BTreeMap<Name, Snapshot>,
    wrong: Option<String>,
}

impl Snapshots {
    /// A snapshot's creation is called, with these numbers in the histories of names and contents.
    pub fn called(&mut self, name: Name, client: usize, number: usize, call: u64) {
        let (shown, files) = (Shown::default(), BTreeMap::new());
        let made = Snapshot { client, number, call, ret: None, shown, files, may_be_gone: false };
        self.known.insert(name, made);
    }

    /// It has returned at a time of the histories of contents.
    pub fn made(&mut self, name: &Name, at: u64) {
        if let Some(made) = self.known.get_mut(name) {
            made.ret = made.ret.or(Some(at));
        }
    }

    /// Its removal is called.
    pub fn removed(&mut self, name: &Name) {
        if let Some(made) = self.known.get_mut(name) {
            made.may_be_gone = true;
        }
    }

    /// Those that nobody has removed.
    pub fn present(&self) -> impl Iterator<Item = &Name> {
        self.known.iter().filter(|(_, made)| !made.may_be_gone).map(|(name, _)| name)
    }

    /// A snapshot shows something, at a time of the histories of contents.
    pub fn saw(&mut self, name: &Name, at: u64, seen: Seen) {
        let Some(made) = self.known.get_mut(name) else {
            return self.fail(name, "is there, and nobody made it".to_owned());
        };
        made.ret = made.ret.or(Some(at));
        let before = match seen.clone() {
            Seen::Dir(ino, names) => {
                let before = made.shown.dirs.entry(ino).or_insert_with(|| names.clone());
                (*before != names).then(|| Seen::Dir(ino, before.clone()))
            }
            Seen::Link(ino, to) => {
                let before = *made.shown.links.entry(ino).or_insert(to);
                (before != to).then_some(Seen::Link(ino, before))
            }
            Seen::Count(ino, count) => {
                let before = *made.shown.counts.entry(ino).or_insert(count);
                (before != count).then_some(Seen::Count(ino, before))
            }
            Seen::File(ino, action, answer) => {
                let all = made.files.entry(ino).or_default();
                match all.iter().find(|(asked, _)| *asked == action) {
                    Some((_, before)) if *before == answer => None,
                    Some((_, before)) => Some(Seen::File(ino, action, before.clone())),
                    None => {
                        all.push((action, answer));
                        None
                    }
                }
            }
        };
        if let Some(before) = before {
            self.fail(name, format!("showed {before:?} and now {seen:?}"));
        }
    }

    /// Something that a snapshot contains was not there.
    pub fn missed(&mut self, name: &Name, what: String) {
        if self.known.get(name).is_none_or(|made| !made.may_be_gone) {
            self.fail(name, what);
        }
    }

    fn fail(&mut self, (dir, name): &Name, what: String) {
        self.wrong.get_or_insert_with(|| format!("snapshot {name} of {dir:x}: {what}"));
    }

    /// The result.
    pub fn check(&self) -> Judgement {
        Judgement { histories: self.known.len() as u64, undecided: 0, wrong: self.wrong.clone() }
    }
}
