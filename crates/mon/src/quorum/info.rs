//! The quorum as commands and health checks show it, and the clocks of its members.

use maps::MonMap;
use std::collections::BTreeMap;
use stdx::Instant;

/// A monitor's clock, seen from the leader.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct ClockSkew {
    /// Seconds by which it is ahead of the leader's.
    pub ahead_s: f64,
    /// Seconds that a message takes there and back.
    pub round_trip_s: f64,
}

/// The members of the quorum. The leader knows them all; other monitors know the leader and themselves.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct QuorumInfo {
    names: Vec<String>,
    leader: String,
    epoch: u64,
    since: Instant,
    clocks: BTreeMap<String, ClockSkew>,
    /// The space of their stores, by name.
    spaces: BTreeMap<String, StoreSpace>,
}

/// What a monitor says of the space of its store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct StoreSpace {
    /// Thousandths of the device that are in use; 0 if that is not known.
    pub used: u32,
    /// Bytes of keys and values that it still takes, if that is known.
    pub left: Option<u64>,
}

impl QuorumInfo {
    /// Names of the monitors in quorum, in order of their ranks.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The leader's name; empty if there is none.
    pub fn leader(&self) -> &str {
        &self.leader
    }

    /// Grows with each election; even, as clients expect of a completed election.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Time at which the quorum took its present form.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// The clocks of the others in quorum, by name.
    pub fn clocks(&self) -> &BTreeMap<String, ClockSkew> {
        &self.clocks
    }

    /// Ranks of the monitors in quorum.
    pub fn ranks(&self, map: &MonMap) -> Vec<usize> {
        self.names.iter().filter_map(|name| map.rank_of(name)).collect()
    }

    /// Monitors of the map that are not in quorum.
    pub fn missing(&self, map: &MonMap) -> Vec<String> {
        map.ranks.iter().filter(|name| !self.names.contains(name)).cloned().collect()
    }

    /// Sets the members. Clocks of others are forgotten.
    pub fn update(&mut self, now: Instant, names: Vec<String>, leader: String, epoch: u64) {
        if (&self.names, &self.leader, self.epoch) != (&names, &leader, epoch) {
            self.since = now;
        }
        self.clocks.retain(|name, _| names.contains(name));
        self.spaces.retain(|name, _| names.contains(name));
        (self.names, self.leader, self.epoch) = (names, leader, epoch);
    }

    /// Notes a monitor's clock skew.
    pub fn set_clock(&mut self, name: String, skew: ClockSkew) {
        self.clocks.insert(name, skew);
    }

    /// Thousandths of the devices of monitors' stores that are in use, by name, where that is known.
    pub fn used(&self) -> impl Iterator<Item = (&String, u32)> {
        self.spaces.iter().filter(|(_, space)| space.used > 0).map(|(name, space)| (name, space.used))
    }

    /// The one of the other monitors' stores that takes least: its monitor, and how many bytes of keys and
    /// values, if any has told that.
    pub fn least_left(&self) -> Option<(&String, u64)> {
        let known = self.spaces.iter().filter_map(|(name, space)| Some((name, space.left?)));
        known.min_by_key(|(_, left)| *left)
    }

    /// Notes the space of a monitor's store.
    pub fn set_space(&mut self, name: String, space: StoreSpace) {
        self.spaces.insert(name, space);
    }

    /// Empties the quorum for another leader, but keeps clock skews.
    pub fn reset(&mut self) {
        *self = Self { clocks: std::mem::take(&mut self.clocks), ..Self::default() };
    }
}
