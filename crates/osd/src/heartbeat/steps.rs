//! The OSD's steps for heartbeats: pings, reports, promises.

use super::Beat;
use crate::core::Lease;
use crate::osd::Osd;
use maps::{Epoch, OsdId};
use node::{CloseReason, ConnId, Level};
use peer::ping_op;
use std::time::Duration;
use stdx::Instant;

/// Clocks of two hosts may differ in speed; a lease is used for this share of its length.
const DRIFT: (u64, u64) = (19, 20);

impl Osd {
    /// Recomputes whom we exchange heartbeats with, after a map or a change of PGs: OSDs that share PGs with
    /// us, and those before and after us in the map, so that one without PGs is watched too.
    pub(crate) fn heartbeat_peers_changed(&mut self) {
        let (map, now, us) = (self.core.map().clone(), self.core.now().mono, self.core.id());
        let shared = self
            .pgs
            .values()
            .flat_map(|pg| pg.members().acting().osds().iter().chain(pg.members().up().osds()));
        let mut wanted: Vec<OsdId> =
            shared.copied().filter(|o| *o != us && map.is_up(*o)).chain(map.neighbours(us)).collect();
        wanted.sort();
        wanted.dedup();
        if !self.core.is_up() {
            wanted.clear();
        }
        let up_from = |osd: OsdId| map.osd(osd).map_or(Epoch(0), |o| o.info.up_from);
        self.heartbeats.peers.retain(|osd, beat| wanted.contains(osd) && beat.up_from == up_from(*osd));
        let mut new = false;
        for osd in &wanted {
            if !self.heartbeats.peers.contains_key(osd) {
                self.heartbeats.peers.insert(*osd, Beat::new(up_from(*osd), now));
                new = true;
            }
        }
        self.core.keep_pings(&wanted);
        if new {
            // Leases are wanted at once.
            self.heartbeats.next_at = now;
            self.beat();
        }
        self.promise_late();
    }

    /// Pings all peers when it is time, and reports silent ones.
    pub(crate) fn beat(&mut self) {
        let (now, interval) = (self.core.now().mono, self.core.options().heartbeat_interval);
        if now.since(self.heartbeats.deadline()) >= interval {
            // This OSD was paused itself: answers may be unread.
            self.heartbeats.peers.values_mut().for_each(|beat| beat.asked = beat.asked.map(|_| now));
        }
        let due = now >= self.heartbeats.next_at;
        if due {
            self.heartbeats.next_at = now + interval;
            self.heartbeats.peers().into_iter().for_each(|osd| self.ping_one(osd));
        }
        if due || self.heartbeats.look_at.is_some_and(|at| at <= now) {
            self.report_silent(due);
        }
    }

    /// Sends one ping.
    pub(crate) fn ping_one(&mut self, osd: OsdId) {
        let now = self.core.now().mono;
        let Some(beat) = self.heartbeats.peers.get_mut(&osd) else { return };
        if beat.asked.is_none() {
            beat.asked = Some(now);
            let at = beat.silent_at(self.core.options().heartbeat_grace);
            self.heartbeats.look_at = self.heartbeats.look_at.into_iter().chain(at).min();
        }
        let ping = self.ping_body(ping_op::PING, self.core.now().mono.0, 0);
        self.core.ping(osd, ping);
    }

    fn ping_body(&self, op: u8, stamp: u64, lease_ns: u64) -> peer::OsdPing {
        let us = self.core.id();
        peer::OsdPing {
            fsid: self.core.config().fsid,
            op,
            from: us,
            epoch: self.core.epoch(),
            up_from: self.core.map().osd(us).map_or(Epoch(0), |o| o.info.up_from),
            stamp,
            lease_ns,
        }
    }

    /// Reports silent peers. With `again`, repeats earlier reports, because the monitor may be another one.
    pub(crate) fn report_silent(&mut self, again: bool) {
        let (now, grace) = (self.core.now().mono, self.core.options().heartbeat_grace);
        let (mut silent, mut next) = (Vec::new(), None);
        for (osd, beat) in &mut self.heartbeats.peers {
            match beat.silent_at(grace) {
                Some(at) if at > now => next = next.into_iter().chain([at]).min(),
                Some(_) if again || !beat.reported => {
                    beat.reported = true;
                    silent.push((*osd, now.since(beat.heard)));
                }
                _ => {}
            }
        }
        self.heartbeats.look_at = next;
        silent.into_iter().for_each(|(osd, time)| self.report_failure(osd, false, false, time));
    }

    /// Notes a message from an OSD, whatever it was.
    pub(crate) fn heard_from(&mut self, osd: OsdId) {
        let now = self.core.now().mono;
        let Some(beat) = self.heartbeats.peers.get_mut(&osd) else { return };
        (beat.heard, beat.asked) = (now, None);
        if std::mem::take(&mut beat.reported) {
            self.report_failure(osd, false, true, Duration::ZERO);
        }
    }

    fn report_failure(&mut self, osd: OsdId, refused: bool, alive_again: bool, silent: Duration) {
        let Some(entry) = self.core.map().osd(osd).filter(|o| o.is_up()) else { return };
        let body = peer::OsdFailure {
            reporter: self.core.id(),
            target: osd,
            target_addrs: entry.client_addrs.clone(),
            refused,
            alive_again,
            failed_for_s: u32::try_from(silent.as_secs()).unwrap_or(u32::MAX),
            epoch: self.core.epoch(),
        };
        self.event(Level::Info, "peer_reported", format!("osd.{osd} refused={refused} alive={alive_again}"));
        self.mon.send(peer::Body::from(body));
        self.expect_map();
    }

    /// Handles a connection to an OSD that failed or broke.
    pub(crate) fn link_failed(&mut self, osd: OsdId, reason: CloseReason) {
        let (now, interval) = (self.core.now().mono, self.core.options().heartbeat_interval);
        if reason != CloseReason::Refused || !self.core.is_up() {
            return;
        }
        let due = match self.heartbeats.peers.get_mut(&osd) {
            // Heartbeat and data connections are both refused; one report suffices for a while.
            Some(beat) => {
                let due = beat.refused_at.is_none_or(|at| now.since(at) >= interval);
                if due {
                    beat.refused_at = Some(now);
                }
                due
            }
            None => true,
        };
        if due {
            self.report_failure(osd, true, false, Duration::ZERO);
        }
    }

    /// Handles an opened heartbeat connection.
    pub(crate) fn link_made(&mut self, conn: ConnId) {
        if let Some((_, osd)) = self.core.links().of(conn)
            && let Some(beat) = self.heartbeats.peers.get_mut(&osd)
        {
            beat.refused_at = None;
        }
    }

    /// Handles a ping or its answer.
    pub(crate) fn ping_message(&mut self, conn: ConnId, msg: &peer::OsdPing) {
        if msg.fsid != self.core.config().fsid {
            return;
        }
        if let Some(osd) = self.sender(conn).filter(|osd| *osd == msg.from) {
            self.heard_of_map(osd, msg.epoch);
            // A peer that pings us learns our map from our own pings; any other OSD learns it here.
            if msg.op == ping_op::REPLY || !self.heartbeats.knows(osd) {
                self.core.share_maps_on(conn);
            }
        }
        match msg.op {
            ping_op::PING => self.answer_ping(conn, msg),
            ping_op::REPLY => self.ping_answered(msg),
            _ => {}
        }
    }

    fn answer_ping(&mut self, conn: ConnId, msg: &peer::OsdPing) {
        let granted = self.core.grant(msg.from, msg.up_from);
        let lease = if granted { self.core.options().read_lease.as_nanos() as u64 } else { 0 };
        let reply = self.ping_body(ping_op::REPLY, msg.stamp, lease);
        self.core.send(conn, 0, peer::Body::from(reply));
        if !granted && msg.epoch > self.core.epoch() {
            self.heartbeats.unpromised.insert(conn, msg.clone());
        }
    }

    /// Handles a newer map. OSDs that pinged with it before we had it get their promise now instead of at the
    /// next ping; it counts from that ping. Promises that others made with this map hold from now on.
    fn promise_late(&mut self) {
        for (conn, ping) in std::mem::take(&mut self.heartbeats.unpromised) {
            self.answer_ping(conn, &ping);
        }
        self.pgs.values_mut().for_each(|pg| pg.on_lease(&mut self.core));
    }

    fn ping_answered(&mut self, msg: &peer::OsdPing) {
        let now = self.core.now().mono;
        let Some(beat) = self.heartbeats.peers.get_mut(&msg.from) else { return };
        beat.times.answered(now, now.since(Instant(msg.stamp)));
        if msg.lease_ns == 0 {
            return;
        }
        let until = Instant(msg.stamp.saturating_add(msg.lease_ns / DRIFT.1 * DRIFT.0));
        let lease = Lease { until, epoch: msg.epoch, up_from: msg.up_from };
        self.core.take_lease(msg.from, lease);
        self.leases_changed(msg.from);
    }

    /// Resumes requests that waited for this OSD's promise.
    fn leases_changed(&mut self, osd: OsdId) {
        for pg in self.pgs.values_mut().filter(|pg| pg.members().acting().has_osd(osd)) {
            pg.on_lease(&mut self.core);
        }
    }
}
