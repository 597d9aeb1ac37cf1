//! Sharing of new maps among OSDs (section 5.1 of the paper): the incrementals to pass on, the known epochs
//! of others, and the wait for a map that another OSD has.
//!
//! Monitors send a new map to a few OSDs. An OSD with a newer map than its peer sends the incrementals ahead
//! of its message, on the same connection. Heartbeats announce the map to OSDs that exchange nothing else.

use maps::{Epoch, OsdId};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Buf, Instant};

/// Incrementals kept in memory for clients and other OSDs.
const RECENT: usize = 64;
/// Maximum bytes of incrementals sent to another OSD at once. An OSD that lacks more asks a monitor.
const MAX_SHARED_BYTES: usize = 512 << 10;
/// An OSD with an unknown epoch is assumed to lack this many epochs, because it became a peer with one of the
/// last maps.
const ASSUMED_LAG: u32 = 4;
/// Maps are not sent again within this time, whatever epoch the receiver reports: its report may have crossed
/// them.
const RESEND_AFTER: Duration = Duration::from_secs(1);

/// The newest incrementals, up to the map that this OSD has.
#[derive(Debug, Default)]
pub struct RecentMaps {
    incrementals: BTreeMap<Epoch, Buf>,
}

impl RecentMaps {
    /// Adds the incremental that leads to `epoch`, and drops the oldest one if there are too many.
    pub fn add(&mut self, epoch: Epoch, incremental: Buf) {
        self.incrementals.insert(epoch, incremental);
        while self.incrementals.len() > RECENT {
            self.incrementals.pop_first();
        }
    }

    /// Forgets all: the next map is not the successor of the last one.
    pub fn clear(&mut self) {
        self.incrementals.clear();
    }

    /// The incrementals that lead from `has` to `newest`; `None` if one of them is not kept.
    pub fn between(&self, has: Epoch, newest: Epoch) -> Option<BTreeMap<Epoch, Buf>> {
        let found = self.incrementals.range(has.next()..=newest.max(has.next()));
        let found: BTreeMap<Epoch, Buf> = found.map(|(epoch, bytes)| (*epoch, bytes.clone())).collect();
        (found.len() as u32 == newest.0.saturating_sub(has.0)).then_some(found)
    }
}

#[derive(Clone, Copy, Debug)]
struct Known {
    has: Epoch,
    /// Time at which we last sent it maps.
    sent_at: Option<Instant>,
}

/// The newest map of each other OSD, according to its messages and to maps that we sent.
///
/// An epoch here may be too high after a connection broke or an OSD restarted. The receiver then waits in
/// vain and asks a monitor ([`AwaitedMap`]).
#[derive(Debug, Default)]
pub struct PeerEpochs {
    known: BTreeMap<OsdId, Known>,
}

impl PeerEpochs {
    /// Notes that a message about a PG named a map that its sender has; it may have a newer one.
    pub fn has_at_least(&mut self, osd: OsdId, epoch: Epoch) {
        let known = self.known.entry(osd).or_insert(Known { has: epoch, sent_at: None });
        known.has = known.has.max(epoch);
    }

    /// Notes the newest map of an OSD.
    pub fn heard(&mut self, osd: OsdId, epoch: Epoch, now: Instant) {
        let known = self.known.entry(osd).or_insert(Known { has: epoch, sent_at: None });
        let may_have_crossed = known.sent_at.is_some_and(|at| now.since(at) < RESEND_AFTER);
        if epoch > known.has || !may_have_crossed {
            known.has = epoch;
        }
    }

    /// Forgets an OSD's epoch after a broken connection or a restart: maps sent may not have arrived.
    pub fn forget(&mut self, osd: OsdId) {
        self.known.remove(&osd);
    }

    /// The incrementals up to `newest` that an OSD lacks; they count as sent now. `None` if it has that map,
    /// or lacks more than is shared.
    pub fn take_lacking(
        &mut self,
        osd: OsdId,
        newest: Epoch,
        recent: &RecentMaps,
        now: Instant,
    ) -> Option<BTreeMap<Epoch, Buf>> {
        let incrementals = match self.known.get(&osd) {
            Some(known) if known.has >= newest => return None,
            Some(known) => recent.between(known.has, newest)?,
            None => {
                let oldest = newest.0.saturating_sub(ASSUMED_LAG);
                (oldest..newest.0).find_map(|has| recent.between(Epoch(has), newest))?
            }
        };
        if incrementals.values().map(|bytes| bytes.len()).sum::<usize>() > MAX_SHARED_BYTES {
            return None;
        }
        self.known.insert(osd, Known { has: newest, sent_at: Some(now) });
        Some(incrementals)
    }
}

/// A map that others have and this OSD does not.
#[derive(Debug, Default)]
pub struct AwaitedMap {
    newest: Epoch,
    /// Time at which a monitor is asked for the map if it has not come.
    ask_at: Option<Instant>,
}

impl AwaitedMap {
    /// Notes that somebody has map `epoch` while we have `ours`: it should come within `patience`.
    pub fn heard_of(&mut self, epoch: Epoch, ours: Epoch, patience: Duration, now: Instant) {
        if epoch > ours {
            self.newest = self.newest.max(epoch);
            let at = now + patience;
            self.ask_at = Some(self.ask_at.map_or(at, |known| known.min(at)));
        }
    }

    /// Notes that map `epoch` is here.
    pub fn have(&mut self, epoch: Epoch) {
        if epoch >= self.newest {
            self.ask_at = None;
        }
    }

    /// True if a monitor should be asked now; becomes true again after `again`.
    pub fn is_due(&mut self, again: Duration, now: Instant) -> bool {
        let due = self.ask_at.is_some_and(|at| at <= now);
        if due {
            self.ask_at = Some(now + again);
        }
        due
    }

    /// Time of the next [`Self::is_due`].
    pub fn deadline(&self) -> Option<Instant> {
        self.ask_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent(epochs: std::ops::RangeInclusive<u32>) -> RecentMaps {
        let mut recent = RecentMaps::default();
        epochs.for_each(|epoch| recent.add(Epoch(epoch), vec![0; 10].into()));
        recent
    }

    fn lacks(peers: &mut PeerEpochs, newest: u32, recent: &RecentMaps, at: u64) -> Option<Vec<u32>> {
        let sent = peers.take_lacking(OsdId(1), Epoch(newest), recent, Instant(at))?;
        Some(sent.keys().map(|epoch| epoch.0).collect())
    }

    #[test]
    fn an_osd_is_sent_what_it_lacks_once() {
        let (mut peers, recent) = (PeerEpochs::default(), recent(3..=9));
        peers.heard(OsdId(1), Epoch(7), Instant(0));
        assert_eq!(lacks(&mut peers, 9, &recent, 0), Some(vec![8, 9]));
        peers.heard(OsdId(1), Epoch(7), Instant(1000));
        assert_eq!(lacks(&mut peers, 9, &recent, 2000), None, "that message may have crossed the maps");
        peers.heard(OsdId(1), Epoch(7), Instant(2_000_000_000));
        assert_eq!(lacks(&mut peers, 9, &recent, 2_000_000_000), Some(vec![8, 9]), "they were lost");
    }

    #[test]
    fn an_osd_of_which_nothing_was_heard_is_sent_the_last_maps() {
        let mut peers = PeerEpochs::default();
        assert_eq!(lacks(&mut peers, 9, &recent(3..=9), 0), Some(vec![6, 7, 8, 9]));
        peers.forget(OsdId(1));
        assert_eq!(lacks(&mut peers, 9, &recent(9..=9), 0), Some(vec![9]), "as far as they are kept");
        peers.forget(OsdId(1));
        assert_eq!(lacks(&mut peers, 9, &RecentMaps::default(), 0), None);
    }

    #[test]
    fn an_osd_far_behind_is_left_to_the_monitors() {
        let mut peers = PeerEpochs::default();
        peers.heard(OsdId(1), Epoch(1), Instant(0));
        assert_eq!(lacks(&mut peers, 9, &recent(3..=9), 0), None, "an incremental is not kept");
        let mut large = recent(2..=8);
        large.add(Epoch(9), vec![0; MAX_SHARED_BYTES].into());
        assert_eq!(lacks(&mut peers, 9, &large, 0), None, "they are too long");
    }

    #[test]
    fn a_monitor_is_asked_for_a_map_that_does_not_come() {
        let mut awaited = AwaitedMap::default();
        let (ms, at) = (Duration::from_millis, |ms: u64| Instant(ms * 1_000_000));
        awaited.heard_of(Epoch(5), Epoch(5), ms(100), at(0));
        assert_eq!(awaited.deadline(), None, "it is here");
        awaited.heard_of(Epoch(6), Epoch(5), ms(1000), at(0));
        awaited.heard_of(Epoch(7), Epoch(5), ms(100), at(10));
        assert_eq!(awaited.deadline(), Some(at(110)), "the shorter patience counts");
        awaited.have(Epoch(6));
        assert!(!awaited.is_due(ms(100), at(109)) && awaited.is_due(ms(100), at(110)));
        assert_eq!(awaited.deadline(), Some(at(210)), "it is asked again");
        awaited.have(Epoch(7));
        assert_eq!(awaited.deadline(), None);
    }
}
