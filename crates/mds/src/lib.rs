//! The metadata server role (the paper's section 4).
//!
//! [`Rank`] is the name space as a state machine over object operations: cache, journal, capabilities,
//! sessions, and one file for each operation under `ops`. The daemon around it keeps the monitor session,
//! RADOS and the connections.
//!
//! Absent: a rank waits for nothing but its inputs; no operation holds a lock or half a change while it
//! waits; no reply shows what the journal does not have.

mod authority;
mod cache;
mod cap;
mod config;
mod cut;
mod daemon;
mod dirty;
mod io;
mod journal;
mod locks;
mod ops;
mod page;
mod pins;
mod rank;
mod realm;
mod types;

pub use config::{MdsConfig, MdsOptions, RankConfig};
pub use daemon::Mds;
pub use io::{IoRequest, IoResult, ObjOp, ObjReply, ObjectId};
pub use rank::{ClientPeer, Effect, Rank, RankStatus, ScrubOptions, Stage};
pub use types::{ClientId, IoId, RankPeer, SnapContext};
