//! Every message that a client of Ceph sends or receives, each declared once, and the numbers they use:
//! operation codes, flags, cap bits, error numbers (docs/protocol.md 3 to 6).
//!
//! Entry points: [`Body`] is any message; [`op::Op`] an object operation. Maps travel as encoded blobs and
//! are interpreted by the crate `maps`. Decoding accepts every version that clients from Ceph 14 to 20 and
//! Linux from 5.11 on send; encoding is Pacific's (16.2), whatever the peer.

pub mod basic;
pub mod class;
pub mod mds;
pub mod mgr;
pub mod mon;
pub mod op;
pub mod osd;

pub use basic::{Paxos, Rest, Trailing, Versioned};
pub use mds::*;
pub use mgr::*;
pub use mon::*;
pub use op::{Extent, Op, OpCode, SubOp};
pub use osd::*;

wire::message_bodies! {
    /// Any client-visible message.
    pub enum Body {
        Ping, MonMap, MonGetMap, Statfs, StatfsReply, MonSubscribe, MonSubscribeAck, Auth, AuthReply,
        MonGetVersion, MonGetVersionReply, MdsMap, ClientSession, ClientReconnect, ClientRequest,
        ClientRequestForward, ClientReply, ClientReclaim, ClientReclaimReply, ClientMetrics, OsdMap, OsdOp,
        OsdOpReply, WatchNotify, FsMap, PoolOpReply, PoolOp, MonCommand, MonCommandAck, Log, LogAck,
        GetPoolStats, GetPoolStatsReply, OsdBackoff, Config, GetConfig, Command, CommandReply, FsMapUser,
        MgrMap, ClientCaps, ClientLease, ClientSnap, ClientCapRelease, ClientQuota, MonGetOsdMap,
        MgrOpen, MgrReport, MgrClose, MgrCommand, MgrCommandReply, MgrUpdate,
    }
}
