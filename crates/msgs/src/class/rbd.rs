//! Class `rbd`: block-device images. Numbers are Ceph's.

use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

/// Features of an image (`RBD_FEATURE_*`).
pub mod feature {
    /// It can be a clone.
    pub const LAYERING: u64 = 1 << 0;
    /// Its data are striped in a way of their own.
    pub const STRIPING: u64 = 1 << 1;
    /// One client writes at a time.
    pub const EXCLUSIVE_LOCK: u64 = 1 << 2;
    /// It is recorded which objects exist.
    pub const OBJECT_MAP: u64 = 1 << 3;
    /// It is recorded too which of them have changed since the last snapshot.
    pub const FAST_DIFF: u64 = 1 << 4;
    /// Snapshots are flattened with it.
    pub const DEEP_FLATTEN: u64 = 1 << 5;
    /// Writes go through a journal.
    pub const JOURNALING: u64 = 1 << 6;
    /// Data are in another pool than the header.
    pub const DATA_POOL: u64 = 1 << 7;
    /// It has operation features.
    pub const OPERATIONS: u64 = 1 << 8;
    /// It is being moved.
    pub const MIGRATING: u64 = 1 << 9;
    /// It is a copy of an image of another cluster.
    pub const NON_PRIMARY: u64 = 1 << 10;
    /// A client's cache on its own disk has newer data.
    pub const DIRTY_CACHE: u64 = 1 << 11;
}

/// Kinds of snapshots.
pub mod snap_kind {
    /// A snapshot that a user made.
    pub const USER: u32 = 0;
    /// Part of a snapshot of a group.
    pub const GROUP: u32 = 1;
    /// A removed snapshot that has clones.
    pub const TRASH: u32 = 2;
    /// A snapshot by which an image is mirrored.
    pub const MIRROR: u32 = 3;
}

/// A snapshot's namespace: why there is the snapshot (`cls::rbd::SnapshotNamespace`).
///
/// What follows the kind depends on it, and grows with the version: it is kept as the client gave it.
#[derive(Clone, Debug, Default)]
pub struct SnapNamespace {
    version: u8,
    /// One of [`snap_kind`].
    pub kind: u32,
    /// What the kind needs.
    pub body: Vec<u8>,
}

impl SnapNamespace {
    /// A namespace of the first version.
    pub fn new(kind: u32, body: Vec<u8>) -> Self {
        Self { version: 1, kind, body }
    }
}

impl PartialEq for SnapNamespace {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.body) == (other.kind, &other.body)
    }
}

impl Eq for SnapNamespace {}

impl Encode for SnapNamespace {
    fn encode(&self, w: &mut Writer) {
        w.versioned(self.version.max(1), 1, |w| {
            w.put(&self.kind);
            w.raw(&self.body);
        });
    }
}

impl Decode for SnapNamespace {
    const MIN_SIZE: usize = 10;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(1, |version, r| Ok(Self { version, kind: r.get()?, body: r.rest().to_vec() }))
    }
}

impl Sample for SnapNamespace {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self::new(snap_kind::USER, Sample::sample(rng))
    }
}
