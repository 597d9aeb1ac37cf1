//! The common part of tests with real processes: a cluster in a temporary directory, and real clients that
//! talk to it.
//!
//! If a client is not installed, its test prints a line and is skipped, or fails if `CI=true`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests are about real files, processes and time"
)]

mod browser;
mod cluster;
mod failover;
mod flood;
pub mod golden;
mod guest;
mod health;
mod hosts;
mod member;
mod mount;
mod prometheus;
pub mod recorded;
mod run;
mod small_host;
mod thrash;
mod thrash_files;
mod upgrade;
mod workload;

pub use browser::Browser;
pub use cluster::{Cluster, Daemon, Net, Options};
pub use failover::{FailOver, fail_over};
pub use flood::{Flood, Flooded, flood, flood_reads, read_for_ever};
pub use guest::{GuestPlan, guest};
pub use health::Administrator;
pub use hosts::Hosts;
pub use member::{ClientHost, Member};
pub use mount::{Mount, Program, names};
pub use prometheus::{Beside, Prometheus, free_port};
pub use run::{Ran, has, nacre, nacre_bin, run, xtask_bin};
pub use small_host::SmallHost;
pub use thrash::{Done, Plan, thrash};
pub use thrash_files::{FilesDone, FilesPlan, thrash_files};
pub use upgrade::{UpgradeDone, UpgradePlan, upgrade};
