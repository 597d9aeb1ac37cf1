//! Leases carried by heartbeats: an OSD that answers a ping promises to make any new primary wait until the
//! pinger's lease is over.

use maps::{Epoch, OsdId};
use std::collections::BTreeMap;
use stdx::Instant;

/// A promise of another OSD: it knows of no map newer than `epoch`, and will make a new primary wait until
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
    /// Promises that we gave: incarnation, and end.
    granted: BTreeMap<OsdId, (Epoch, Instant)>,
    /// Promises that we hold.
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

    /// End of our promise to that incarnation; the beginning of time if there is none.
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
