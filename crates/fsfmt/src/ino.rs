//! Inode numbers, keys of inodes, and the bits of an inode's mode.

use maps::SnapId;
use std::fmt;
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

stdx::ids! {
    /// The number of an inode.
    pub struct Ino(u64) = "{:x}";
}

impl Encode for Ino {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
    }
}

impl Decode for Ino {
    const MIN_SIZE: usize = 8;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.get().map(Self)
    }
}

impl Sample for Ino {
    fn sample(rng: &mut Rng) -> Self {
        Self(Sample::sample(rng))
    }
}

impl Ino {
    /// The root of the file system.
    pub const ROOT: Self = Self(1);

    /// The private directory of a rank, parent of its stray directory.
    pub fn mdsdir(rank: u32) -> Self {
        Self(0x100 + u64::from(rank))
    }

    /// The stray directory of a rank: inodes that have lost their primary name.
    pub fn stray(rank: u32) -> Self {
        Self(0x600 + 10 * u64::from(rank))
    }

    /// True for the stray directory of a rank.
    pub fn is_stray(self) -> bool {
        (0x600..0x1000).contains(&self.0) && self == Self::stray(self.owner())
    }

    /// The rank that a directory of a rank's own belongs to; that of all else that is stored alone is 0.
    pub fn owner(self) -> u32 {
        match self.0 {
            ino @ 0x100..0x600 => (ino - 0x100) as u32,
            ino @ 0x600..0x1000 => ((ino - 0x600) / 10) as u32,
            _ => 0,
        }
    }

    /// The rank whose numbers have this one: it has made the inode.
    pub fn maker(self) -> u32 {
        u32::try_from(self.0 / Self::FIRST_USER).unwrap_or(u32::MAX).saturating_sub(1)
    }

    /// The first number of users' files and directories, and the size of each rank's range.
    pub const FIRST_USER: u64 = 1 << 40;

    /// The live inode of this number.
    pub fn head(self) -> InodeKey {
        InodeKey { ino: self, snap: SnapId::HEAD }
    }

    /// True if it is stored alone rather than in a dentry.
    pub fn is_base(self) -> bool {
        self.0 < Self::FIRST_USER
    }
}

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

wire::wire_structs! {
    /// Consecutive inode numbers.
    #[derive(Copy, Eq)]
    pub struct InoRange[v 1/1] {
        /// The first number.
        pub first: Ino,
        /// Count of numbers.
        pub count: u64,
    }
}

/// Bits of the mode.
#[allow(missing_docs)]
pub mod mode {
    pub const FORMAT: u32 = 0o170_000;
    pub const DIR: u32 = 0o040_000;
    pub const FILE: u32 = 0o100_000;
    pub const SYMLINK: u32 = 0o120_000;
    pub const SET_GID: u32 = 0o2000;
    pub const SET_UID: u32 = 0o4000;
}
