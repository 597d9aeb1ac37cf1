//! Between OSDs: heartbeats, replication, peering, recovery. Contents that only the OSD interprets
//! (transactions, log entries, PG info) travel encoded: their structures are the OSD's stored formats, which
//! have versions of their own.

use maps::{EVersion, Epoch, HObject, OsdId, ReqId, Spg};
use stdx::{Buf, Bufs};
use wire::Uuid;

/// Codes of [`OsdPing::op`].
pub mod ping_op {
    /// Asks for an answer.
    pub const PING: u8 = 0;
    /// Answers a ping.
    pub const REPLY: u8 = 1;
    /// The map says that you are down.
    pub const YOU_DIED: u8 = 2;
}

/// Steps of a reservation, sent with [`PgReserve`].
pub mod reserve_op {
    /// Primary: your copy, which lacks what the log tells of, is to be completed.
    pub const RECOVER: u8 = 0;
    /// Primary: your copy is to be compared and filled.
    pub const FILL: u8 = 1;
    /// Member: the slot is granted, begin.
    pub const GRANT: u8 = 2;
    /// Member: there is no room for a copy to be filled.
    pub const TOOFULL: u8 = 3;
    /// Primary: that is over.
    pub const RELEASE: u8 = 4;
}

wire::wire_structs! {
    /// The common head of all messages about a PG.
    #[derive(Copy, Eq)]
    pub struct PgHead[plain] {
        /// The PG, with the receiver's shard.
        pub pgid: Spg,
        /// The sender's shard.
        pub from: i8,
        /// The sender's map: a receiver with an older one waits for it.
        pub epoch: Epoch,
        /// First epoch of the interval that the message belongs to; a receiver in a newer one ignores it. An
        /// answer repeats the request's.
        pub interval: Epoch,
    }
}

impl PgHead {
    /// The head of the answer to a message with this one.
    pub fn answer(self, epoch: Epoch) -> Self {
        let pgid = Spg { shard: self.from, ..self.pgid };
        Self { pgid, from: self.pgid.shard, epoch, interval: self.interval }
    }
}

wire::messages! {
    /// A heartbeat, on a connection of its own.
    pub struct OsdPing = 0xe200 "osd_ping" [v 1/1] {
        /// Id of the cluster.
        pub fsid: Uuid,
        /// One of [`ping_op`].
        pub op: u8,
        /// The sending OSD.
        pub from: OsdId,
        /// The sender's map.
        pub epoch: Epoch,
        /// The sender has been up since this epoch.
        pub up_from: Epoch,
        /// The pinging side's monotonic clock in nanoseconds; comes back unchanged in the reply.
        pub stamp: u64,
        /// Until when the replier may serve reads of PGs shared with the pinger, in nanoseconds after
        /// `stamp`; 0 for no lease.
        pub lease_ns: u64,
    }

    /// Primary to replica: make this update durable.
    pub struct RepOp = 0xe201 "rep_op" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// The client's request.
        pub reqid: ReqId,
        /// Version of the update.
        pub version: EVersion,
        /// All updates up to here are durable on all replicas and may be read.
        pub committed_to: EVersion,
        /// The log may be cut off up to here.
        pub trim_to: EVersion,
        /// The object that changes.
        pub object: HObject,
        /// Encoded log entries.
        pub log: Buf,
        /// Encoded store transaction; payload that it refers to is in `data`.
        pub transaction: Buf,
        /// Payload of the transaction.
        pub data: Bufs = data,
    }

    /// Primary to replica: a part of what the update will write that follows on this connection. Not
    /// answered; the update's answer is for it too.
    pub struct RepData = 0xe20e "rep_data" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// Version of the update.
        pub version: EVersion,
        /// Offset of this part in the payload.
        pub offset: u64,
        /// Whole blocks of the payload.
        pub data: Bufs = data,
    }

    /// Answers [`RepOp`] once the update is durable.
    pub struct RepOpReply = 0xe202 "rep_op_reply" [v 3/3] {
        /// Of the PG; both epochs are the interval of the request.
        pub head: PgHead,
        /// Version of the update, as in the request.
        pub version: EVersion,
        /// 0, or a negative errno: the replica's store failed.
        pub result: i32,
        /// All updates up to here are durable on this replica.
        pub last_complete: EVersion,
    }

    /// Primary to a former or present member of the PG: what do you have?
    pub struct PgQuery = 0xe203 "pg_query" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// Wants the log from behind `since` on, not only the info.
        pub want_log: bool,
        /// Log position, see `want_log`.
        pub since: EVersion,
    }

    /// Answers [`PgQuery`] without log; also sent unasked by an OSD that has a PG and sees a new primary.
    pub struct PgNotify = 0xe204 "pg_notify" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// The sender has a copy; otherwise `info` is empty.
        pub exists: bool,
        /// Encoded PG info.
        pub info: Vec<u8>,
    }

    /// Primary to replica: the agreed state, without a log that the replica has already.
    pub struct PgInfo = 0xe205 "pg_info" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// The PG is active from now on.
        pub activate: bool,
        /// Encoded PG info.
        pub info: Vec<u8>,
    }

    /// Primary to replica when it activates, or replica to primary on [`PgQuery`]: info and log.
    pub struct PgLog = 0xe206 "pg_log" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// The PG is active from now on.
        pub activate: bool,
        /// Encoded PG info.
        pub info: Vec<u8>,
        /// Encoded log entries, oldest first.
        pub log: Vec<u8>,
        /// Encoded set of objects that the sender misses.
        pub missing: Vec<u8>,
    }

    /// A whole object, or a part of one, for recovery and backfill.
    pub struct Push = 0xe207 "push" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// The object to store.
        pub object: HObject,
        /// Version of the object.
        pub version: EVersion,
        /// Offset of the part in the object.
        pub offset: u64,
        /// The first part: what the receiver has is replaced.
        pub first: bool,
        /// The last part: the object is complete.
        pub last: bool,
        /// The object does not exist at this version.
        pub deleted: bool,
        /// Encoded xattrs and omap entries of this part.
        pub attributes: Vec<u8>,
        /// The part's bytes.
        pub data: Bufs = data,
    }

    /// Answers [`Push`] once it is durable.
    pub struct PushReply = 0xe208 "push_reply" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// The object, as in the request.
        pub object: HObject,
        /// Offset of the next part; the object's end after the last part.
        pub next_offset: u64,
        /// 0 or a negative errno.
        pub result: i32,
    }

    /// Primary to a member that has an object that the primary misses: push it to me. Answered by [`Push`].
    pub struct Pull = 0xe209 "pull" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// The object to send.
        pub object: HObject,
        /// The version needed.
        pub version: EVersion,
        /// Offset to start at.
        pub offset: u64,
    }

    /// Primary to a member, or to the copy that it takes its own from: which objects do you have between
    /// these keys, in which versions?
    pub struct PgScan = 0xe20a "pg_scan" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// Encoded first key.
        pub from: Vec<u8>,
        /// Encoded key behind the last.
        pub to: Vec<u8>,
        /// Maximum number of entries.
        pub max: u32,
        /// The comparison has ended: the receiver's copy is complete, which is to be made durable and
        /// answered.
        pub done: bool,
    }

    /// Answers [`PgScan`].
    pub struct PgScanReply = 0xe20b "pg_scan_reply" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// Encoded keys and versions, in order.
        pub entries: Vec<u8>,
        /// Encoded key up to which `entries` is all there is, exclusive.
        pub until: Vec<u8>,
        /// Repeats the request's `done`.
        pub done: bool,
    }

    /// Primary to a member, and back: whose turn it is to be filled.
    pub struct PgReserve = 0xe20d "pg_reserve" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// One of [`reserve_op`].
        pub op: u8,
        /// The higher, the sooner.
        pub urgency: u8,
    }

    /// Primary to an OSD that serves the PG no more: all members have everything, so its copy may go.
    pub struct PgRemove = 0xe20c "pg_remove" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
    }

    /// Primary to a member: what does your copy have between these keys? For scrub.
    pub struct PgScrub = 0xe218 "pg_scrub" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// Encoded first key.
        pub from: Vec<u8>,
        /// Encoded key behind the last.
        pub to: Vec<u8>,
        /// Read all data and omap from the device, and give their checksums.
        pub deep: bool,
    }

    /// Answers [`PgScrub`].
    pub struct PgScrubMap = 0xe219 "pg_scrub_map" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// Encoded objects in the order of keys.
        pub objects: Vec<u8>,
        /// If not empty, the reason why the objects can't even be listed.
        pub error: String,
    }

    /// The last scrub of a PG and its result: sent by the primary to the members, and back by a member that
    /// knows of a later scrub.
    pub struct PgScrubbed = 0xe21a "pg_scrubbed" [v 2/2] {
        /// PG, map and interval.
        pub head: PgHead,
        /// The encoded scrub record.
        pub record: Vec<u8>,
    }
}
