//! Inodes that may be due for work, looked at in turn.

use fsfmt::InodeKey;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Inodes in a ring.
#[derive(Default)]
pub(super) struct Line {
    members: BTreeSet<InodeKey>,
    /// The last one that was looked at.
    looked_at: Option<InodeKey>,
}

impl Line {
    pub fn insert(&mut self, ino: InodeKey) {
        self.members.insert(ino);
    }

    pub fn extend<'a>(&mut self, all: impl IntoIterator<Item = &'a InodeKey>) {
        self.members.extend(all);
    }

    pub fn remove(&mut self, ino: InodeKey) {
        self.members.remove(&ino);
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// The inode behind the one that was looked at last, or the first.
    pub fn next(&mut self) -> Option<InodeKey> {
        let behind = self.looked_at.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.members.range((behind, Bound::Unbounded)).next();
        self.looked_at = next.or_else(|| self.members.first()).copied();
        self.looked_at
    }
}
