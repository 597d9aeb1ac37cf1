//! Snapshots as they are stored: realms, states of inodes that snapshots keep, and the table of all
//! snapshots.

use crate::sparse::sparse_structs;
use crate::{DirStat, Ino, NestStat, PackedData, Quota, TxnId};
use maps::{FileLayout, SnapId};
use std::collections::{BTreeMap, BTreeSet};
use stdx::{Rare, Shared};
use wire::Utime;

sparse_structs! {
    /// A snapshot of a directory, as its creator described it.
    pub struct SnapInfo[v 1/1, u8] {
        /// The directory.
        pub ino: Ino,
        /// Time of creation.
        pub stamp: Utime,
        /// Its name below `.snap`.
        pub name: Vec<u8>,
        /// Metadata that the creator gave.
        pub metadata: BTreeMap<String, String>,
    }

    /// The snapshot realm of a directory that has, or had, snapshots of its own. Filled by snapshots.
    pub struct Realm[v 1/1, u16] {
        /// The newest snapshot that changed the realm.
        pub seq: SnapId,
        /// The newest snapshot when the realm was made.
        pub created: SnapId,
        /// The newest snapshot when the directory came to its present parent realm.
        pub parent_since: SnapId,
        /// Snapshots of this directory.
        pub snaps: BTreeMap<SnapId, SnapInfo>,
        /// Snapshots of former parent realms that still cover the directory.
        pub past_parent_snaps: BTreeSet<SnapId>,
        /// Time of the last creation or removal of a snapshot.
        pub changed_at: Utime,
        /// Counts creations and removals.
        pub change_attr: u64,
        /// True for a subvolume, in which no directory below the root gets snapshots.
        pub is_subvolume: bool,
    }

    /// The state of an inode that snapshots keep, up to the one that is its key. Filled by snapshots.
    pub struct OldInode[v 1/1, u32] {
        /// The first snapshot that it is in.
        pub first: SnapId,
        /// As in the inode.
        pub version: u64,
        /// As in the inode.
        pub mode: u32,
        /// As in the inode.
        pub uid: u32,
        /// As in the inode.
        pub gid: u32,
        /// As in the inode.
        pub nlink: u32,
        /// As in the inode.
        pub size: u64,
        /// As in the inode.
        pub mtime: Utime,
        /// As in the inode.
        pub ctime: Utime,
        /// As in the inode.
        pub atime: Utime,
        /// As in the inode.
        pub btime: Utime,
        /// As in the inode.
        pub layout: Shared<FileLayout>,
        /// As in the inode.
        pub xattrs: Rare<BTreeMap<Vec<u8>, Vec<u8>>>,
        /// As in the inode.
        pub xattr_version: u64,
        /// As in the inode.
        pub truncate_seq: u32,
        /// As in the inode.
        pub truncate_size: u64,
        /// As in the inode.
        pub time_warp_seq: u32,
        /// As in the inode.
        pub change_attr: u64,
        /// As in the inode.
        pub dirstat: Rare<DirStat>,
        /// As in the inode.
        pub rstat: NestStat,
        /// As in the inode: what the parent's state of that time contains, for statistics that come later.
        pub accounted: NestStat,
        /// As in the inode.
        pub quota: Rare<Quota>,
        /// As in the inode.
        pub packed: Option<Box<PackedData>>,
    }

    /// The head of the table of snapshots: the entry `head` of its omap.
    pub struct SnapTable[v 1/1, u8] {
        /// Counts changes of the table.
        pub version: u64,
        /// The last snapshot id given out.
        pub last_created: SnapId,
        /// The last id that a removal, or a move between realms, took.
        pub last_removed: SnapId,
    }

    /// An entry of the table of snapshots, under the snapshot's id in 16 hex digits. Filled by snapshots.
    pub struct SnapRecord[v 1/1, u8] {
        /// Its description.
        pub info: SnapInfo,
        /// One of [`snap_state`].
        pub state: u8,
        /// The transaction that creates or removes it, unless it is live.
        pub txn: TxnId,
        /// The id that its removal took, since realms count removals as well; 0 before.
        pub removed_as: SnapId,
    }
}

impl Realm {
    /// The realm of files with several names: all snapshots cover it. It is no inode; Ceph's clients know the
    /// number.
    pub const GLOBAL: Ino = Ino(3);
}

/// The omap key of a snapshot in the table of snapshots.
pub fn snap_key(snap: SnapId) -> Vec<u8> {
    format!("{:016x}", snap.0).into_bytes()
}

/// States of a [`SnapRecord`].
pub mod snap_state {
    /// In use.
    pub const LIVE: u8 = 0;
    /// Prepared, not committed.
    pub const CREATING: u8 = 1;
    /// Its removal is prepared, not committed.
    pub const REMOVING: u8 = 2;
    /// Removed; its clones are being trimmed.
    pub const TRIMMING: u8 = 3;
}
