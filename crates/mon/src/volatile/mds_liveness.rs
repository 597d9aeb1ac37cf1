//! Time at which each metadata server was last heard.

use maps::{Fscid, Gid};
use node::ConnId;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;

/// An MDS whose session ended is replaced if it does not come back within this time and a standby is there.
const SESSION_GRACE: Duration = Duration::from_secs(2);

/// Beacons of metadata servers, by the monitor's own clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct MdsLiveness {
    by_gid: BTreeMap<Gid, Heard>,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Instant,
    /// The session; `None` once it was closed.
    conn: Option<ConnId>,
}

impl MdsLiveness {
    /// Notes a beacon.
    pub fn heard(&mut self, now: Instant, gid: Gid, conn: ConnId) {
        self.by_gid.insert(gid, Heard { at: now, conn: Some(conn) });
    }

    /// Notes the end of a session: if it was an MDS's, that MDS is silent from now on.
    pub fn session_closed(&mut self, now: Instant, conn: ConnId) {
        for heard in self.by_gid.values_mut().filter(|heard| heard.conn == Some(conn)) {
            *heard = Heard { at: now, conn: None };
        }
    }

    /// Takes the metadata servers of a new map into account.
    pub fn follow(&mut self, now: Instant, roles: &BTreeMap<Gid, Fscid>) {
        self.by_gid.retain(|gid, heard| roles.contains_key(gid) || heard.conn.is_some());
        for gid in roles.keys() {
            self.by_gid.entry(*gid).or_insert(Heard { at: now, conn: None });
        }
    }

    /// The metadata servers that have been silent for too long.
    pub fn silent(&self, now: Instant, grace: Duration) -> Vec<Gid> {
        let is_late = |heard: &Heard| match heard.conn {
            Some(_) => now.since(heard.at) > grace,
            None => now.since(heard.at) > SESSION_GRACE.min(grace),
        };
        self.by_gid.iter().filter(|(_, heard)| is_late(heard)).map(|(gid, _)| *gid).collect()
    }

    /// True if an MDS is known and was silent for the whole grace, with a session or without.
    pub fn is_over_grace(&self, now: Instant, gid: Gid, grace: Duration) -> bool {
        self.by_gid.get(&gid).is_some_and(|heard| now.since(heard.at) > grace)
    }

    /// True if an MDS has a session and sent a beacon within the grace: as a standby it can take a rank.
    pub fn is_alive(&self, now: Instant, gid: Gid, grace: Duration) -> bool {
        let heard = self.by_gid.get(&gid);
        heard.is_some_and(|heard| heard.conn.is_some() && now.since(heard.at) <= grace)
    }
}
