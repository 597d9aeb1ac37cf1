//! Metadata servers: their beacons, their ranks, and the failure of a silent one.

use crate::cluster_log::LogLevel;
use crate::domain::mds_ranks::{Answer, assign, beacon, fail, mark_laggy, needs_assignment};
use crate::mon::{Mon, Out};
use crate::storage::Storage;
use maps::{Gid, MdsMap};
use node::ConnId;
use std::time::Duration;
use stdx::Now;
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
            out.push(node::Output::Event(node::Event::new(node::Level::Warn, "mds_beacon_refused", text)));
            return;
        }
        self.volatile.mds.heard(now.mono, m.gid, conn);
        let (answer, index) = self.edit(now, |edit| beacon(edit, &m));
        if answer == Answer::Gone {
            // It was replaced: it must see the map without itself and stop.
            let state = self.log.state();
            let map = MdsMap { epoch: state.fsmap.epoch, ..MdsMap::default() };
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

    /// Replaces silent metadata servers and gives ranks to standbys.
    pub(super) fn tick_mdss(&mut self, now: Now) {
        let grace: Duration = self.option("mds_beacon_grace");
        // After a change of leader, everyone gets the whole grace period to come back.
        let is_settled = now.mono.since(self.volatile.since) > grace;
        let silent = if is_settled { self.volatile.mds.silent(now.mono, grace) } else { Vec::new() };
        let fsmap = self.log.tail().fsmap.clone();
        let silent: Vec<Gid> = silent.into_iter().filter(|gid| fsmap.mds_roles.contains_key(gid)).collect();
        if silent.is_empty() && !needs_assignment(&fsmap) {
            return;
        }
        let liveness = self.volatile.mds.clone();
        let (failed, _) = self.edit(now, |edit| {
            let mut failed = Vec::new();
            for gid in silent {
                let fsmap = edit.fsmap_now();
                let standby = fsmap.standby_daemons.contains_key(&gid);
                let mut standbys = fsmap.standby_daemons.keys();
                let is_replaceable = standbys.any(|other| liveness.is_alive(now.mono, *other, grace));
                let over_grace = liveness.is_over_grace(now.mono, gid, grace);
                if standby && over_grace || !standby && is_replaceable {
                    failed.push(fail(edit, gid));
                } else if !standby && over_grace {
                    mark_laggy(edit, gid);
                }
            }
            assign(edit);
            failed
        });
        for name in failed.into_iter().flatten() {
            self.say(now, LogLevel::Warn, format!("mds.{name} is silent and was removed"));
        }
    }
}
