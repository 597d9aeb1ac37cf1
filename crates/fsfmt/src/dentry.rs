//! Directory entries and the header of a directory fragment.

use crate::sparse::sparse_structs;
use crate::{Ancestor, DirStat, Ino, InodeData, NestStat};
use maps::SnapId;
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Utime, Writer};

/// The target of a name.
#[derive(Clone, PartialEq, Debug)]
pub enum Link {
    /// The inode itself is here.
    Primary(Box<InodeData>),
    /// A further hard link: the inode index has the inode's place.
    Remote {
        /// Its number.
        ino: Ino,
        /// Its type, DT_REG and so on.
        dtype: u8,
    },
}

impl Link {
    const PRIMARY: u8 = 1;
    const REMOTE: u8 = 2;

    /// The inode's number.
    pub fn ino(&self) -> Ino {
        match self {
            Self::Primary(inode) => inode.ino,
            Self::Remote { ino, .. } => *ino,
        }
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::Remote { ino: Ino(0), dtype: 0 }
    }
}

impl Encode for Link {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Primary(inode) => {
                w.put(&Self::PRIMARY);
                w.put(&**inode);
            }
            Self::Remote { ino, dtype } => {
                w.put(&Self::REMOTE);
                w.put(ino);
                w.put(dtype);
            }
        }
    }
}

impl Decode for Link {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match r.get::<u8>()? {
            Self::PRIMARY => Ok(Self::Primary(r.get()?)),
            Self::REMOTE => Ok(Self::Remote { ino: r.get()?, dtype: r.get()? }),
            other => Err(r.error(format!("link kind {other}"))),
        }
    }
}

impl Sample for Link {
    fn sample(rng: &mut Rng) -> Self {
        if rng.chance(1, 2) {
            Self::Primary(Sample::sample(rng))
        } else {
            Self::Remote { ino: Sample::sample(rng), dtype: Sample::sample(rng) }
        }
    }
}

sparse_structs! {
    /// A directory entry: the value under its key.
    pub struct Dentry[v 1/1, u8] {
        /// The first snapshot that it is in; 0 if it is older than all. Filled by snapshots.
        pub first: SnapId,
        /// Its target.
        pub link: Link,
    }

    /// The omap header of a directory fragment.
    pub struct Fnode[v 1/1, u16] {
        /// Increases with each commit.
        pub version: u64,
        /// The last journal event that this commit contains.
        pub event: u64,
        /// Statistics of the fragment's own entries; filled by directories on several ranks, as the next
        /// three are.
        pub stat: DirStat,
        /// The part of `stat` that the inode's `dirstat` already contains.
        pub accounted_stat: DirStat,
        /// Recursive statistics of the fragment.
        pub rstat: NestStat,
        /// The part of `rstat` that the inode's `rstat` already contains.
        pub accounted: NestStat,
        /// Entries of snapshots removed up to this one are purged; filled by snapshots.
        pub purged_to: SnapId,
        /// The directory's ancestors, nearest first; they may have moved since. Filled by scrub, which finds
        /// the place of a lost directory by it.
        pub trace: Vec<Ancestor>,
        /// `version` at the last scrub; filled by scrub.
        pub scrubbed_version: u64,
        /// Time of the last scrub; filled by scrub.
        pub scrubbed_at: Utime,
    }
}

impl Dentry {
    /// An entry that no snapshot separates from its making.
    pub fn head(link: Link) -> Self {
        Self { first: SnapId(0), link }
    }
}
