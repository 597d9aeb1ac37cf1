//! The names that are known, and how long each is believed.

use crate::inode::Inode;
use crate::key::InodeKey;
use msgs::{LeaseStat, cap};
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::time::Duration;
use stdx::{FastMap, FastSet, Instant, Now};

/// Bits of a lease that say that it is one.
const LEASE_VALID: u16 = 3;

/// A name in a directory.
#[derive(Clone, Debug)]
struct Dentry {
    /// The inode, or `None` if the name is known not to exist.
    inode: Option<InodeKey>,
    lease_until: Instant,
    /// The directory's `shared_gen` when the name was learnt.
    shared_gen: u64,
    /// It is the primary name of its inode.
    is_primary: bool,
}

/// The answer of the table for a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    Inode(InodeKey),
    Absent,
    Unknown,
}

/// The names of a directory.
#[derive(Debug, Default)]
struct OfDir {
    names: BTreeMap<Box<[u8]>, Dentry>,
    /// Hashes of names that are not in the table but may exist, so that all others are known not to exist
    /// where all names were known. A name stays here when it is removed.
    forgotten: FastSet<u32>,
    /// The directory's `shared_gen` when these were forgotten.
    forgotten_gen: u64,
}

/// Names by directory. An entry alone proves nothing: [`Names::lookup`] says if it is believed.
///
/// Invariants: `forgotten` counts the hashes of forgotten names of all directories; no directory is kept
/// without names or such hashes.
#[derive(Debug)]
pub(crate) struct Names {
    dirs: FastMap<InodeKey, OfDir>,
    forgotten: usize,
    most_forgotten: usize,
}

/// A name's hash.
fn hash(name: &[u8]) -> u32 {
    let hash = FastSet::<u32>::default().hasher().hash_one(name);
    (hash >> 32) as u32 ^ hash as u32
}

impl Names {
    /// No names. Of directories of which all names are known, up to `most_forgotten` are forgotten without
    /// that becoming untrue.
    pub(crate) fn new(most_forgotten: usize) -> Self {
        Self { dirs: FastMap::default(), forgotten: 0, most_forgotten }
    }

    #[cfg(test)]
    pub(crate) fn forget_at_most(&mut self, names: usize) {
        self.most_forgotten = names;
    }

    /// Takes a name from a reply.
    pub(crate) fn learn(
        &mut self,
        now: Now,
        dir: &Inode,
        name: &[u8],
        inode: Option<InodeKey>,
        lease: &LeaseStat,
    ) {
        let lease_until = now.mono + Duration::from_millis(u64::from(lease.duration_ms));
        let lease_until = if lease.mask & LEASE_VALID == 0 { Instant(0) } else { lease_until };
        let is_primary = lease.mask & LeaseStat::PRIMARY_LINK != 0;
        let dentry = Dentry { inode, lease_until, shared_gen: dir.names().shared_gen(), is_primary };
        self.put(dir.key(), name, dentry);
    }

    fn put(&mut self, dir: InodeKey, name: &[u8], dentry: Dentry) {
        let names = &mut self.dirs.entry(dir).or_default().names;
        match names.get_mut(name) {
            Some(known) => *known = dentry,
            None => drop(names.insert(name.into(), dentry)),
        }
    }

    fn get(&self, dir: InodeKey, name: &[u8]) -> Option<&Dentry> {
        self.dirs.get(&dir)?.names.get(name)
    }

    fn of_dir(&self, dir: InodeKey) -> impl Iterator<Item = (&[u8], &Dentry)> {
        self.dirs.get(&dir).into_iter().flat_map(|dir| &dir.names).map(|(name, dentry)| (&**name, dentry))
    }

    /// Notes that a name does not exist any more, because we removed it under the directory's `Fs`. If all
    /// names of the directory are known, it is not one of them any more.
    pub(crate) fn note_absent(&mut self, dir: &Inode, name: &[u8]) {
        if self.is_absent_unless_named(dir, name) {
            return self.remove(dir.key(), name);
        }
        let shared_gen = dir.names().shared_gen();
        let dentry = Dentry { inode: None, lease_until: Instant(0), shared_gen, is_primary: false };
        self.put(dir.key(), name, dentry);
    }

    /// Takes a name out of the table.
    pub(crate) fn remove(&mut self, dir: InodeKey, name: &[u8]) {
        let Some(of_dir) = self.dirs.get_mut(&dir) else { return };
        of_dir.names.remove(name);
        if of_dir.names.is_empty() && of_dir.forgotten.is_empty() {
            self.dirs.remove(&dir);
        }
    }

    /// Forgets a name that may exist. False if there is no room to note that: then names that are not in the
    /// table may exist.
    pub(crate) fn forget(&mut self, dir: &Inode, name: &[u8]) -> bool {
        self.remove(dir.key(), name);
        let of_dir = self.dirs.entry(dir.key()).or_default();
        let (shared_gen, has_room) = (dir.names().shared_gen(), self.forgotten < self.most_forgotten);
        if of_dir.forgotten_gen != shared_gen || !has_room {
            self.forgotten -= of_dir.forgotten.len();
            (of_dir.forgotten, of_dir.forgotten_gen) = (FastSet::default(), shared_gen);
        }
        match has_room {
            true => self.forgotten += usize::from(of_dir.forgotten.insert(hash(name))),
            false => self.remove(dir.key(), name),
        }
        has_room
    }

    /// Forgets all names of a directory.
    pub(crate) fn remove_dir(&mut self, dir: InodeKey) {
        let Some(of_dir) = self.dirs.remove(&dir) else { return };
        self.forgotten -= of_dir.forgotten.len();
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.most_forgotten);
    }

    /// Hashes of names of a directory that are not in the table but may exist.
    fn forgotten(&self, dir: &Inode) -> Option<&FastSet<u32>> {
        let of_dir = self.dirs.get(&dir.key())?;
        Some(&of_dir.forgotten).filter(|_| of_dir.forgotten_gen == dir.names().shared_gen())
    }

    /// True if a name does not exist unless it is in the table, as long as the directory's `Fs` is held.
    fn is_absent_unless_named(&self, dir: &Inode, name: &[u8]) -> bool {
        let is_forgotten = || self.forgotten(dir).is_some_and(|forgotten| forgotten.contains(&hash(name)));
        dir.names().is_complete() && !is_forgotten()
    }

    /// True if all names of a directory are in the table, as long as its `Fs` is held.
    fn has_all(&self, dir: &Inode) -> bool {
        dir.names().is_complete() && self.forgotten(dir).is_none_or(FastSet::is_empty)
    }

    /// The inode that a name last led to, believed or not.
    pub(crate) fn last_known(&self, dir: InodeKey, name: &[u8]) -> Option<InodeKey> {
        self.get(dir, name)?.inode
    }

    /// True if the table's answer for a name rests on the directory's `Fs`: it is right for as long as that
    /// is held.
    pub(crate) fn is_under_right(&self, dir: &Inode, name: &[u8]) -> bool {
        let dentry = self.get(dir.key(), name);
        let is_absent = || self.is_absent_unless_named(dir, name);
        let is_known = dentry.map_or_else(is_absent, |d| d.is_under_right(dir));
        is_known && dir.may(cap::FILE_SHARED)
    }

    /// True if a name leads to an inode, by the directory's `Fs`.
    pub(crate) fn leads_to(&self, dir: &Inode, name: &[u8], key: InodeKey) -> bool {
        let dentry = self.get(dir.key(), name);
        dentry.is_some_and(|d| d.inode == Some(key) && d.is_under_right(dir)) && dir.may(cap::FILE_SHARED)
    }

    /// True if a name is known not to exist, by the directory's `Fs`.
    pub(crate) fn is_absent_by_right(&self, dir: &Inode, name: &[u8]) -> bool {
        self.is_under_right(dir, name) && self.last_known(dir.key(), name).is_none()
    }

    /// The inode of which a name is the primary one, by the directory's `Fs`.
    pub(crate) fn primary_by_right(&self, dir: &Inode, name: &[u8]) -> Option<InodeKey> {
        let dentry = self.get(dir.key(), name)?;
        let is_sure = dentry.is_primary && dentry.is_under_right(dir) && dir.may(cap::FILE_SHARED);
        dentry.inode.filter(|_| is_sure)
    }

    /// True if a directory has no names, by its `Fs`.
    pub(crate) fn is_empty_by_right(&self, dir: &Inode) -> bool {
        let is_known = self.has_all(dir) && dir.may(cap::FILE_SHARED);
        is_known
            && self.of_dir(dir.key()).all(|(_, dentry)| dentry.inode.is_none() && dentry.is_under_right(dir))
    }

    /// The names in a directory with their inodes, if all are known and rest on its `Fs`.
    pub(crate) fn all_of(&self, dir: &Inode) -> Option<Vec<(&[u8], InodeKey)>> {
        if !self.has_all(dir) || !dir.may(cap::FILE_SHARED) {
            return None;
        }
        let mut all = Vec::new();
        for (name, dentry) in self.of_dir(dir.key()) {
            match dentry.inode {
                _ if !dentry.is_under_right(dir) => return None,
                Some(key) => all.push((name, key)),
                None => {}
            }
        }
        Some(all)
    }

    /// The answer for a name without asking an MDS.
    pub(crate) fn lookup(&self, now: Now, dir: &Inode, name: &[u8]) -> Name {
        let shared = dir.may(cap::FILE_SHARED);
        match self.get(dir.key(), name) {
            Some(dentry) if dentry.is_believed(now, dir, shared) => {
                dentry.inode.map_or(Name::Absent, Name::Inode)
            }
            None if shared && self.is_absent_unless_named(dir, name) => Name::Absent,
            _ => Name::Unknown,
        }
    }
}

impl Dentry {
    fn is_believed(&self, now: Now, dir: &Inode, shared: bool) -> bool {
        shared && self.is_under_right(dir) || now.mono < self.lease_until || believes_old_names()
    }

    /// True if the name was learnt under the present grant of `Fs`.
    fn is_under_right(&self, dir: &Inode) -> bool {
        self.shared_gen == dir.names().shared_gen()
    }
}

/// A planted fault: names are believed for ever.
fn believes_old_names() -> bool {
    stdx::mutants::is_active("client_believes_old_names")
}
