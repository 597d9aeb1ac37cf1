//! Counts what goes between whom, and follows the maps that monitors show.

use crate::host::HostId;
use maps::{Epoch, OsdId, OsdMap, OsdMapIncremental};
use node::{Body, Msg};
use std::collections::BTreeMap;
use stdx::Instant;
use wire::Reader;

/// Messages and their bytes, as they are encoded, without the frames around them and without the handshake of
/// a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Number of messages.
    pub messages: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }
}

/// Sender and receiver, by role.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// OSD to monitor.
    OsdToMon,
    /// Monitor to OSD.
    MonToOsd,
    /// OSD to OSD.
    OsdToOsd,
    /// Monitor to monitor.
    MonToMon,
}

impl Way {
    /// The direction's name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::OsdToMon => "OSD to monitor",
            Self::MonToOsd => "monitor to OSD",
            Self::OsdToOsd => "OSD to OSD",
            Self::MonToMon => "monitor to monitor",
        }
    }
}

/// Counts by way and kind of message.
pub type Flows = BTreeMap<(Way, &'static str), Count>;

#[derive(Default)]
pub(super) struct Tally {
    mons: usize,
    first_osd: usize,
    osds: usize,
    pub flows: Flows,
    /// Messages from monitors to each OSD.
    pub taken: Vec<Count>,
    /// The newest epoch that each OSD was sent.
    sent: Vec<Epoch>,
    /// The newest map that anybody has shown.
    pub map: OsdMap,
    /// Time at which the newest map was first shown.
    pub map_at: Instant,
    /// Time at which the last OSD was first sent that epoch.
    pub sent_at: Instant,
    /// Bytes of incrementals shown, each once.
    pub incrementals: u64,
    /// OSDs that were ever marked down, and out.
    pub marked_down: BTreeMap<OsdId, Instant>,
    pub marked_out: BTreeMap<OsdId, Instant>,
    ping: u64,
    nacre: (Epoch, u64),
}

impl Tally {
    pub fn new(mons: &[HostId], osds: &[HostId]) -> Self {
        let first_osd = osds.first().map_or(0, |host| host.0);
        let taken = vec![Count::default(); osds.len()];
        let sent = vec![Epoch(0); osds.len()];
        Self { mons: mons.len(), first_osd, osds: osds.len(), taken, sent, ..Self::default() }
    }

    fn osd(&self, host: HostId) -> Option<usize> {
        host.0.checked_sub(self.first_osd).filter(|n| *n < self.osds)
    }

    pub fn observe(&mut self, now: Instant, from: HostId, to: HostId, msg: &Msg) {
        let is_mon = |host: HostId| host.0 < self.mons;
        let way = match (is_mon(from), is_mon(to), self.osd(from), self.osd(to)) {
            (true, true, ..) => Way::MonToMon,
            (true, _, _, Some(_)) => Way::MonToOsd,
            (_, true, Some(_), _) => Way::OsdToMon,
            (_, _, Some(_), Some(_)) => Way::OsdToOsd,
            _ => return,
        };
        let bytes = self.size(msg);
        let name = match &msg.body {
            Body::Client(body) => body.name(),
            Body::Peer(body) => body.name(),
        };
        self.flows.entry((way, name)).or_default().add(bytes);
        let Some(osd) = self.osd(to) else { return };
        if way == Way::MonToOsd {
            self.taken[osd].add(bytes);
        }
        if let Body::Client(msgs::Body::OsdMap(maps)) = &msg.body {
            self.follow(now, maps);
            if maps.newest_contained() > self.sent[osd] {
                self.sent[osd] = maps.newest_contained();
                self.sent_at = now;
            }
        }
    }

    fn size(&mut self, msg: &Msg) -> u64 {
        let encoded = |msg: &Msg| {
            let raw = msg.to_raw();
            (raw.front.len() + raw.middle.len() + raw.data.len()) as u64
        };
        match &msg.body {
            Body::Peer(peer::Body::OsdPing(_)) if self.ping > 0 => self.ping,
            Body::Peer(peer::Body::OsdPing(_)) => {
                self.ping = encoded(msg);
                self.ping
            }
            Body::Peer(peer::Body::NacreMap(m)) => {
                if self.nacre.0 != m.map.epoch {
                    self.nacre = (m.map.epoch, encoded(msg));
                }
                self.nacre.1
            }
            // Not encoded: there are as many as OSDs, and large ones.
            Body::Client(msgs::Body::OsdMap(m)) => {
                let maps = m.incrementals.values().chain(m.fulls.values());
                44 + maps.map(|bytes| 8 + bytes.len() as u64).sum::<u64>()
            }
            _ => encoded(msg),
        }
    }

    fn follow(&mut self, now: Instant, maps: &msgs::OsdMap) {
        let (fulls, before) = (&maps.fulls, self.map.epoch);
        if let Some((epoch, bytes)) = fulls.last_key_value().filter(|_| before == Epoch(0)) {
            self.map = Reader::new(bytes).get().expect("a monitor's map decodes");
            (self.map_at, self.map.epoch) = (now, *epoch);
        }
        while let Some(bytes) = maps.incrementals.get(&self.map.epoch.next()) {
            let inc: OsdMapIncremental = Reader::new(bytes).get().expect("a monitor's incremental decodes");
            self.incrementals += bytes.len() as u64;
            for osd in inc.new_state.keys().filter(|osd| self.map.is_up(**osd)) {
                self.marked_down.insert(*osd, now);
            }
            let out = inc.new_weight.iter().filter(|(osd, weight)| **weight == 0 && self.map.is_in(**osd));
            self.marked_out.extend(out.map(|(osd, _)| (*osd, now)));
            self.map.apply(&inc).expect("a monitor's incremental applies");
            self.map_at = now;
        }
    }

    /// True if every OSD that is up was sent the newest map, by a monitor or by another OSD.
    pub fn all_follow(&self) -> bool {
        let newest = self.map.epoch;
        self.map.existing().filter(|(_, o)| o.is_up()).all(|(id, _)| self.sent[id.0 as usize] >= newest)
    }

    pub fn up(&self) -> usize {
        self.map.existing().filter(|(_, o)| o.is_up()).count()
    }

    /// Takes the counts and starts over.
    pub fn take(&mut self) -> (Flows, Vec<Count>, u64) {
        let taken = std::mem::replace(&mut self.taken, vec![Count::default(); self.osds]);
        self.marked_down.clear();
        self.marked_out.clear();
        (std::mem::take(&mut self.flows), taken, std::mem::take(&mut self.incrementals))
    }
}
