//! A cluster that is being thrashed, and what is hurt in it.

use super::hurt::Hurt;
use super::load::Bench;
use super::plan::{Done, Plan};
use crate::cluster::{Cluster, Daemon};
use crate::hosts::Hosts;
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::time::Instant;
use stdx::Rng;

/// The pool of the writers, and that of `rados bench`.
pub(super) const POOLS: [&str; 2] = ["checked", "bench"];

/// An injected fault, and the time of its repair.
pub(super) struct Wound {
    pub(super) mend_at: Instant,
    pub(super) hurt: Hurt,
}

/// A cluster being thrashed.
pub(super) struct Thrasher {
    pub(super) plan: Plan,
    pub(super) rng: Rng,
    pub(super) began: Instant,
    /// Dropped before the hosts that they run on.
    pub(super) daemons: BTreeMap<String, Daemon>,
    pub(super) cluster: Cluster,
    pub(super) hosts: Option<Hosts>,
    pub(super) wounds: Vec<Wound>,
    pub(super) writers: Option<Workload>,
    pub(super) bench: Bench,
    pub(super) done: Done,
}
