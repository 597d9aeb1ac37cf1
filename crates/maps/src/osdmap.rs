//! The OSD map: pools, OSDs, placement and its exceptions.

use crate::{AFFINITY_DEFAULT, Epoch, IntervalSet, OsdEntry, OsdId, PgId, Pool, pool_flags};
use crush::CrushMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::{AddrVec, EntityAddr, Utime, Uuid};

/// Bits of [`OsdMap::flags`].
pub mod osd_flags {
    /// No longer in use.
    pub const NEARFULL: u32 = 1;
    /// Out of space: writers wait.
    pub const FULL: u32 = 1 << 1;
    /// Reads wait.
    pub const PAUSERD: u32 = 1 << 2;
    /// Writes wait.
    pub const PAUSEWR: u32 = 1 << 3;
    /// Recovery waits.
    pub const PAUSEREC: u32 = 1 << 4;
    /// OSDs may not come up.
    pub const NOUP: u32 = 1 << 5;
    /// OSDs may not be marked down.
    pub const NODOWN: u32 = 1 << 6;
    /// OSDs may not be marked out.
    pub const NOOUT: u32 = 1 << 7;
    /// OSDs may not be marked in.
    pub const NOIN: u32 = 1 << 8;
    /// No backfill.
    pub const NOBACKFILL: u32 = 1 << 9;
    /// No recovery.
    pub const NORECOVER: u32 = 1 << 10;
    /// No light scrub.
    pub const NOSCRUB: u32 = 1 << 11;
    /// No deep scrub.
    pub const NODEEP_SCRUB: u32 = 1 << 12;
    /// Cache tiering.
    pub const NOTIERAGENT: u32 = 1 << 13;
    /// No moving of misplaced data.
    pub const NOREBALANCE: u32 = 1 << 14;
    /// Objects are ordered bitwise; must be set.
    pub const SORTBITWISE: u32 = 1 << 15;
    /// No longer in use.
    pub const REQUIRE_JEWEL: u32 = 1 << 16;
    /// No longer in use.
    pub const REQUIRE_KRAKEN: u32 = 1 << 17;
    /// No longer in use.
    pub const REQUIRE_LUMINOUS: u32 = 1 << 18;
    /// Deletes are done by recovery.
    pub const RECOVERY_DELETES: u32 = 1 << 19;
    /// Snapshot directories of old releases are gone.
    pub const PURGED_SNAPDIRS: u32 = 1 << 20;
    /// No removal of snapshots.
    pub const NOSNAPTRIM: u32 = 1 << 21;
    /// PG logs are bounded.
    pub const PGLOG_HARDLIMIT: u32 = 1 << 22;

    /// Flags of a new cluster.
    pub const DEFAULT: u32 = SORTBITWISE | RECOVERY_DELETES | PURGED_SNAPDIRS | PGLOG_HARDLIMIT;

    /// Ceph's names in the order in which they are printed.
    pub const NAMES: [(u32, &str); 20] = [
        (NEARFULL, "nearfull"),
        (FULL, "full"),
        (PAUSERD, "pauserd"),
        (PAUSEWR, "pausewr"),
        (PAUSEREC, "pauserec"),
        (NOUP, "noup"),
        (NODOWN, "nodown"),
        (NOOUT, "noout"),
        (NOIN, "noin"),
        (NOBACKFILL, "nobackfill"),
        (NOREBALANCE, "norebalance"),
        (NORECOVER, "norecover"),
        (NOSCRUB, "noscrub"),
        (NODEEP_SCRUB, "nodeep-scrub"),
        (NOTIERAGENT, "notieragent"),
        (NOSNAPTRIM, "nosnaptrim"),
        (SORTBITWISE, "sortbitwise"),
        (RECOVERY_DELETES, "recovery_deletes"),
        (PURGED_SNAPDIRS, "purged_snapdirs"),
        (PGLOG_HARDLIMIT, "pglog_hardlimit"),
    ];
}

/// Numbers of Ceph's releases.
pub mod release {
    /// 9.
    pub const JEWEL: u8 = 10;
    /// 12.
    pub const LUMINOUS: u8 = 12;
    /// 14.
    pub const NAUTILUS: u8 = 14;
    /// 15.
    pub const OCTOPUS: u8 = 15;
    /// 16, whose encodings we write.
    pub const PACIFIC: u8 = 16;

    /// The release's name; `unknown` if it has none here.
    pub fn name(release: u8) -> &'static str {
        const NAMES: [&str; 21] = [
            "unknown",
            "argonaut",
            "bobtail",
            "cuttlefish",
            "dumpling",
            "emperor",
            "firefly",
            "giant",
            "hammer",
            "infernalis",
            "jewel",
            "kraken",
            "luminous",
            "mimic",
            "nautilus",
            "octopus",
            "pacific",
            "quincy",
            "reef",
            "squid",
            "tentacle",
        ];
        NAMES.get(usize::from(release)).copied().unwrap_or("unknown")
    }
}

/// The OSD map. The default is that of a new cluster without OSDs and pools.
#[derive(Clone, PartialEq, Debug)]
pub struct OsdMap {
    /// Of the cluster.
    pub fsid: Uuid,
    /// Of this map.
    pub epoch: Epoch,
    /// Time of epoch 1.
    pub created: Utime,
    /// Time of this epoch.
    pub modified: Utime,
    /// By id.
    pub pools: BTreeMap<i64, Pool>,
    /// By id.
    pub pool_names: BTreeMap<i64, String>,
    /// The highest pool id ever used.
    pub pool_max: i32,
    /// See [`osd_flags`].
    pub flags: u32,
    /// By OSD id; its length is `max_osd`.
    pub osds: Vec<OsdEntry>,
    /// By OSD id, or empty if all have [`AFFINITY_DEFAULT`].
    pub primary_affinity: Vec<u32>,
    /// Temporary acting sets.
    pub pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// Temporary primaries.
    pub primary_temp: BTreeMap<PgId, OsdId>,
    /// Placement.
    pub crush: Arc<CrushMap>,
    /// Name to key to value.
    pub ec_profiles: BTreeMap<String, BTreeMap<String, String>>,
    /// Placements that replace CRUSH's.
    pub pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Replacements of single OSDs in CRUSH's placement: (from, to).
    pub pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Primaries of PGs. Only in maps of Reef and later, never written.
    pub pg_upmap_primaries: BTreeMap<PgId, OsdId>,
    /// Counts the CRUSH map's changes.
    pub crush_version: i32,
    /// Snapshots removed in this epoch, by pool.
    pub new_removed_snaps: BTreeMap<i64, IntervalSet>,
    /// Snapshots whose removal ended in this epoch, by pool.
    pub new_purged_snaps: BTreeMap<i64, IntervalSet>,
    /// The last time at which an OSD went up or down.
    pub last_up_change: Utime,
    /// The last time at which an OSD went in or out.
    pub last_in_change: Utime,
    /// Addresses that may not be served, until when. A nonce of 0 stands for all.
    pub blocklist: BTreeMap<EntityAddr, Utime>,
    /// No longer in use.
    pub cluster_snapshot_epoch: Epoch,
    /// No longer in use.
    pub cluster_snapshot: String,
    /// Share of a device from which health warns.
    pub nearfull_ratio: f32,
    /// Share of a device from which it takes no writes.
    pub full_ratio: f32,
    /// Share of a device from which it takes no backfill.
    pub backfillfull_ratio: f32,
    /// A release number.
    pub require_min_compat_client: u8,
    /// A release number; clients choose their resend rules by it.
    pub require_osd_release: u8,
    /// Snapshots that are being removed, by pool.
    pub removed_snaps_queue: BTreeMap<i64, IntervalSet>,
    /// State bits by CRUSH bucket.
    pub crush_node_flags: BTreeMap<i32, u32>,
    /// State bits by device class.
    pub device_class_flags: BTreeMap<i32, u32>,
}

impl Default for OsdMap {
    fn default() -> Self {
        Self {
            fsid: Uuid::default(),
            epoch: Epoch(0),
            created: Utime::default(),
            modified: Utime::default(),
            pools: BTreeMap::new(),
            pool_names: BTreeMap::new(),
            pool_max: 0,
            flags: osd_flags::DEFAULT,
            osds: Vec::new(),
            primary_affinity: Vec::new(),
            pg_temp: BTreeMap::new(),
            primary_temp: BTreeMap::new(),
            crush: Arc::default(),
            ec_profiles: BTreeMap::new(),
            pg_upmap: BTreeMap::new(),
            pg_upmap_items: BTreeMap::new(),
            pg_upmap_primaries: BTreeMap::new(),
            crush_version: 1,
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            last_up_change: Utime::default(),
            last_in_change: Utime::default(),
            blocklist: BTreeMap::new(),
            cluster_snapshot_epoch: Epoch(0),
            cluster_snapshot: String::new(),
            nearfull_ratio: 0.85,
            full_ratio: 0.95,
            backfillfull_ratio: 0.9,
            require_min_compat_client: release::LUMINOUS,
            require_osd_release: release::PACIFIC,
            removed_snaps_queue: BTreeMap::new(),
            crush_node_flags: BTreeMap::new(),
            device_class_flags: BTreeMap::new(),
        }
    }
}

impl OsdMap {
    /// One more than the highest OSD id.
    pub fn max_osd(&self) -> i32 {
        self.osds.len() as i32
    }

    /// The entry of an OSD; `None` for holes and ids that were never used.
    pub fn osd(&self, osd: OsdId) -> Option<&OsdEntry> {
        self.osds.get(osd.index()?).filter(|o| o.exists())
    }

    /// The OSDs that exist.
    pub fn existing(&self) -> impl Iterator<Item = (OsdId, &OsdEntry)> {
        (0..).map(OsdId).zip(&self.osds).filter(|(_, o)| o.exists())
    }

    /// True if the id is in use.
    pub fn exists(&self, osd: OsdId) -> bool {
        self.osd(osd).is_some()
    }

    /// True if it is up.
    pub fn is_up(&self, osd: OsdId) -> bool {
        self.osd(osd).is_some_and(OsdEntry::is_up)
    }

    /// The OSDs that are up next after an OSD and next before it, counting round from the last id to the
    /// first: none if no other is up, one twice if only one is.
    pub fn neighbours(&self, osd: OsdId) -> impl Iterator<Item = OsdId> + '_ {
        let count = self.max_osd();
        let is_up = |other: &OsdId| self.is_up(*other);
        let after = (1..count).map(|step| OsdId((osd.0 + step) % count)).find(is_up);
        let before = (1..count).map(|step| OsdId((osd.0 + count - step) % count)).find(is_up);
        after.into_iter().chain(before)
    }

    /// True if it is down, or does not exist.
    pub fn is_down(&self, osd: OsdId) -> bool {
        !self.is_up(osd)
    }

    /// True if it is in: CRUSH gives it data.
    pub fn is_in(&self, osd: OsdId) -> bool {
        self.osd(osd).is_some_and(OsdEntry::is_in)
    }

    /// Its addresses for clients.
    pub fn client_addrs(&self, osd: OsdId) -> Option<&AddrVec> {
        self.osd(osd).map(|o| &o.client_addrs)
    }

    /// Its addresses for other OSDs.
    pub fn cluster_addrs(&self, osd: OsdId) -> Option<&AddrVec> {
        self.osd(osd).map(|o| &o.cluster_addrs)
    }

    /// Its primary affinity, 0x10000 for 1.0.
    pub fn affinity(&self, osd: OsdId) -> u32 {
        let set = osd.index().and_then(|i| self.primary_affinity.get(i));
        set.copied().unwrap_or(AFFINITY_DEFAULT)
    }

    /// The pool with this name.
    pub fn pool_by_name(&self, name: &str) -> Option<(i64, &Pool)> {
        let (id, _) = self.pool_names.iter().find(|(_, n)| *n == name)?;
        Some((*id, self.pools.get(id)?))
    }

    /// The pool's name, empty if it has none.
    pub fn pool_name(&self, pool: i64) -> &str {
        self.pool_names.get(&pool).map_or("", String::as_str)
    }

    /// True if bit `flag` of [`osd_flags`] is set.
    pub fn has_flag(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// True if writes to a pool must wait, or fail, because it is out of space.
    pub fn is_full(&self, pool: i64) -> bool {
        self.has_flag(osd_flags::FULL) || self.pools.get(&pool).is_some_and(|p| p.has_flag(pool_flags::FULL))
    }

    /// True if no peer with this address may be served: the address, or all of its host, is on the blocklist.
    pub fn is_blocklisted(&self, addr: &EntityAddr) -> bool {
        if self.blocklist.is_empty() {
            return false;
        }
        // Entries are of type "any" or of the protocol that they were made for; clients have type "any".
        let any_port = |a: &EntityAddr| {
            let mut all = *a;
            all.nonce = 0;
            if let Some(sock) = &mut all.addr {
                sock.set_port(0);
            }
            all
        };
        self.blocklist.keys().any(|entry| {
            let same = |a: &EntityAddr, b: &EntityAddr| a.addr == b.addr && a.nonce == b.nonce;
            same(entry, addr) || same(entry, &any_port(addr))
        })
    }
}
