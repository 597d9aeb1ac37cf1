//! The difference between two OSD maps, the unit of change: monitors agree on it, clients are sent it.

use crate::{Epoch, IntervalSet, OsdId, OsdXinfo, PgId, Pool};
use std::collections::{BTreeMap, BTreeSet};
use wire::{AddrVec, EntityAddr, Utime, Uuid};

/// `OSDMap::Incremental`. The default changes nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct OsdMapIncremental {
    /// Of the cluster.
    pub fsid: Uuid,
    /// Of the map that it leads to.
    pub epoch: Epoch,
    /// Time of the change.
    pub modified: Utime,
    /// -1 for no change.
    pub new_pool_max: i64,
    /// -1 for no change.
    pub new_flags: i32,
    /// An encoded OSD map that replaces all, or empty.
    pub fullmap: Vec<u8>,
    /// An encoded CRUSH map, or empty.
    pub crush: Vec<u8>,
    /// -1 for no change.
    pub new_max_osd: i32,
    /// New or changed.
    pub new_pools: BTreeMap<i64, Pool>,
    /// New or changed.
    pub new_pool_names: BTreeMap<i64, String>,
    /// Deleted.
    pub old_pools: BTreeSet<i64>,
    /// OSDs that came up, with the address for clients.
    pub new_up_client: BTreeMap<OsdId, AddrVec>,
    /// State bits to turn over; 0 stands for UP.
    pub new_state: BTreeMap<OsdId, u32>,
    /// In and out.
    pub new_weight: BTreeMap<OsdId, u32>,
    /// Empty to remove.
    pub new_pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// -1 to remove.
    pub new_primary_temp: BTreeMap<PgId, OsdId>,
    /// Changed.
    pub new_primary_affinity: BTreeMap<OsdId, u32>,
    /// New or changed.
    pub new_ec_profiles: BTreeMap<String, BTreeMap<String, String>>,
    /// Deleted.
    pub old_ec_profiles: Vec<String>,
    /// New or changed.
    pub new_pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Deleted.
    pub old_pg_upmap: BTreeSet<PgId>,
    /// New or changed.
    pub new_pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Deleted.
    pub old_pg_upmap_items: BTreeSet<PgId>,
    /// New or changed; only of Reef and later, never written.
    pub new_pg_upmap_primaries: BTreeMap<PgId, OsdId>,
    /// Deleted; only of Reef and later, never written.
    pub old_pg_upmap_primaries: BTreeSet<PgId>,
    /// Snapshots to remove, by pool.
    pub new_removed_snaps: BTreeMap<i64, IntervalSet>,
    /// Snapshots that are removed, by pool.
    pub new_purged_snaps: BTreeMap<i64, IntervalSet>,
    /// 0 for no change.
    pub new_last_up_change: Utime,
    /// 0 for no change.
    pub new_last_in_change: Utime,
    /// With `new_up_client`: heartbeat address on the cluster network.
    pub new_hb_back_up: BTreeMap<OsdId, AddrVec>,
    /// Changed.
    pub new_up_thru: BTreeMap<OsdId, Epoch>,
    /// (begin, end) of an interval that ended with an orderly shutdown.
    pub new_last_clean_interval: BTreeMap<OsdId, (Epoch, Epoch)>,
    /// Data declared lost.
    pub new_lost: BTreeMap<OsdId, Epoch>,
    /// Addresses to refuse, until when.
    pub new_blocklist: BTreeMap<EntityAddr, Utime>,
    /// Addresses no longer to refuse.
    pub old_blocklist: Vec<EntityAddr>,
    /// With `new_up_client`: address for other OSDs.
    pub new_up_cluster: BTreeMap<OsdId, AddrVec>,
    /// No longer in use.
    pub cluster_snapshot: String,
    /// Changed.
    pub new_uuid: BTreeMap<OsdId, Uuid>,
    /// Changed.
    pub new_xinfo: BTreeMap<OsdId, OsdXinfo>,
    /// With `new_up_client`: heartbeat address on the public network.
    pub new_hb_front_up: BTreeMap<OsdId, AddrVec>,
    /// Feature bits with which the full map is to be encoded for its checksum.
    pub encode_features: u64,
    /// -1 for no change.
    pub new_nearfull_ratio: f32,
    /// -1 for no change.
    pub new_full_ratio: f32,
    /// -1 for no change.
    pub new_backfillfull_ratio: f32,
    /// 0 for no change.
    pub new_require_min_compat_client: u8,
    /// 0xff for no change.
    pub new_require_osd_release: u8,
    /// 0 to remove.
    pub new_crush_node_flags: BTreeMap<i32, u32>,
    /// 0 to remove.
    pub new_device_class_flags: BTreeMap<i32, u32>,
    /// Checksum of the encoded full map that it leads to.
    pub full_crc: u32,
}

/// The feature bits of Pacific.
const PACIFIC: u64 = 0x3f01_cfbd_fffd_ffff;

impl Default for OsdMapIncremental {
    fn default() -> Self {
        Self {
            fsid: Uuid::default(),
            epoch: Epoch(0),
            modified: Utime::default(),
            new_pool_max: -1,
            new_flags: -1,
            fullmap: Vec::new(),
            crush: Vec::new(),
            new_max_osd: -1,
            new_pools: BTreeMap::new(),
            new_pool_names: BTreeMap::new(),
            old_pools: BTreeSet::new(),
            new_up_client: BTreeMap::new(),
            new_state: BTreeMap::new(),
            new_weight: BTreeMap::new(),
            new_pg_temp: BTreeMap::new(),
            new_primary_temp: BTreeMap::new(),
            new_primary_affinity: BTreeMap::new(),
            new_ec_profiles: BTreeMap::new(),
            old_ec_profiles: Vec::new(),
            new_pg_upmap: BTreeMap::new(),
            old_pg_upmap: BTreeSet::new(),
            new_pg_upmap_items: BTreeMap::new(),
            old_pg_upmap_items: BTreeSet::new(),
            new_pg_upmap_primaries: BTreeMap::new(),
            old_pg_upmap_primaries: BTreeSet::new(),
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            new_last_up_change: Utime::default(),
            new_last_in_change: Utime::default(),
            new_hb_back_up: BTreeMap::new(),
            new_up_thru: BTreeMap::new(),
            new_last_clean_interval: BTreeMap::new(),
            new_lost: BTreeMap::new(),
            new_blocklist: BTreeMap::new(),
            old_blocklist: Vec::new(),
            new_up_cluster: BTreeMap::new(),
            cluster_snapshot: String::new(),
            new_uuid: BTreeMap::new(),
            new_xinfo: BTreeMap::new(),
            new_hb_front_up: BTreeMap::new(),
            encode_features: PACIFIC,
            new_nearfull_ratio: -1.0,
            new_full_ratio: -1.0,
            new_backfillfull_ratio: -1.0,
            new_require_min_compat_client: 0,
            new_require_osd_release: 0xff,
            new_crush_node_flags: BTreeMap::new(),
            new_device_class_flags: BTreeMap::new(),
            full_crc: 0,
        }
    }
}
