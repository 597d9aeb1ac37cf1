//! An inode as it is stored: embedded in its primary dentry, or alone for the roots.

use crate::sparse::sparse_structs;
use crate::{
    BackPointer, ClientRange, Counted, DirFrag, DirStat, FragTree, Ino, InodeKey, NestStat, OldInode,
    PackedData, Pin, Quota, Realm, mode,
};
use maps::{FileLayout, MdsRank, SnapId};
use std::collections::BTreeMap;
use stdx::{Rare, Shared, SortedMap};
use wire::Utime;

sparse_structs! {
    /// An inode. Caches hold a million of them: what few inodes have is behind a pointer, and the layout
    /// that nearly all have in common is shared.
    pub struct InodeData[v 2/1, u64] {
        /// Number.
        pub ino: Ino,
        /// Increases with each change.
        pub version: u64,
        /// Type and permission bits.
        pub mode: u32,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Count of names; for directories 1 (or 0 when removed), clients derive the number that they show.
        pub nlink: u32,
        /// Bytes.
        pub size: u64,
        /// Time of the last change of the content.
        pub mtime: Utime,
        /// Time of the last change of anything.
        pub ctime: Utime,
        /// Time of the last read.
        pub atime: Utime,
        /// Time of creation.
        pub btime: Utime,
        /// Device number of a device node.
        pub rdev: u32,
        /// Placement of a file's data; of a directory: the layout of new files below it, if set.
        pub layout: Shared<FileLayout>,
        /// Extended attributes.
        pub xattrs: Rare<BTreeMap<Vec<u8>, Vec<u8>>>,
        /// Increases with each change of `xattrs`.
        pub xattr_version: u64,
        /// Target of a symbolic link.
        pub symlink: Rare<Vec<u8>>,
        /// Counts truncations; starts at 1.
        pub truncate_seq: u32,
        /// The size that the last truncation set; `u64::MAX` before the first.
        pub truncate_size: u64,
        /// A truncation is under way: objects up to this size must be cut down to `truncate_size`. 0 if none
        /// is.
        pub truncate_from: u64,
        /// Counts explicit settings of mtime and atime.
        pub time_warp_seq: u32,
        /// Counts changes, for NFS.
        pub change_attr: u64,
        /// The end of what writers may have written, as far as they have not told: a purge removes objects up
        /// to it.
        pub max_size_ever: u64,
        /// Clients that may write, or hold a file lock.
        pub ranges: SortedMap<u64, ClientRange>,
        /// Statistics of a directory's own entries.
        pub dirstat: Rare<DirStat>,
        /// Recursive statistics.
        pub rstat: NestStat,
        /// The part of `rstat` that the parent's `rstat` already contains.
        pub accounted: NestStat,
        /// Limits.
        pub quota: Rare<Quota>,
        /// The fragments of a directory; filled by splitting directories.
        pub fragtree: Rare<FragTree>,
        /// The first snapshot that the inode can be in: the one after the newest at its making.
        pub first: SnapId,
        /// Earlier states by the last snapshot that each is in, of an inode with a realm of its own or with
        /// several names. Those of others are copies of their entries.
        pub old_inodes: Rare<BTreeMap<SnapId, OldInode>>,
        /// The realm that this inode is the root of: a directory with snapshots, or what came from another
        /// realm, removed files included.
        pub own_realm: Option<Box<Realm>>,
        /// The realm of an inode that does not belong to its directory's: [`Realm::GLOBAL`] for a file that
        /// has, or had, several names. 0 for all others.
        pub realm: Ino,
        /// The user's wish for the rank that serves a directory; filled by several ranks.
        pub pin: Rare<Pin>,
        /// The rank that has the authority over it; filled by several ranks.
        pub auth_rank: Option<MdsRank>,
        /// Counts moves of the authority; filled by several ranks.
        pub migrate_seq: u32,
        /// The directory that a stray was unlinked from, for people who search.
        pub stray_from: Ino,
        /// Places of further hard links, the newest ones: one of them follows the first name when that goes.
        pub links: Rare<Vec<BackPointer>>,
        /// A small file's data outside its data objects. Only in the journal: no stored entry has any.
        pub packed: Option<Box<PackedData>>,
        /// Fragments of a directory are, or are about to be, shards: names come and go in other ranks, so
        /// that clients may rely on no listing of it.
        pub is_sharded: bool,
    }
}

impl InodeData {
    /// The root of a shard that has just become one.
    pub fn new_shard(root: Ino) -> Self {
        Self { ino: root, version: 1, mode: mode::DIR, nlink: 1, ..Self::default() }
    }

    /// What the directory above counts of this root of a subtree, once it counts all.
    pub fn to_count(&self) -> Counted {
        let dirstat = if self.ino.is_shard() { self.dirstat.clone() } else { Rare::default() };
        Counted { dirstat, ..Counted::from(&self.rstat) }
    }

    /// What it counts of this root if that is noted nowhere else.
    pub fn counted_so_far(&self) -> Counted {
        Counted::from(&self.accounted)
    }

    /// The key of this state as the one up to and including `snap`, the snapshot of its primary entry.
    pub fn key_at(&self, snap: SnapId) -> InodeKey {
        InodeKey { ino: self.ino, snap }
    }

    /// The live inode's key.
    pub fn key(&self) -> InodeKey {
        self.ino.head()
    }

    /// The fragment of this directory that holds names of a hash.
    pub fn frag_of(&self, hash: u32) -> DirFrag {
        DirFrag { ino: self.ino, frag: self.fragtree.frag_of(hash) }
    }

    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.mode & mode::FORMAT == mode::DIR
    }

    /// True for a regular file.
    pub fn is_file(&self) -> bool {
        self.mode & mode::FORMAT == mode::FILE
    }

    /// True for a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.mode & mode::FORMAT == mode::SYMLINK
    }

    /// The type as `readdir` shows it (DT_DIR …).
    pub fn dtype(&self) -> u8 {
        ((self.mode & mode::FORMAT) >> 12) as u8
    }

    /// The end of the bytes that the writer with the longest range may write.
    pub fn max_size(&self) -> u64 {
        self.ranges.values().map(|r| r.max_size).max().unwrap_or(0)
    }
}
