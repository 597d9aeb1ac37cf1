//! The monitor: keeps the cluster's maps, keys and options in a replicated log, tells everyone of changes, answers
//! administrators (DESIGN, decisions 7, 10, 11, 12).
//!
//! How a change happens: a handler reads the *proposed* state, describes the next one in an [`edit::Edit`] and proposes it
//! to the [`log`], which [`consensus`] replicates; when it is committed, [`state::State::apply`] changes the committed state, subscribers are
//! told, and replies that waited go out. Nothing that is not durable is ever shown. What OSDs and MDSs report of
//! themselves is soft state ([`soft`]).
//!
//! Entry points: [`Mon`], [`MonConfig`]; commands are in [`commands`], one file a family.

mod auth_service;
mod autoscale;
mod balancer;
mod bootstrap;
mod commands;
mod config;
mod config_log;
mod consensus;
mod crush_edit;
#[cfg(test)]
mod damage_tests;
mod disks;
mod edit;
mod entry;
mod features;
mod health;
mod log;
mod map_share;
mod map_spread;
mod mds_service;
mod mon;
mod osd_service;
mod osd_wishes;
mod pg_num;
mod pgstat;
mod pool_ops;
mod publish;
mod quorum;
mod scrub_health;
mod session;
mod snaps;
mod soft;
mod state;
mod storage;
mod syslog;
mod tick;

pub use config::MonConfig;
pub use entry::{Change, LogEntry};
pub use mon::Mon;
pub use quorum::{Seen, read_lease, seen};
pub use storage::Storage;
