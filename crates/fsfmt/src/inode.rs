//! An inode as it is stored: embedded in its primary dentry, or alone for the roots.

use crate::{DirFrag, FragTree, InodeKey};
use maps::{FileLayout, SnapId};
use std::collections::BTreeMap;
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Utime, Writer};

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

    /// The private directory of a rank, parent of its stray directories.
    pub fn mdsdir(rank: u32) -> Self {
        Self(0x100 + u64::from(rank))
    }

    /// Where a rank keeps inodes that have lost their name.
    pub fn stray(rank: u32) -> Self {
        Self(0x600 + 10 * u64::from(rank))
    }

    /// The first number that files and directories of users get, and the size of each rank's range.
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

wire::wire_structs! {
    /// Recursive statistics of a subtree, the inode itself included.
    pub struct NestStat[v 1/1] {
        /// Bytes of all files.
        pub rbytes: u64,
        /// Files.
        pub rfiles: u64,
        /// Directories, itself included.
        pub rsubdirs: u64,
        /// Snapshots.
        pub rsnaps: u64,
        /// The latest ctime in it.
        pub rctime: Utime,
    }

    /// What a directory holds directly.
    pub struct DirStat[v 1/1] {
        /// Entries that are not directories.
        pub nfiles: u64,
        /// Entries that are.
        pub nsubdirs: u64,
        /// When an entry was last added or removed.
        pub mtime: Utime,
    }

    /// Limits of a subtree, 0 for none.
    pub struct Quota[v 1/1] {
        /// Bytes.
        pub max_bytes: u64,
        /// Files and directories.
        pub max_files: u64,
    }

    /// How far a client may write without asking.
    pub struct ClientRange[v 1/1] {
        /// Bytes 0 to here.
        pub max_size: u64,
        /// The newest snapshot that it knew.
        pub follows: u64,
    }

    /// Where an inode's primary dentry is: what the inode index of the metadata pool holds.
    pub struct BackPointer[v 1/1] {
        /// The directory.
        pub dir: Ino,
        /// The name in it.
        pub name: Vec<u8>,
        /// The inode's version when this was written; the higher one is right.
        pub version: u64,
    }

    /// An inode.
    pub struct InodeData[v 1/1] {
        /// Number.
        pub ino: Ino,
        /// Increases with each change.
        pub version: u64,
        /// The fragments of a directory.
        pub fragtree: FragTree,
        /// Type and permission bits.
        pub mode: u32,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Names that lead to it; for directories 1 (or 0 when removed), clients derive what they show.
        pub nlink: u32,
        /// Bytes.
        pub size: u64,
        /// Content changed.
        pub mtime: Utime,
        /// Anything changed.
        pub ctime: Utime,
        /// Read.
        pub atime: Utime,
        /// Made.
        pub btime: Utime,
        /// Device number of a device node.
        pub rdev: u32,
        /// Where the data is; for directories what new files get, where it is set.
        pub layout: FileLayout,
        /// Extended attributes.
        pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
        /// Increases with each change of them.
        pub xattr_version: u64,
        /// Target of a symbolic link.
        pub symlink: Vec<u8>,
        /// Counts truncations; 1 at first.
        pub truncate_seq: u32,
        /// The size of the last truncation.
        pub truncate_size: u64,
        /// Objects up to this size must still be removed down to `truncate_size`; 0 where none.
        pub truncate_from: u64,
        /// Counts explicit settings of mtime and atime.
        pub time_warp_seq: u32,
        /// Counts changes, for NFS.
        pub change_attr: u64,
        /// The largest size that any client was ever allowed to write up to: what a purge must remove.
        pub max_size_ever: u64,
        /// Writers and how far each may write.
        pub ranges: BTreeMap<u64, ClientRange>,
        /// What a directory holds directly.
        pub dirstat: DirStat,
        /// Recursive statistics.
        pub rstat: NestStat,
        /// The part of `rstat` that the parent's already contains.
        pub accounted: NestStat,
        /// Limits.
        pub quota: Quota,
        /// Snapshot realm that it belongs to.
        pub realm: Ino,
        /// Rank that has the authority over it.
        pub auth_rank: i32,
        /// Counts moves of the authority.
        pub migrate_seq: u32,
        /// The directory it was unlinked from, for people who search.
        pub stray_from: Ino,
    }
}

impl InodeData {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.mode & mode::FORMAT == mode::DIR
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.mode & mode::FORMAT == mode::FILE
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.mode & mode::FORMAT == mode::SYMLINK
    }

    /// The type as `readdir` shows it (DT_DIR …).
    pub fn dtype(&self) -> u8 {
        ((self.mode & mode::FORMAT) >> 12) as u8
    }

    /// The live inode's key.
    pub fn key(&self) -> InodeKey {
        self.ino.head()
    }

    /// The fragment of this directory that holds names of a hash.
    pub fn frag_of(&self, hash: u32) -> DirFrag {
        DirFrag { ino: self.ino, frag: self.fragtree.frag_of(hash) }
    }

    /// How far the most generous writer may write.
    pub fn max_size(&self) -> u64 {
        self.ranges.values().map(|r| r.max_size).max().unwrap_or(0)
    }
}
