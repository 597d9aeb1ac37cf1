//! Actions on the connections between monitors. Each monitor opens one to every other and sends on it; it
//! receives on the connections that the others opened (docs/adr/0002). All hold the key of `mon.`; the first
//! message names the sender's monitor and store.

use crate::cluster_log::LogLevel;
use crate::consensus::{Message, VoterId};
use crate::domain::features;
use crate::mds_probes::is_probe;
use crate::mon::{Mon, Out};
use crate::quorum::codec;
use crate::quorum::info::{ClockSkew, StoreSpace};
use crate::quorum::links::Hello;
use crate::quorum::proxies::is_proxy;
use crate::raft_log::LogEvent;
use crate::storage::Storage;
use auth::{Credentials, Initiator, Tickets};
use node::{ConnId, Event, Level, Msg, Output, Target};
use std::collections::BTreeMap;
use stdx::{Instant, Now};
use wire::{EntityName, EntityType};

impl<S: Storage> Mon<S> {
    /// The monitors known to this one: from its own store, or else from its configuration.
    pub(super) fn known_monmap(&self) -> &maps::MonMap {
        let map = self.log.stored_monmap();
        if map.mons.is_empty() { &self.config.monmap } else { map }
    }

    /// Opens missing connections, and reopens those on which no answers arrive.
    pub(super) fn maintain_links(&mut self, now: Instant, out: &mut Vec<Out>) {
        let known = self.known_monmap();
        let wanted: Vec<(String, wire::EntityAddr)> = known
            .mons
            .values()
            .filter(|m| m.name != self.config.name)
            .filter_map(|m| m.addrs.msgr2().map(|addr| (m.name.clone(), addr)))
            .collect();
        let work = self.links.maintain(now, wanted);
        out.extend(work.close.into_iter().map(|conn| Output::Close { conn }));
        work.lost.iter().for_each(|name| self.link_lost(name));
        for (conn, addr) in work.connect {
            let auth = Initiator::mon(self.own_credentials(), Tickets::default(), Vec::new());
            let to = Target { service: EntityType::MON, addr, lossless: false, auth: Box::new(auth) };
            out.push(Output::Connect { conn, to: Box::new(to) });
        }
    }

    pub(super) fn own_credentials(&self) -> Credentials {
        let name = EntityName::new(EntityType::MON, "");
        let known = self.log.state().auth.get(&name).map(|a| a.key.clone());
        let key = known.or_else(|| self.config.keyring.key(&name).cloned());
        let key = key.filter(|_| self.config.methods.contains(&auth::Method::Cephx));
        Credentials { name, key }
    }

    /// True if this monitor opened the connection.
    pub(super) fn is_link(&self, conn: ConnId) -> bool {
        conn.0 & ConnId::ACCEPTED == 0 && !is_proxy(conn) && !is_probe(conn)
    }

    /// An outgoing connection is ready.
    pub(super) fn link_ready(&mut self, conn: ConnId, out: &mut Vec<Out>) {
        let hello = peer::MonHello {
            fsid: self.config.monmap.fsid,
            name: self.config.name.clone(),
            store: self.own_store().0,
            empty: self.log.is_blank(),
            feature_level: self.config.build.levels.newest,
            metadata: self.own_metadata(),
        };
        let Some(name) = self.links.ready(conn) else { return };
        out.push(Self::send(conn, 0, peer::Body::from(hello)));
        if self.leader_name().as_ref() == Some(&name) {
            self.ask_daemons_anew(out);
        }
    }

    pub(super) fn own_store(&self) -> VoterId {
        self.log.raft().map(|r| r.own()).unwrap_or_default()
    }

    /// Metadata of this monitor's host.
    pub(super) fn own_metadata(&self) -> BTreeMap<String, String> {
        let version = &self.config.build.version;
        let fixed = [
            ("hostname", self.config.hostname.clone()),
            ("ceph_version", crate::text::version_of(version)),
            ("ceph_version_short", version.clone()),
            ("ceph_release", "pacific".to_owned()),
        ];
        let mut out: BTreeMap<_, _> =
            fixed.into_iter().map(|(k, v)| (k.to_owned(), v)).chain(self.host.clone()).collect();
        self.config.build.levels.announce(&mut out);
        out
    }

    /// A connection that this monitor opened has ended.
    pub(super) fn link_closed(&mut self, now: Instant, conn: ConnId) {
        if let Some(name) = self.links.closed(now, conn) {
            self.link_lost(&name);
        }
    }

    /// Resends to a monitor whose messages in flight may be lost.
    fn link_lost(&mut self, name: &str) {
        let voters = self.log.raft().map(|r| r.voters().clone()).unwrap_or_default();
        let voters = voters.iter().filter(|(_, n)| *n == name).map(|(id, _)| *id);
        let stores: Vec<VoterId> = self.links.stores_of(name).into_iter().chain(voters).collect();
        for store in stores {
            self.snapshots.forget(store);
            self.log.steer(|raft| raft.lost(store));
        }
        self.requests_lost(name);
    }

    /// An accepted connection of a monitor has ended.
    pub(super) fn speaker_gone(&mut self, now: Instant, conn: ConnId) {
        if self.links.speaker_gone(conn) {
            self.end_proxies(now, Some(conn));
        }
    }

    /// Handles the introduction of another monitor.
    pub(super) fn greeted(&mut self, now: Now, conn: ConnId, m: peer::MonHello, out: &mut Vec<Out>) {
        if m.fsid != self.config.monmap.fsid {
            let text = format!("mon.{} is of cluster {}: check its `fsid`", m.name, m.fsid);
            out.push(Output::Event(Event::new(Level::Warn, "mon_of_other_cluster", text)));
            self.sessions.remove(conn);
            return out.push(Output::Close { conn });
        }
        // It ends by itself once it has the state: until then it understands what it gets.
        let who = format!("mon.{}", m.name);
        let newest = m.feature_level;
        if let Some(why) = features::refusal(self.log.tail(), &who, &m.metadata, newest) {
            self.log_rate_limited(now, LogLevel::Error, &why);
        }
        // Answers in flight on its earlier connection are lost; the requests must be sent again.
        self.requests_lost(&m.name);
        let hello = Hello { name: m.name, store: VoterId(m.store), is_blank: m.empty, metadata: m.metadata };
        self.links.greeted(conn, hello);
    }

    /// Sends to another monitor; `false` if it is not connected.
    pub(super) fn tell_mon(
        &mut self,
        now: Instant,
        name: &str,
        body: impl Into<peer::Body>,
        out: &mut Vec<Out>,
    ) -> bool {
        let Some(conn) = self.links.begin_send(now, name) else { return false };
        out.push(Output::Send { conn, msg: Msg::new(0, body.into()) });
        true
    }

    /// A consensus message for a store.
    pub(super) fn send_raft(&mut self, now: Now, to: VoterId, message: &Message, out: &mut Vec<Out>) {
        let voters = self.log.raft().map(|r| r.voters().clone()).unwrap_or_default();
        let name = self.links.name_of(to).map(str::to_owned).or_else(|| voters.get(&to).cloned());
        let Some(name) = name else { return };
        let payload = codec::encode(message);
        let space = self.log.space();
        let body = peer::MonRaft {
            from: self.own_store().0,
            to: to.0,
            wall_ns: now.wall.0,
            payload,
            used_permille: space.used_permille(),
            left: Some(space.left),
        };
        self.tell_mon(now.mono, &name, body, out);
    }

    /// A consensus message has come.
    pub(super) fn raft_message(
        &mut self,
        now: Now,
        conn: ConnId,
        m: &peer::MonRaft,
        events: &mut Vec<LogEvent>,
        out: &mut Vec<Out>,
    ) {
        self.heard(conn);
        if m.to != self.own_store().0 {
            return;
        }
        match codec::decode(&m.payload) {
            Ok(message) => {
                if let Message::AppendReply { sent, .. } = message {
                    self.compare_clocks(now, conn, sent, m.wall_ns);
                }
                if let Some(hello) = self.links.speaker(conn) {
                    let space = StoreSpace { used: m.used_permille, left: m.left };
                    self.volatile.quorum.set_space(hello.name.clone(), space);
                }
                self.log.step(now, VoterId(m.from), message, events);
            }
            Err(error) => {
                let text = format!("{}: {error}", self.who(conn));
                out.push(Output::Event(Event::new(Level::Warn, "mon_message_undecodable", text)));
            }
        }
    }

    /// Notes that the monitor at the other end of an accepted connection is alive.
    pub(super) fn heard(&mut self, conn: ConnId) {
        self.links.heard(conn);
    }

    /// Computes another monitor's clock skew from an answer that carries its time.
    fn compare_clocks(&mut self, now: Now, conn: ConnId, sent: u64, wall_ns: u64) {
        let Some(hello) = self.links.speaker(conn).filter(|_| sent != 0 && sent <= now.mono.0) else {
            return;
        };
        let round_trip = (now.mono.0 - sent) as f64 / 1e9;
        let ahead = (wall_ns as f64 - now.wall.0 as f64) / 1e9 + round_trip / 2.0;
        let skew = ClockSkew { ahead_s: ahead, round_trip_s: round_trip };
        self.volatile.quorum.set_clock(hello.name.clone(), skew);
    }
}
