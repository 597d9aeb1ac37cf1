//! Between monitors. What consensus says travels as blobs of it; what each blob means is the monitor's
//! business.

use std::collections::BTreeMap;
use wire::{AddrVec, EntityId, RawMsg, Uuid};

wire::messages! {
    /// First message on a connection between monitors: who speaks.
    pub struct MonHello = 0xe000 "mon_hello" [v 1/1] {
        /// Id of the cluster; another one ends the connection.
        pub fsid: Uuid,
        /// Name of the sender.
        pub name: String,
        /// Number of the sender's store, drawn when it was made: a monitor that lost its store is somebody
        /// else.
        pub store: u64,
        /// True if the sender's store does not hold a cluster yet.
        pub empty: bool,
        /// Feature level that the sender can do.
        pub feature_level: u32,
        /// `ceph mon metadata`.
        pub metadata: BTreeMap<String, String>,
    }

    /// One step of consensus.
    pub struct MonRaft = 0xe001 "mon_raft" [v 3/1] {
        /// The sender's store.
        pub from: u64,
        /// The store that is meant.
        pub to: u64,
        /// The sender's wall clock in nanoseconds.
        pub wall_ns: u64,
        /// Encoded by the monitor.
        pub payload: Vec<u8>,
        /// Thousandths of the device of the sender's store that are in use; 0 if that is not known.
        pub used_permille: u32 = since 2,
        /// Bytes of keys and values that the sender's store still takes, if that is known.
        pub left: Option<u64> = since 3,
    }

    /// A message of a client's or daemon's session, handed on to the leader.
    pub struct MonForward = 0xe002 "mon_forward" [v 1/1] {
        /// Number given by the sender, comes back in the reply.
        pub session: u64,
        /// Sender of the forwarded message.
        pub from: EntityId,
        /// Its global id.
        pub global_id: u64,
        /// Its entity name as text.
        pub name: String,
        /// Monitor capabilities of the sender's key.
        pub caps: String,
        /// Addresses of the sender.
        pub addrs: AddrVec,
        /// The address of its end of the socket.
        pub socket_addr: AddrVec,
        /// The feature bits of the connection.
        pub features: u64,
        /// The forwarded message.
        pub msg: ForwardedMsg,
    }

    /// The leader's answer to a [`MonForward`]; the forwarding monitor passes it on to the session.
    pub struct MonForwardReply = 0xe003 "mon_forward_reply" [v 1/1] {
        /// Repeats the request's `session`.
        pub session: u64,
        /// Index in the log that the session's monitor must have reached before it passes the message on, so
        /// that the session sees no map that is older than the answer.
        pub version: u64,
        /// The message for it.
        pub msg: ForwardedMsg,
    }

    /// A session of which messages were forwarded has ended.
    pub struct MonForwardEnd = 0xe004 "mon_forward_end" [v 1/1] {
        /// Number of the session, as in [`MonForward`].
        pub session: u64,
    }

    /// A part of the leader's state, for a monitor whose log is too old.
    pub struct MonSnapshot = 0xe005 "mon_snapshot" [v 1/1] {
        /// The sender's store.
        pub from: u64,
        /// The store that is meant.
        pub to: u64,
        /// The leader's term.
        pub term: u64,
        /// The last log entry in it.
        pub index: u64,
        /// The term of that entry.
        pub index_term: u64,
        /// Number of the part, from 0.
        pub part: u32,
        /// True for the last part.
        pub last: bool,
        /// Rows of the state as they are stored.
        pub rows: BTreeMap<Vec<u8>, Vec<u8>>,
    }

    /// A part has arrived; after the last one: it is taken over.
    pub struct MonSnapshotAck = 0xe006 "mon_snapshot_ack" [v 1/1] {
        /// The sender's store.
        pub from: u64,
        /// The store that is meant.
        pub to: u64,
        /// Index of the snapshot, as in [`MonSnapshot`].
        pub index: u64,
        /// The next part to send.
        pub next: u32,
    }

    /// To the leader: more global ids, please.
    pub struct MonIdsWanted = 0xe007 "mon_ids_wanted" [v 1/1] {
        /// Number of ids that the sender has left.
        pub left: u64,
    }

    /// Committed for the receiver alone.
    pub struct MonIds = 0xe008 "mon_ids" [v 1/1] {
        /// First of the ids.
        pub first: u64,
        /// Behind the last.
        pub end: u64,
    }
}

wire::wire_structs! {
    /// A whole message inside another.
    pub struct ForwardedMsg[v 1/1] {
        /// Number of the message type.
        pub kind: u16,
        /// Version of the encoding.
        pub version: u16,
        /// Oldest version that a reader must know.
        pub compat: u16,
        /// Transaction id of the message.
        pub tid: u64,
        /// Body of the message.
        pub front: Vec<u8>,
        /// Middle segment of the message; rarely used.
        pub middle: Vec<u8>,
        /// Bulk data of the message.
        pub data: stdx::Bufs,
    }
}

impl From<RawMsg> for ForwardedMsg {
    fn from(raw: RawMsg) -> Self {
        let RawMsg { kind, version, compat, tid, front, middle, data, .. } = raw;
        Self { kind, version, compat, tid, front, middle, data }
    }
}

impl From<ForwardedMsg> for RawMsg {
    fn from(msg: ForwardedMsg) -> Self {
        let ForwardedMsg { kind, version, compat, tid, front, middle, data } = msg;
        Self { kind, version, compat, tid, priority: wire::PRIORITY_DEFAULT, front, middle, data }
    }
}
