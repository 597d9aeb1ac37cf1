//! Changes of fragments that administrators ask for.

use crate::cache::Cache;
use fsfmt::{DirFrag, Frag, Refragment};

/// A change that an administrator has asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// One split.
    Split(Refragment),
    /// All parts of a fragment, and parts of these, are joined, one join after the other.
    Join(DirFrag),
}

impl Asked {
    pub fn is_join(&self) -> bool {
        matches!(self, Self::Join(_))
    }

    /// The next change; `None` if there is nothing left to do, or if the directory is not cached.
    pub fn next(self, cache: &Cache) -> Option<Refragment> {
        let dir = match self {
            Self::Split(change) => return Some(change),
            Self::Join(dir) => dir,
        };
        let tree = &cache.inodes.get(&dir.inode())?.data.fragtree;
        let is_within = |frag: Frag| frag.bits() >= dir.frag.bits() && dir.frag.contains(frag.value());
        let (frag, bits) = tree.joinable().find(|(frag, _)| is_within(*frag))?;
        Refragment::join(DirFrag { frag, ..dir }, bits)
    }
}
