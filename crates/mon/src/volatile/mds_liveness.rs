//! Signs of life of metadata servers: their beacons, the end of their sessions, refused connections.

use decl::Code;
use maps::{Fscid, Gid};
use node::{ConnId, Load};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;

/// Time between two attempts to reach a server that has no session.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// The most that counts as silence between two looks. A monitor that stood still longer (stopped, or starved
/// of its core) has beacons waiting that it has not read.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// Beacons of metadata servers, by the monitor's own clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct MdsLiveness {
    by_gid: BTreeMap<Gid, Heard>,
    looked: Option<Instant>,
}

/// What is known of one server.
#[derive(Clone, Debug)]
struct Heard {
    /// Time of its last beacon.
    at: Instant,
    /// The session; `None` once it was closed, and before there was one.
    conn: Option<ConnId>,
    /// Time of the next attempt to reach it, if it has no session.
    probe_at: Instant,
    /// Its process refused a connection: it will never come back.
    is_dead: bool,
    /// What its last beacon says is wrong: lines by health code.
    health: BTreeMap<String, String>,
    /// How busy it and its host are, by its last beacon.
    load: Load,
}

impl MdsLiveness {
    /// Notes a beacon.
    pub fn heard(&mut self, now: Instant, conn: ConnId, m: &peer::MdsBeacon) {
        let heard = Heard {
            conn: Some(conn),
            health: m.health.clone(),
            load: Load { busy: m.busy, idle: m.idle, ..Load::default() },
            ..Heard::unheard(now)
        };
        self.by_gid.insert(m.gid, heard);
    }

    /// Notes the end of a session: if it was an MDS's, that MDS may be dead.
    pub fn session_closed(&mut self, now: Instant, conn: ConnId) {
        for heard in self.by_gid.values_mut().filter(|heard| heard.conn == Some(conn)) {
            (heard.conn, heard.probe_at) = (None, now);
        }
    }

    /// Takes the metadata servers of a new map into account.
    pub fn follow(&mut self, now: Instant, roles: &BTreeMap<Gid, Fscid>) {
        self.by_gid.retain(|gid, heard| roles.contains_key(gid) || heard.conn.is_some());
        for gid in roles.keys() {
            self.by_gid.entry(*gid).or_insert(Heard::unheard(now));
        }
    }

    /// The servers without a session that are to be dialled now; each is next due an interval later.
    pub fn take_due_probes(&mut self, now: Instant) -> Vec<Gid> {
        let is_due = |heard: &Heard| heard.awaits_probe() && heard.probe_at <= now;
        let due = self.by_gid.iter_mut().filter(|(_, heard)| is_due(heard));
        due.map(|(gid, heard)| {
            heard.probe_at = now + PROBE_INTERVAL;
            *gid
        })
        .collect()
    }

    /// The time of the next probe.
    pub fn deadline(&self) -> Option<Instant> {
        self.by_gid.values().filter(|heard| heard.awaits_probe()).map(|heard| heard.probe_at).min()
    }

    /// Notes that a server's process refused a connection. Returns false if the server has shown since that
    /// it lives.
    pub fn refused(&mut self, gid: Gid) -> bool {
        let Some(heard) = self.by_gid.get_mut(&gid).filter(|heard| heard.conn.is_none()) else {
            return false;
        };
        heard.is_dead = true;
        true
    }

    /// Notes that this monitor looks at the time. What it stood still for does not count as silence.
    pub fn look(&mut self, now: Instant) {
        let apart = self.looked.map_or(Duration::ZERO, |looked| now.since(looked));
        self.looked = Some(now);
        if apart > LOOKS_APART {
            let lost = apart - LOOKS_APART;
            self.by_gid.values_mut().for_each(|heard| heard.at = (heard.at + lost).min(now));
        }
    }

    /// The metadata servers that are dead, or, if `is_settled`, silent for the whole grace.
    pub fn lost(&self, now: Instant, grace: Duration, is_settled: bool) -> Vec<Gid> {
        let is_lost = |heard: &Heard| heard.is_dead || is_settled && now.since(heard.at) > grace;
        self.by_gid.iter().filter(|(_, heard)| is_lost(heard)).map(|(gid, _)| *gid).collect()
    }

    /// True if an MDS is known to be dead.
    pub fn is_dead(&self, gid: Gid) -> bool {
        self.by_gid.get(&gid).is_some_and(|heard| heard.is_dead)
    }

    /// What an MDS reports under a health code, a line each.
    pub fn reported(&self, gid: Gid, code: Code) -> impl Iterator<Item = &str> {
        let text = self.by_gid.get(&gid).and_then(|heard| heard.health.get(code.name()));
        text.into_iter().flat_map(|text| text.lines())
    }

    /// How busy an MDS and its host are; nothing is used and nothing left as long as it has not said.
    pub fn load(&self, gid: Gid) -> Load {
        self.by_gid.get(&gid).map_or_else(Load::default, |heard| heard.load)
    }

    /// True if an MDS has a session and sent a beacon within the grace: as a standby it can take a rank.
    pub fn is_alive(&self, now: Instant, gid: Gid, grace: Duration) -> bool {
        let heard = self.by_gid.get(&gid);
        heard.is_some_and(|heard| heard.conn.is_some() && now.since(heard.at) <= grace)
    }
}

impl Heard {
    /// One that is in the map and has said nothing yet.
    fn unheard(now: Instant) -> Self {
        Self {
            at: now,
            conn: None,
            probe_at: now,
            is_dead: false,
            health: BTreeMap::new(),
            load: Load::default(),
        }
    }

    fn awaits_probe(&self) -> bool {
        self.conn.is_none() && !self.is_dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(3);
    const A: Gid = Gid(1);

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn beacon() -> peer::MdsBeacon {
        peer::MdsBeacon { gid: A, ..peer::MdsBeacon::default() }
    }

    #[test]
    fn silence_is_counted_only_while_the_monitor_looks() {
        let mut all = MdsLiveness::default();
        all.look(at(0));
        all.heard(at(0), ConnId(1), &beacon());
        all.look(at(500));
        all.look(at(9_500));
        assert_eq!(all.lost(at(9_500), GRACE, true), [], "the monitor stood still for 8.5 of these 9 s");
        (20..23).for_each(|half| all.look(at(half * 500)));
        assert_eq!(all.lost(at(11_000), GRACE, true), []);
        assert_eq!(all.lost(at(11_600), GRACE, true), [A]);
        assert_eq!(all.lost(at(11_600), GRACE, false), [], "a new leader waits");
    }

    #[test]
    fn a_server_without_a_session_is_dialled_until_it_refuses_or_comes_back() {
        let mut all = MdsLiveness::default();
        all.heard(at(0), ConnId(1), &beacon());
        assert_eq!((all.deadline(), all.take_due_probes(at(10))), (None, vec![]));
        all.session_closed(at(20), ConnId(1));
        assert_eq!(all.deadline(), Some(at(20)));
        assert_eq!(all.take_due_probes(at(20)), [A]);
        assert_eq!((all.deadline(), all.take_due_probes(at(119))), (Some(at(120)), vec![]));
        all.heard(at(130), ConnId(2), &beacon());
        assert!(!all.refused(A), "it has come back meanwhile");
        all.session_closed(at(200), ConnId(2));
        assert!(all.refused(A));
        assert_eq!((all.deadline(), all.lost(at(200), GRACE, false)), (None, vec![A]));
    }
}
