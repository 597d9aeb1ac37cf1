//! Keys by which inodes and directory fragments are known, in memory and in what is stored.

use crate::{DentryKey, Frag, Ino};
use maps::SnapId;
use std::fmt;
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

/// An inode as of a time: the live one, or a copy that snapshots keep.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeKey {
    /// Its number.
    pub ino: Ino,
    /// [`SnapId::HEAD`], or the last snapshot that this copy is in.
    pub snap: SnapId,
}

impl InodeKey {
    /// True for the live inode.
    pub fn is_head(self) -> bool {
        self.snap == SnapId::HEAD
    }

    /// True if it is stored alone rather than in a dentry.
    pub fn is_base(self) -> bool {
        self.ino.is_base()
    }
}

impl fmt::Display for InodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_head() { write!(f, "{}", self.ino) } else { write!(f, "{}@{}", self.ino, self.snap) }
    }
}

impl fmt::Debug for InodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Encode for InodeKey {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.ino);
        w.put(&(!self.is_head()).then_some(self.snap));
    }
}

impl Decode for InodeKey {
    const MIN_SIZE: usize = 9;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { ino: r.get()?, snap: r.get::<Option<SnapId>>()?.unwrap_or(SnapId::HEAD) })
    }
}

impl Sample for InodeKey {
    fn sample(rng: &mut Rng) -> Self {
        let snap = if rng.chance(1, 4) { SnapId(rng.below(1000)) } else { SnapId::HEAD };
        Self { ino: Sample::sample(rng), snap }
    }
}

/// A fragment of a directory. Entries of all snapshots are in the same fragment as the live ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DirFrag {
    /// The directory.
    pub ino: Ino,
    /// Which part of it.
    pub frag: Frag,
}

impl DirFrag {
    /// All fragments that a directory can have, as a range of keys.
    pub fn all_of(ino: Ino) -> std::ops::RangeInclusive<Self> {
        Self { ino, frag: Frag::WHOLE }..=Self { ino, frag: Frag::MAX }
    }

    /// The only fragment of a directory that is not split.
    pub fn whole(ino: Ino) -> Self {
        Self { ino, frag: Frag::WHOLE }
    }

    /// The directory's live inode.
    pub fn inode(self) -> InodeKey {
        self.ino.head()
    }

    /// True if it is where its directory keeps this name.
    pub fn contains(self, key: &DentryKey) -> bool {
        self.frag.contains(key.hash)
    }
}

impl fmt::Display for DirFrag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.frag == Frag::WHOLE {
            write!(f, "{}", self.ino)
        } else {
            write!(f, "{}.{}", self.ino, self.frag)
        }
    }
}

impl fmt::Debug for DirFrag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Encode for DirFrag {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.ino);
        w.put(&self.frag);
    }
}

impl Decode for DirFrag {
    const MIN_SIZE: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { ino: r.get()?, frag: r.get()? })
    }
}

impl Sample for DirFrag {
    fn sample(rng: &mut Rng) -> Self {
        Self { ino: Sample::sample(rng), frag: Sample::sample(rng) }
    }
}
