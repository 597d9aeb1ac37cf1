//! The OSD maps that a session has beyond those that this monitor sent it.

use maps::Epoch;

/// The change that an OSD has asked for is in one of this many maps that follow.
const AWAITED: u8 = 2;

/// The OSD maps that a session has beyond those that its monitor sent it.
#[derive(Debug, Default)]
pub(crate) struct MapShare {
    /// It exchanges heartbeats with other OSDs, which bring it new maps.
    has_peers: bool,
    /// It has asked for a change, and waits for this many maps.
    awaits: u8,
    /// The newest map that there was when it last reported.
    newest_at_report: Epoch,
}

impl MapShare {
    /// It has reported whether it exchanges heartbeats.
    pub fn peers(&mut self, any: bool) {
        self.has_peers = any;
    }

    /// True if it exchanges heartbeats.
    pub fn has_peers(&self) -> bool {
        self.has_peers
    }

    /// It has asked for a change.
    pub fn asked(&mut self) {
        self.awaits = AWAITED;
    }

    /// True if it waits for a map.
    pub fn awaits(&self) -> bool {
        self.awaits > 0
    }

    /// It was sent the newest map.
    pub fn told(&mut self) {
        self.awaits = self.awaits.saturating_sub(1);
    }

    /// It has reported with map `has`, while `newest` is the newest. Returns true if it lacks a map that was
    /// there at its last report.
    pub fn reported(&mut self, has: Epoch, newest: Epoch) -> bool {
        has < std::mem::replace(&mut self.newest_at_report, newest)
    }
}
