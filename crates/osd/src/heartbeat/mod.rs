//! Failure detection: pings between OSDs that share PGs or are neighbours in the map, reports to the monitor,
//! and the promises that pings carry (paper, 5.4; docs/design.md, decision 7).
//!
//! Any message from an OSD's event loop is a sign of life. An OSD is silent once the grace has passed since
//! its last message, and a ping has been unanswered for half of it: an OSD that was itself paused has
//! received nothing and asks before it judges.
//!
//! An OSD that answers a ping promises to make any new primary wait until the pinger's lease is over. The
//! lease starts when the ping was *sent*, the promise when it was answered, so the lease ends first.

mod ping_times;
mod steps;

use crate::heartbeat::ping_times::PingTimes;
use maps::{Epoch, OsdId};
use node::ConnId;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;

#[derive(Debug)]
struct Beat {
    up_from: Epoch,
    heard: Instant,
    /// Send time of the first unanswered ping.
    asked: Option<Instant>,
    reported: bool,
    refused_at: Option<Instant>,
    times: PingTimes,
}

impl Beat {
    fn new(up_from: Epoch, now: Instant) -> Self {
        let times = PingTimes::default();
        Self { up_from, heard: now, asked: None, reported: false, refused_at: None, times }
    }

    /// Time at which it counts as silent, if no message comes before.
    fn silent_at(&self, grace: Duration) -> Option<Instant> {
        self.asked.map(|asked| (self.heard + grace).max(asked + grace / 2))
    }
}

/// The OSDs that we exchange heartbeats with.
#[derive(Debug, Default)]
pub struct Heartbeats {
    /// Time of the next pings.
    next_at: Instant,
    /// Earliest time at which a peer may count as silent.
    look_at: Option<Instant>,
    peers: BTreeMap<OsdId, Beat>,
    /// Pings with a newer map than ours, answered without a promise. Their senders get it with that map.
    unpromised: BTreeMap<ConnId, peer::OsdPing>,
}

impl Heartbeats {
    /// All heartbeat peers.
    pub fn peers(&self) -> Vec<OsdId> {
        self.peers.keys().copied().collect()
    }

    /// Round trips of those to whom pings take a millisecond or more. In a sound network there are none.
    pub fn ping_times(&self) -> Vec<peer::OsdPingTime> {
        let line = |(osd, beat): (&OsdId, &Beat)| {
            let averages = beat.times.averages_us()?;
            let [one_us, five_us, fifteen_us] = averages;
            let is_long = averages.iter().any(|us| *us >= 1000);
            is_long.then_some(peer::OsdPingTime { osd: *osd, one_us, five_us, fifteen_us })
        };
        self.peers.iter().filter_map(line).collect()
    }

    /// Time at which there is something to do.
    pub fn deadline(&self) -> Instant {
        self.look_at.map_or(self.next_at, |at| at.min(self.next_at))
    }

    /// Starts to ping now.
    pub fn begin(&mut self, now: Instant) {
        self.next_at = now;
    }

    /// True if we exchange heartbeats with an OSD.
    pub fn knows(&self, osd: OsdId) -> bool {
        self.peers.contains_key(&osd)
    }

    /// Forgets a closed connection.
    pub fn forget(&mut self, conn: ConnId) {
        self.unpromised.remove(&conn);
    }
}
