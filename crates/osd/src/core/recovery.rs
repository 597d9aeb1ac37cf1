//! Background work of PGs: what is due, reservations, transfers, pace, space, and how many PGs trim or are
//! scrubbed.

use super::Core;
use super::due::Due;
use crate::qos::{Charge, Class};
use maps::{OsdId, Spg};
use serde_json::Value;
use std::time::Duration;
use stdx::Instant;

/// Due work for the whole OSD.
impl Core {
    /// Reports to the monitor soon: a PG of ours has changed.
    pub fn report_soon(&mut self) {
        self.due.push(Due::Report);
    }

    /// Lets PGs trim removed snapshots if they may.
    pub fn look_for_trims(&mut self) {
        self.due.push(Due::Trim);
    }

    /// Lets PGs begin a scrub if one is due.
    pub fn look_for_scrubs(&mut self) {
        self.due.push(Due::Scrub);
    }

    /// True if nothing waits for [`Core::take_due`].
    pub fn is_idle(&self) -> bool {
        self.due.is_empty()
    }

    /// Takes a kind of work that is due; `true` if it was.
    pub fn take_due(&mut self, due: Due) -> bool {
        self.due.take(due)
    }

    /// Lets one more PG trim if fewer than `limit` do. Returns true if it may.
    pub fn begin_trim(&mut self, limit: usize) -> bool {
        self.trims.begin(limit)
    }

    /// Ends a PG's trimming.
    pub fn end_trim(&mut self) {
        self.trims.end();
        self.look_for_trims();
    }

    /// True if another PG may be scrubbed.
    pub fn has_free_scrub(&self) -> bool {
        self.scrubs.is_free(self.config.options.scrub.at_once)
    }

    /// Starts a PG's scrub, whatever the limit is.
    pub fn begin_scrub(&mut self) {
        self.scrubs.begin(usize::MAX);
    }

    /// Ends a PG's scrub.
    pub fn end_scrub(&mut self) {
        self.scrubs.end();
        self.look_for_scrubs();
    }
}

/// Slots for recovery and backfill.
impl Core {
    /// Requests a slot to recover a PG of which we are primary. A repeated request changes nothing.
    pub fn reserve_own(&mut self, pgid: Spg, urgency: u8) {
        self.budget.reserve_own(pgid, urgency);
        self.due.push(Due::Reservations);
    }

    /// Releases that slot, or the request.
    pub fn release_own(&mut self, pgid: Spg) {
        if self.budget.release_own(pgid) {
            self.due.push(Due::Reservations);
        }
    }

    /// Requests a slot to have our copy of a PG backfilled. A repeated request changes nothing.
    pub fn reserve_filled(&mut self, pgid: Spg, urgency: u8) {
        self.budget.reserve_filled(pgid, urgency);
        self.due.push(Due::Reservations);
    }

    /// Releases that slot, or the request.
    pub fn release_filled(&mut self, pgid: Spg) {
        if self.budget.release_filled(pgid) {
            self.due.push(Due::Reservations);
        }
    }

    /// Grants free slots of the first kind; returns the PGs that got one.
    pub fn grant_own(&mut self) -> Vec<Spg> {
        self.budget.grant_own(self.config.options.max_backfills)
    }

    /// Grants free slots of the second kind; returns the PGs that got one.
    pub fn grant_filled(&mut self) -> Vec<Spg> {
        self.budget.grant_filled(self.config.options.max_backfills)
    }
}

/// Transfers, their pace, and space.
impl Core {
    /// True if another object may be in transit.
    pub fn has_free_transfer(&self) -> bool {
        self.budget.transfers() < self.config.options.recovery_max_active
    }

    /// Counts an object in transit.
    pub fn begin_transfer(&mut self) {
        self.budget.begin_transfer();
    }

    /// Counts objects as no longer in transit.
    pub fn recovery_ended(&mut self, objects: usize) {
        self.budget.end_transfers(objects);
        if objects > 0 {
            self.due.push(Due::Recovery);
        }
    }

    /// True if another object may be recovered now; if not, this is checked again in time.
    pub fn may_recover(&mut self) -> bool {
        self.budget.may_recover(self.now.mono)
    }

    /// True if a copy's next objects may be compared now, which is a step of recovery.
    pub fn may_compare(&mut self) -> bool {
        self.budget.may_compare(self.now.mono)
    }

    /// True if recovery waits for its pace.
    pub fn is_paced(&self) -> bool {
        self.budget.is_paced()
    }

    /// Charges an object that is being recovered, before its size is known.
    pub fn charge_object(&mut self) -> Charge {
        self.budget.charge_object(self.now.mono)
    }

    /// Reports the real size of a recovering object; refunds the over-estimate, so that another recovery may
    /// start.
    pub fn recovered_object_has(&mut self, bytes: u64, charged: &mut Charge) {
        if self.budget.object_has(bytes, charged, self.now.mono) {
            self.due.push(Due::Recovery);
        }
    }

    /// Charges an object that is removed from a copy.
    pub fn charge_removal(&mut self) {
        self.budget.charge_removal(self.now.mono);
    }

    /// Charges bytes of recovery other than objects' data.
    pub fn charge_bytes(&mut self, bytes: u64) {
        self.budget.charge_bytes(bytes, self.now.mono);
    }

    /// `None` if a step of background work may start; else the time to wait before asking again.
    pub fn may_start(&mut self, class: Class) -> Option<Duration> {
        self.budget.may_start(class, self.now.mono)
    }

    /// Number of objects, at most `most`, that a comparison may block for clients at once.
    pub fn objects_held(&self, most: usize) -> usize {
        self.budget.objects_held(most, self.now.mono)
    }

    /// Notes background work for another OSD, or started earlier.
    pub fn note_background(&mut self) {
        self.budget.note_background(self.now.mono);
    }

    /// Notes that an OSD, or this one, had no space for an object. It is not tried again for a while.
    pub fn out_of_space(&mut self, osd: OsdId) {
        self.budget.out_of_space(osd, self.now.mono + self.config.options.space_retry);
    }

    /// True if an OSD had no space a short while ago.
    pub fn is_out_of_space(&self, osd: OsdId) -> bool {
        self.budget.is_out_of_space(osd)
    }

    /// Handles the passage of time: recovery continues if its pace allows. Returns true if OSDs without space
    /// may be tried again.
    pub fn budget_due(&mut self) -> bool {
        if self.budget.pace_is_due(self.now.mono) {
            self.due.push(Due::Recovery);
        }
        self.budget.space_retry_is_due(self.now.mono)
    }

    /// Time at which [`Core::budget_due`] has something to do.
    pub fn budget_deadline(&self) -> Option<Instant> {
        self.budget.deadline()
    }

    /// The pace of background work, for people.
    pub fn dump_qos(&self) -> Value {
        self.budget.dump()
    }

    /// Creates a debt of `bytes`, so that no background work runs while there are clients.
    #[cfg(test)]
    pub(crate) fn owe(&mut self, bytes: u32, now: Instant) {
        self.budget.owe(bytes, now);
    }
}
