//! Keys for acceptors, and renewals of tickets.

use crate::mon::{Mon, Out};
use crate::quorum::proxies::is_proxy;
use crate::storage::Storage;
use auth::{EntityAuth, RotatingKeys, ServerKeys};
use node::{ConnId, Output};
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::{Instant, Now};
use wire::{EntityName, EntityType, Errno};

impl<S: Storage> Mon<S> {
    /// Publishes the acceptors' keys if they have changed.
    pub(super) fn publish_keys(&mut self, now: Instant, out: &mut Vec<Out>) {
        let state = self.log.state();
        let alone = self.known_monmap().mons.len() <= 1;
        let only_monitors = self.standing.leader().is_none();
        if alone && only_monitors {
            // There is nobody else to go to: connections wait in the host's queue until this monitor can
            // answer.
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
        let roles = [EntityType::OSD, EntityType::MDS, EntityType::MGR];
        let replaced: Vec<_> = roles.into_iter().filter(is_replaced).collect();
        out.push(Output::Keys(keys));
        self.call_back(now, &replaced, out);
    }

    /// Disconnects daemons of these roles, so that they reconnect and fetch their rotating keys first.
    /// Normally they fetch keys before the current one expires. After a clock jump that fails, and they
    /// cannot check tickets under newer keys.
    fn call_back(&mut self, now: Instant, roles: &[EntityType], out: &mut Vec<Out>) {
        for conn in self.sessions.conns() {
            let is_called = self.sessions.get(conn).is_some_and(|s| roles.iter().any(|role| s.is(*role)));
            if is_called && !is_proxy(conn) {
                out.push(Output::Close { conn });
                self.closed(now, conn);
                self.forget_requests(now, conn, out);
            }
        }
    }

    /// Keys by which monitors find one another before there is a cluster: the key that they share, and
    /// rotating keys that no ticket of a cluster uses.
    fn keys_of_nobody(&self) -> (BTreeMap<EntityName, EntityAuth>, BTreeMap<EntityType, RotatingKeys>) {
        let own = self.config.keyring.0.iter().filter(|(name, _)| name.ty == EntityType::MON);
        let entities =
            own.map(|(name, e)| (name.clone(), EntityAuth { key: e.key.clone(), caps: e.caps.clone() }));
        (entities.collect(), [(EntityType::AUTH, self.spare_keys.clone())].into())
    }

    /// Renews tickets, or sends rotating keys to a daemon that asks in Ceph's way.
    pub(super) fn renew(&mut self, now: Now, conn: ConnId, tid: u64, m: &msgs::Auth, out: &mut Vec<Out>) {
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
                (Errno::EACCES.to_result_code(), Vec::new())
            }
        };
        let reply =
            msgs::AuthReply { protocol: m.protocol, result, global_id, payload, message: String::new() };
        out.push(Self::send(conn, tid, msgs::Body::from(reply)));
    }
}
