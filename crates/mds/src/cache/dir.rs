//! The cached part of a directory fragment.

use crate::types::{LastChange, Origin, Segment};
use fsfmt::{DentryKey, Ino, InodeKey};
use maps::SnapId;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Target of a cached entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotLink {
    /// There is no such name.
    Null,
    /// The inode lives here.
    Primary(InodeKey),
    /// A further hard link.
    Remote {
        /// Number of the inode.
        ino: Ino,
        /// Directory-entry type (`DT_*`) of the inode.
        dtype: u8,
    },
}

impl SlotLink {
    /// The inode that it leads to.
    pub fn inode(self) -> Option<InodeKey> {
        match self {
            Self::Null => None,
            Self::Primary(inode) => Some(inode),
            Self::Remote { ino, .. } => Some(ino.head()),
        }
    }
}

/// Target of a cached entry, as far as it does not follow from its key: an inode that lives here is that of
/// the key's snapshot.
#[derive(Clone, Copy, Debug)]
enum Target {
    Null,
    Primary(Ino),
    Remote { ino: Ino, dtype: u8 },
}

impl From<SlotLink> for Target {
    fn from(link: SlotLink) -> Self {
        match link {
            SlotLink::Null => Self::Null,
            SlotLink::Primary(inode) => Self::Primary(inode.ino),
            SlotLink::Remote { ino, dtype } => Self::Remote { ino, dtype },
        }
    }
}

/// A cached entry.
#[derive(Clone, Debug)]
pub struct Slot {
    target: Target,
    first: SnapId,
    change: LastChange,
    used: Cell<u64>,
}

impl Slot {
    /// An entry that is used in run `tick`.
    pub fn new(link: SlotLink, first: SnapId, change: LastChange, tick: u64) -> Self {
        Self { target: link.into(), first, change, used: Cell::new(tick) }
    }

    /// Target of the entry, whose key this is.
    pub fn link(&self, key: &DentryKey) -> SlotLink {
        match self.target {
            Target::Null => SlotLink::Null,
            Target::Primary(ino) => SlotLink::Primary(InodeKey { ino, snap: key.snap }),
            Target::Remote { ino, dtype } => SlotLink::Remote { ino, dtype },
        }
    }

    /// True if there is no such name.
    pub fn is_null(&self) -> bool {
        matches!(self.target, Target::Null)
    }

    /// True if the inode lives here.
    pub fn is_primary(&self) -> bool {
        matches!(self.target, Target::Primary(_))
    }

    /// The first snapshot that the entry is in.
    pub fn first(&self) -> SnapId {
        self.first
    }

    /// The events that changed it last.
    pub fn change(&self) -> LastChange {
        self.change
    }

    /// Gives it another target; by an event, or because it was loaded.
    pub fn set(&mut self, link: SlotLink, first: SnapId, origin: Option<Origin>) {
        (self.target, self.first) = (link.into(), first);
        origin.into_iter().for_each(|origin| self.change.note(origin));
    }

    /// The run that used it last.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    /// Marks it as used in run `tick`.
    pub fn touch(&self, tick: u64) {
        self.used.set(tick);
    }
}

/// A write-back in flight.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The entries that it contains.
    pub keys: BTreeSet<DentryKey>,
    /// Oldest event that needs it.
    pub since: Segment,
    /// Operations in flight.
    pub parts: usize,
}

/// The cached part of a directory fragment.
#[derive(Default, Debug)]
pub struct Dir {
    /// Entries, names known to be absent included.
    pub slots: BTreeMap<DentryKey, Slot>,
    /// True if `slots` has every existing entry.
    pub complete: bool,
    /// Of the existing entries up to this one, `slots` has every one.
    pub known_to: Option<DentryKey>,
    /// Entries that are not written back.
    pub dirty: BTreeSet<DentryKey>,
    /// Oldest event that needs their write-back.
    pub dirty_since: Segment,
    /// The last events that changed an entry.
    pub change: LastChange,
    /// The write-back in flight.
    pub commit: Option<Commit>,
    /// Number of write-backs since the directory was loaded.
    pub version: u64,
}

impl Dir {
    /// The cached entries after an omap key, up to `last` or to the end.
    pub fn page<'a>(
        &'a self,
        after: &[u8],
        last: Option<&'a DentryKey>,
    ) -> impl Iterator<Item = (&'a DentryKey, &'a Slot)> {
        let start = DentryKey::from_omap(after).map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.slots.range((start, Bound::Unbounded));
        behind.take_while(move |(key, _)| last.is_none_or(|last| *key <= last))
    }

    /// True if `slots` has the entry, if it exists.
    pub fn knows(&self, key: &DentryKey) -> bool {
        self.complete || self.known_to.as_ref().is_some_and(|known| key <= known)
    }

    /// Notes that all stored entries after an omap key up to `last`, or to the end, were taken in.
    pub fn note_page(&mut self, after: &[u8], last: Option<&DentryKey>) {
        let follows = || DentryKey::from_omap(after).is_some_and(|after| self.knows(&after));
        if !after.is_empty() && !follows() {
            return;
        }
        match last {
            None => self.complete = true,
            Some(last) if !self.knows(last) => self.known_to = Some(last.clone()),
            Some(_) => {}
        }
    }

    /// Notes that an existing entry is not in `slots` any more.
    pub fn note_gap(&mut self, key: &DentryKey) {
        self.complete = false;
        self.known_to.take_if(|known| key <= known);
    }

    /// True if the fragment may leave the cache.
    pub fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.dirty.is_empty() && self.commit.is_none()
    }

    /// True if an entry is not safely stored yet.
    pub fn is_dirty(&self, key: &DentryKey) -> bool {
        self.dirty.contains(key) || self.commit.as_ref().is_some_and(|c| c.keys.contains(key))
    }

    /// Oldest event that needs its write-back.
    pub fn since(&self) -> Option<Segment> {
        let dirty = (!self.dirty.is_empty()).then_some(self.dirty_since);
        let commit = self.commit.as_ref().map(|c| c.since);
        dirty.into_iter().chain(commit).min()
    }
}
