//! What an image's header records about a snapshot (Ceph's `cls_rbd_snap`).

use crate::cls::object::{MethodStop, Object};
use crate::cls::stored;
use maps::SnapId;
use msgs::class::rbd::SnapNamespace;
pub(super) use msgs::class::rbd::snap_kind as kind;
use wire::{Errno, Reader, Utime, Writer, wire_structs};

/// Where a method takes a snapshot: the image itself.
pub(super) const NOSNAP: u64 = SnapId::HEAD.0;
/// Key of the image's size.
pub(super) const SIZE: &[u8] = b"size";
/// Key of the newest snapshot that the image ever had.
pub(super) const SNAP_SEQ: &[u8] = b"snap_seq";
/// Key of the most snapshots that the image may have.
pub(super) const SNAP_LIMIT: &[u8] = b"snap_limit";
/// Prefix of the snapshots' keys.
const SNAPSHOT: &str = "snapshot_";

/// May a snapshot be cloned, and may it be removed?
pub(super) mod protection {
    pub const UNPROTECTED: u8 = 0;
    /// A client makes sure that the snapshot has no clones.
    pub const UNPROTECTING: u8 = 1;
    pub const PROTECTED: u8 = 2;

    pub fn is_known(status: u8) -> bool {
        matches!(status, UNPROTECTED | UNPROTECTING | PROTECTED)
    }
}

/// The namespace of a removed snapshot (`TrashSnapshotNamespace`).
pub(super) fn trash(name: &[u8], kind: u32) -> SnapNamespace {
    SnapNamespace::new(kind::TRASH, Writer::encode(&(name.to_vec(), kind)))
}

/// True for a kind that is known, with a body of that kind.
pub(super) fn is_valid(namespace: &SnapNamespace) -> bool {
    let mut r = Reader::new(&namespace.body);
    match namespace.kind {
        kind::USER => true,
        kind::GROUP => r.get::<(i64, (Vec<u8>, Vec<u8>))>().is_ok(),
        kind::TRASH => r.get::<(Vec<u8>, u32)>().is_ok(),
        kind::MIRROR => r.get::<MirrorBody>().is_ok(),
        _ => false,
    }
}

wire_structs! {
    /// The body of the namespace of a mirrored snapshot (`MirrorSnapshotNamespace`); newer clients append to
    /// it.
    pub(super) struct MirrorBody[plain] {
        /// 0 and 1: the image is the primary one; 2 and 3: it is a copy.
        pub state: u8,
        pub complete: bool,
        pub peers: std::collections::BTreeSet<Vec<u8>>,
        pub primary_mirror_uuid: Vec<u8>,
        pub primary_snap: u64,
        pub last_copied_object: u64,
        pub snap_seqs: std::collections::BTreeMap<u64, u64>,
    }

    /// A snapshot.
    pub(super) struct Snap[v 8/8] {
        pub id: u64,
        pub name: Vec<u8>,
        pub image_size: u64,
        /// One of [`protection`].
        pub protection: u8,
        pub flags: u64,
        pub namespace: SnapNamespace,
        pub timestamp: Utime,
        /// Clones of it.
        pub child_count: u32,
        /// Bytes that it shares with the image's parent.
        pub parent_overlap: Option<u64>,
    }

    /// What clients learn of a snapshot (`cls::rbd::SnapshotInfo`).
    pub(super) struct SnapInfo[v 1/1] {
        pub id: u64,
        pub namespace: SnapNamespace,
        pub name: Vec<u8>,
        pub image_size: u64,
        pub timestamp: Utime,
        pub child_count: u32,
    }
}

/// A snapshot. ENOENT if there is none of this id.
pub(super) fn load(o: &mut Object<'_, '_>, id: u64) -> Result<Snap, MethodStop> {
    stored::load(o, &stored::snap_key(SNAPSHOT, id))
}

/// A snapshot, if there is one of this id.
pub(super) fn find(o: &mut Object<'_, '_>, id: u64) -> Result<Option<Snap>, MethodStop> {
    stored::find(o, &stored::snap_key(SNAPSHOT, id))
}

/// Stores a snapshot.
pub(super) fn save(o: &mut Object<'_, '_>, snap: &Snap) -> Result<(), MethodStop> {
    stored::save(o, &stored::snap_key(SNAPSHOT, snap.id), snap)
}

/// Removes a snapshot.
pub(super) fn remove(o: &mut Object<'_, '_>, id: u64) -> Result<(), MethodStop> {
    stored::remove(o, &stored::snap_key(SNAPSHOT, id))
}

/// All snapshots, oldest first.
pub(super) fn all(o: &mut Object<'_, '_>) -> Result<Vec<Snap>, MethodStop> {
    let stored = stored::list_all(o, SNAPSHOT.as_bytes())?;
    stored.iter().map(|(_, value)| stored::decode(value)).collect()
}

/// The ids of all snapshots, oldest first.
pub(super) fn ids(o: &mut Object<'_, '_>) -> Result<Vec<u64>, MethodStop> {
    let stored = stored::list_all(o, SNAPSHOT.as_bytes())?;
    let id = |name: &[u8]| u64::from_str_radix(std::str::from_utf8(name).ok()?, 16).ok();
    stored.iter().map(|(name, _)| id(name).ok_or(MethodStop::Fail(Errno::EIO))).collect()
}
