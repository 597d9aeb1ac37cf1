//! The stored metadata as inodes and entries, with what the journal changes of them laid over.

use super::findings::{Findings, Part};
use super::stored::{Objects, Stored};
use super::text::shown;
use super::walk;
use anyhow::{Result, bail};
use fsfmt::{
    BackPointer, Dentry, DentryKey, DirFrag, FragTree, Ino, InodeData, Link, Pending, PendingTables, names,
};
use maps::SnapId;
use std::collections::{BTreeMap, BTreeSet};
use wire::Decode;

/// Bits that a fragment can have.
const MAX_BITS: u32 = 24;

/// A value, and whether it is from the journal.
pub(super) type Sourced<T> = (T, bool);

/// Takes the keys and values of an omap one by one, and notes those that are damaged.
type EachValue<'e> = dyn FnMut(&mut Findings, &[u8], &[u8]) -> Result<()> + 'e;

/// An inode that was found.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Found {
    pub inode: InodeData,
    /// Its primary entry; none for an inode that is stored alone.
    pub place: Option<(DirFrag, DentryKey, SnapId)>,
    pub is_from_journal: bool,
}

/// A way from an inode up to one that is stored alone.
#[derive(Debug)]
pub(super) struct Traced {
    /// The inode and each of its ancestors that the inode index has, with their places, nearest first.
    pub trace: Vec<(Ino, BackPointer)>,
    /// The first one that the inode index does not have, or that is stored alone.
    pub top: Ino,
    /// The inode, if its entry was found.
    pub found: Option<Found>,
}

/// Reads metadata, and notes what is damaged.
pub(super) struct View<'a> {
    objects: &'a dyn Objects,
    pending: Pending,
    has_journal: bool,
    findings: Findings,
}

impl<'a> View<'a> {
    /// What the objects hold, with the changes of the journal of `rank` if it is given.
    pub fn new(objects: &'a dyn Objects, rank: Option<u32>) -> Result<Self> {
        let mut findings = Findings::new(objects.pool());
        let mut pending = Pending::default();
        if let Some(rank) = rank {
            let header = walk::header(objects, rank, &mut findings)?;
            walk::walk(objects, rank, header.as_ref(), &mut findings, &mut |found| {
                if let Some(event) = found.what.ok().filter(|event| event.is_replayed) {
                    pending.add(event.event);
                }
                Ok(())
            })?;
        }
        Ok(Self { objects, pending, has_journal: rank.is_some(), findings })
    }

    /// What was found damaged so far.
    pub fn findings(&mut self) -> &mut Findings {
        &mut self.findings
    }

    /// Ends the look.
    pub fn into_findings(self) -> Findings {
        self.findings
    }

    /// Events of the journal that were laid over, if it was read.
    pub fn journal_events(&self) -> Option<u64> {
        self.has_journal.then(|| self.pending.events())
    }

    /// What the journal changes of tables.
    pub fn tables(&self) -> &PendingTables {
        self.pending.tables()
    }

    /// Notes that items do not agree: damage, unless the journal may have what is missing.
    pub fn disagree(&mut self, part: Part, object: &str, key: Option<&[u8]>, what: &str) {
        if self.has_journal {
            return self.findings.damage(part, object, key, what);
        }
        let key = key.map(|key| format!(" key {}", shown(key))).unwrap_or_default();
        self.findings.note(format!("{object}{key}: {what}; the journal may have it (leave out --stored)"));
    }

    /// Reads and decodes a value of an omap.
    fn value<T: Decode>(&mut self, part: Part, object: &str, key: &[u8]) -> Result<Option<T>> {
        Ok(match self.objects.value(object, key)? {
            Stored::Here(Some(bytes)) => self.findings.decode(part, object, Some(key), &bytes),
            Stored::Here(None) | Stored::Absent => None,
            Stored::Unreadable(errno) => {
                self.findings.unreadable(part, object, errno);
                None
            }
        })
    }

    /// Reads and decodes the data of an object.
    pub fn data<T: Decode>(&mut self, part: Part, object: &str) -> Result<Option<T>> {
        Ok(match self.objects.data(object)? {
            Stored::Here(bytes) => self.findings.decode(part, object, None, &bytes),
            Stored::Absent => None,
            Stored::Unreadable(errno) => {
                self.findings.unreadable(part, object, errno);
                None
            }
        })
    }

    /// Reads and decodes the header of an omap: `Absent` if there is no such object.
    pub fn omap_header<T: Decode + Default>(&mut self, object: &str) -> Result<Stored<T>> {
        Ok(match self.objects.header(object)? {
            Stored::Here(bytes) if bytes.is_empty() => Stored::Here(T::default()),
            Stored::Here(bytes) => {
                Stored::Here(self.findings.decode(Part::Fragment, object, None, &bytes).unwrap_or_default())
            }
            Stored::Absent => Stored::Absent,
            Stored::Unreadable(errno) => {
                self.findings.unreadable(Part::Fragment, object, errno);
                Stored::Unreadable(errno)
            }
        })
    }

    /// Passes all entries of an omap to `each`, in order. Returns false if there is no such object.
    pub fn all_values(&mut self, part: Part, object: &str, each: &mut EachValue<'_>) -> Result<bool> {
        let mut after = Vec::new();
        loop {
            let (entries, more) = match self.objects.page(object, &after)? {
                Stored::Here(page) => page,
                Stored::Absent => return Ok(false),
                Stored::Unreadable(errno) => {
                    self.findings.unreadable(part, object, errno);
                    return Ok(true);
                }
            };
            for (key, value) in &entries {
                each(&mut self.findings, key, value)?;
            }
            match entries.into_keys().next_back().filter(|_| more) {
                Some(last) => after = last,
                None => return Ok(true),
            }
        }
    }

    /// An inode that is stored alone; it is damage if one that others lead to is missing.
    fn base(&mut self, ino: Ino, is_expected: bool) -> Result<Option<Found>> {
        let damage = self.findings.count();
        let pending = self.pending.base(ino).cloned().map(|inode| (inode, true));
        let found = match pending {
            Some(found) => Some(found),
            None => self.data(Part::Base, &names::base_object(ino))?.map(|inode| (inode, false)),
        };
        if found.is_none() && self.findings.count() == damage && is_expected {
            self.disagree(Part::Base, &names::base_object(ino), None, "it does not exist");
        }
        Ok(found.map(|(inode, is_from_journal)| Found { inode, place: None, is_from_journal }))
    }

    /// The place of an inode, by the journal and the inode index.
    pub fn back_pointer(&mut self, ino: Ino) -> Result<Option<BackPointer>> {
        match self.pending.place(ino) {
            Some(place) => Ok(place.cloned()),
            None => self.value(Part::Index, &names::index_object(ino), &names::index_key(ino)),
        }
    }

    /// The entry of a key.
    pub fn entry(&mut self, dir: DirFrag, key: &DentryKey) -> Result<Option<Sourced<Dentry>>> {
        match self.pending.entry(dir.ino, key) {
            Some(entry) => Ok(entry.cloned().map(|entry| (entry, true))),
            None => {
                let stored = self.value(Part::Entry, &names::dir_object(dir), &key.to_omap())?;
                Ok(stored.map(|entry| (entry, false)))
            }
        }
    }

    /// Passes the entries of a fragment to `each`, in order; damaged ones are noted. Returns false if its
    /// object does not exist.
    pub fn entries(
        &mut self,
        dir: DirFrag,
        each: &mut dyn FnMut(&DentryKey, &Dentry, bool) -> Result<()>,
    ) -> Result<bool> {
        let of_frag = self.pending.entries(dir.ino, dir.frag);
        let mut changed: BTreeMap<DentryKey, Option<Dentry>> =
            of_frag.map(|(key, value)| (key.clone(), value.cloned())).collect();
        let object = names::dir_object(dir);
        let is_there = self.all_values(Part::Fragment, &object, &mut |findings, omap_key, value| {
            let Some(key) = DentryKey::from_omap(omap_key).filter(|key| is_in(dir, key)) else {
                findings.damage(
                    Part::Entry,
                    &object,
                    Some(omap_key),
                    "no entry of this fragment has such a key",
                );
                return Ok(());
            };
            while let Some(first) = changed.first_entry().filter(|first| *first.key() < key) {
                if let (key, Some(entry)) = first.remove_entry() {
                    each(&key, &entry, true)?;
                }
            }
            match changed.remove(&key) {
                Some(entry) => entry.map_or(Ok(()), |entry| each(&key, &entry, true)),
                None => match findings.decode::<Dentry>(Part::Entry, &object, Some(omap_key), value) {
                    Some(entry) => each(&key, &entry, false),
                    None => Ok(()),
                },
            }
        })?;
        for (key, entry) in changed {
            entry.map_or(Ok(()), |entry| each(&key, &entry, true))?;
        }
        Ok(is_there)
    }

    /// Finds an inode by its number.
    pub fn inode(&mut self, ino: Ino) -> Result<Traced> {
        let (mut trace, mut seen, mut top) = (Vec::new(), BTreeSet::new(), ino);
        while !top.is_base() {
            if !seen.insert(top) {
                let (object, key) = (names::index_object(top), names::index_key(top));
                let what = format!("the places of {top} and its ancestors lead back to {top}");
                self.disagree(Part::Index, &object, Some(&key), &what);
                break;
            }
            let Some(back) = self.back_pointer(top)? else { break };
            let dir = back.dir;
            trace.push((top, back));
            top = dir;
        }
        let is_expected = top == Ino::ROOT || !trace.is_empty();
        let mut found = if top.is_base() { self.base(top, is_expected)? } else { None };
        for (child, back) in trace.iter().rev() {
            let tree = found.map(|dir| FragTree::clone(&dir.inode.fragtree));
            found = self.child(*child, back, tree)?;
        }
        Ok(Traced { trace, top, found })
    }

    /// Finds an inode at its place; the directory's fragments may be unknown.
    fn child(&mut self, ino: Ino, back: &BackPointer, tree: Option<FragTree>) -> Result<Option<Found>> {
        let key = DentryKey::new(&back.name);
        let whole = DirFrag::whole(back.dir);
        let dirs: Vec<DirFrag> = match tree {
            Some(tree) => vec![DirFrag { frag: tree.frag_of(key.hash), ..whole }],
            None => (0..=MAX_BITS).map(|bits| whole.part_of(key.hash, bits)).collect(),
        };
        let damage = self.findings.count();
        for dir in dirs {
            if let Some((dentry, is_from_journal)) = self.entry(dir, &key)?
                && let (Link::Primary(inode), first) = (dentry.link, dentry.first)
                && inode.ino == ino
            {
                let place = Some((dir, key, first));
                return Ok(Some(Found { inode: *inode, place, is_from_journal }));
            }
        }
        if self.findings.count() == damage {
            let what = format!("it names {}/{}, where {ino} is not", back.dir, shown(&back.name));
            let (object, index_key) = (names::index_object(ino), names::index_key(ino));
            self.disagree(Part::Index, &object, Some(&index_key), &what);
        }
        Ok(None)
    }

    /// Finds an inode by its path from the root.
    pub fn resolve(&mut self, path: &str) -> Result<Option<Found>> {
        let mut at = self.base(Ino::ROOT, true)?;
        let mut way = String::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let Some(dir) = at else { return Ok(None) };
            if !dir.inode.is_dir() {
                bail!("{way} is no directory");
            }
            way = format!("{way}/{name}");
            let key = DentryKey::new(name.as_bytes());
            let frag = dir.inode.frag_of(key.hash);
            let damage = self.findings.count();
            at = match self.entry(frag, &key)? {
                Some((Dentry { link: Link::Primary(inode), first }, is_from_journal)) => {
                    Some(Found { inode: *inode, place: Some((frag, key, first)), is_from_journal })
                }
                Some((Dentry { link: Link::Remote { ino, .. }, .. }, _)) => self.inode(ino)?.found,
                None if self.findings.count() > damage => None,
                None => bail!("{way}: {} has no such entry", names::dir_object(frag)),
            };
        }
        Ok(at)
    }

    /// True if the journal changes entries of a fragment.
    pub fn is_changed(&self, dir: DirFrag) -> bool {
        self.pending.entries(dir.ino, dir.frag).next().is_some()
    }

    /// True if an object exists.
    pub fn exists(&mut self, object: &str) -> Result<bool> {
        Ok(!matches!(self.objects.header(object)?, Stored::Absent))
    }
}

/// True if a fragment can have an entry of this key.
fn is_in(dir: DirFrag, key: &DentryKey) -> bool {
    dir.contains(key) && DentryKey::new(&key.name).hash == key.hash
}
