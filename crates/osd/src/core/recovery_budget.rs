//! Limits of background work: transfers of objects, reservations of PGs, the pace beside clients, and OSDs
//! without space.

use super::reservations::Reservations;
use crate::qos::{Charge, Class, Qos};
use maps::{OsdId, Spg};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;

/// The budget of background work of one OSD.
#[derive(Debug, Default)]
pub struct RecoveryBudget {
    /// Objects in transit in all PGs.
    transfers: usize,
    /// Slots of PGs that recover with us as primary.
    own: Reservations,
    /// Slots of PGs that are backfilled here.
    filled: Reservations,
    qos: Qos,
    /// End of the pause that the pace imposes on recovery.
    paced_until: Option<Instant>,
    /// OSDs without space for an object, and the time of the next attempt.
    out_of_space: BTreeMap<OsdId, Instant>,
}

/// Objects in transit.
impl RecoveryBudget {
    /// Counts an object in transit.
    pub fn begin_transfer(&mut self) {
        self.transfers += 1;
    }

    /// Counts objects as no longer in transit.
    pub fn end_transfers(&mut self, objects: usize) {
        assert!(self.transfers >= objects, "{objects} transfers end, {} are under way", self.transfers);
        self.transfers -= objects;
    }

    /// Number of objects in transit.
    pub fn transfers(&self) -> usize {
        self.transfers
    }
}

/// Slots for recovery and backfill.
impl RecoveryBudget {
    /// Requests a slot to recover a PG of which we are primary.
    pub fn reserve_own(&mut self, pgid: Spg, urgency: u8) {
        self.own.ask(pgid, urgency);
    }

    /// Requests a slot to have our copy of a PG backfilled.
    pub fn reserve_filled(&mut self, pgid: Spg, urgency: u8) {
        self.filled.ask(pgid, urgency);
    }

    /// Releases a slot of the first kind. Returns true if another PG may have it.
    pub fn release_own(&mut self, pgid: Spg) -> bool {
        self.own.release(pgid)
    }

    /// Releases a slot of the second kind. Returns true if another PG may have it.
    pub fn release_filled(&mut self, pgid: Spg) -> bool {
        self.filled.release(pgid)
    }

    /// Grants free slots of the first kind, of `count` in all.
    pub fn grant_own(&mut self, count: usize) -> Vec<Spg> {
        self.own.grant(count)
    }

    /// Grants free slots of the second kind, of `count` in all.
    pub fn grant_filled(&mut self, count: usize) -> Vec<Spg> {
        self.filled.grant(count)
    }
}

/// Pace of background work.
impl RecoveryBudget {
    /// True if another object may be recovered now; if not, [`Self::deadline`] says when to ask again.
    pub fn may_recover(&mut self, now: Instant) -> bool {
        let wait = self.qos.wait_before_next(now);
        self.pace(wait, now)
    }

    /// True if a copy's next objects may be compared now, which is a step of recovery.
    pub fn may_compare(&mut self, now: Instant) -> bool {
        let wait = self.qos.may_start(Class::Recovery, now);
        self.pace(wait, now)
    }

    fn pace(&mut self, wait: Option<Duration>, now: Instant) -> bool {
        let Some(wait) = wait else { return true };
        let at = now + wait;
        self.paced_until = Some(self.paced_until.map_or(at, |until| until.min(at)));
        false
    }

    /// True if recovery waits for its pace.
    pub fn is_paced(&self) -> bool {
        self.paced_until.is_some()
    }

    /// Ends the wait if it is over. Returns true if it is.
    pub fn pace_is_due(&mut self, now: Instant) -> bool {
        self.paced_until.take_if(|at| *at <= now).is_some()
    }

    /// Corrects the charge of an object whose size is now known. Returns true if recovery waited and need not
    /// any more.
    pub fn object_has(&mut self, bytes: u64, charged: &mut Charge, now: Instant) -> bool {
        self.qos.object_has(bytes, charged, now);
        let freed = self.is_paced() && self.qos.wait_before_next(now).is_none();
        if freed {
            self.paced_until = None;
        }
        freed
    }

    /// Charges an object that is being recovered, before its size is known.
    pub fn charge_object(&mut self, now: Instant) -> Charge {
        self.qos.object_begins(now)
    }

    /// Charges an object that is removed from a copy.
    pub fn charge_removal(&mut self, now: Instant) {
        self.qos.object_goes(now);
    }

    /// Charges bytes of recovery other than objects' data.
    pub fn charge_bytes(&mut self, bytes: u64, now: Instant) {
        self.qos.moved(bytes, now);
    }

    /// Notes that a client's write is durable everywhere, after `took`.
    pub fn client_wrote(&mut self, took: Duration, now: Instant) {
        self.qos.client_wrote(took, now);
    }

    /// `None` if a step of background work may start; else the time to wait before asking again.
    pub fn may_start(&mut self, class: Class, now: Instant) -> Option<Duration> {
        self.qos.may_start(class, now)
    }

    /// Number of objects, at most `most`, that a comparison may block for clients at once.
    pub fn objects_held(&self, most: usize, now: Instant) -> usize {
        self.qos.objects_held(most, now)
    }

    /// Notes background work for another OSD, or started earlier.
    pub fn note_background(&mut self, now: Instant) {
        self.qos.helped(now);
    }

    /// Creates a debt of `bytes`, so that no background work runs while there are clients.
    #[cfg(test)]
    pub fn owe(&mut self, bytes: u32, now: Instant) {
        self.qos.owe(bytes, now);
    }

    /// The present pace, for people.
    pub fn dump(&self) -> Value {
        self.qos.dump()
    }
}

/// OSDs without space.
impl RecoveryBudget {
    /// Notes that an OSD had no space for an object; it is not tried again before `until`.
    pub fn out_of_space(&mut self, osd: OsdId, until: Instant) {
        self.out_of_space.insert(osd, until);
    }

    /// True if an OSD was out of space a short while ago.
    pub fn is_out_of_space(&self, osd: OsdId) -> bool {
        self.out_of_space.contains_key(&osd)
    }

    /// Forgets the OSDs that may be tried again. Returns true if there were any.
    pub fn space_retry_is_due(&mut self, now: Instant) -> bool {
        let before = self.out_of_space.len();
        self.out_of_space.retain(|_, at| *at > now);
        self.out_of_space.len() < before
    }

    /// Time of the next [`Self::pace_is_due`] or [`Self::space_retry_is_due`].
    pub fn deadline(&self) -> Option<Instant> {
        self.out_of_space.values().min().copied().into_iter().chain(self.paced_until).min()
    }
}
