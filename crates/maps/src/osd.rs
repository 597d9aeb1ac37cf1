//! The OSD map's entry of one OSD.

use crate::Epoch;
use wire::{AddrVec, Utime, Uuid};

/// Bits of [`OsdEntry::state`].
pub mod osd_state {
    /// The id is taken.
    pub const EXISTS: u32 = 1;
    /// It serves.
    pub const UP: u32 = 1 << 1;
    /// It was marked out by itself, because it was down long.
    pub const AUTOOUT: u32 = 1 << 2;
    /// It has never been in.
    pub const NEW: u32 = 1 << 3;
    /// It or its device is full.
    pub const FULL: u32 = 1 << 4;
    /// Nearly full.
    pub const NEARFULL: u32 = 1 << 5;
    /// Too full to backfill into.
    pub const BACKFILLFULL: u32 = 1 << 6;
    /// Its data and keys are gone, its id stays.
    pub const DESTROYED: u32 = 1 << 7;
    /// May not be marked up.
    pub const NOUP: u32 = 1 << 8;
    /// May not be marked down.
    pub const NODOWN: u32 = 1 << 9;
    /// May not be marked in.
    pub const NOIN: u32 = 1 << 10;
    /// May not be marked out.
    pub const NOOUT: u32 = 1 << 11;
    /// It is about to stop.
    pub const STOP: u32 = 1 << 12;

    /// Ceph's names, by bit.
    pub const NAMES: [(u32, &str); 13] = [
        (EXISTS, "exists"),
        (UP, "up"),
        (AUTOOUT, "autoout"),
        (NEW, "new"),
        (FULL, "full"),
        (NEARFULL, "nearfull"),
        (BACKFILLFULL, "backfillfull"),
        (DESTROYED, "destroyed"),
        (NOUP, "noup"),
        (NODOWN, "nodown"),
        (NOIN, "noin"),
        (NOOUT, "noout"),
        (STOP, "stop"),
    ];
}

/// An OSD's weight of 1.0, "in".
pub const WEIGHT_IN: u32 = 0x1_0000;
/// Primary affinity 1.0.
pub const AFFINITY_DEFAULT: u32 = 0x1_0000;

/// Everything that the map holds of one OSD, which on the wire is spread over as many arrays.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OsdEntry {
    /// See [`osd_state`].
    pub state: u32,
    /// Share of its CRUSH weight, 0 for out, 0x10000 for in.
    pub weight: u32,
    /// Its machine's uuid of it.
    pub uuid: Uuid,
    /// Addresses for clients.
    pub client_addrs: AddrVec,
    /// Addresses for other OSDs.
    pub cluster_addrs: AddrVec,
    /// Addresses for heartbeats on the cluster network.
    pub hb_back_addrs: AddrVec,
    /// Addresses for heartbeats on the public network.
    pub hb_front_addrs: AddrVec,
    /// Its incarnation's history.
    pub info: OsdInfo,
    /// More of it.
    pub xinfo: OsdXinfo,
}

impl OsdEntry {
    /// True if the id is in use.
    pub fn exists(&self) -> bool {
        self.state & osd_state::EXISTS != 0
    }

    /// True if it exists and is up.
    pub fn is_up(&self) -> bool {
        self.exists() && self.state & osd_state::UP != 0
    }

    /// True if it exists and is in.
    pub fn is_in(&self) -> bool {
        self.exists() && self.weight != 0
    }

    /// The names of its state bits in alphabetical order, as Ceph prints them.
    pub fn state_names(&self) -> Vec<&'static str> {
        let set = osd_state::NAMES.iter().filter(|(bit, _)| self.state & bit != 0);
        let mut names: Vec<_> = set.map(|(_, name)| *name).collect();
        names.sort_unstable();
        names
    }
}

wire::wire_structs! {
    /// `osd_info_t`.
    pub struct OsdInfo[u8 1] {
        /// The last interval in which it was up and shut down in order.
        pub last_clean_begin: Epoch,
        /// Its end, exclusive.
        pub last_clean_end: Epoch,
        /// Epoch in which this incarnation came up.
        pub up_from: Epoch,
        /// Epoch up to which it was certainly up. A primary needs it before it activates.
        pub up_thru: Epoch,
        /// Epoch in which it last went down.
        pub down_at: Epoch,
        /// Epoch in which its data was last declared lost.
        pub lost_at: Epoch,
    }

    /// `osd_xinfo_t`.
    pub struct OsdXinfo[v 4/1] {
        /// Time at which it last went down.
        pub down_stamp: Utime,
        /// Share of failure reports about it that were false, of 2^32 - 1.
        pub laggy_probability: u32,
        /// Seconds for which it was wrongly down.
        pub laggy_interval: u32,
        /// Feature bits of its connection.
        pub features: u64,
        /// Its weight before it was marked out by itself.
        pub old_weight: u32,
        /// Scrub of purged snapshots.
        pub last_purged_snaps_scrub: Utime = since 3,
        /// Epoch in which it was known to be dead.
        pub dead_epoch: Epoch = since 4,
    }
}
