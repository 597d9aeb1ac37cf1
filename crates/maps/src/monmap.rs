//! The monitors' map.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::{AddrVec, EntityAddr, Utime, Uuid};

wire::wire_structs! {
    /// `mon_feature_t`.
    pub struct MonFeatures[v 1/1] {
        /// Bit mask.
        pub bits: u64,
    }

    /// `mon_info_t`.
    pub struct MonInfo[v 5/1] {
        /// `a` of `mon.a`.
        pub name: String,
        /// Its addresses.
        pub addrs: AddrVec,
        /// Lower is preferred by clients.
        pub priority: u16 = since 2,
        /// Share of the clients.
        pub weight: u16 = since 4,
        /// Its CRUSH location.
        pub crush_loc: BTreeMap<String, String> = since 5,
    }

    /// `MonMap`.
    pub struct MonMap[v 9/6] {
        /// Of the cluster.
        pub fsid: Uuid,
        /// Of this map.
        pub epoch: u32,
        /// Time of this epoch.
        pub last_changed: Utime,
        /// Time of epoch 1.
        pub created: Utime,
        /// Features that cannot be taken back.
        pub persistent_features: MonFeatures,
        /// Features that can.
        pub optional_features: MonFeatures,
        /// By name.
        pub mons: BTreeMap<String, MonInfo>,
        /// Names by rank.
        pub ranks: Vec<String>,
        /// Release that all monitors have at least; 16 is Pacific.
        pub min_mon_release: u8 = since 7,
        /// Ranks that were taken away in this epoch.
        pub removed_ranks: BTreeSet<u32> = since 8,
        /// Election strategy: 1 classic.
        pub strategy: u8 = since 9,
        /// Monitors that may not lead.
        pub disallowed_leaders: BTreeSet<String> = since 9,
        /// True if two sites and a tie breaker are in use.
        pub stretch_mode: bool = since 9,
        /// The third site.
        pub tiebreaker: String = since 9,
        /// Monitors that were marked down for their site.
        pub stretch_marked_down: BTreeSet<String> = since 9,
    }
}

/// kraken, luminous, mimic, osdmap-prune, nautilus, octopus, pacific: what Pacific's monitors persist.
const PACIFIC_FEATURES: u64 = 0x7f;

impl MonMap {
    /// A new cluster's map: ranks in the order given, msgr2 addresses only.
    pub fn new(fsid: Uuid, created: Utime, mons: &[(String, SocketAddr)]) -> Self {
        let info = |name: &String, addr: &SocketAddr| MonInfo {
            name: name.clone(),
            addrs: EntityAddr::msgr2(*addr, 0).into(),
            ..MonInfo::default()
        };
        Self {
            fsid,
            epoch: 1,
            last_changed: created,
            created,
            persistent_features: MonFeatures { bits: PACIFIC_FEATURES },
            mons: mons.iter().map(|(name, addr)| (name.clone(), info(name, addr))).collect(),
            ranks: mons.iter().map(|(name, _)| name.clone()).collect(),
            min_mon_release: crate::release::PACIFIC,
            strategy: 1,
            ..Self::default()
        }
    }

    /// The monitor with this rank.
    pub fn by_rank(&self, rank: usize) -> Option<&MonInfo> {
        self.mons.get(self.ranks.get(rank)?)
    }

    /// The rank of the monitor with this name.
    pub fn rank_of(&self, name: &str) -> Option<usize> {
        self.ranks.iter().position(|n| n == name)
    }
}
