//! Distribution of new OSD maps. A monitor sends a new map to a few OSDs, and these pass it on to all others
//! (section 5.1 of the paper). A change thus costs each monitor a bounded number of messages, however many
//! OSDs there are.
//!
//! A monitor sends the map at once to the OSDs whose turn it is, to some of those that have asked for a
//! change that the map may contain, and to all that exchange no heartbeats. The epoch in an OSD's reports
//! shows whether other OSDs have sent it the map. An OSD that still lacks a map that existed at its last
//! report gets it from the monitor.

use super::{Mon, Out};
use crate::session::{Session, Sessions, SubEnd};
use crate::storage::Storage;
use maps::Epoch;
use node::{Body, ConnId};
use std::collections::BTreeSet;
use stdx::Instant;
use wire::EntityType;

/// OSDs that have asked for a change are told at once in this multiple of the number of other OSDs.
const ASKERS: usize = 4;
impl Session {
    /// True if this is an OSD that other OSDs tell of new maps.
    fn shares_maps(&self) -> bool {
        let follows = self.subs.get("osdmap").is_some_and(|sub| sub.end == SubEnd::Never);
        follows && self.is(EntityType::OSD) && self.map_share.has_peers()
    }
}

impl Sessions {
    /// The sessions that get the OSD map of `epoch` from other OSDs. This monitor sends it to all others: of
    /// those that share maps to `at_once`, which rotate with each epoch, and to some that wait for it.
    pub(crate) fn told_by_others(&self, epoch: Epoch, at_once: usize) -> BTreeSet<ConnId> {
        let shares = |conn: &ConnId| self.get(*conn).is_some_and(Session::shares_maps);
        let sharing: Vec<ConnId> = self.conns().into_iter().filter(shares).collect();
        if sharing.len() <= at_once {
            return BTreeSet::new();
        }
        let first = (epoch.0 as usize).wrapping_mul(at_once);
        let mut others: BTreeSet<ConnId> = sharing.iter().copied().collect();
        for n in 0..at_once {
            others.remove(&sharing[(first + n * sharing.len() / at_once) % sharing.len()]);
        }
        let awaits = |conn: &&ConnId| self.get(**conn).is_some_and(|session| session.map_share.awaits());
        let askers: Vec<ConnId> = others.iter().filter(awaits).take(at_once * ASKERS).copied().collect();
        others.retain(|conn| !askers.contains(conn));
        others
    }
}

impl<S: Storage> Mon<S> {
    /// Takes note of the OSD map that the sender of a message has or waits for.
    pub(crate) fn follow_osd_epoch(&mut self, now: Instant, conn: ConnId, body: &Body, out: &mut Vec<Out>) {
        let newest = self.log.state().osd.epoch();
        let is_osd = |session: &&mut Session| session.is(EntityType::OSD);
        let Some(session) = self.sessions.get_mut(conn).filter(is_osd) else { return };
        let has = match body {
            Body::Peer(peer::Body::PgStats(m)) => {
                session.map_share.peers(!m.heartbeat_peers.is_empty());
                m.epoch
            }
            Body::Peer(
                peer::Body::OsdBoot(_)
                | peer::Body::OsdAlive(_)
                | peer::Body::OsdFailure(_)
                | peer::Body::OsdPgTemp(_),
            ) => {
                session.map_share.asked();
                return;
            }
            _ => return,
        };
        let lacks = session.map_share.reported(has, newest);
        if let Some(sub) = session.subs.get_mut("osdmap") {
            sub.next = sub.next.max(u64::from(has.0) + 1);
        }
        if lacks {
            self.publish_to(now, conn, out);
        }
    }
}
