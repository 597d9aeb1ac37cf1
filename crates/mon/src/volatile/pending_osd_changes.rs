//! Pending OSD changes: what OSDs ask of the next OSD map, gathered so that one epoch serves many, and how
//! soon there may be another epoch.

use super::osd_liveness::OsdLiveness;
use maps::{Epoch, OsdId, OsdMap, PgId};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;
use wire::AddrVec;

/// An OSD that boots waits this long for others that are expected: OSDs that restart together come up in one
/// epoch, and their PGs peer once. It is also the interval between epochs of boots in the long run: each
/// epoch goes to every OSD, so thousands of OSDs that boot one after the other would cost the square of their
/// number.
const GATHER_BOOTS: Duration = Duration::from_millis(100);
/// The most boots of one epoch. All that it changes must fit into one entry of the log, some 2 KiB a boot.
const MAX_BOOTS: usize = 512;
/// Long-run interval between epochs that OSDs ask for. Each epoch is sent to every OSD, and every OSD
/// recomputes its placements. The rate is the highest at which Ceph's monitors make epochs.
const EPOCH_INTERVAL: Duration = Duration::from_millis(50);
/// Epochs that may follow each other at once. A failure takes one to mark the OSD down, one for the primaries
/// that take over, and a few for temporary primaries; small clusters never notice the limit.
const EPOCH_BURST: u32 = 16;

/// A token bucket for epochs.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// The moment at which the bucket is full again.
    full_at: Instant,
}

impl Pace {
    /// The earliest moment of the next epoch, at one each `interval` in the long run.
    fn next_at(self, interval: Duration) -> Instant {
        let burst = interval * (EPOCH_BURST - 1);
        Instant(self.full_at.0.saturating_sub(burst.as_nanos() as u64))
    }

    fn spend(&mut self, now: Instant, interval: Duration) {
        self.full_at = self.full_at.max(now) + interval;
    }
}

/// Boot messages by OSD.
pub(crate) type BootsByOsd = BTreeMap<OsdId, Box<peer::OsdBoot>>;

/// The changes that one epoch makes.
#[derive(Debug, Default)]
pub(crate) struct OsdChanges {
    /// `up_thru` of OSDs: their PGs need it to go active.
    pub up_thru: BTreeMap<OsdId, Epoch>,
    /// Temporary acting sets.
    pub pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// OSDs to mark down, if this is still their incarnation.
    pub down: BTreeMap<OsdId, AddrVec>,
    /// OSDs to mark up.
    pub boots: BootsByOsd,
}

/// OSDs that ask to be marked up.
#[derive(Debug, Default)]
struct Boots {
    by_osd: BootsByOsd,
    /// The end of their wait for others that start at the same time; set while `by_osd` is not empty.
    until: Option<Instant>,
    pace: Pace,
}

impl Boots {
    fn add(&mut self, now: Instant, boot: Box<peer::OsdBoot>) {
        let turn = self.pace.next_at(GATHER_BOOTS);
        self.until.get_or_insert(if now < turn { turn } else { now + GATHER_BOOTS });
        self.by_osd.insert(boot.osd, boot);
    }

    /// True if no OSD is expected whose boot is not here, or the boots have waited long enough.
    fn are_due(&self, now: Instant, map: &OsdMap, liveness: &OsdLiveness) -> bool {
        if self.until.is_none_or(|until| until <= now) {
            return true;
        }
        if now < self.pace.next_at(GATHER_BOOTS) {
            return false;
        }
        let mut others = map.existing().filter(|(osd, _)| !self.by_osd.contains_key(osd));
        !others.any(|(osd, entry)| liveness.is_expected(now, osd, entry))
    }

    /// Takes the boots of the next epoch; the others wait for the one after it.
    fn take(&mut self, now: Instant) -> BootsByOsd {
        let mut boots = std::mem::take(&mut self.by_osd);
        if let Some(beyond) = boots.keys().nth(MAX_BOOTS).copied() {
            self.by_osd = boots.split_off(&beyond);
        }
        if !boots.is_empty() {
            self.pace.spend(now, GATHER_BOOTS);
        }
        let turn = self.pace.next_at(GATHER_BOOTS);
        self.until = Some(turn).filter(|_| !self.by_osd.is_empty());
        boots
    }
}

/// Changes that OSDs ask for. Boots may wait for one another; everything else goes into the next epoch,
/// because PGs wait for it.
#[derive(Debug, Default)]
pub(crate) struct PendingOsdChanges {
    /// Changes other than boots.
    next: OsdChanges,
    boots: Boots,
    pace: Pace,
}

impl PendingOsdChanges {
    /// A primary must be known to be alive in this epoch before its PGs go active.
    pub fn want_up_thru(&mut self, osd: OsdId, epoch: Epoch) {
        let want = self.next.up_thru.entry(osd).or_default();
        *want = epoch.max(*want);
    }

    /// A primary asks for temporary acting sets.
    pub fn want_pg_temp(&mut self, pg_temp: impl IntoIterator<Item = (PgId, Vec<OsdId>)>) {
        self.next.pg_temp.extend(pg_temp);
    }

    /// An OSD is to be marked down, if `addrs` is still its incarnation. Returns false if that was pending
    /// already.
    pub fn want_down(&mut self, osd: OsdId, addrs: AddrVec) -> bool {
        self.next.down.insert(osd, addrs).is_none()
    }

    /// An OSD asks to be marked up.
    pub fn add_boot(&mut self, now: Instant, boot: Box<peer::OsdBoot>) {
        self.boots.add(now, boot);
    }

    /// These boots go into the epoch after the one that was just proposed.
    pub fn put_off_boots(&mut self, now: Instant, later: BootsByOsd) {
        if !later.is_empty() {
            // They have waited.
            self.boots.until = Some(now);
            self.boots.by_osd.extend(later);
        }
    }

    /// Takes what the next epoch changes; `None` if there is nothing, or it is too early for another epoch.
    pub fn take(&mut self, now: Instant, map: &OsdMap, liveness: &OsdLiveness) -> Option<OsdChanges> {
        if self.pace.next_at(EPOCH_INTERVAL) > now {
            return None;
        }
        let boots = match self.boots.are_due(now, map, liveness) {
            true => self.boots.take(now),
            false => BTreeMap::new(),
        };
        if boots.is_empty() && self.next_is_empty() {
            return None;
        }
        self.pace.spend(now, EPOCH_INTERVAL);
        Some(OsdChanges { boots, ..std::mem::take(&mut self.next) })
    }

    /// The moment at which [`Self::take`] has something: boots wait for others, everything for the next
    /// epoch's turn.
    pub fn deadline(&self) -> Option<Instant> {
        let turn = self.pace.next_at(EPOCH_INTERVAL);
        let boots = self.boots.until.map(|until| until.max(turn));
        boots.into_iter().chain((!self.next_is_empty()).then_some(turn)).min()
    }

    fn next_is_empty(&self) -> bool {
        let OsdChanges { up_thru, pg_temp, down, boots: _ } = &self.next;
        up_thru.is_empty() && pg_temp.is_empty() && down.is_empty()
    }
}
