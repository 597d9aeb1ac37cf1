//! The promises that heartbeats carry: an OSD that answers a ping will tell any new primary to wait until the
//! pinger's lease is over.

use maps::{Epoch, OsdId};
use std::collections::BTreeMap;
use stdx::Instant;

/// A promise of another OSD: it knows of no map newer than `epoch`, and will tell a new primary to wait until
/// `until`.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// End of the promise on our clock.
    pub until: Instant,
    /// Its map when it promised.
    pub epoch: Epoch,
    /// The incarnation that promised.
    pub up_from: Epoch,
}

/// The newest promise in each direction, by the other OSD.
///
/// A later promise to the same incarnation never ends before an earlier one: both have the same length.
#[derive(Debug, Default)]
pub struct Leases {
    /// Given by us: incarnation, and until when.
    granted: BTreeMap<OsdId, (Epoch, Instant)>,
    /// Given to us.
    held: BTreeMap<OsdId, Lease>,
}

impl Leases {
    /// Promises an incarnation of an OSD to wait until `until`.
    pub fn grant(&mut self, osd: OsdId, up_from: Epoch, until: Instant) {
        let old = self.granted.insert(osd, (up_from, until));
        assert!(
            old.is_none_or(|(incarnation, end)| incarnation != up_from || end <= until),
            "a promise to osd.{osd} is shortened"
        );
    }

    /// The time until which that incarnation may rely on us; the beginning of time if it may not.
    pub fn granted_until(&self, osd: OsdId, up_from: Epoch) -> Instant {
        self.granted.get(&osd).filter(|(from, _)| *from == up_from).map_or(Instant(0), |(_, until)| *until)
    }

    /// Takes another OSD's promise.
    pub fn take(&mut self, osd: OsdId, lease: Lease) {
        self.held.insert(osd, lease);
    }

    /// The newest promise of an OSD.
    pub fn of(&self, osd: OsdId) -> Option<&Lease> {
        self.held.get(&osd)
    }
}
