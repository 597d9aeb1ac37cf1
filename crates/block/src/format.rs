//! The format of images: names of objects, numbers, and the structures of class `rbd`'s methods. All are
//! Ceph's (format 2 of `rbd`).

use crate::call::Place;
use maps::SnapId;
pub use msgs::class::rbd::SnapNamespace;
pub(crate) use msgs::class::rbd::snap_kind;
use wire::{Utime, wire_structs};

/// Features of an image (`RBD_FEATURE_*`).
pub mod feature {
    pub use msgs::class::rbd::feature::*;

    /// Names of the features, by number.
    pub const NAMES: [&str; 12] = [
        "layering",
        "striping",
        "exclusive-lock",
        "object-map",
        "fast-diff",
        "deep-flatten",
        "journaling",
        "data-pool",
        "operations",
        "migrating",
        "non-primary",
        "dirty-cache",
    ];

    /// What new images have, as those of `rbd create`.
    pub const DEFAULT: u64 = LAYERING | EXCLUSIVE_LOCK | OBJECT_MAP | FAST_DIFF | DEEP_FLATTEN;
    /// What images may have that are opened to be written.
    pub const WRITABLE: u64 = DEFAULT | STRIPING | DATA_POOL | OPERATIONS;
    /// What images may have that are only read.
    pub const READABLE: u64 = WRITABLE | JOURNALING | NON_PRIMARY;

    /// The names of a set of features.
    pub fn names(features: u64) -> Vec<String> {
        let name =
            |i: u32| NAMES.get(i as usize).map_or_else(|| format!("bit {i}"), |name| (*name).to_owned());
        (0..64).filter(|i| features & 1 << i != 0).map(name).collect()
    }

    /// The feature of a name.
    pub fn parse(name: &str) -> Option<u64> {
        NAMES.iter().position(|known| *known == name).map(|i| 1 << i)
    }
}

/// Flags of an image: the object map is not to be believed.
pub(crate) const FLAG_OBJECT_MAP_INVALID: u64 = 1;
/// Flags of an image: what the object map says of changes is not to be believed.
pub(crate) const FLAG_FAST_DIFF_INVALID: u64 = 2;
/// Operation feature: the image is a clone.
pub(crate) const OP_CLONE_CHILD: u64 = 1 << 1;

/// The object with names and ids of a namespace's images.
pub(crate) const DIRECTORY: &[u8] = b"rbd_directory";
/// Where methods take a snapshot: the image itself.
pub(crate) const NOSNAP: u64 = SnapId::HEAD.0;

/// The object with the id of an image.
pub(crate) fn id_object(name: &str) -> Vec<u8> {
    format!("rbd_id.{name}").into_bytes()
}

/// The header object of an image.
pub(crate) fn header_object(id: &str) -> Vec<u8> {
    format!("rbd_header.{id}").into_bytes()
}

/// The object map of an image, or of one of its snapshots.
pub(crate) fn map_object(id: &str, snap: SnapId) -> Vec<u8> {
    match snap {
        SnapId::HEAD => format!("rbd_object_map.{id}").into_bytes(),
        SnapId(snap) => format!("rbd_object_map.{id}.{snap:016x}").into_bytes(),
    }
}

wire_structs! {
    /// What clients learn of a snapshot (`cls::rbd::SnapshotInfo`).
    pub struct SnapInfo[v 1/1] {
        /// Its id.
        pub id: u64,
        /// Why there is the snapshot.
        pub namespace: SnapNamespace,
        /// Its name.
        pub name: String,
        /// Size of the image in it, in bytes.
        pub image_size: u64,
        /// Its time.
        pub timestamp: Utime,
        /// Clones of it.
        pub child_count: u32,
    }

    /// A snapshot that is a parent (`cls::rbd::ParentImageSpec`).
    #[derive(Eq)]
    pub struct ParentSpec[v 1/1] {
        /// Pool.
        pub pool: i64,
        /// Namespace.
        pub namespace: String,
        /// Image, by id.
        pub image: String,
        /// Snapshot.
        pub snap: u64,
    }

    /// A clone (`cls::rbd::ChildImageSpec`).
    #[derive(Eq, PartialOrd, Ord)]
    pub struct ChildSpec[v 2/1] {
        /// Pool.
        pub pool: i64,
        /// Image, by id.
        pub image: String,
        /// Namespace.
        pub namespace: String = since 2,
    }
}

impl ParentSpec {
    /// True if it names a snapshot.
    pub(crate) fn exists(&self) -> bool {
        self.pool >= 0 && !self.image.is_empty() && self.snap != NOSNAP
    }

    /// Its pool and namespace.
    pub(crate) fn place(&self) -> Place {
        Place { pool: self.pool, namespace: self.namespace.clone().into_bytes() }
    }
}
