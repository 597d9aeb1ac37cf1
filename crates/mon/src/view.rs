//! A read-only view of the cluster, for commands, health checks and periodic work.

use crate::config::MonConfig;
use crate::domain::balancer::{self, Balancer};
use crate::pg_stats::PgTable;
use crate::quorum::info::QuorumInfo;
use crate::session::Sessions;
use crate::state::State;
use crate::volatile::mds_liveness::MdsLiveness;
use maps::Gid;
use std::collections::BTreeMap;
use stdx::Now;

/// The cluster as commands that read see it.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// The committed state.
    pub state: &'a State,
    /// Statistics of PGs and devices, as reported by OSDs.
    pub pgs: &'a PgTable,
    /// The monitors in quorum.
    pub quorum: &'a QuorumInfo,
    /// The leader's balancer.
    pub balancer: &'a Balancer,
    /// Signs of life of metadata servers.
    pub mds: &'a MdsLiveness,
    /// Metadata of this monitor's host.
    pub host: &'a BTreeMap<String, String>,
    /// The connected sessions.
    pub sessions: &'a Sessions,
    /// Configuration of this monitor.
    pub config: &'a MonConfig,
    /// The current time.
    pub now: Now,
}

impl View<'_> {
    /// An option as it applies to monitors.
    pub fn option<T: crate::options::FromOption>(&self, name: &str) -> T {
        crate::options::option(self.config, self.state, name)
    }

    /// An option of Ceph's manager, whose work the leading monitor does.
    pub fn mgr_option<T: crate::options::FromOption>(&self, name: &str) -> T {
        crate::options::mgr_option(self.config, self.state, name)
    }

    /// True if a metadata server is known to live: as a standby it can take a rank.
    pub fn is_mds_alive(&self, gid: Gid) -> bool {
        self.mds.is_alive(self.now.mono, gid, self.option("mds_beacon_grace"))
    }

    /// The balancer's settings.
    pub fn balancer_settings(&self) -> balancer::Settings {
        balancer::Settings {
            active: self.mgr_option("mgr/balancer/active"),
            mode: self.mgr_option("mgr/balancer/mode"),
            changes: usize::try_from(self.mgr_option::<u64>("mgr/balancer/upmap_max_optimizations"))
                .unwrap_or(usize::MAX),
            misplaced: self.mgr_option("target_max_misplaced_ratio"),
        }
    }
}
