//! The cached part of the name space: inodes, and of each directory the entries that were needed. A directory
//! need not be cached whole. Changed entries stay until they are written back. Everything else may be evicted
//! when the limit is reached, except inodes on which clients hold caps.
//!
//! Invariant: an inode is here exactly as long as its primary entry is (or it is a base inode).

mod apply;
mod borders;
mod dir;
mod dirty;
mod holders;
mod inode;
mod lookup;
mod queue;
mod refragment;
mod refragments;
mod replicas;
mod replicate;
mod size;
mod snap_table;
mod snaps;
mod subtree;
mod trim;
mod unstored;

pub use borders::{Borders, decode_borders};
pub use dir::{Commit, Dir, Slot, SlotLink};
pub use holders::Holders;
pub use inode::{DataWork, Inode, Revocation, Work};
pub use refragments::Refragments;
pub use replicas::{Kept, Replicas};
pub use snap_table::Snaps;
pub use trim::{Keep, Stats};
pub use unstored::Unstored;

use crate::authority::SubtreeMap;
use crate::cap::Moved;
use crate::dirty::DirtyIndex;
use crate::locks::Locks;
use crate::types::{LastChange, Lsn};
use fsfmt::{BackPointer, DirFrag, Ino, InodeKey};
use maps::{FileLayout, MdsRank};
use queue::Queue;
use size::Size;
use std::collections::{BTreeMap, BTreeSet};
use stdx::{FastMap, Shared};

/// A change of the inode index that is not written back.
#[derive(Clone, PartialEq, Debug)]
pub struct IndexChange {
    /// The new entry, or none.
    pub value: Option<BackPointer>,
    /// The event that changed it.
    pub lsn: Lsn,
}

/// The cached part of the name space.
pub struct Cache {
    /// The authority over all fragments.
    pub subtrees: SubtreeMap,
    /// Replicas of directories that many read.
    pub replicas: Replicas,
    /// What directories of this rank count of others' subtrees.
    pub borders: Borders,
    /// All snapshots.
    pub snaps: Snaps,
    /// Changes of fragments of which objects are left.
    pub refragments: Refragments,
    /// The file locks of clients.
    pub locks: Locks,
    /// True if an inode with a snapshot realm of its own was ever cached.
    pub may_have_realms: bool,
    /// True if an inode with a quota was ever cached.
    pub may_have_quotas: bool,
    /// True if a directory was ever cached from which those below it have pins.
    pub may_have_ephemeral_pins: bool,
    /// True if a directory with a layout was ever cached.
    pub may_have_layouts: bool,
    /// The last change after which new files may get another layout somewhere.
    pub layouts_changed: LastChange,
    /// Inodes by number and snapshot. Boxed: a table that grows moves what is in it.
    pub inodes: FastMap<InodeKey, Box<Inode>>,
    /// Files that have, or had, several names: all snapshots count for them ([`fsfmt::Realm::GLOBAL`]).
    pub global: BTreeSet<InodeKey>,
    /// Inodes that have come from another rank, and of which clients have not been told yet: what they hold
    /// of them does not change before.
    pub unannounced: BTreeMap<InodeKey, Vec<Moved>>,
    /// Files whose data are in the journal only.
    pub unstored: Unstored,
    /// The layout that came last: inodes with the same one share it.
    last_layout: Shared<FileLayout>,
    /// Cached entries by fragment of a directory.
    pub dirs: BTreeMap<DirFrag, Dir>,
    /// Fragments with entries that are not written back.
    dirty_dirs: DirtyIndex<DirFrag>,
    /// Base inodes that are not written back.
    dirty_bases: DirtyIndex<Ino>,
    /// Changes of the inode index that are not written back.
    pub index: BTreeMap<Ino, IndexChange>,
    dirty_index: DirtyIndex<Ino>,
    /// Entries of all fragments that are not written back.
    dirty_entries: usize,
    /// Number of runs so far: the clock of entries' ages.
    pub tick: u64,
    queue: Queue,
    size: Size,
    /// Entries of all directories.
    entries: usize,
    /// Entries added since the last trimming.
    fresh: usize,
}

impl Cache {
    /// The empty cache of a rank.
    pub fn new(rank: MdsRank) -> Self {
        Self {
            subtrees: SubtreeMap::new(rank),
            replicas: Replicas::default(),
            borders: Borders::default(),
            snaps: Snaps::default(),
            refragments: Refragments::default(),
            locks: Locks::default(),
            may_have_realms: false,
            may_have_ephemeral_pins: false,
            may_have_quotas: false,
            may_have_layouts: false,
            layouts_changed: LastChange::default(),
            inodes: FastMap::default(),
            global: BTreeSet::new(),
            unannounced: BTreeMap::new(),
            unstored: Unstored::default(),
            last_layout: Shared::default(),
            dirs: BTreeMap::new(),
            dirty_dirs: DirtyIndex::default(),
            dirty_bases: DirtyIndex::default(),
            index: BTreeMap::new(),
            dirty_index: DirtyIndex::default(),
            dirty_entries: 0,
            tick: 0,
            queue: Queue::default(),
            size: Size::default(),
            entries: 0,
            fresh: 0,
        }
    }
}
