//! Messages between clients and monitors (docs/protocol.md 3.2). Daemons use them too; messages of daemons
//! only are in `peer`.

use crate::{Paxos, Rest, Trailing};
use maps::{Epoch, IntervalSet, PoolStat, SnapId};
use std::collections::BTreeMap;
use stdx::{Buf, Bufs};
use wire::{AddrVec, EntityId, EntityName, Utime, Uuid, wire_structs};

/// Subscription flag: send once, then forget (CEPH_SUBSCRIBE_ONETIME).
pub const SUBSCRIBE_ONCE: u8 = 1;

wire_structs! {
    /// One subscription: to epochs from `start` on.
    #[derive(Copy, Eq)]
    pub struct SubscribeItem[plain] {
        /// The first epoch wanted; 0 for the newest.
        pub start: u64,
        /// [`SUBSCRIBE_ONCE`] or 0.
        pub flags: u8,
    }

    /// The reply of `statfs`, in KiB.
    #[derive(Copy, Eq)]
    pub struct StatfsNumbers[plain] {
        /// Total size.
        pub kb: u64,
        /// Used.
        pub kb_used: u64,
        /// Free for writing.
        pub kb_avail: u64,
        /// Objects.
        pub num_objects: u64,
    }

    /// One line of the cluster log.
    pub struct LogEntry[v 5/5] {
        /// Name of the sender.
        pub name: EntityName,
        /// Numbered name of the sender.
        pub rank: EntityId,
        /// Addresses of the sender.
        pub addrs: AddrVec,
        /// Time of the entry.
        pub stamp: Utime,
        /// Counts up in one sender.
        pub seq: u64,
        /// 0 debug, 1 info, 2 security, 3 warning, 4 error.
        pub prio: u16,
        /// The text.
        pub msg: String,
        /// `cluster` or `audit`.
        pub channel: String,
    }
}

wire::messages! {
    /// Anyone to a monitor, and back with a JSON text: is it there?
    pub struct Ping = 2 "ping" [v 1/1] {
        /// Empty, or a JSON string of the monitor's status.
        pub payload: Rest,
    }

    /// Monitor to subscriber: the map of monitors.
    pub struct MonMap = 4 "mon_map" [v 1/1] {
        /// Encoded `maps::MonMap`.
        pub map: Vec<u8>,
    }

    /// Asks for the [`MonMap`] without subscribing.
    pub struct MonGetMap = 5 "mon_get_map" [v 1/1] {}

    /// `df` of the cluster or of one pool.
    pub struct Statfs = 13 "statfs" [v 2/1] {
        /// Head.
        pub paxos: Paxos,
        /// Of the cluster.
        pub fsid: Uuid,
        /// Only this pool.
        pub data_pool: Option<i64> = since 2,
    }

    /// Answers [`Statfs`].
    pub struct StatfsReply = 14 "statfs_reply" [v 1/1] {
        /// Of the cluster.
        pub fsid: Uuid,
        /// Of the statistics.
        pub version: u64,
        /// The numbers.
        pub st: StatfsNumbers,
    }

    /// Subscribes to maps, now and on every change.
    pub struct MonSubscribe = 15 "mon_subscribe" [v 3/1] {
        /// `monmap`, `osdmap`, `mdsmap`, `mdsmap.FSCID`, `fsmap`, `fsmap.user`, `mgrmap`, `config`, and the
        /// first epoch of each.
        pub what: BTreeMap<String, SubscribeItem>,
        /// Of the sender.
        pub hostname: String = since 3,
    }

    /// Answers [`MonSubscribe`] to peers without stateful subscriptions; not needed for our range of clients.
    pub struct MonSubscribeAck = 16 "mon_subscribe_ack" [v 1/1] {
        /// Seconds after which to renew.
        pub interval: u32,
        /// Of the cluster.
        pub fsid: Uuid,
    }

    /// Requests OSD maps by their epochs, in full or as incrementals; 0 for none of a kind. Ceph's OSDs do so
    /// when a checksum differs.
    pub struct MonGetOsdMap = 6 "mon_get_osdmap" [v 1/1] {
        /// Head.
        pub paxos: Paxos,
        /// First epoch wanted in full.
        pub full_first: Epoch,
        /// Last epoch wanted in full.
        pub full_last: Epoch,
        /// First epoch wanted as an incremental.
        pub inc_first: Epoch,
        /// Last epoch wanted as an incremental.
        pub inc_last: Epoch,
    }

    /// Asks for fresh tickets on a session that is already authenticated.
    pub struct Auth = 17 "auth" [v 1/1] {
        /// Head.
        pub paxos: Paxos,
        /// 2 for cephx.
        pub protocol: u32,
        /// Payload of the authentication protocol.
        pub payload: Vec<u8>,
        /// Epoch of the sender's monitor map; Linux leaves it out.
        pub monmap_epoch: Trailing<Epoch>,
    }

    /// Answers [`Auth`].
    pub struct AuthReply = 18 "auth_reply" [v 1/1] {
        /// As in the request.
        pub protocol: u32,
        /// 0 or a negative errno.
        pub result: i32,
        /// Of the session.
        pub global_id: u64,
        /// Payload of the authentication protocol.
        pub payload: Vec<u8>,
        /// For people.
        pub message: String,
    }

    /// Asks for the newest version of a map.
    pub struct MonGetVersion = 19 "mon_get_version" [v 1/1] {
        /// Comes back in the reply.
        pub handle: u64,
        /// `osdmap`, `mdsmap`, `fsmap`, `monmap`.
        pub what: String,
    }

    /// Answers [`MonGetVersion`].
    pub struct MonGetVersionReply = 20 "mon_get_version_reply" [v 2/2] {
        /// Of the request.
        pub handle: u64,
        /// Newest.
        pub version: u64,
        /// Oldest that is kept.
        pub oldest_version: u64 = since 2,
    }

    /// Monitor to subscriber: one file system's map.
    pub struct MdsMap = 21 "mds_map" [v 2/1] {
        /// Of the cluster.
        pub fsid: Uuid,
        /// Of the map.
        pub epoch: Epoch,
        /// Encoded `maps::MdsMap`.
        pub map: Vec<u8>,
        /// The file system's name.
        pub fs_name: String = since 2,
    }

    /// Monitor or OSD to subscriber or peer: OSD maps. Incrementals are applied in order of epoch.
    pub struct OsdMap = 41 "osd_map" [v 4/3] {
        /// Of the cluster.
        pub fsid: Uuid,
        /// Encoded `maps::OsdMapInc` by the epoch that they make.
        pub incrementals: BTreeMap<Epoch, Buf>,
        /// Encoded `maps::OsdMap` by epoch.
        pub fulls: BTreeMap<Epoch, Buf>,
        /// Oldest that the sender can serve.
        pub oldest: Epoch,
        /// Newest that the sender has.
        pub newest: Epoch,
        /// Snapshots removed in the epochs that this message skips, by pool.
        pub gap_removed_snaps: BTreeMap<i64, IntervalSet> = since 4,
    }

    /// Monitor to `fsmap` subscriber (the `ceph` command): all file systems.
    pub struct FsMap = 45 "fs_map" [v 1/1] {
        /// Of the map.
        pub epoch: Epoch,
        /// Encoded `maps::FsMap`, without a length before it.
        pub map: Rest,
    }

    /// Answers [`PoolOp`], after the map that holds the change.
    pub struct PoolOpReply = 48 "pool_op_reply" [v 1/1] {
        /// Head.
        pub paxos: Paxos,
        /// Of the cluster.
        pub fsid: Uuid,
        /// 0 or a negative errno.
        pub code: i32,
        /// The OSD map's epoch that holds the change.
        pub epoch: Epoch,
        /// E.g. the new snapshot id as u64.
        pub data: Option<Vec<u8>>,
    }

    /// Changes a pool ([`pool_op`] codes).
    pub struct PoolOp = 49 "pool_op" [v 4/2] {
        /// Head.
        pub paxos: Paxos,
        /// Of the cluster.
        pub fsid: Uuid,
        /// The pool.
        pub pool: u32,
        /// The operation.
        pub op: u32,
        /// Unused.
        pub auid: u64,
        /// Of the snapshot.
        pub snapid: SnapId,
        /// Of the pool or snapshot.
        pub name: String,
        /// Once the CRUSH rule.
        pub unused: u8 = since 3,
        /// For a new pool; -1 for the default.
        pub crush_rule: i16 = since 4,
    }

    /// A command line, as one JSON object.
    pub struct MonCommand = 50 "mon_command" [v 1/1] {
        /// Head.
        pub paxos: Paxos,
        /// Of the cluster.
        pub fsid: Uuid,
        /// One string of JSON.
        pub cmd: Vec<String>,
        /// Input.
        pub data: Bufs = data,
    }

    /// Answers [`MonCommand`].
    pub struct MonCommandAck = 51 "mon_command_ack" [v 1/1] {
        /// Head.
        pub paxos: Paxos,
        /// 0 or a negative errno.
        pub r: i32,
        /// Status text.
        pub rs: String,
        /// As in the request.
        pub cmd: Vec<String>,
        /// Output.
        pub data: Bufs = data,
    }

    /// Lines for the cluster log.
    pub struct Log = 52 "log" [v 1/1] {
        /// Head.
        pub paxos: Paxos,
        /// Of the cluster.
        pub fsid: Uuid,
        /// The lines.
        pub entries: Vec<LogEntry>,
    }

    /// Answers [`Log`].
    pub struct LogAck = 53 "log_ack" [v 1/1] {
        /// Of the cluster.
        pub fsid: Uuid,
        /// The last line's `seq` that is kept.
        pub last: u64,
        /// Of the log.
        pub channel: String,
    }

    /// Asks for the usage of pools by name.
    pub struct GetPoolStats = 58 "get_pool_stats" [v 1/1] {
        /// Head.
        pub paxos: Paxos,
        /// Of the cluster.
        pub fsid: Uuid,
        /// Pool names.
        pub pools: Vec<String>,
    }

    /// Answers [`GetPoolStats`].
    pub struct GetPoolStatsReply = 59 "get_pool_stats_reply" [v 2/1] {
        /// Head.
        pub paxos: Paxos,
        /// Of the cluster.
        pub fsid: Uuid,
        /// By pool name.
        pub pool_stats: BTreeMap<String, PoolStat>,
        /// True if omap usage is known per pool.
        pub per_pool: bool = since 2,
    }

    /// Monitor to subscriber: options that are set for it. Sent even when empty: clients wait for it.
    pub struct Config = 62 "config" [v 1/1] {
        /// Name to value.
        pub config: BTreeMap<String, String>,
    }

    /// Asks for the [`Config`] of a name.
    pub struct GetConfig = 63 "get_config" [v 1/1] {
        /// The entity.
        pub name: EntityName,
        /// On which host.
        pub host: String,
        /// On which class of device.
        pub device_class: String,
    }

    /// A command for an OSD (`ceph tell osd.0 ...`).
    pub struct Command = 97 "command" [v 1/1] {
        /// Of the cluster.
        pub fsid: Uuid,
        /// One string of JSON.
        pub cmd: Vec<String>,
        /// Input.
        pub data: Bufs = data,
    }

    /// Answers [`Command`].
    pub struct CommandReply = 98 "command_reply" [v 1/1] {
        /// 0 or a negative errno.
        pub r: i32,
        /// Status text.
        pub rs: String,
        /// Output.
        pub data: Bufs = data,
    }

    /// Monitor to `fsmap.user` subscriber.
    pub struct FsMapUser = 103 "fs_map_user" [v 1/1] {
        /// Of the map.
        pub epoch: Epoch,
        /// The map.
        pub map: maps::FsMapUser,
    }

    /// Monitor to `mgrmap` subscriber.
    pub struct MgrMap = 0x704 "mgr_map" [v 1/1] {
        /// Encoded MgrMap, without a length.
        pub map: Rest,
    }
}

/// Codes of [`PoolOp::op`].
pub mod pool_op {
    /// Create the pool named `name`.
    pub const CREATE: u32 = 0x01;
    /// Delete the pool.
    pub const DELETE: u32 = 0x02;
    /// Create the pool snapshot `name`.
    pub const CREATE_SNAP: u32 = 0x11;
    /// Delete the pool snapshot `name`.
    pub const DELETE_SNAP: u32 = 0x12;
    /// Allocate a new self-managed snapshot id.
    pub const CREATE_UNMANAGED_SNAP: u32 = 0x21;
    /// Delete the self-managed snapshot `snapid`.
    pub const DELETE_UNMANAGED_SNAP: u32 = 0x22;
}

impl OsdMap {
    /// The newest epoch that this message makes known.
    pub fn newest_contained(&self) -> Epoch {
        let last = |m: &BTreeMap<Epoch, Buf>| m.keys().next_back().copied().unwrap_or_default();
        last(&self.incrementals).max(last(&self.fulls))
    }
}
