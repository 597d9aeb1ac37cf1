//! Who is alive: pings between OSDs that share PGs, reports to the monitor, and the promises that pings carry
//! (paper, 5.4; docs/design.md, decision 7).
//!
//! Silence is judged by what an OSD's event loop has said: answers to pings, and every other message. It
//! counts from the last word, but only once a ping has gone unanswered for half of it: who stood still
//! himself has heard nobody and asks before he judges.
//!
//! A promise: who answers a ping will tell any new primary to wait until the pinger's lease is over. The
//! lease counts from the moment the ping was *sent*, the promise from the moment it was answered, so the
//! lease ends first.

mod steps;

use maps::{Epoch, OsdId};
use node::ConnId;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;

#[derive(Debug)]
struct Beat {
    up_from: Epoch,
    heard: Instant,
    /// When the first ping since then was sent.
    asked: Option<Instant>,
    reported: bool,
    refused_at: Option<Instant>,
}

impl Beat {
    /// From when on it counts as silent, if nothing comes before.
    fn silent_at(&self, grace: Duration) -> Option<Instant> {
        self.asked.map(|asked| (self.heard + grace).max(asked + grace / 2))
    }
}

/// The OSDs that we exchange heartbeats with.
#[derive(Debug, Default)]
pub struct Heartbeats {
    /// When to ping next.
    next_at: Instant,
    /// When the first of them may turn out to be silent.
    look_at: Option<Instant>,
    peers: BTreeMap<OsdId, Beat>,
    /// Pings of OSDs with a newer map than ours, which were answered without a promise. They get it with that
    /// map.
    unpromised: BTreeMap<ConnId, peer::OsdPing>,
}

impl Heartbeats {
    /// All of them.
    pub fn peers(&self) -> Vec<OsdId> {
        self.peers.keys().copied().collect()
    }

    /// When there is something to do.
    pub fn deadline(&self) -> Instant {
        self.look_at.map_or(self.next_at, |at| at.min(self.next_at))
    }

    /// Begins to ping now.
    pub fn begin(&mut self, now: Instant) {
        self.next_at = now;
    }

    /// True if we exchange heartbeats with an OSD.
    pub fn knows(&self, osd: OsdId) -> bool {
        self.peers.contains_key(&osd)
    }

    /// A connection is gone.
    pub fn forget(&mut self, conn: ConnId) {
        self.unpromised.remove(&conn);
    }
}
