//! What commands and health checks show of the quorum.

use maps::MonMap;
use std::collections::BTreeMap;
use stdx::Instant;

/// As the leader sees it; elsewhere only who leads.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct QuorumInfo {
    /// Names of those who are in quorum, in order of their ranks.
    pub names: Vec<String>,
    /// Who leads; empty where nobody does.
    pub leader: String,
    /// Grows with each election; even, as clients expect of a finished one.
    pub epoch: u64,
    /// Since when these are in quorum.
    pub since: Instant,
    /// By how many seconds a monitor's clock is ahead of the leader's, and how long a message takes there and back.
    pub clocks: BTreeMap<String, (f64, f64)>,
}

impl QuorumInfo {
    /// Ranks of those who are in quorum.
    pub fn ranks(&self, map: &MonMap) -> Vec<usize> {
        self.names.iter().filter_map(|name| map.rank_of(name)).collect()
    }

    /// Monitors of the map that are not in quorum.
    pub fn missing(&self, map: &MonMap) -> Vec<String> {
        map.ranks.iter().filter(|name| !self.names.contains(name)).cloned().collect()
    }
}
