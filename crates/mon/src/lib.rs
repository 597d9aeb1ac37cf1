//! The monitor: keeps the cluster's maps, keys and options in a replicated log, tells everyone of changes,
//! answers administrators (docs/design.md, decisions 7, 10, 11, 12).
//!
//! How a change happens: a handler reads the *proposed* state, describes the next one in an [`edit::Edit`]
//! and proposes it to the log ([`raft_log`]), which [`consensus`] replicates; when it is committed,
//! [`state::State::apply`] changes the committed state, subscribers are told, and replies that waited go out.
//! Nothing that is not durable is ever shown. What OSDs and MDSs report of themselves is soft state
//! ([`volatile`]).
//!
//! Entry points: [`Mon`], [`MonConfig`]; commands are in [`commands`], one file a family.

mod answers;
mod bootstrap;
mod cluster_log;
mod commands;
mod config;
mod consensus;
mod crush_edit;
mod domain;
mod edit;
mod entry;
mod export_targets;
mod failure;
mod health;
mod map_share;
mod mds_probes;
mod mon;
mod options;
mod pg_stats;
mod quorum;
mod raft_log;
mod session;
mod state;
mod storage;
mod text;
mod ticker;
mod view;
mod volatile;

pub use config::MonConfig;
pub use consensus::read_lease;
pub use entry::{Change, LogEntry};
pub use mon::Mon;
pub use quorum::{Seen, seen};
pub use storage::{Space, Storage};
