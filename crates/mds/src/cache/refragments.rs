//! Splits of directory fragments that the journal has.
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

use crate::types::Segment;
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

    /// Notes the beginning of a split, by an event of `segment`.
    pub(super) fn begin(&mut self, dir: DirFrag, bits: u32, segment: Segment) {
        self.0.insert(dir, Split { bits, is_done: false, since: segment, is_flushed: false });
    }

    /// Notes that the parts have taken the place of a fragment, by an event of `segment`.
    pub(super) fn switch(&mut self, dir: DirFrag, bits: u32, segment: Segment) {
        let fresh = Split { bits, is_done: true, since: segment, is_flushed: true };
        self.0.entry(dir).or_insert(fresh).is_done = true;
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
