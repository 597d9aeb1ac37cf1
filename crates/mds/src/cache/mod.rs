//! What the rank holds in memory of the name space: inodes, and of each directory those entries that were needed. A
//! directory is never required to be whole. Changed entries stay until they are written back; everything else may
//! leave when the limit is reached, except what clients have caps on.
//!
//! Invariant: an inode is here exactly as long as its primary entry is (or it is a base inode).

mod apply;
mod dir;
mod inode;
mod lookup;
mod trim;

pub use dir::{Commit, Dir, Slot, SlotLink};
pub use inode::{DataWork, Inode, Restriction};
pub use trim::Stats;

use crate::types::{Lsn, Place, Segment};
use fsfmt::{BackPointer, DirFrag, Ino, InodeKey};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::FastMap;

/// A change of the inode index that is not written back.
#[derive(Clone, PartialEq, Debug)]
pub struct IndexChange {
    /// The new entry, or none.
    pub value: Option<BackPointer>,
    /// The oldest event that is lost without it.
    pub since: Segment,
    /// The event.
    pub lsn: Lsn,
}

/// The cache.
#[derive(Default)]
pub struct Cache {
    /// Inodes.
    pub inodes: FastMap<InodeKey, Inode>,
    /// Cached entries by fragment of a directory.
    pub dirs: BTreeMap<DirFrag, Dir>,
    /// Fragments with entries that are not written back.
    pub dirty_dirs: BTreeSet<DirFrag>,
    /// Base inodes that are not written back, and since when.
    pub dirty_bases: BTreeMap<Ino, Segment>,
    /// Changes of the inode index that are not written back.
    pub index: BTreeMap<Ino, IndexChange>,
    /// Counts runs: the age of entries.
    pub tick: u64,
    /// Entries in the order in which they came or were last passed over by trimming.
    queue: VecDeque<(u64, Place)>,
    /// Entries of all directories.
    entries: usize,
    /// Entries that have come since the last trimming.
    fresh: usize,
}
