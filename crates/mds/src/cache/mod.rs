//! What the rank holds in memory of the name space: inodes, and of each directory those entries that were needed. A
//! directory is never required to be whole. Changed entries stay until they are written back; everything else may
//! leave when the limit is reached, except what clients have caps on.
//!
//! Invariant: an inode is here exactly as long as its primary entry is (or it is a base inode).

mod apply;
mod dir;
mod holders;
mod inode;
mod lookup;
mod trim;

pub use dir::{Commit, Dir, Slot, SlotLink};
pub use holders::Holders;
pub use inode::{DataWork, Inode, Restriction};
pub use trim::Stats;

use crate::authority::SubtreeMap;
use crate::types::{Lsn, Place, Segment};
use fsfmt::{BackPointer, DirFrag, Ino, InodeKey};
use maps::MdsRank;
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
pub struct Cache {
    /// The authority over what is cached, and over the rest.
    pub subtrees: SubtreeMap,
    /// An inode with a snapshot realm of its own has been here.
    pub may_have_realms: bool,
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

impl Cache {
    /// The empty cache of a rank.
    pub fn new(rank: MdsRank) -> Self {
        Self {
            subtrees: SubtreeMap::new(rank),
            may_have_realms: false,
            inodes: FastMap::default(),
            dirs: BTreeMap::new(),
            dirty_dirs: BTreeSet::new(),
            dirty_bases: BTreeMap::new(),
            index: BTreeMap::new(),
            tick: 0,
            queue: VecDeque::new(),
            entries: 0,
            fresh: 0,
        }
    }
}
