//! Inodes, directories and dentries in replies.

use maps::{LegacyFileLayout, SnapId};
use std::collections::{BTreeMap, BTreeSet};
use wire::{Timespec, wire_structs};

wire_structs! {
    /// The cap that comes with an inode.
    #[derive(Copy, Eq)]
    pub struct InodeStatCap[plain] {
        /// Cap bits that the client now has.
        pub caps: u32,
        /// Cap bits that the MDS thinks it wants.
        pub wanted: u32,
        /// Number of the cap; 0 for none.
        pub cap_id: u64,
        /// Counts messages about the cap.
        pub seq: u32,
        /// Counts migrations.
        pub mseq: u32,
        /// Inode of the snapshot realm.
        pub realm: u64,
        /// 1: this MDS is the inode's authority.
        pub flags: u8,
    }

    /// A fragment that is split further.
    #[derive(Copy, Eq)]
    pub struct FragTreeSplit[plain] {
        /// The fragment.
        pub frag: u32,
        /// Into 2^bits.
        pub bits: u32,
    }

    /// Hash function of a directory's entries.
    #[derive(Copy, Eq)]
    pub struct DirLayout[plain] {
        /// 2: rjenkins.
        pub hash: u8,
        /// Unused.
        pub unused1: u8,
        /// Unused.
        pub unused2: u16,
        /// Unused.
        pub unused3: u32,
    }

    /// Limits on a directory's recursive size; 0 for none.
    #[derive(Copy, Eq)]
    pub struct QuotaInfo[v 1/1] {
        /// Bytes.
        pub max_bytes: i64,
        /// Files and directories.
        pub max_files: i64,
    }

    /// An inode in a reply.
    pub struct InodeStat[v 6/1] {
        /// Inode number.
        pub ino: u64,
        /// Snapshot, or the head.
        pub snapid: SnapId,
        /// Of device files.
        pub rdev: u32,
        /// Of the inode; clients ignore a reply older than what they have.
        pub version: u64,
        /// Of the xattrs.
        pub xattr_version: u64,
        /// The cap given with it.
        pub cap: InodeStatCap,
        /// Of the file's data.
        pub layout: LegacyFileLayout,
        /// Time of change.
        pub ctime: Timespec,
        /// Time of modification.
        pub mtime: Timespec,
        /// Time of access.
        pub atime: Timespec,
        /// Counts times that were set back.
        pub time_warp_seq: u32,
        /// Bytes.
        pub size: u64,
        /// The client may write up to here.
        pub max_size: u64,
        /// Size of the last truncation; all ones for none.
        pub truncate_size: u64,
        /// Counts truncations.
        pub truncate_seq: u32,
        /// Type and permissions.
        pub mode: u32,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Links.
        pub nlink: u32,
        /// Of a directory.
        pub nfiles: u64,
        /// Of a directory.
        pub nsubdirs: u64,
        /// Of the tree below.
        pub rbytes: u64,
        /// Of the tree below.
        pub rfiles: u64,
        /// Of the tree below.
        pub rsubdirs: u64,
        /// Of the tree below.
        pub rctime: Timespec,
        /// Splits of the directory.
        pub fragtree: Vec<FragTreeSplit>,
        /// Target.
        pub symlink: Vec<u8>,
        /// Of a directory.
        pub dir_layout: DirLayout,
        /// Encoded map of names to values; empty if the client has the cap for it and its version.
        pub xattrs: Vec<u8>,
        /// [`super::INLINE_NONE`] for a file without inline data.
        pub inline_version: u64,
        /// Inline data.
        pub inline_data: Vec<u8>,
        /// Limits.
        pub quota: QuotaInfo,
        /// Namespace of the data in its pool.
        pub pool_ns: String,
        /// Time of birth.
        pub btime: Timespec,
        /// Counts changes.
        pub change_attr: u64,
        /// Rank that the directory is pinned to, -1 for none.
        pub dir_pin: i32 = since 2,
        /// Time of its snapshot.
        pub snap_btime: Timespec = since 3,
        /// Snapshots in the tree below.
        pub rsnaps: u64 = since 4,
        /// Of its snapshot.
        pub snap_metadata: BTreeMap<String, String> = since 5,
        /// True if it is encrypted by the client.
        pub fscrypt: bool = since 6,
    }

    /// A directory fragment in a reply.
    pub struct DirStat[v 1/1] {
        /// The fragment.
        pub frag: u32,
        /// Rank of its authority, -1 for that of its parent.
        pub auth: i32,
        /// Ranks that have replicas.
        pub dist: BTreeSet<i32>,
    }

    /// A lease on a dentry.
    pub struct LeaseStat[v 2/1] {
        /// 1 or 2: valid; or [`LeaseStat::PRIMARY_LINK`].
        pub mask: u16,
        /// Milliseconds; 0 for none.
        pub duration_ms: u32,
        /// Counts leases on the dentry.
        pub seq: u32,
        /// Encrypted long name.
        pub alternate_name: Vec<u8> = since 2,
    }
}

impl LeaseStat {
    /// The bit of the mask that says that the name is the primary one of its inode.
    pub const PRIMARY_LINK: u16 = 4;
}
