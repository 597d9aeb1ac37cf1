//! Checker `snapshots_constant`: what a snapshot of a directory shows once, it shows for ever, to every
//! reader and by every path: names, links, sizes, modes, xattrs and bytes. A name that it shows leads
//! somewhere, and a snapshot that nobody removes stays.
//!
//! That it is what the tree was at one moment of the snapshot's creation is the business of the checkers of
//! names ([`super::namespace`]) and contents ([`super::contents`]), which are given what was seen
//! (docs/adr/0015-snapshots-wait-for-writers.md).

use super::contents;
use super::linear::Judgement;
use super::namespace;
use std::collections::BTreeMap;
use std::rc::Rc;

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
struct Snapshot {
    client: usize,
    /// The call in the history of names.
    number: usize,
    /// The times of the call and of the return in the histories of contents. Without an answer it was made
    /// before it was first seen.
    call: u64,
    ret: Option<u64>,
    shown: Shown,
    files: BTreeMap<u64, Vec<(contents::Action, contents::Answer)>>,
    /// A removal was called: it may be gone from now on.
    may_be_gone: bool,
}

/// All snapshots of directories.
#[derive(Clone, Debug, Default)]
pub struct Snapshots {
    known: BTreeMap<Name, Snapshot>,
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

    /// Adds to the histories what was seen.
    pub fn tell(&self, names: &mut namespace::History, contents: &mut contents::History) {
        for made in self.known.values() {
            names.show(made.number, &Rc::new(made.shown.clone()));
            let Some(ret) = made.ret else { continue };
            for (ino, parts) in &made.files {
                contents.observed(*ino, made.client, (made.call, ret), parts.clone());
            }
        }
    }

    /// The result.
    pub fn check(&self) -> Judgement {
        Judgement { histories: self.known.len() as u64, undecided: 0, wrong: self.wrong.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::namespace::{Action, Answer, ROOT};
    use super::*;

    fn listing(names: &[(&str, u64, bool)]) -> Listing {
        Listing { names: names.iter().map(|(n, ino, dir)| ((*n).to_owned(), (*ino, *dir))).collect() }
    }

    /// A directory `d` with a file, of which a snapshot is made before the file moves to the root, where it
    /// replaces another. Returns what is wrong if the snapshot shows this.
    fn moved(seen: &[Seen]) -> [Option<String>; 3] {
        let (mut names, mut contents) = (namespace::History::default(), contents::History::default());
        let mut snaps = Snapshots::default();
        let of = (9, "s".to_owned());
        let name = |n: &str| n.to_owned();
        let add = |names: &mut namespace::History, action, answer| {
            let number = names.called(0, action);
            names.returned(number, answer);
        };
        add(&mut names, Action::Mkdir(ROOT, name("d")), Answer::Ino(9));
        add(&mut names, Action::Create(9, name("a")), Answer::Ino(10));
        let write = contents.called(10, 0, contents::Action::Write { offset: 0, tag: 7 });
        contents.returned(10, write, contents::Answer::Done);
        let call = contents.moment();
        let number = names.called(1, Action::Snap(9, of.1.clone(), Rc::default()));
        snaps.called(of.clone(), 1, number, call);
        names.returned(number, Answer::Done);
        snaps.made(&of, contents.moment());
        add(&mut names, Action::Rename(9, name("a"), ROOT, name("b")), Answer::Done);
        add(&mut names, Action::Rmdir(ROOT, name("d")), Answer::Error(wire::Errno::ENOTEMPTY));
        let cut = contents.called(10, 0, contents::Action::Truncate(0));
        contents.returned(10, cut, contents::Answer::Done);
        seen.iter().for_each(|seen| snaps.saw(&of, contents.moment(), seen.clone()));
        snaps.tell(&mut names, &mut contents);
        [snaps.check(), names.check(), contents.check()].map(|judgement| judgement.wrong)
    }

    #[test]
    fn a_snapshot_shows_what_was_there_when_it_was_made() {
        let then = Seen::Dir(9, listing(&[("a", 10, false)]));
        let size = |size| Seen::File(10, contents::Action::Stat, contents::Answer::Stat(size, 0o644));
        assert_eq!(moved(&[then.clone(), size(16), then.clone(), Seen::Count(10, 1)]), [None, None, None]);
        let [constant, names, contents] = moved(&[Seen::Dir(9, Listing::default()), size(0)]);
        assert!(constant.is_none() && names.is_some() && contents.is_some(), "a later state");
        let [constant, ..] = moved(&[then.clone(), Seen::Dir(9, Listing::default())]);
        assert!(constant.is_some_and(|what| what.contains("showed")), "it has changed");
        let [_, names, _] = moved(&[Seen::Dir(9, listing(&[("a", 10, true)]))]);
        assert!(names.is_some(), "a file");
        let [_, names, _] = moved(&[then, Seen::Count(10, 2)]);
        assert!(names.is_some(), "it had one name");
    }

    #[test]
    fn what_nobody_removed_is_there() {
        let mut snaps = Snapshots::default();
        let of = (ROOT, "s".to_owned());
        snaps.called(of.clone(), 0, 0, 1);
        assert_eq!(snaps.present().count(), 1);
        let mut removed = snaps.clone();
        removed.removed(&of);
        removed.missed(&of, "a is not there".to_owned());
        assert_eq!((removed.check().wrong, removed.present().count()), (None, 0));
        snaps.missed(&of, "a is not there".to_owned());
        assert!(snaps.check().wrong.is_some());
    }
}
