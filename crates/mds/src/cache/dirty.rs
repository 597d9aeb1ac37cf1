//! Changes of the name space that are not written back: the entries of each write-back, and the oldest
//! journal segment that is still needed.

use super::size::{extra_of_inode, extra_of_name};
use super::{Cache, Commit, Dir, IndexChange, Inode, SlotLink};
use crate::types::{Lsn, Origin, Place, Segment};
use fsfmt::{BackPointer, DentryKey, DirFrag, Ino, InodeKey, Realm};
use std::collections::BTreeSet;

/// The changed entries of a fragment, as its write-back begins.
pub struct DirtyEntries {
    /// Keys of the changed entries.
    pub keys: BTreeSet<DentryKey>,
    /// The last event that changed one.
    pub lsn: Lsn,
    /// Number of write-backs of the fragment.
    pub version: u64,
}

impl Cache {
    /// The oldest segment with a change that is not stored.
    pub fn first_needed(&self) -> Option<Segment> {
        let oldest = [self.dirty_dirs.oldest(), self.dirty_bases.oldest(), self.dirty_index.oldest()];
        oldest.into_iter().chain([self.refragments.first_needed()]).flatten().min()
    }

    /// Changed entries of all directories.
    pub fn dirty_entries(&self) -> usize {
        self.dirty_entries
    }

    /// Up to `most` fragments with changes of segments up to `last` and no write-back in flight, oldest
    /// first.
    pub fn due_dirs(&self, last: Segment, most: usize) -> Vec<DirFrag> {
        let due = |dir: &DirFrag| {
            let is_held_back = self.refragments.is_copied(*dir) || self.is_purged(*dir);
            self.dirs[dir].commit.is_none() && !is_held_back && self.has_storable(*dir)
        };
        self.dirty_dirs.up_to(last).filter(due).take(most).collect()
    }

    /// True if an entry may be written back. Those of files whose data are in the journal only may not.
    fn has_storable(&self, dir: DirFrag) -> bool {
        let d = &self.dirs[&dir];
        self.unstored.is_empty() || d.dirty.iter().any(|key| !self.is_unstored(d, key))
    }

    fn is_unstored(&self, d: &Dir, key: &DentryKey) -> bool {
        let link = d.slots.get(key).map(|slot| slot.link(key));
        matches!(link, Some(SlotLink::Primary(ino)) if self.unstored.contains(ino))
    }

    /// True if changed entries of a fragment are files whose data are in the journal only.
    pub fn has_unstored(&self, dir: DirFrag) -> bool {
        let d = self.dirs.get(&dir).filter(|_| !self.unstored.is_empty());
        d.is_some_and(|d| d.dirty.iter().any(|key| self.is_unstored(d, key)))
    }

    /// True if `bytes` of data of a file may be in the journal only.
    pub fn may_be_unstored(&self, inode: &Inode, bytes: u64) -> bool {
        let is_copied = inode.place.as_ref().is_none_or(|(dir, _)| self.refragments.is_copied(*dir));
        self.unstored.has_room(bytes, self.most_entries()) && !is_copied
    }

    /// Fragments of which all that keeps the segments up to `last` are files whose data are in the journal
    /// only, and those files.
    pub fn unstored_up_to(&self, last: Segment) -> Vec<(DirFrag, Vec<InodeKey>)> {
        let is_free = |dir: &DirFrag| {
            let d = &self.dirs[dir];
            d.commit.is_none() && !d.dirty.is_empty() && !self.has_storable(*dir)
        };
        let files = |dir: DirFrag| {
            let d = &self.dirs[&dir];
            let inodes = d.dirty.iter().filter_map(|key| d.slots.get(key)?.link(key).inode());
            (dir, inodes.collect())
        };
        self.dirty_dirs.up_to(last).filter(is_free).map(files).collect()
    }

    /// All changed entries of a fragment are in the journal again, in `segment` or later.
    pub fn note_journaled_again(&mut self, dir: DirFrag, segment: Segment) {
        let Some(d) = self.dirs.get_mut(&dir) else { return };
        d.dirty_since = segment;
        self.dirty_dirs.set(dir, segment);
    }

    /// True if the object of a fragment is being removed with its directory: a write-back would make it
    /// again.
    pub fn is_purged(&self, dir: DirFrag) -> bool {
        self.inodes.get(&dir.inode()).is_some_and(|inode| inode.is_being_purged())
    }

    /// Base inodes with changes of segments up to `last`.
    pub fn due_bases(&self, last: Segment) -> Vec<Ino> {
        self.dirty_bases.up_to(last).filter(|ino| self.inodes.contains_key(&ino.head())).collect()
    }

    /// Begins the write-back of a base inode; returns the segment of its oldest change.
    pub fn begin_base_commit(&mut self, ino: Ino) -> Segment {
        self.dirty_bases.remove(&ino).expect("a dirty base inode")
    }

    /// Changes of the inode index, those of segments up to `last` and all of the same index objects.
    pub fn due_index(&self, last: Segment) -> Vec<(Ino, &IndexChange)> {
        let span = fsfmt::names::INDEX_SPAN;
        let objects: BTreeSet<u64> = self.dirty_index.up_to(last).map(|ino| ino.0 / span).collect();
        let of = |object: u64| self.index.range(Ino(object * span)..Ino((object + 1).saturating_mul(span)));
        objects.into_iter().flat_map(of).map(|(ino, change)| (*ino, change)).collect()
    }

    /// Takes the changed entries of a fragment into a write-back, which ends with its last part.
    pub fn begin_commit(&mut self, dir: DirFrag) -> DirtyEntries {
        let d = self.dirs.get_mut(&dir).expect("a dirty fragment is cached");
        assert!(d.commit.is_none(), "one write-back of a fragment at a time");
        let keys = std::mem::take(&mut d.dirty);
        let d = &self.dirs[&dir];
        let (left, keys): (BTreeSet<_>, BTreeSet<_>) =
            keys.into_iter().partition(|key| self.is_unstored(d, key));
        self.dirty_entries -= keys.len();
        let d = self.dirs.get_mut(&dir).expect("just looked at");
        d.dirty = left;
        d.version += 1;
        d.commit = Some(Commit { keys: keys.clone(), since: d.dirty_since, parts: 0 });
        DirtyEntries { keys, lsn: d.change.lsn(), version: d.version }
    }

    /// Counts another operation of a fragment's write-back.
    pub fn add_commit_part(&mut self, dir: DirFrag) {
        let commit = self.dirs.get_mut(&dir).and_then(|d| d.commit.as_mut());
        commit.expect("a write-back that has begun").parts += 1;
    }

    /// Ends an operation of a fragment's write-back.
    pub fn end_commit_part(&mut self, dir: DirFrag) {
        let Some(d) = self.dirs.get_mut(&dir) else { return };
        let Some(commit) = &mut d.commit else { return };
        commit.parts -= 1;
        if commit.parts > 0 {
            return;
        }
        d.commit = None;
        if d.dirty.is_empty() {
            self.dirty_dirs.remove(&dir);
        } else {
            self.dirty_dirs.set(dir, d.dirty_since);
        }
        let is_gone = !self.inodes.contains_key(&dir.inode())
            && self.index.get(&dir.ino).is_some_and(|change| change.value.is_none());
        if is_gone {
            // It was removed during the write-back.
            self.drop_dir(dir);
        }
    }

    /// Notes that a change of the index entry by event `lsn` is stored.
    pub fn index_committed(&mut self, ino: Ino, lsn: Lsn) {
        if self.index.get(&ino).is_some_and(|change| change.lsn == lsn) {
            self.index.remove(&ino);
            self.dirty_index.remove(&ino);
        }
    }

    /// Somebody else has stored what events before `first` changed, which were in segments before `segment`.
    /// What a later event changed again stays dirty.
    pub fn note_stored(&mut self, segment: Segment, first: Lsn) {
        let dirs: Vec<DirFrag> = self.dirty_dirs.up_to(segment.saturating_sub(1)).collect();
        dirs.into_iter().for_each(|dir| self.note_entries_stored(dir, segment, first));
        let bases: Vec<Ino> = self.dirty_bases.up_to(segment.saturating_sub(1)).collect();
        for ino in bases {
            match self.inodes.get(&ino.head()) {
                Some(inode) if inode.change.lsn() >= first => self.dirty_bases.set(ino, segment),
                _ => drop(self.dirty_bases.remove(&ino)),
            }
        }
        let index: Vec<Ino> = self.dirty_index.up_to(segment.saturating_sub(1)).collect();
        for ino in index {
            match self.index.get(&ino) {
                Some(change) if change.lsn >= first => self.dirty_index.set(ino, segment),
                _ => {
                    self.index.remove(&ino);
                    self.dirty_index.remove(&ino);
                }
            }
        }
    }

    fn note_entries_stored(&mut self, dir: DirFrag, segment: Segment, first: Lsn) {
        let d = self.dirs.get_mut(&dir).expect("a dirty fragment is cached");
        assert!(d.commit.is_none(), "a standby writes nothing back");
        let before = d.dirty.len();
        let slots = &d.slots;
        d.dirty.retain(|key| slots.get(key).is_some_and(|slot| slot.change().lsn() >= first));
        d.dirty_since = segment;
        self.dirty_entries -= before - d.dirty.len();
        let is_clean = d.dirty.is_empty();
        match is_clean {
            true => drop(self.dirty_dirs.remove(&dir)),
            false => self.dirty_dirs.set(dir, segment),
        }
    }

    pub(super) fn mark_entry(&mut self, dir: DirFrag, key: DentryKey, origin: Origin) {
        let d = self.dirs.entry(dir).or_default();
        if d.dirty.is_empty() {
            d.dirty_since = origin.segment;
        }
        self.dirty_entries += usize::from(d.dirty.insert(key));
        d.change.note(origin);
        self.dirty_dirs.mark(dir, origin.segment);
    }

    pub(super) fn change_index(&mut self, ino: Ino, value: Option<BackPointer>, origin: Origin) {
        self.dirty_index.mark(ino, origin.segment);
        self.index.insert(ino, IndexChange { value, lsn: origin.lsn });
    }

    /// The inode index is to have the place of an inode.
    pub(super) fn index_place(&mut self, ino: Ino, (dir, key): &Place, version: u64, origin: Origin) {
        let (dir, name) = (dir.ino, key.name.to_vec());
        self.change_index(ino, Some(BackPointer { dir, name, version, ancestors: Vec::new() }), origin);
    }

    /// Stores the place of a cached inode in the inode index again: what is stored there is wrong.
    pub fn index_again(&mut self, inode: InodeKey, origin: Origin) {
        let known = self.inodes.get(&inode).and_then(|i| Some((i.place.clone()?, i.data.version)));
        if let Some((place, version)) = known {
            self.index_place(inode.ino, &place, version, origin);
        }
    }

    /// Asserts by a walk that sizes, queue and the indexes of dirty items are right.
    pub fn check_all(&self) {
        self.queue.check_all(self.entries, &self.dirs);
        let of_inodes: u64 = self.inodes.values().map(|inode| extra_of_inode(&inode.data)).sum();
        let of_names: u64 = self.dirs.values().flat_map(|d| d.slots.keys()).map(extra_of_name).sum();
        self.size.check(of_inodes + of_names);
        let packed = self.inodes.values().filter_map(|inode| inode.data.packed.as_ref());
        self.unstored.check(packed.map(|packed| packed.inline.len() as u64).sum());
        let live = self.inodes.iter().filter(|(ino, _)| ino.is_head());
        let global = live.filter(|(_, inode)| inode.data.realm == Realm::GLOBAL).map(|(ino, _)| *ino);
        let global: BTreeSet<InodeKey> = global.collect();
        assert_eq!(self.global, global, "files with several names");
        self.dirty_dirs.check();
        self.dirty_bases.check();
        self.dirty_index.check();
        let mut entries = 0;
        for dir in self.dirty_dirs.keys() {
            let d = self.dirs.get(dir).expect("a dirty fragment is cached");
            assert_eq!(self.dirty_dirs.since(dir), d.since(), "{dir} is indexed by its oldest change");
            entries += d.dirty.len();
        }
        assert_eq!(entries, self.dirty_entries, "changed entries are counted");
        assert!(self.dirty_index.keys().eq(self.index.keys()), "changes of the inode index are indexed");
    }
}
