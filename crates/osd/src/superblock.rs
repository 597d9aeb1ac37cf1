//! The superblock: owner of the store, and the maps in it.

use maps::Epoch;
use store::{ObjectKey, TxnOp};
use wire::{Uuid, Writer, wire_structs};

/// The private pool of the superblock and the maps.
pub const SUPER_POOL: i64 = -1;
pub(crate) const SUPERBLOCK: &str = "superblock";
pub(crate) const SUPERBLOCK_KEY: &[u8] = b"superblock";

wire_structs! {
    /// Owner of the store, and the maps in it.
    #[derive(Eq)]
    pub struct Superblock[v 2/1] {
        /// Id of the cluster.
        pub fsid: Uuid,
        /// Number of the OSD.
        pub id: i32,
        /// Id of the store.
        pub uuid: Uuid,
        /// The oldest map stored; 0 for none.
        pub oldest: Epoch,
        /// The newest map that all PGs have processed; 0 for none.
        pub newest: Epoch,
        /// The newest map in which it was up.
        pub last_up: Epoch,
        /// The highest feature level that the cluster used while the OSD was in it; 0 if it knows none.
        pub feature_level: u32 = since 2,
    }
}

/// The object that holds a stored map.
pub fn map_key(epoch: Epoch) -> ObjectKey {
    ObjectKey::private(SUPER_POOL, &format!("osdmap.{:08x}", epoch.0))
}

/// The step that stores the superblock.
pub fn superblock_op(superblock: &Superblock) -> TxnOp {
    let entry = (SUPERBLOCK_KEY.to_vec(), Writer::encode(superblock));
    TxnOp::OmapSet(ObjectKey::private(SUPER_POOL, SUPERBLOCK), vec![entry])
}
