//! Metadata servers: their beacons, their ranks, and the failure of a silent one.

use crate::cluster_log::LogLevel;
use crate::domain::features;
use crate::domain::mds_ranks::{
    Answer, assign, beacon, fail, has_standby, info_of, is_standby, mark_laggy, needs_assignment, of_name,
    want_standbys, wants_standby_count,
};
use crate::mon::{Mon, Out};
use crate::storage::Storage;
use auth::{Initiator, Tickets};
use maps::MdsMap;
use node::{CloseReason, ConnId, Output, Target};
use std::time::Duration;
use stdx::{Instant, Now};
use wire::EntityType;

impl<S: Storage> Mon<S> {
    pub(super) fn mds_beacon(
        &mut self,
        now: Now,
        conn: ConnId,
        tid: u64,
        m: peer::MdsBeacon,
        out: &mut Vec<Out>,
    ) {
        let is_mds = self.sessions.get(conn).is_some_and(|s| {
            s.is(EntityType::MDS) && s.name().id == m.name && s.caps.allows("mds", auth::Perm::X)
        });
        if !is_mds || m.fsid != self.log.state().monmap.fsid {
            let text = format!("beacon of mds.{} from {}", m.name, self.who(conn));
            out.push(Output::Event(node::Event::new(node::Level::Warn, "mds_beacon_refused", text)));
            return;
        }
        let who = format!("mds.{}", m.name);
        if let Some(why) = features::refusal(self.log.tail(), &who, &m.metadata, m.feature_level) {
            self.log_rate_limited(now, LogLevel::Error, &why);
            out.push(Output::Event(node::Event::new(node::Level::Warn, "mds_beacon_refused", why)));
            return;
        }
        self.volatile.mds.heard(now.mono, conn, &m);
        let (answer, index) = self.edit(now, |edit| beacon(edit, &m));
        if answer == Answer::Gone {
            // It was replaced: it must see the map without itself and stop. If another daemon has its name,
            // it is to stay away.
            let state = self.log.state();
            let namesake = of_name(&state.fsmap, &m.name).map(|info| (info.gid, info.clone()));
            let mds_info = namesake.into_iter().collect();
            let map = MdsMap { epoch: state.fsmap.epoch, mds_info, ..MdsMap::default() };
            let body = msgs::MdsMap {
                fsid: m.fsid,
                epoch: map.epoch,
                map: wire::Writer::encode(&map),
                fs_name: String::new(),
            };
            out.push(Self::send(conn, 0, msgs::Body::from(body)));
            return;
        }
        let epoch = self.log.tail().fsmap.epoch;
        let ack = peer::MdsBeacon { metadata: Default::default(), health: Default::default(), epoch, ..m };
        self.after(index, Self::send(conn, tid, peer::Body::from(ack)), out);
    }

    /// Replaces metadata servers that are dead or silent, and gives ranks to standbys.
    pub(super) fn tick_mdss(&mut self, now: Now) {
        self.volatile.mds.look(now.mono);
        self.replace_mdss(now);
        self.tick_max_mds(now);
    }

    /// Gives a file system with `max_mds auto` a rank more or less.
    fn tick_max_mds(&mut self, now: Now) {
        let is_auto = |fs: &maps::Filesystem| fs.mds_map.flags & MdsMap::MAX_MDS_AUTO != 0;
        if !self.log.tail().fsmap.filesystems.values().any(is_auto) {
            return;
        }
        let mut auto = std::mem::take(&mut self.volatile.max_mds);
        self.edit(now, |edit| auto.look(edit));
        self.volatile.max_mds = auto;
    }

    fn replace_mdss(&mut self, now: Now) {
        let grace: Duration = self.option("mds_beacon_grace");
        // After a change of leader, everyone gets the whole grace period to come back.
        let is_settled = now.mono.since(self.volatile.since) > grace;
        let mut lost = self.volatile.mds.lost(now.mono, grace, is_settled);
        let fsmap = self.log.tail().fsmap.clone();
        lost.retain(|gid| fsmap.mds_roles.contains_key(gid));
        if lost.is_empty() && !needs_assignment(&fsmap) && !wants_standby_count(&fsmap) {
            return;
        }
        let (failed, _) = self.edit(now, |edit| {
            let mut failed = Vec::new();
            for gid in lost {
                let fsmap = edit.fsmap_now();
                let is_replaceable = has_standby(fsmap, gid, |other| edit.view.is_mds_alive(other));
                if is_replaceable || is_standby(fsmap, gid) {
                    failed.extend(fail(edit, gid).map(|name| (name, edit.view.mds.is_dead(gid))));
                } else {
                    mark_laggy(edit, gid);
                }
            }
            assign(edit);
            want_standbys(edit);
            failed
        });
        for (name, is_dead) in failed {
            let why = if is_dead { "is dead (it refuses connections)" } else { "is silent" };
            self.say(now, LogLevel::Warn, format!("mds.{name} {why} and was removed"));
        }
    }

    /// Dials metadata servers that have lost their session; leader only.
    pub(super) fn probe_mdss(&mut self, now: Instant, out: &mut Vec<Out>) {
        for gid in self.volatile.mds.take_due_probes(now) {
            let addr = info_of(&self.log.tail().fsmap, gid).and_then(|info| info.addrs.msgr2());
            let Some((addr, conn)) = addr.and_then(|addr| Some((addr, self.probes.begin(gid)?))) else {
                continue;
            };
            // Without a ticket it gets no further than to a process that listens, which is the question.
            let service = EntityType::MDS;
            let auth = Initiator::service(self.own_credentials(), Tickets::default(), service);
            let to = Target { service, addr, lossless: false, auth: Box::new(auth) };
            out.push(Output::Connect { conn, to: Box::new(to) });
        }
    }

    /// A metadata server without a session lives.
    pub(super) fn mds_reached(&mut self, conn: ConnId, out: &mut Vec<Out>) {
        self.probes.end(conn);
        out.push(Output::Close { conn });
    }

    /// A probe has ended without a connection.
    pub(super) fn mds_probed(&mut self, now: Now, conn: ConnId, reason: CloseReason) {
        let Some(gid) = self.probes.end(conn) else { return };
        if reason == CloseReason::Refused && self.log.leads() && self.volatile.mds.refused(gid) {
            self.replace_mdss(now);
        }
    }
}
