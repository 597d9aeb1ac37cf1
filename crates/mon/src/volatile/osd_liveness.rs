//! Liveness of OSDs: the time each was last heard, went down, and lost its session.

use maps::{Epoch, OsdEntry, OsdId, OsdMap};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Instant;

/// An OSD that has been down for longer is not expected to boot.
const EXPECTED_FOR: Duration = Duration::from_secs(20);

/// Last signs of life of OSDs, by the monitor's own clock. An OSD is in `heard` only while it is up in the
/// map that was followed last, and in `down_since` only while it is down in it.
#[derive(Debug, Default)]
pub(crate) struct OsdLiveness {
    followed: Epoch,
    heard: BTreeMap<OsdId, Instant>,
    down_since: BTreeMap<OsdId, Instant>,
    /// OSDs that are up without a session.
    session_lost: BTreeMap<OsdId, Instant>,
    /// The newest OSD map in which an OSD went down, and when it was committed.
    newest_loss: Option<(Epoch, Instant)>,
}

impl OsdLiveness {
    /// Starts at a new leader: no OSD is late yet. Sessions at the last leader are gone; live OSDs come back
    /// soon.
    pub fn start(&mut self, now: Instant, map: &OsdMap) {
        for (osd, entry) in map.existing() {
            match entry.is_up() {
                true => self.heard.insert(osd, now),
                false => self.down_since.insert(osd, now),
            };
        }
        self.session_lost = map.existing().filter(|(_, o)| o.is_up()).map(|(id, _)| (id, now)).collect();
    }

    /// True if the map of this epoch was not followed yet.
    pub fn is_behind(&self, epoch: Epoch) -> bool {
        self.followed != epoch
    }

    /// Takes a new map into account.
    pub fn follow(&mut self, now: Instant, map: &OsdMap) {
        self.followed = map.epoch;
        for (osd, entry) in map.existing() {
            if entry.is_up() {
                self.heard.entry(osd).or_insert(now);
                self.down_since.remove(&osd);
            } else {
                if self.heard.remove(&osd).is_some() {
                    self.newest_loss = Some((map.epoch, now));
                }
                self.session_lost.remove(&osd);
                self.down_since.entry(osd).or_insert(now);
            }
        }
        self.down_since.retain(|osd, _| map.exists(*osd));
    }

    /// An OSD gave a sign of life.
    pub fn heard(&mut self, now: Instant, osd: OsdId) {
        self.heard.insert(osd, now);
    }

    /// Notes the end of the last session of an OSD that is up.
    pub fn session_closed(&mut self, now: Instant, osd: OsdId) {
        self.session_lost.entry(osd).or_insert(now);
    }

    /// These OSDs have sessions.
    pub fn note_sessions(&mut self, connected: &BTreeSet<OsdId>) {
        self.session_lost.retain(|osd, _| !connected.contains(osd));
    }

    /// The time since an OSD was last heard.
    pub fn silence(&self, now: Instant, osd: OsdId) -> Duration {
        self.heard.get(&osd).map_or(Duration::ZERO, |at| now.since(*at))
    }

    /// The time for which an OSD that is up has been without a session; `None` if it has one.
    pub fn without_session(&self, now: Instant, osd: OsdId) -> Option<Duration> {
        self.session_lost.get(&osd).map(|at| now.since(*at))
    }

    /// The number of OSDs that are up without a session.
    pub fn sessions_lost(&self) -> usize {
        self.session_lost.len()
    }

    /// True if an OSD was up until recently and is likely to boot.
    pub fn is_expected(&self, now: Instant, osd: OsdId, entry: &OsdEntry) -> bool {
        if entry.is_up() {
            return self.session_lost.contains_key(&osd);
        }
        let recently = self.down_since.get(&osd).is_some_and(|since| now.since(*since) < EXPECTED_FOR);
        recently && entry.info.up_from.0 > 0
    }

    /// The OSDs that have been down for at least `period`.
    pub fn down_for(&self, now: Instant, period: Duration) -> Vec<OsdId> {
        let long = self.down_since.iter().filter(|(_, since)| now.since(**since) >= period);
        long.map(|(osd, _)| *osd).collect()
    }

    /// Restarts the time for which an OSD has been down.
    pub fn restart_down_clock(&mut self, now: Instant, osd: OsdId) {
        self.down_since.insert(osd, now);
    }

    /// The newest epoch in which an OSD went down; 0 if none did.
    pub fn newest_loss(&self) -> Epoch {
        self.newest_loss.map_or(Epoch(0), |(epoch, _)| epoch)
    }

    /// True if an OSD went down within `period`.
    pub fn lost_one_within(&self, now: Instant, period: Duration) -> bool {
        self.newest_loss.is_some_and(|(_, at)| now.since(at) <= period)
    }
}
