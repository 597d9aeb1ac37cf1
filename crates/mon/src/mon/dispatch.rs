//! Dispatches messages to their handlers, and answers small requests of clients.

use crate::domain::managers::Managers;
use crate::mon::request::{Origin, Request};
use crate::mon::{Mon, Out};
use crate::options::config_for;
use crate::raft_log::LogEvent;
use crate::storage::Storage;
use auth::Perm;
use node::{Body, ConnId, Event, Level, Msg, Output};
use stdx::Now;
use wire::EntityType;

impl<S: Storage> Mon<S> {
    pub(super) fn message(
        &mut self,
        now: Now,
        conn: ConnId,
        msg: Msg,
        events: &mut Vec<LogEvent>,
        out: &mut Vec<Out>,
    ) {
        let Some(session) = self.sessions.get(conn) else { return };
        match msg.body {
            Body::Peer(body) if session.is(EntityType::MON) => self.mon_message(now, conn, body, events, out),
            _ => {
                self.follow_osd_epoch(now.mono, conn, &msg.body, out);
                self.dispatch(now, conn, msg, out);
            }
        }
    }

    /// A message of another monitor.
    fn mon_message(
        &mut self,
        now: Now,
        conn: ConnId,
        body: peer::Body,
        events: &mut Vec<LogEvent>,
        out: &mut Vec<Out>,
    ) {
        match body {
            peer::Body::MonHello(m) => {
                self.greeted(now, conn, *m, out);
                self.check_members_later();
            }
            peer::Body::MonRaft(m) => {
                self.raft_message(now, conn, &m, events, out);
                self.check_members_later();
            }
            peer::Body::MonForward(m) => self.forwarded(now, conn, *m, out),
            peer::Body::MonForwardReply(m) => self.forward_answered(conn, *m, out),
            peer::Body::MonForwardEnd(m) => self.forward_ended(now.mono, conn, &m),
            peer::Body::MonSnapshot(m) => self.snapshot_part(now, conn, *m, events, out),
            peer::Body::MonSnapshotAck(m) => self.snapshot_asked(now, conn, &m, out),
            peer::Body::MonIdsWanted(_) => self.ids_wanted(now, conn, out),
            peer::Body::MonIds(m) => self.ids_given(conn, &m, out),
            other => self.unexpected(&other, out),
        }
    }

    fn unexpected(&self, body: &peer::Body, out: &mut Vec<Out>) {
        let text = format!("{} is no message to a monitor", body.name());
        out.push(Output::Event(Event::new(Level::Warn, "message_unexpected", text)));
    }

    /// Handles a message of a session: at the leader, or one that any monitor handles itself.
    pub(super) fn serve(&mut self, now: Now, conn: ConnId, msg: Msg, out: &mut Vec<Out>) {
        if self.sessions.get(conn).is_none() {
            return;
        }
        let request = Request { conn, tid: msg.tid, origin: self.origin_of(conn, &msg) };
        match msg.body {
            Body::Client(body) => self.client_message(now, request, body, out),
            Body::Peer(body) => self.daemon_message(now, request, body, out),
        }
    }

    /// The origin of a command; other messages have none.
    fn origin_of(&self, conn: ConnId, msg: &Msg) -> Option<Origin> {
        let Body::Client(msgs::Body::MonCommand(_)) = msg.body else { return None };
        let (client, tid) = (self.sessions.get(conn)?.peer.global_id, msg.tid);
        let is_duplicate = self.log.tail().done.contains(&(client, tid));
        (client != 0 && tid != 0).then_some(Origin { client, tid, is_duplicate })
    }

    fn daemon_message(&mut self, now: Now, request: Request, body: peer::Body, out: &mut Vec<Out>) {
        let Request { conn, tid, .. } = request;
        match body {
            peer::Body::Hello(_) => {}
            peer::Body::OsdBoot(m) => self.osd_boot(now, conn, m, out),
            peer::Body::OsdAlive(m) => self.osd_alive(now, conn, &m, out),
            peer::Body::OsdFailure(m) => self.osd_failure(now, conn, &m, out),
            peer::Body::OsdBeacon(m) => self.osd_beacon(now, conn, &m, out),
            peer::Body::OsdPgTemp(m) => self.osd_pg_temp(conn, *m, out),
            peer::Body::PgStats(m) => self.pg_stats(now, conn, *m, out),
            peer::Body::MdsBeacon(m) => self.mds_beacon(now, conn, tid, *m, out),
            peer::Body::MgrBeacon(m) => self.mgr_beacon(now, conn, &m, out),
            other => self.unexpected(&other, out),
        }
    }

    /// A message of Ceph's protocol.
    pub(super) fn client_message(
        &mut self,
        now: Now,
        request: Request,
        body: msgs::Body,
        out: &mut Vec<Out>,
    ) {
        let Request { conn, tid, .. } = request;
        match body {
            msgs::Body::MonSubscribe(m) => self.subscribe(now.mono, conn, *m, out),
            msgs::Body::MonGetMap(_) => {
                let map = wire::Writer::encode(&*self.log.state().monmap);
                out.push(Self::send(conn, tid, msgs::Body::from(msgs::MonMap { map })));
            }
            msgs::Body::MonGetOsdMap(m) => self.get_osdmaps(conn, tid, &m, out),
            msgs::Body::MonGetVersion(m) => self.get_version(conn, tid, &m, out),
            msgs::Body::Auth(m) => self.renew(now, conn, tid, &m, out),
            msgs::Body::GetConfig(m) => {
                let config = config_for(self.log.state(), &m.name.to_string());
                out.push(Self::send(conn, tid, msgs::Body::from(msgs::Config { config })));
            }
            msgs::Body::Statfs(m) => self.statfs(conn, tid, &m, out),
            msgs::Body::GetPoolStats(m) => self.pool_stats(conn, tid, &m, out),
            msgs::Body::PoolOp(m) => self.pool_op(now, conn, tid, *m, out),
            msgs::Body::MonCommand(m) => self.mon_command(now, request, *m, out),
            msgs::Body::Command(m) => self.tell(now, request, *m, out),
            msgs::Body::Log(m) => self.log_lines(now, conn, tid, *m, out),
            msgs::Body::Ping(_) => {
                let payload = msgs::Rest(wire::Writer::encode(&self.ping_text()));
                out.push(Self::send(conn, tid, msgs::Body::from(msgs::Ping { payload })));
            }
            other => {
                let text = format!("{} from {}", other.name(), self.who(conn));
                out.push(Output::Event(node::Event::new(node::Level::Debug, "message_ignored", text)));
            }
        }
    }

    /// Name and address of the peer, for logs.
    pub(super) fn who(&self, conn: ConnId) -> String {
        self.sessions.get(conn).map_or_else(|| "?".into(), |s| format!("{} {}", s.name(), s.peer.socket_addr))
    }

    fn get_osdmaps(&self, conn: ConnId, tid: u64, m: &msgs::MonGetOsdMap, out: &mut Vec<Out>) {
        if self.sessions.get(conn).is_some_and(|s| s.caps.allows("osd", Perm::R)) {
            let maps = crate::mon::publish::osdmaps_asked_for(self.log.state(), m);
            out.push(Self::send(conn, tid, msgs::Body::from(maps)));
        }
    }

    fn get_version(&self, conn: ConnId, tid: u64, m: &msgs::MonGetVersion, out: &mut Vec<Out>) {
        let state = self.log.state();
        let (version, oldest_version) = match m.what.as_str() {
            "monmap" => (u64::from(state.monmap.epoch), u64::from(state.monmap.epoch)),
            "osdmap" => (u64::from(state.osd.epoch().0), u64::from(state.osd.oldest().0)),
            "mdsmap" | "fsmap" => (u64::from(state.fsmap.epoch.0), u64::from(state.fsmap.epoch.0)),
            "mgrmap" => {
                let epoch = u64::from(Managers::epoch_of(&state.kv).0);
                (epoch, epoch)
            }
            _ => (0, 0),
        };
        let reply = msgs::MonGetVersionReply { handle: m.handle, version, oldest_version };
        out.push(Self::send(conn, tid, msgs::Body::from(reply)));
    }

    fn ping_text(&self) -> String {
        let health = crate::health::Health::of(&self.view_now()).status();
        serde_json::json!({ "health": { "status": health }, "mon_status": self.mon_status_json() })
            .to_string()
    }
}
