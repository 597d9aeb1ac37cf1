//! Splits of directory fragments that the journal has, and the move of cached entries to the parts.
//!
//! A fragment is split in four steps, so that a crash between any two leaves the directory whole:
//!
//! 1. An event says that the split begins. What had changed before it is written back once more; what changes
//!    after it is not, so that the stored fragment stays as it is.
//! 2. The stored entries are copied to the objects of the parts.
//! 3. An event gives the directory its new tree of fragments. What has changed since the first event is still
//!    marked, now in the parts, whose write-back makes the copy whole.
//! 4. The fragment's object is removed.
//!
//! The journal keeps the first event until the last step is done. So a replay that finds only the beginning
//! removes the objects of the parts, and one that finds both events removes the fragment's.

use super::{Cache, Dir, SlotLink};
use crate::types::{Origin, Segment};
use fsfmt::DirFrag;
use std::collections::BTreeMap;

/// A split that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Split {
    /// Bits that its parts have more.
    pub bits: u32,
    /// True if the parts have taken its place: its object is to be removed. Else those of the parts are,
    /// unless the split is under way.
    pub is_done: bool,
    /// The segment of the event with which it began.
    since: Segment,
    /// True if the write-back of what had changed before has begun.
    is_flushed: bool,
}

/// The splits that the journal still has to keep.
#[derive(Default, Debug)]
pub struct Splits(BTreeMap<DirFrag, Split>);

impl Splits {
    /// A split of which objects are left.
    pub fn first(&self) -> Option<(DirFrag, Split)> {
        self.0.iter().next().map(|(dir, split)| (*dir, *split))
    }

    /// The first segment that a split needs.
    pub(super) fn first_needed(&self) -> Option<Segment> {
        self.0.values().map(|split| split.since).min()
    }

    /// True if changes of a fragment are not to be written back: its entries are being copied.
    pub(super) fn is_copied(&self, dir: DirFrag) -> bool {
        self.0.get(&dir).is_some_and(|split| !split.is_done)
    }

    /// Notes that the write-back of what had changed before the split has begun.
    pub fn note_flush(&mut self, dir: DirFrag) {
        if let Some(split) = self.0.get_mut(&dir) {
            split.is_flushed = true;
        }
    }

    /// True if the write-back of what had changed before the split has begun.
    pub fn is_flushed(&self, dir: DirFrag) -> bool {
        self.0.get(&dir).is_some_and(|split| split.is_flushed)
    }

    /// No objects are left of the split.
    pub fn end(&mut self, dir: DirFrag) {
        self.0.remove(&dir);
    }

    /// Somebody else has ended the splits that began before `segment`.
    pub fn note_stored(&mut self, segment: Segment) {
        self.0.retain(|_, split| split.since >= segment);
    }
}

impl Cache {
    /// Applies an event about the split of a fragment; false if it is not one that this version makes.
    pub(super) fn refragment(&mut self, dir: DirFrag, bits: i8, is_done: bool, origin: Origin) -> bool {
        let Some(bits) = u32::try_from(bits).ok().filter(|bits| (1..=8).contains(bits)) else { return false };
        if !is_done {
            let split = Split { bits, is_done, since: origin.segment, is_flushed: false };
            self.splits.0.insert(dir, split);
            return true;
        }
        let fresh = Split { bits, is_done, since: origin.segment, is_flushed: true };
        let split = self.splits.0.entry(dir).or_insert(fresh);
        split.is_done = true;
        self.move_to_parts(dir, bits);
        true
    }

    /// Moves the cached entries of a fragment to its parts, with their marks.
    fn move_to_parts(&mut self, dir: DirFrag, bits: u32) {
        let Some(old) = self.dirs.remove(&dir) else { return };
        assert!(old.commit.is_none(), "the write-back of {dir} has ended before its entries are copied");
        self.dirty_dirs.remove(&dir);
        let Dir { slots, complete, dirty, dirty_since, change, .. } = old;
        let part = || Dir { complete, change, dirty_since, ..Dir::default() };
        let of = |hash| DirFrag { ino: dir.ino, frag: dir.frag.part_of(hash, bits) };
        let mut parts: BTreeMap<DirFrag, Dir> =
            dir.frag.parts(bits).map(|frag| (DirFrag { ino: dir.ino, frag }, part())).collect();
        for (key, slot) in slots {
            let to = of(key.hash);
            if let SlotLink::Primary(inode) = slot.link(&key)
                && let Some(inode) = self.inodes.get_mut(&inode)
                && let Some((at, name)) = &mut inode.place
                && (*at == dir && *name == key)
            {
                *at = to;
            }
            self.queue.push(to, key.hash, slot.used());
            parts.entry(to).or_insert_with(part).slots.insert(key, slot);
        }
        if stdx::mutants::is_active("mds_forgets_what_changed_during_a_split") {
            self.dirty_entries -= dirty.len();
        } else {
            for key in dirty {
                let to = of(key.hash);
                parts.entry(to).or_insert_with(part).dirty.insert(key);
            }
        }
        for (to, d) in parts {
            if !d.dirty.is_empty() {
                self.dirty_dirs.set(to, dirty_since);
            }
            if d.complete || !d.is_idle() {
                self.dirs.insert(to, d);
            }
        }
    }

    /// True if a fragment is one of those that its directory, where it is cached, has at present.
    pub fn is_leaf(&self, dir: DirFrag) -> bool {
        self.inodes.get(&dir.inode()).is_none_or(|inode| inode.data.frag_of(dir.frag.value()) == dir)
    }
}
