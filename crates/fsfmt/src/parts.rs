//! Parts of a stored inode.

use crate::Ino;
use crate::sparse::sparse_structs;
use maps::MdsRank;
use stdx::{ConstDefault, Rare};
use wire::Utime;

sparse_structs! {
    /// Recursive statistics of a subtree, the inode itself included.
    pub struct NestStat[v 1/1, u8] {
        /// Bytes of all files.
        pub rbytes: u64,
        /// Files.
        pub rfiles: u64,
        /// Directories, itself included.
        pub rsubdirs: u64,
        /// Snapshots; filled by snapshots.
        pub rsnaps: u64,
        /// The latest ctime in it.
        pub rctime: Utime,
    }

    /// Statistics of a directory's own entries.
    pub struct DirStat[v 1/1, u8] {
        /// Entries that are not directories.
        pub nfiles: u64,
        /// Entries that are directories.
        pub nsubdirs: u64,
        /// Time of the last addition or removal of an entry.
        pub mtime: Utime,
        /// Counts additions and removals; filled by fragments on several ranks.
        pub change_attr: u64,
    }

    /// What the directory above a subtree counts of it: the root's recursive statistics, and those of a
    /// shard's own entries. Of a shard it is what has changed since it became one: counts may have gone below
    /// 0, and wrap.
    pub struct Counted[v 2/1, u8] {
        /// As in [`NestStat`].
        pub rbytes: u64,
        /// As in [`NestStat`].
        pub rfiles: u64,
        /// As in [`NestStat`].
        pub rsubdirs: u64,
        /// As in [`NestStat`].
        pub rsnaps: u64,
        /// As in [`NestStat`].
        pub rctime: Utime,
        /// Statistics of a shard's entries; those of other directories count for nobody else.
        pub dirstat: Rare<DirStat>,
    }

    /// Limits of a subtree; 0 means none.
    pub struct Quota[v 1/1, u8] {
        /// Bytes.
        pub max_bytes: u64,
        /// Files and directories.
        pub max_files: u64,
    }

    /// A user's wish for the rank that serves a directory. Filled by `ceph.dir.pin` and its relatives.
    pub struct Pin[v 1/1, u8] {
        /// The rank that serves the subtree.
        pub rank: Option<MdsRank>,
        /// Children are distributed over all ranks.
        pub is_distributed: bool,
        /// Probability, in millionths, with which a subdirectory is pinned to a random rank.
        pub random_ppm: u32,
    }

    /// A small file's data outside its data objects: inline, as long as they are in the journal only
    /// (docs/adr/0020-small-files-in-the-journal.md). Packs are not used.
    pub struct PackedData[v 1/1, u8] {
        /// The data itself, if it is inline; else empty.
        pub inline: Vec<u8>,
        /// Pool of the pack.
        pub pool: i64,
        /// Number of the pack, an object that many files share.
        pub pack: u64,
        /// Byte offset in the pack.
        pub offset: u64,
        /// Length in bytes.
        pub length: u32,
        /// crc32c of the data.
        pub crc: u32,
        /// Counts replacements of the data.
        pub version: u64,
    }
}

wire::wire_structs! {
    /// A client's right to change a file or a directory without asking.
    pub struct ClientRange[v 1/1] {
        /// The end of the bytes that it may write; 0 if it only holds a file lock.
        pub max_size: u64,
        /// The newest snapshot that it knew; filled by snapshots.
        pub follows: u64,
        /// Capability bits that it may hold on a directory: to create and unlink in it without asking.
        pub bits: u32,
    }

    /// A pack: an object of the data pool that many small files share, `pack.N`. It is an entry of the
    /// rank's table of packs, under its number in 16 hex digits. Filled by packed small files.
    #[derive(Copy, Eq)]
    pub struct PackRecord[v 1/1] {
        /// Pool of the object.
        pub pool: i64,
        /// Bytes written to it.
        pub bytes: u64,
        /// Bytes of it that inodes still refer to.
        pub live_bytes: u64,
        /// Files in it.
        pub files: u32,
        /// True if nothing is added any more: what is live moves to other packs, then the object goes.
        pub is_closed: bool,
    }

    /// A step of a back trace: the directory and name of an inode's primary entry.
    pub struct Ancestor[v 1/1] {
        /// The directory.
        pub dir: Ino,
        /// The name in it.
        pub name: Vec<u8>,
        /// The inode's version when this was written; the higher one is right.
        pub version: u64,
    }

    /// The place of an inode's primary dentry: a value of the inode index of the metadata pool.
    pub struct BackPointer[v 1/1] {
        /// The directory.
        pub dir: Ino,
        /// The name in it.
        pub name: Vec<u8>,
        /// The inode's version when this was written; the higher one is right.
        pub version: u64,
        /// The directory's own ancestors, nearest first; they may have moved since. Filled by scrub and by
        /// discovery between ranks.
        pub ancestors: Vec<Ancestor>,
    }
}

impl DirStat {
    /// Entries of both kinds.
    pub fn entries(&self) -> u64 {
        self.nfiles.saturating_add(self.nsubdirs)
    }
}

impl From<&NestStat> for Counted {
    fn from(rstat: &NestStat) -> Self {
        let NestStat { rbytes, rfiles, rsubdirs, rsnaps, rctime } = *rstat;
        Self { rbytes, rfiles, rsubdirs, rsnaps, rctime, dirstat: Rare::default() }
    }
}

impl Counted {
    /// Recursive statistics.
    pub fn rstat(&self) -> NestStat {
        let Self { rbytes, rfiles, rsubdirs, rsnaps, rctime, .. } = *self;
        NestStat { rbytes, rfiles, rsubdirs, rsnaps, rctime }
    }
}

const NO_TIME: Utime = Utime { sec: 0, nsec: 0 };

impl ConstDefault for DirStat {
    fn const_default() -> &'static Self {
        const { &Self { nfiles: 0, nsubdirs: 0, mtime: NO_TIME, change_attr: 0 } }
    }
}

impl ConstDefault for Quota {
    fn const_default() -> &'static Self {
        const { &Self { max_bytes: 0, max_files: 0 } }
    }
}

impl ConstDefault for Pin {
    fn const_default() -> &'static Self {
        const { &Self { rank: None, is_distributed: false, random_ppm: 0 } }
    }
}

impl Quota {
    /// True if there is a limit.
    pub fn is_enabled(&self) -> bool {
        self.max_bytes > 0 || self.max_files > 0
    }
}
