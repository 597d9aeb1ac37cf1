//! Between daemons and monitors.

use maps::{Epoch, Fscid, Gid, IntervalSet, MdsRank, MdsState, ObjectStatSum, OsdId, PgId, StoreStatfs};
use std::collections::BTreeMap;
use wire::{AddrVec, EntityAddr, EntityId, Utime, Uuid, wire_structs};

wire_structs! {
    /// The state of one PG, as its primary reports it.
    pub struct PgStat[v 3/1] {
        /// Id of the PG.
        pub pgid: PgId,
        /// Bits of [`pg_state`].
        pub state: u64,
        /// Version of the newest update.
        pub version: maps::EVersion,
        /// Counts reports of this PG in one epoch, so that an old report does not replace a newer one.
        pub reported_seq: u64,
        /// The reporter's map.
        pub reported_epoch: Epoch,
        /// Time at which `state` last changed.
        pub last_change: Utime,
        /// Time at which it was last active.
        pub last_active: Utime,
        /// Time at which it was last clean.
        pub last_clean: Utime,
        /// Time of the last scrub.
        pub last_scrub: Utime,
        /// Time of the last deep scrub.
        pub last_deep_scrub: Utime,
        /// Entries in its log.
        pub log_size: u64,
        /// The OSDs that CRUSH and upmaps choose for it (up set).
        pub up: Vec<OsdId>,
        /// The OSDs that serve it (acting set).
        pub acting: Vec<OsdId>,
        /// Objects and bytes.
        pub stats: ObjectStatSum,
        /// OSDs that it waits for while peering.
        pub blocked_by: Vec<OsdId>,
        /// Removed snapshots that no clone of it shows any more, as far as the map still has them in its
        /// queue.
        pub purged_snaps: IntervalSet = since 2,
        /// Removed snapshots of which clones may be left.
        pub snap_trim_queue: u64 = since 2,
        /// Version of the newest update at the last scrub.
        pub last_scrub_version: maps::EVersion = since 3,
        /// The same for the last deep scrub.
        pub last_deep_scrub_version: maps::EVersion = since 3,
        /// Time of the last scrub without a finding.
        pub last_clean_scrub: Utime = since 3,
    }

    /// Round trips of one OSD's pings to another one.
    pub struct OsdPingTime[v 1/1] {
        /// The other one.
        pub osd: OsdId,
        /// Average over the last minute, in microseconds.
        pub one_us: u32,
        /// Over the last 5 minutes.
        pub five_us: u32,
        /// Over the last 15 minutes.
        pub fifteen_us: u32,
    }

    /// What an OSD and its host have used. All but the last two grow from its start on.
    pub struct OsdUsage[v 1/1] {
        /// Time of the measurement by the OSD's clock, in milliseconds; 0 if there is none.
        pub at_ms: u64,
        /// The process, which several OSDs may share.
        pub pid: u32,
        /// Processor time of the process, in milliseconds.
        pub process_cpu_ms: u64,
        /// Bytes received by its sockets.
        pub net_in: u64,
        /// Bytes sent by its sockets.
        pub net_out: u64,
        /// Bytes read from its device.
        pub disk_read: u64,
        /// Bytes written to its device.
        pub disk_written: u64,
        /// Requests of clients.
        pub ops: u64,
        /// Bytes that clients read.
        pub client_read: u64,
        /// Bytes that clients wrote.
        pub client_written: u64,
        /// Processor time that is used on the host, in thousandths of a core.
        pub host_busy: u32,
        /// Processor time that the host has left.
        pub host_idle: u32,
    }

    /// Usage of one pool on one OSD.
    pub struct OsdPoolStat[v 1/1] {
        /// Id of the pool.
        pub pool: i64,
        /// Space that it uses on this OSD's device.
        pub store: StoreStatfs,
    }
}

/// Bits of [`PgStat::state`], Ceph's numbers.
#[allow(missing_docs)]
pub mod pg_state {
    macro_rules! states {
        ($($name:ident = $bit:literal $text:literal;)*) => {
            $( pub const $name: u64 = 1 << $bit; )*
            /// The names of the bits joined by `+`, as Ceph prints them; `unknown` for none.
            pub fn name(state: u64) -> String {
                let all = [$( (1u64 << $bit, $text) ),*];
                let names: Vec<&str> =
                    all.iter().filter(|(bit, _)| state & bit != 0).map(|(_, text)| *text).collect();
                if names.is_empty() { "unknown".to_owned() } else { names.join("+") }
            }
        };
    }
    states! {
        CREATING = 0 "creating";
        ACTIVE = 1 "active";
        CLEAN = 2 "clean";
        DOWN = 4 "down";
        RECOVERY_UNFOUND = 5 "recovery_unfound";
        BACKFILL_UNFOUND = 6 "backfill_unfound";
        PREMERGE = 7 "premerge";
        SCRUBBING = 8 "scrubbing";
        DEGRADED = 10 "degraded";
        INCONSISTENT = 11 "inconsistent";
        PEERING = 12 "peering";
        REPAIR = 13 "repair";
        RECOVERING = 14 "recovering";
        BACKFILL_WAIT = 15 "backfill_wait";
        INCOMPLETE = 16 "incomplete";
        STALE = 17 "stale";
        REMAPPED = 18 "remapped";
        DEEP_SCRUB = 19 "deep";
        BACKFILLING = 20 "backfilling";
        BACKFILL_TOOFULL = 21 "backfill_toofull";
        RECOVERY_WAIT = 22 "recovery_wait";
        UNDERSIZED = 23 "undersized";
        ACTIVATING = 24 "activating";
        PEERED = 25 "peered";
        SNAPTRIM = 26 "snaptrim";
        SNAPTRIM_WAIT = 27 "snaptrim_wait";
        RECOVERY_TOOFULL = 28 "recovery_toofull";
        SNAPTRIM_ERROR = 29 "snaptrim_error";
        FORCED_RECOVERY = 30 "forced_recovery";
        FORCED_BACKFILL = 31 "forced_backfill";
        FAILED_REPAIR = 32 "failed_repair";
    }
}

wire::messages! {
    /// First message of a daemon on a connection to another daemon: which one it is. An OSD names its id, an
    /// MDS its gid.
    pub struct Hello = 0xe100 "hello" [v 1/1] {
        /// Id of the cluster; another one ends the connection.
        pub fsid: Uuid,
        /// The sender.
        pub from: EntityId,
        /// The sender's OSD map.
        pub epoch: Epoch,
    }

    /// OSD to monitor: mark me up. Answered by a map in which it is up at these addresses.
    pub struct OsdBoot = 0xe101 "osd_boot" [v 1/1] {
        /// The OSD that boots.
        pub osd: OsdId,
        /// Uuid of its store.
        pub uuid: Uuid,
        /// Id of the cluster.
        pub fsid: Uuid,
        /// Addresses for clients; their nonce is the incarnation.
        pub addrs: AddrVec,
        /// Addresses for other OSDs.
        pub cluster_addrs: AddrVec,
        /// Addresses for heartbeats.
        pub heartbeat_addrs: AddrVec,
        /// The newest map that it has.
        pub epoch: Epoch,
        /// The newest map in which it was up and that it had processed.
        pub boot_epoch: Epoch,
        /// Its feature bits.
        pub features: u64,
        /// Feature level that it can do.
        pub feature_level: u32,
        /// `ceph osd metadata`.
        pub metadata: BTreeMap<String, String>,
        /// CRUSH weight to be added with, in 1/65536 (TiB); 0 for unknown.
        pub crush_weight: u32,
        /// `hdd`, `ssd`, `nvme`.
        pub device_class: String,
        /// Its location in the CRUSH tree: type to name.
        pub crush_location: BTreeMap<String, String>,
    }

    /// OSD to monitor: raise my up_thru to this epoch, so that a PG may go active.
    pub struct OsdAlive = 0xe102 "osd_alive" [v 1/1] {
        /// The OSD that asks.
        pub osd: OsdId,
        /// The requested `up_thru`.
        pub want: Epoch,
        /// The newest map that it has.
        pub epoch: Epoch,
    }

    /// OSD to monitor: another OSD does not answer, or answers again.
    pub struct OsdFailure = 0xe103 "osd_failure" [v 1/1] {
        /// The OSD that reports.
        pub reporter: OsdId,
        /// The OSD that is reported.
        pub target: OsdId,
        /// Its addresses, with the nonce of the incarnation that is meant.
        pub target_addrs: AddrVec,
        /// The process refused a connection: it is dead, no lease of it has to be waited out.
        pub refused: bool,
        /// The report is taken back.
        pub alive_again: bool,
        /// Seconds for which it has not answered.
        pub failed_for_s: u32,
        /// The reporter's map.
        pub epoch: Epoch,
    }

    /// OSD to monitor, now and then: still here.
    pub struct OsdBeacon = 0xe104 "osd_beacon" [v 1/1] {
        /// The sender.
        pub osd: OsdId,
        /// The newest map that it has.
        pub epoch: Epoch,
        /// The oldest epoch that one of its PGs may still need.
        pub min_last_epoch_clean: Epoch,
        /// Usage of its device.
        pub store: StoreStatfs,
    }

    /// OSD to monitor: statistics of the PGs that it is primary of, and of its device.
    pub struct PgStats = 0xe105 "pg_stats" [v 6/1] {
        /// The OSD that reports.
        pub osd: OsdId,
        /// The newest map that it has.
        pub epoch: Epoch,
        /// Those that changed since the last report on this session, all in the first.
        pub pgs: Vec<PgStat>,
        /// PGs that it was primary of and is not any more.
        pub removed: Vec<PgId>,
        /// Usage of its device.
        pub store: StoreStatfs,
        /// Usage of each pool.
        pub pools: Vec<OsdPoolStat>,
        /// Commit latency in milliseconds.
        pub commit_latency_ms: u32,
        /// OSDs that it exchanges heartbeats with.
        pub heartbeat_peers: Vec<OsdId>,
        /// Requests that have waited for an answer longer than `osd_op_complaint_time`.
        pub slow_ops: u32 = since 2,
        /// Age of the oldest slow request in seconds.
        pub oldest_slow_s: u32 = since 2,
        /// Damaged objects of its own that it has replaced by copies of others, since its start.
        pub repaired: u32 = since 3,
        /// Median commit time of its store's recent transactions, in milliseconds.
        pub disk_commit_ms: u32 = since 4,
        /// Number of those transactions.
        pub disk_commits: u32 = since 4,
        /// Reads that its device has refused since its start.
        pub disk_errors: u32 = since 4,
        /// Those of them in the last 5 to 10 minutes.
        pub disk_errors_lately: u32 = since 5,
        /// Peers to whom pings take long.
        pub ping_times: Vec<OsdPingTime> = since 5,
        /// What it and its host have used.
        pub used: OsdUsage = since 6,
    }

    /// MDS to monitor, every few seconds; and back, as acknowledgement with the same `seq`.
    pub struct MdsBeacon = 0xe106 "mds_beacon" [v 2/1] {
        /// Id of the cluster.
        pub fsid: Uuid,
        /// Identity of this run of the daemon: its global id.
        pub gid: Gid,
        /// Name of the daemon.
        pub name: String,
        /// Number of this beacon.
        pub seq: u64,
        /// State that it is in, or wants to enter.
        pub state: MdsState,
        /// The newest MDS map that it has.
        pub epoch: Epoch,
        /// Addresses for clients; their nonce is the incarnation.
        pub addrs: AddrVec,
        /// Its feature bits.
        pub features: u64,
        /// Feature level that it can do.
        pub feature_level: u32,
        /// Rank that it holds, or -1.
        pub rank: MdsRank,
        /// File system to join by preference, or -1.
        pub join_fs: Fscid,
        /// Health codes, each with its lines of detail.
        pub health: BTreeMap<String, String>,
        /// `ceph mds metadata`; in the first beacon.
        pub metadata: BTreeMap<String, String>,
        /// Processor time that its thread uses, in thousandths of a core.
        pub busy: u32 = since 2,
        /// Processor time that its host has left, in thousandths of a core.
        pub idle: u32 = since 2,
    }

    /// Monitor to OSDs and MDSs that subscribed to `nacremap`: the servers' own map.
    pub struct NacreMap = 0xe109 "nacre_map" [v 1/1] {
        /// Id of the cluster.
        pub fsid: Uuid,
        /// Nacre's own map.
        pub map: maps::NacreMap,
    }

    /// Primary to monitor: let these OSDs serve these PGs meanwhile; an empty list takes it back.
    pub struct OsdPgTemp = 0xe10a "osd_pg_temp" [v 1/1] {
        /// The primary that asks.
        pub osd: OsdId,
        /// The newest map that it has.
        pub epoch: Epoch,
        /// PG to acting set.
        pub pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    }

    /// Monitor to OSDs and MDSs: another monitor leads from now on. What only leaders remember must be told
    /// again.
    pub struct MonLeader = 0xe10b "mon_leader" [v 1/1] {
        /// Grows with each.
        pub term: u64,
    }

    /// Manager to monitor, every few seconds: it would serve, or serves. The answer is the `mgrmap`.
    pub struct MgrBeacon = 0xe119 "mgr_beacon" [v 1/1] {
        /// Id of the cluster.
        pub fsid: Uuid,
        /// Identity of this run: its global id.
        pub gid: Gid,
        /// Name: that of the metadata server whose process it shares.
        pub name: String,
        /// Addresses for clients; their nonce is the incarnation.
        pub addrs: AddrVec,
        /// Its feature bits.
        pub features: u64,
        /// True once it has the keys that let clients in.
        pub available: bool,
        /// Addresses of its own clients of OSDs and metadata servers: they are blocklisted when another
        /// manager takes over.
        pub clients: Vec<EntityAddr>,
        /// `ceph mgr metadata`.
        pub metadata: BTreeMap<String, String>,
    }

    /// Monitor to OSD: scrub these PGs, as an administrator has ordered.
    pub struct OsdScrub = 0xe118 "osd_scrub" [v 1/1] {
        /// PGs that it is the primary of.
        pub pgs: Vec<PgId>,
        /// Compare data too, not only what is known of it.
        pub deep: bool,
        /// Mend what is found.
        pub repair: bool,
    }
}
