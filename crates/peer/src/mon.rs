//! Between monitors. The consensus protocol's own messages are the monitor's business and travel as blobs of it.

use wire::{EntityId, RawMsg, Uuid};

wire::messages! {
    /// First message on a connection between monitors: who speaks.
    pub struct MonHello = 0xe000 "mon_hello" [v 1/1] {
        /// Of the cluster; another one ends the connection.
        pub fsid: Uuid,
        /// Name of the sender in the MonMap.
        pub name: String,
        /// Feature level that the sender can do.
        pub feature_level: u32,
    }

    /// One step of consensus.
    pub struct MonPaxos = 0xe001 "mon_paxos" [v 1/1] {
        /// What the step is; numbers of the monitor's.
        pub op: u8,
        /// Ballot, term or election epoch that it belongs to.
        pub term: u64,
        /// Encoded by the monitor.
        pub payload: Vec<u8>,
        /// Log entries or a snapshot, encoded by the monitor.
        pub data: stdx::Bufs = data,
    }

    /// A message of a client's or daemon's session, handed on to the leader.
    pub struct MonForward = 0xe002 "mon_forward" [v 1/1] {
        /// Number given by the sender, comes back in the reply.
        pub session: u64,
        /// Who sent it.
        pub from: EntityId,
        /// Its entity name as text.
        pub name: String,
        /// What its key allows on monitors.
        pub caps: String,
        /// Its addresses.
        pub addrs: wire::AddrVec,
        /// The message.
        pub msg: ForwardedMsg,
    }

    /// What the leader answers to a [`MonForward`]; sent on to the session by the forwarding monitor.
    pub struct MonForwardReply = 0xe003 "mon_forward_reply" [v 1/1] {
        /// As in the request.
        pub session: u64,
        /// The message for it.
        pub msg: ForwardedMsg,
    }
}

wire::wire_structs! {
    /// A whole message inside another.
    pub struct ForwardedMsg[v 1/1] {
        /// Type number.
        pub kind: u16,
        /// Version of the encoding.
        pub version: u16,
        /// Oldest version that a reader must know.
        pub compat: u16,
        /// Transaction id.
        pub tid: u64,
        /// Body.
        pub front: Vec<u8>,
        /// Rarely used.
        pub middle: Vec<u8>,
        /// Bulk.
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
