//! Input and reply of SCRUBLS: the objects that scrub found inconsistent.

use maps::{EVersion, HObject, ObjectLocator, ReqId, SnapId};
use stdx::Bufs;
use wire::{Encode, Utime, Writer, wire_structs};

/// Errors of one copy (`err_t`).
pub mod shard_error {
    /// It does not exist.
    pub const MISSING: u64 = 1 << 1;
    /// Nothing of it can be read.
    pub const STAT: u64 = 1 << 2;
    /// Its data or omap can't be read.
    pub const READ: u64 = 1 << 3;
    /// Its data is not that of the copy chosen as right.
    pub const DATA_DIGEST: u64 = 1 << 9;
    /// The omap's digest differs.
    pub const OMAP_DIGEST: u64 = 1 << 10;
    /// The size differs.
    pub const SIZE: u64 = 1 << 11;
    /// It has no versions.
    pub const INFO_MISSING: u64 = 1 << 14;
    /// Its versions can't be decoded.
    pub const INFO_CORRUPTED: u64 = 1 << 15;
    /// Those that only a deep scrub finds.
    pub const DEEP: u64 = READ | DATA_DIGEST | OMAP_DIGEST;
}

/// Differences between copies of an object (`obj_err_t`).
pub mod object_error {
    /// In versions.
    pub const INFO: u64 = 1 << 1;
    /// In data.
    pub const DATA_DIGEST: u64 = 1 << 4;
    /// In omap.
    pub const OMAP_DIGEST: u64 = 1 << 5;
    /// In size.
    pub const SIZE: u64 = 1 << 6;
    /// In the value of an xattr.
    pub const ATTR_VALUE: u64 = 1 << 7;
    /// In what xattrs there are.
    pub const ATTR_NAME: u64 = 1 << 8;
    /// Those that only a deep scrub finds.
    pub const DEEP: u64 = DATA_DIGEST | OMAP_DIGEST;
}

/// Errors of an object's set of clones (`inconsistent_snapset_t`).
pub mod snapset_error {
    /// A clone of the set does not exist.
    pub const CLONE_MISSING: u64 = 1 << 2;
    /// There are clones and no head.
    pub const HEADLESS: u64 = 1 << 5;
    /// A clone's size is not that of the set.
    pub const SIZE: u64 = 1 << 6;
    /// There is a clone that is not in the set.
    pub const EXTRA_CLONES: u64 = 1 << 9;
}

wire_structs! {
    /// The input of SCRUBLS.
    pub struct ScrubLs[v 1/1] {
        /// Of the PG's membership, as an earlier answer gave it; 0 for any.
        pub interval: u32,
        /// Sets of clones rather than objects.
        pub snapsets: u32,
        /// Start after this object's name …
        pub name: Vec<u8>,
        /// … namespace …
        pub namespace: Vec<u8>,
        /// … and state.
        pub snap: SnapId,
        /// The most.
        pub max: u64,
    }

    /// The reply of SCRUBLS.
    pub struct ScrubLsReply[v 1/1] {
        /// The PG's membership began at this epoch.
        pub interval: u32,
        /// Encoded [`InconsistentObject`]s or [`InconsistentSnapset`]s.
        pub values: Vec<Vec<u8>>,
    }

    /// A state of an object.
    #[derive(Eq)]
    pub struct ObjectId[v 1/1] {
        /// Name.
        pub name: Vec<u8>,
        /// Namespace.
        pub namespace: Vec<u8>,
        /// Locator key.
        pub locator: Vec<u8>,
        /// The head or a clone.
        pub snap: SnapId,
    }

    /// Place of a copy.
    #[derive(Eq)]
    pub struct ShardId[v 1/1] {
        /// The OSD.
        pub osd: i32,
        /// Of an erasure-coded object; -1 for none.
        pub shard: i8,
    }

    /// Clones that differ from the head's list.
    pub struct InconsistentSnapset[v 2/1] {
        /// Bits of [`snapset_error`].
        pub errors: u64,
        /// The head.
        pub object: ObjectId,
        /// Clones that the set does not know.
        pub clones: Vec<SnapId>,
        /// Clones that are not there.
        pub missing: Vec<SnapId>,
        /// The encoded set; empty if it is not given.
        pub snapset: Vec<u8>,
    }
}

/// One copy of an inconsistent object.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ShardInfo {
    /// Bits of [`shard_error`].
    pub errors: u64,
    /// The primary's.
    pub primary: bool,
    /// Xattrs; that of the versions as Ceph encodes it.
    pub attrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes.
    pub size: u64,
    /// Checksum of omap.
    pub omap_digest: Option<u32>,
    /// Checksum of data.
    pub data_digest: Option<u32>,
    /// Its versions are believed.
    pub selected: bool,
}

impl Encode for ShardInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(3, 3, |w| {
            w.put(&(self.errors, self.primary));
            if self.errors & shard_error::MISSING != 0 {
                return;
            }
            w.put(&self.attrs);
            w.put(&self.size);
            for digest in [self.omap_digest, self.data_digest] {
                w.put(&(digest.is_some(), digest.unwrap_or_default()));
            }
            w.put(&self.selected);
        });
    }
}

/// An object whose copies differ or are damaged.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct InconsistentObject {
    /// Bits of [`object_error`].
    pub errors: u64,
    /// The object.
    pub object: ObjectId,
    /// Its version for clients.
    pub version: u64,
    /// The copies.
    pub shards: Vec<(ShardId, ShardInfo)>,
}

impl Encode for InconsistentObject {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.put(&self.errors);
            w.put(&self.object);
            w.put(&self.version);
            w.put(&self.shards);
            w.put(&self.shards.iter().fold(0u64, |all, (_, shard)| all | shard.errors));
        });
    }
}

/// The part of an object's versions that Ceph's tools decode (`object_info_t`).
#[derive(Clone, Debug, Default)]
pub struct ObjectInfo {
    /// The object.
    pub object: HObject,
    /// Of its last change.
    pub version: EVersion,
    /// Its version for clients.
    pub user_version: u64,
    /// Bytes.
    pub size: u64,
    /// Of its last change.
    pub mtime: Utime,
    /// Number and size of its last truncation.
    pub truncation: (u64, u64),
    /// It was deleted and is here for its clones' sake.
    pub whiteout: bool,
}

impl Encode for ObjectInfo {
    fn encode(&self, w: &mut Writer) {
        let o = &self.object;
        w.versioned(17, 8, |w| {
            w.put(o);
            w.put(&ObjectLocator { pool: o.pool, key: o.key.clone(), ns: o.ns.clone(), hash: -1 });
            w.put(&0u32);
            w.put(&(self.version, EVersion::default()));
            w.put(&ReqId::default());
            w.put(&(self.size, self.mtime));
            match o.snap {
                SnapId::HEAD => w.put(&ReqId::default()),
                _ => w.put(&0u32),
            }
            w.put(&self.truncation);
            // Neither lost nor with watchers of the old kind.
            w.put(&(false, 0u32));
            w.put(&EVersion::new(maps::Epoch(0), self.user_version));
            w.put(&(false, 0u32));
            w.put(&(if self.whiteout { 2u32 } else { 0 }));
            w.put(&self.mtime);
            // Digests, expected sizes, hints.
            w.put(&(u32::MAX, u32::MAX));
            w.put(&(0u64, 0u64));
            w.put(&0u32);
        });
    }
}

/// The input of a SCRUBLS.
pub fn read(data: &Bufs) -> Option<ScrubLs> {
    super::input::read(data).ok()
}
