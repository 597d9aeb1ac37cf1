//! The OSD maps that a session has beyond those that this monitor sent it.

use maps::Epoch;

/// A change that an OSD asked for is in one of this many following maps.
const AWAITED: u8 = 2;

/// Knowledge about an OSD's maps, for the decision whether to send it new ones.
#[derive(Debug, Default)]
pub(crate) struct MapShare {
    /// It exchanges heartbeats with other OSDs, which bring it new maps.
    has_peers: bool,
    /// Number of maps that it still waits for after it asked for a change.
    awaits: u8,
    /// The newest map in existence when it last reported.
    newest_at_report: Epoch,
}

impl MapShare {
    /// Notes whether it exchanges heartbeats.
    pub fn peers(&mut self, any: bool) {
        self.has_peers = any;
    }

    /// True if it exchanges heartbeats.
    pub fn has_peers(&self) -> bool {
        self.has_peers
    }

    /// Notes that it asked for a change.
    pub fn asked(&mut self) {
        self.awaits = AWAITED;
    }

    /// True if it waits for a map.
    pub fn awaits(&self) -> bool {
        self.awaits > 0
    }

    /// Notes that it was sent the newest map.
    pub fn told(&mut self) {
        self.awaits = self.awaits.saturating_sub(1);
    }

    /// Notes that it reported with map `has` while `newest` is the newest. Returns true if it lacks a map
    /// that already existed at its last report.
    pub fn reported(&mut self, has: Epoch, newest: Epoch) -> bool {
        has < std::mem::replace(&mut self.newest_at_report, newest)
    }
}
