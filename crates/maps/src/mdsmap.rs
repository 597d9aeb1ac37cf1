//! A file system's map: its pools, its MDS ranks and who holds them.

use crate::{CompatSet, Epoch, FeatureBits, Fscid, Gid, MdsRank};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Rng;
use wire::{AddrVec, Decode, DecodeError, Encode, Reader, Sample, Utime, Writer};

/// State of an MDS, by Ceph's numbers; states without a rank are negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MdsState(pub i32);

impl MdsState {
    /// Not in the map.
    pub const NULL: Self = Self(0);
    /// It has left.
    pub const STOPPED: Self = Self(-1);
    /// Starting.
    pub const BOOT: Self = Self(-4);
    /// Idle, may be given a rank.
    pub const STANDBY: Self = Self(-5);
    /// Making a new file system's rank.
    pub const CREATING: Self = Self(-6);
    /// Starting a rank that was stopped.
    pub const STARTING: Self = Self(-7);
    /// Following a rank's journal.
    pub const STANDBY_REPLAY: Self = Self(-8);
    /// Reading the journal of the rank that it takes over.
    pub const REPLAY: Self = Self(8);
    /// Settling operations that spanned ranks.
    pub const RESOLVE: Self = Self(9);
    /// Taking clients back.
    pub const RECONNECT: Self = Self(10);
    /// Agreeing on locks with other ranks.
    pub const REJOIN: Self = Self(11);
    /// Repeating requests that clients have replies to and the journal lacks.
    pub const CLIENTREPLAY: Self = Self(12);
    /// Serving.
    pub const ACTIVE: Self = Self(13);
    /// Handing its subtrees to others.
    pub const STOPPING: Self = Self(14);
    /// The rank cannot be served before repair.
    pub const DAMAGED: Self = Self(15);

    /// True if a rank in this state answers requests.
    pub fn serves(self) -> bool {
        matches!(self, Self::ACTIVE | Self::STOPPING)
    }

    /// Ceph's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NULL => "down:dne",
            Self::STOPPED => "down:stopped",
            Self::BOOT => "up:boot",
            Self::STANDBY => "up:standby",
            Self::CREATING => "up:creating",
            Self::STARTING => "up:starting",
            Self::STANDBY_REPLAY => "up:standby-replay",
            Self::REPLAY => "up:replay",
            Self::RESOLVE => "up:resolve",
            Self::RECONNECT => "up:reconnect",
            Self::REJOIN => "up:rejoin",
            Self::CLIENTREPLAY => "up:clientreplay",
            Self::ACTIVE => "up:active",
            Self::STOPPING => "up:stopping",
            Self::DAMAGED => "down:damaged",
            _ => "???",
        }
    }
}

impl std::fmt::Debug for MdsState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl Encode for MdsState {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
    }
}

impl Decode for MdsState {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.get().map(Self)
    }
}

impl Sample for MdsState {
    fn sample(rng: &mut Rng) -> Self {
        *rng.pick(&[Self::ACTIVE, Self::STANDBY, Self::REPLAY, Self::RECONNECT])
    }
}

wire::wire_structs! {
    /// `mds_info_t`: one MDS process.
    pub struct MdsInfo[v 10/4] {
        /// Its session with the monitors, by which all else knows it.
        pub gid: Gid,
        /// `a` of `mds.a`.
        pub name: String,
        /// -1 for a standby.
        pub rank: MdsRank,
        /// Incarnation of the rank.
        pub inc: i32,
        /// Its state.
        pub state: MdsState,
        /// Counts its beacons.
        pub state_seq: u64,
        /// Its addresses.
        pub addrs: AddrVec,
        /// Time since which it is silent; 0 if it is not.
        pub laggy_since: Utime,
        /// No longer in use, -1.
        pub standby_for_rank: MdsRank,
        /// No longer in use.
        pub standby_for_name: String,
        /// Ranks to which it may export subtrees.
        pub export_targets: BTreeSet<MdsRank>,
        /// Feature bits of its connection.
        pub features: u64,
        /// The file system that it prefers, -1 for any.
        pub join_fscid: Fscid,
        /// No longer in use.
        pub standby_replay: bool,
        /// Bit 0: frozen, never replaced.
        pub flags: u64 = since 9,
        /// Formats that it knows.
        pub compat: CompatSet = since 10,
    }
}

/// `MDSMap`. The default is that of a new file system without pools.
#[derive(Clone, PartialEq, Debug)]
pub struct MdsMap {
    /// Of this map.
    pub epoch: Epoch,
    /// See the constants.
    pub flags: u32,
    /// Epoch of the last failure of a rank.
    pub last_failure: Epoch,
    /// Rank of the root, 0.
    pub root: MdsRank,
    /// Seconds without a renewal before a client's caps are stale.
    pub session_timeout: u32,
    /// Seconds before it is evicted.
    pub session_autoclose: u32,
    /// Largest file in bytes.
    pub max_file_size: u64,
    /// Ranks wanted.
    pub max_mds: i32,
    /// By gid: those with a rank in this file system, and their followers.
    pub mds_info: BTreeMap<Gid, MdsInfo>,
    /// The first is the default for files.
    pub data_pools: Vec<i64>,
    /// No longer in use, -1.
    pub cas_pool: i64,
    /// Formats that the file system uses.
    pub compat: CompatSet,
    /// Holds journal and directories.
    pub metadata_pool: i64,
    /// Time of the file system's creation.
    pub created: Utime,
    /// Time of this epoch.
    pub modified: Utime,
    /// Rank that serves the snapshot table.
    pub tableserver: MdsRank,
    /// Ranks that exist.
    pub r#in: BTreeSet<MdsRank>,
    /// Incarnation of each rank.
    pub inc: BTreeMap<MdsRank, i32>,
    /// Ranks that are held.
    pub up: BTreeMap<MdsRank, Gid>,
    /// Ranks that wait for an MDS.
    pub failed: BTreeSet<MdsRank>,
    /// Ranks that were stopped in order.
    pub stopped: BTreeSet<MdsRank>,
    /// OSD map in which the last failed MDS was blocklisted.
    pub last_failure_osd_epoch: Epoch,
    /// Once allowed flags.
    pub ever_allowed_features: u8,
    /// Flags allowed by an administrator.
    pub explicitly_allowed_features: u8,
    /// Never.
    pub inline_data_enabled: bool,
    /// False only in the map that says that there is no file system.
    pub enabled: bool,
    /// Name.
    pub fs_name: String,
    /// Ranks that need repair.
    pub damaged: BTreeSet<MdsRank>,
    /// Name of a balancer.
    pub balancer: String,
    /// Standbys below which health warns; -1 for a default.
    pub standby_count_wanted: i32,
    /// `max_mds` before the file system was taken down.
    pub old_max_mds: i32,
    /// Release number of the oldest client, 0 for any.
    pub min_compat_client: u8,
    /// Features that a client must have.
    pub required_client_features: FeatureBits,
}

impl Default for MdsMap {
    fn default() -> Self {
        Self {
            epoch: Epoch(0),
            flags: Self::FLAGS_DEFAULT,
            last_failure: Epoch(0),
            root: MdsRank(0),
            session_timeout: 60,
            session_autoclose: 300,
            max_file_size: 1 << 40,
            max_mds: 1,
            mds_info: BTreeMap::new(),
            data_pools: Vec::new(),
            cas_pool: -1,
            compat: CompatSet::default(),
            metadata_pool: -1,
            created: Utime::default(),
            modified: Utime::default(),
            tableserver: MdsRank(0),
            r#in: BTreeSet::new(),
            inc: BTreeMap::new(),
            up: BTreeMap::new(),
            failed: BTreeSet::new(),
            stopped: BTreeSet::new(),
            last_failure_osd_epoch: Epoch(0),
            ever_allowed_features: 0,
            explicitly_allowed_features: 0,
            inline_data_enabled: false,
            enabled: false,
            fs_name: String::new(),
            damaged: BTreeSet::new(),
            balancer: String::new(),
            standby_count_wanted: -1,
            old_max_mds: 0,
            min_compat_client: 0,
            required_client_features: FeatureBits::default(),
        }
    }
}

/// The version of the second half of an MDSMap, Pacific's.
const EXTRA_VERSION: u16 = 16;

impl MdsMap {
    /// No rank may be given to a standby.
    pub const NOT_JOINABLE: u32 = 1;
    /// Snapshots may be made.
    pub const ALLOW_SNAPS: u32 = 1 << 1;
    /// A standby may follow the journal.
    pub const ALLOW_STANDBY_REPLAY: u32 = 1 << 5;
    /// Ranks give directories to one another so that each has as much to do.
    pub const BALANCE_AUTOMATE: u32 = 1 << 8;
    /// The monitors choose `max_mds` by the load. Nacre's own, as far from Ceph's as there is room.
    pub const MAX_MDS_AUTO: u32 = 1 << 31;
    /// Flags of a new file system: snapshots, the former flag of several ranks, and what balances them. That
    /// is off in Ceph.
    pub const FLAGS_DEFAULT: u32 = Self::ALLOW_SNAPS | 1 << 4 | Self::BALANCE_AUTOMATE | Self::MAX_MDS_AUTO;

    /// The MDS that holds `rank`.
    pub fn holder(&self, rank: MdsRank) -> Option<&MdsInfo> {
        self.mds_info.get(self.up.get(&rank)?)
    }

    /// The state of `rank`; [`MdsState::NULL`] if nobody holds it.
    pub fn state_of(&self, rank: MdsRank) -> MdsState {
        self.holder(rank).map_or(MdsState::NULL, |info| info.state)
    }
}

impl Encode for MdsMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(5, 4, |w| {
            w.put(&self.epoch);
            w.put(&self.flags);
            w.put(&self.last_failure);
            w.put(&self.root);
            w.put(&self.session_timeout);
            w.put(&self.session_autoclose);
            w.put(&self.max_file_size);
            w.put(&self.max_mds);
            w.put(&self.mds_info);
            w.put(&self.data_pools);
            w.put(&self.cas_pool);
            w.put(&EXTRA_VERSION);
            self.encode_extra(w);
        });
    }
}

impl MdsMap {
    fn encode_extra(&self, w: &mut Writer) {
        w.put(&self.compat);
        w.put(&self.metadata_pool);
        w.put(&self.created);
        w.put(&self.modified);
        w.put(&self.tableserver);
        w.put(&self.r#in);
        w.put(&self.inc);
        w.put(&self.up);
        w.put(&self.failed);
        w.put(&self.stopped);
        w.put(&self.last_failure_osd_epoch);
        w.put(&self.ever_allowed_features);
        w.put(&self.explicitly_allowed_features);
        w.put(&self.inline_data_enabled);
        w.put(&self.enabled);
        w.put(&self.fs_name);
        w.put(&self.damaged);
        w.put(&self.balancer);
        w.put(&self.standby_count_wanted);
        w.put(&self.old_max_mds);
        w.put(&self.min_compat_client);
        w.put(&self.required_client_features);
    }

    fn decode_extra(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        let version: u16 = r.get()?;
        if version < EXTRA_VERSION {
            return Err(r.error(format!("an MDSMap of before Pacific ({version})")));
        }
        self.compat = r.get()?;
        self.metadata_pool = r.get()?;
        self.created = r.get()?;
        self.modified = r.get()?;
        self.tableserver = r.get()?;
        self.r#in = r.get()?;
        self.inc = r.get()?;
        self.up = r.get()?;
        self.failed = r.get()?;
        self.stopped = r.get()?;
        self.last_failure_osd_epoch = r.get()?;
        self.ever_allowed_features = r.get()?;
        self.explicitly_allowed_features = r.get()?;
        self.inline_data_enabled = r.get()?;
        self.enabled = r.get()?;
        self.fs_name = r.get()?;
        self.damaged = r.get()?;
        self.balancer = r.get()?;
        self.standby_count_wanted = r.get()?;
        self.old_max_mds = r.get()?;
        self.min_compat_client = r.get()?;
        self.required_client_features = r.get()?;
        Ok(())
    }
}

impl Decode for MdsMap {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(5, |_, r| {
            let mut map = Self {
                epoch: r.get()?,
                flags: r.get()?,
                last_failure: r.get()?,
                root: r.get()?,
                session_timeout: r.get()?,
                session_autoclose: r.get()?,
                max_file_size: r.get()?,
                max_mds: r.get()?,
                mds_info: r.get()?,
                data_pools: r.get()?,
                cas_pool: r.get()?,
                ..Self::default()
            };
            map.decode_extra(r)?;
            Ok(map)
        })
    }
}

impl Sample for MdsMap {
    fn sample(rng: &mut Rng) -> Self {
        Self {
            epoch: Sample::sample(rng),
            mds_info: Sample::sample(rng),
            data_pools: Sample::sample(rng),
            compat: Sample::sample(rng),
            metadata_pool: Sample::sample(rng),
            r#in: Sample::sample(rng),
            inc: Sample::sample(rng),
            up: Sample::sample(rng),
            failed: Sample::sample(rng),
            enabled: Sample::sample(rng),
            fs_name: Sample::sample(rng),
            damaged: Sample::sample(rng),
            required_client_features: Sample::sample(rng),
            ..Self::default()
        }
    }
}
