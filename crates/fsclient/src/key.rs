//! The keys of the client's tables.

use crate::api::Ino;
use maps::SnapId;
use std::fmt;

/// The number of an operation in progress.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct OpId(u64);

impl OpId {
    pub(crate) fn new(number: u64) -> Self {
        Self(number)
    }
}

/// An inode as of a snapshot, or its head (Ceph's `vinodeno_t`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct InodeKey {
    ino: Ino,
    snap: SnapId,
}

impl InodeKey {
    /// The root of the file system.
    pub(crate) const ROOT: Self = Self::head(1);

    /// The inode itself, not a state of it in a snapshot.
    pub(crate) const fn head(ino: Ino) -> Self {
        Self::new(ino, SnapId::HEAD)
    }

    /// The directory of snapshots of a directory.
    pub(crate) const fn snapdir(ino: Ino) -> Self {
        Self::new(ino, SnapId::DIR)
    }

    /// The inode as of a snapshot.
    pub(crate) const fn new(ino: Ino, snap: SnapId) -> Self {
        Self { ino, snap }
    }

    /// The inode number.
    pub(crate) fn ino(self) -> Ino {
        self.ino
    }

    /// The snapshot, or [`SnapId::HEAD`], or [`SnapId::DIR`].
    pub(crate) fn snap(self) -> SnapId {
        self.snap
    }

    /// True for the inode itself.
    pub(crate) fn is_head(self) -> bool {
        self.snap == SnapId::HEAD
    }

    /// True for a directory of snapshots.
    pub(crate) fn is_snapdir(self) -> bool {
        self.snap == SnapId::DIR
    }
}

impl fmt::Debug for InodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.snap {
            SnapId::HEAD => write!(f, "{:x}", self.ino),
            SnapId::DIR => write!(f, "{:x}@snaps", self.ino),
            snap => write!(f, "{:x}@{snap}", self.ino),
        }
    }
}
