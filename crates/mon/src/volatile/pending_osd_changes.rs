//! Pending OSD changes: what OSDs ask of the next OSD map, gathered so that one epoch serves many, and how
//! soon there may be another epoch.

use super::osd_liveness::OsdLiveness;
use maps::{Epoch, OsdId, OsdMap, PgId};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;
use wire::AddrVec;

/// An OSD that boots waits this long for other expected ones: OSDs that restart together then come up in one
/// epoch, and their PGs peer once. It is also the long-run interval between epochs of boots: each epoch goes
/// to every OSD, so with thousands of OSDs that boot one after the other, the cost would grow with the square
/// of their number.
const GATHER_BOOTS: Duration = Duration::from_millis(100);
/// Maximum boots of one epoch. All its changes must fit into one log entry, with some 2 KiB for each boot.
const MAX_BOOTS: usize = 512;
/// Long-run interval between epochs that OSDs ask for. Each epoch is sent to every OSD, and every OSD
/// recomputes its placements. The rate is the highest at which Ceph's monitors make epochs.
const EPOCH_INTERVAL: Duration = Duration::from_millis(50);
/// Burst of epochs without a pause. A failure takes one to mark the OSD down, one for the primaries that take
/// over, and a few for temporary primaries; small clusters never notice the limit.
const EPOCH_BURST: u32 = 16;

/// A token bucket for epochs.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// The moment at which the bucket is full again.
    full_at: Instant,
}

impl Pace {
    /// The earliest time of the next epoch, at one each `interval` in the long run.
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
    /// End of their wait for others that start at the same time; set while `by_osd` is not empty.
    until: Option<Instant>,
    pace: Pace,
}

impl Boots {
    fn add(&mut self, now: Instant, boot: Box<peer::OsdBoot>) {
        let turn = self.pace.next_at(GATHER_BOOTS);
        self.until.get_or_insert(if now < turn { turn } else { now + GATHER_BOOTS });
        self.by_osd.insert(boot.osd, boot);
    }

    /// True if the boots of all expected OSDs are here, or the boots have waited long enough.
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

    /// Takes the boots of the next epoch; the remaining ones wait for the following epoch.
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
    /// Notes that a primary must be known alive in this epoch before its PGs go active.
    pub fn want_up_thru(&mut self, osd: OsdId, epoch: Epoch) {
        let want = self.next.up_thru.entry(osd).or_default();
        *want = epoch.max(*want);
    }

    /// Notes a primary's temporary acting sets.
    pub fn want_pg_temp(&mut self, pg_temp: impl IntoIterator<Item = (PgId, Vec<OsdId>)>) {
        self.next.pg_temp.extend(pg_temp);
    }

    /// Notes that an OSD is to be marked down, if `addrs` is still its incarnation. Returns false if that was
    /// pending already.
    pub fn want_down(&mut self, osd: OsdId, addrs: AddrVec) -> bool {
        self.next.down.insert(osd, addrs).is_none()
    }

    /// Notes that an OSD asks to be marked up.
    pub fn add_boot(&mut self, now: Instant, boot: Box<peer::OsdBoot>) {
        self.boots.add(now, boot);
    }

    /// Puts boots into the epoch after the one just proposed.
    pub fn put_off_boots(&mut self, now: Instant, later: BootsByOsd) {
        if !later.is_empty() {
            // They have waited.
            self.boots.until = Some(now);
            self.boots.by_osd.extend(later);
        }
    }

    /// Takes the changes of the next epoch; `None` if there are none, or it is too early for another epoch.
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

    /// The time at which [`Self::take`] returns something: boots wait for others, everything waits for the
    /// next epoch's turn.
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
