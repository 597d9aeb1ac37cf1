//! Keys for acceptors, renewals of tickets, and the small questions of clients that are not commands.

use crate::mon::{Mon, Out};
use crate::publish::config_for;
use crate::storage::Storage;
use auth::{EntityAuth, Perm, RotatingKeys, ServerKeys};
use msgs::errno;
use node::{ConnId, Output};
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::{Instant, Now};
use wire::{EntityName, EntityType};

impl<S: Storage> Mon<S> {
    /// Puts out the keys that acceptors check against, where they have changed.
    pub(crate) fn publish_keys(&mut self, now: Instant, out: &mut Vec<Out>) {
        let state = self.log.state();
        let alone = self.known_monmap().mons.len() <= 1;
        let only_monitors = self.standing.leader.is_none();
        if alone && only_monitors {
            // Nobody else is to be found: whoever comes waits in the host's queue until there is something to say.
            return;
        }
        let (entities, rotating) = match state.is_empty() {
            true => self.keys_of_nobody(),
            false => ((*state.auth).clone(), (*state.rotating).clone()),
        };
        let keys = ServerKeys {
            entities,
            rotating,
            only_monitors,
            auth_ticket_ttl: self.option("auth_mon_ticket_ttl"),
            service_ticket_ttl: self.option("auth_service_ticket_ttl"),
            ..ServerKeys::new(EntityType::MON, self.config.methods.clone())
        };
        if self.keys.as_deref() == Some(&keys) {
            return;
        }
        let keys = Arc::new(keys);
        let old = self.keys.replace(keys.clone());
        let is_replaced = |service: &EntityType| {
            let old = old.as_ref().and_then(|old| old.rotating.get(service));
            let current = keys.rotating_for(*service).and_then(RotatingKeys::current);
            current.is_some_and(|(id, _)| old.is_some_and(|old| old.get(id).is_none()))
        };
        let rotated = |service: &EntityType| {
            let id = |keys: &ServerKeys| keys.rotating_for(*service).map(|r| r.max_ver);
            old.as_ref().is_some_and(|old| id(old).is_some() && id(old) != id(&keys))
        };
        for service in keys.rotating.keys().filter(|s| rotated(s)) {
            let newest = keys.rotating[service].max_ver;
            let text = format!("{}: the next key is {newest}", service.name());
            out.push(Output::Event(node::Event::new(node::Level::Debug, "auth_keys_rotated", text)));
        }
        let replaced: Vec<_> = [EntityType::OSD, EntityType::MDS].into_iter().filter(is_replaced).collect();
        out.push(Output::Keys(keys));
        self.call_back(now, &replaced, out);
    }

    /// Daemons of these roles come back, and fetch their rotating keys as the first thing they do. In turn they do that when a key
    /// ends, and know the next one before; but a clock that jumps ends that too, and tickets under a newer one are of no use to
    /// them.
    fn call_back(&mut self, now: Instant, roles: &[EntityType], out: &mut Vec<Out>) {
        for conn in self.sessions.conns() {
            let is_called = self.sessions.get(conn).is_some_and(|s| roles.iter().any(|role| s.is(*role)));
            if is_called && !crate::quorum::is_proxy(conn) {
                out.push(Output::Close { conn });
                self.closed(now, conn);
                self.forget_requests(now, conn, out);
            }
        }
    }

    /// What lets monitors find one another before there is a cluster: the key that they share, and tickets that nobody uses.
    fn keys_of_nobody(&self) -> (BTreeMap<EntityName, EntityAuth>, BTreeMap<EntityType, RotatingKeys>) {
        let own = self.config.keyring.0.iter().filter(|(name, _)| name.ty == EntityType::MON);
        let entities =
            own.map(|(name, e)| (name.clone(), EntityAuth { key: e.key.clone(), caps: e.caps.clone() }));
        (entities.collect(), [(EntityType::AUTH, self.spare_keys.clone())].into())
    }

    /// A message of Ceph's protocol.
    pub(crate) fn client_message(
        &mut self,
        now: Now,
        conn: ConnId,
        tid: u64,
        body: msgs::Body,
        out: &mut Vec<Out>,
    ) {
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
            msgs::Body::MonCommand(m) => self.mon_command(now, conn, tid, *m, out),
            msgs::Body::Command(m) => self.tell(now, conn, tid, *m, out),
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

    /// Who is at the other end, for logs.
    pub(crate) fn who(&self, conn: ConnId) -> String {
        self.sessions.get(conn).map_or_else(|| "?".into(), |s| format!("{} {}", s.name(), s.peer.socket_addr))
    }

    fn get_osdmaps(&self, conn: ConnId, tid: u64, m: &msgs::MonGetOsdMap, out: &mut Vec<Out>) {
        if self.sessions.get(conn).is_some_and(|s| s.caps.allows("osd", Perm::R)) {
            let maps = crate::publish::osdmaps_asked_for(self.log.state(), m);
            out.push(Self::send(conn, tid, msgs::Body::from(maps)));
        }
    }

    fn get_version(&self, conn: ConnId, tid: u64, m: &msgs::MonGetVersion, out: &mut Vec<Out>) {
        let state = self.log.state();
        let (version, oldest_version) = match m.what.as_str() {
            "monmap" => (u64::from(state.monmap.epoch), u64::from(state.monmap.epoch)),
            "osdmap" => (u64::from(state.osd.epoch().0), u64::from(state.osd.oldest().0)),
            "mdsmap" | "fsmap" => (u64::from(state.fsmap.epoch.0), u64::from(state.fsmap.epoch.0)),
            _ => (0, 0),
        };
        let reply = msgs::MonGetVersionReply { handle: m.handle, version, oldest_version };
        out.push(Self::send(conn, tid, msgs::Body::from(reply)));
    }

    /// A renewal of tickets, or a daemon that asks for its rotating keys in Ceph's way.
    fn renew(&mut self, now: Now, conn: ConnId, tid: u64, m: &msgs::Auth, out: &mut Vec<Out>) {
        let (Some(session), Some(keys)) = (self.sessions.get(conn), self.keys.clone()) else { return };
        let global_id = session.peer.global_id;
        let answer = keys.answer_request(session.name(), global_id, &m.payload, now, &mut self.rng);
        let (result, payload) = match answer {
            Ok(payload) => {
                let counter = ServerKeys::request_counter(&m.payload);
                out.push(Output::Event(node::Event::new(node::Level::Debug, counter, self.who(conn))));
                (0, payload)
            }
            Err(error) => {
                let text = format!("renewal by {} refused: {error}", self.who(conn));
                out.push(Output::Event(node::Event::refusal("auth_renewal_refused", text)));
                (-errno::EACCES, Vec::new())
            }
        };
        let reply =
            msgs::AuthReply { protocol: m.protocol, result, global_id, payload, message: String::new() };
        out.push(Self::send(conn, tid, msgs::Body::from(reply)));
    }

    fn ping_text(&self) -> String {
        let health = crate::health::Health::of(&self.view_now()).status();
        serde_json::json!({ "health": { "status": health }, "mon_status": self.mon_status_json() })
            .to_string()
    }
}
