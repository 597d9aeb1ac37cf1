//! The OSD: keeps placement groups, orders and replicates their updates, agrees with other OSDs on what is
//! right after a failure, and completes copies that missed something (sections 5.1 to 5.5 of the paper).
//!
//! One state machine, [`Osd`]; the store and the session to the monitor are parts of it. See
//! `docs/internals/osd.md`.

mod admin;
mod backoff;
mod boot;
mod cls;
mod completion;
mod config;
mod copy_from;
mod core;
mod disk_health;
mod dispatch;
mod ending;
mod heartbeat;
mod links;
mod map_log;
mod map_sharing;
mod mon_session;
mod object;
pub mod offline;
mod op_tracker;
mod ops;
mod osd;
mod outbox;
mod pack;
mod perf;
mod pg;
mod pgs;
mod qos;
mod removal;
mod report;
mod requests;
mod scrub_options;
mod scrubbing;
mod session;
mod snapset;
mod stage;
mod store_io;
mod superblock;
#[cfg(test)]
mod tests;
mod turns;
mod waiting;
mod watch;

pub use config::{OsdConfig, OsdOptions};
pub use object::{ObjectInfo, object_info};
pub use ops::Limits;
pub use osd::Osd;
pub use scrub_options::ScrubOptions;
pub use snapset::{CloneEntry, SnapSet};
