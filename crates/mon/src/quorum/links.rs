//! Connections between monitors. Each monitor opens one to each other one and sends there; what it receives comes on the ones that
//! the others opened (docs/adr/0002). All hold the key of `mon.`; which monitor and which store it is, the first message says.

use super::codec;
use crate::consensus::{Message, VoterId};
use crate::log::LogEvent;
use crate::mon::{Mon, Out};
use crate::storage::Storage;
use auth::{Credentials, Initiator, Tickets};
use node::{ConnId, Event, Level, Msg, Output, Target};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Instant, Now};
use wire::{EntityName, EntityType};

/// Between two attempts to reach a monitor.
const RETRY: Duration = Duration::from_millis(250);
/// A monitor that was told something and says nothing for so long is dialled anew: the connection may be dead without anybody
/// having been told.
const SILENT: Duration = Duration::from_secs(2);

/// The connection to one monitor.
#[derive(Debug, Default)]
pub(crate) struct Link {
    conn: Option<ConnId>,
    ready: bool,
    retry_at: Instant,
    /// Since when it was told something without having said anything.
    asked: Option<Instant>,
}

/// Who speaks on an accepted connection.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    pub name: String,
    pub store: VoterId,
    pub empty: bool,
    pub metadata: BTreeMap<String, String>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// By the other monitor's name.
    out: BTreeMap<String, Link>,
    /// Accepted connections.
    hellos: BTreeMap<ConnId, Hello>,
    next_conn: u64,
}

impl Links {
    /// The newest word of a monitor.
    pub fn hello(&self, name: &str) -> Option<&Hello> {
        self.hellos.values().rev().find(|h| h.name == name)
    }

    /// Who speaks on an accepted connection.
    pub fn speaker(&self, conn: ConnId) -> Option<&Hello> {
        self.hellos.get(&conn)
    }

    /// The monitor that a store belongs to, while it is connected.
    pub fn name_of(&self, store: VoterId) -> Option<&str> {
        self.hellos.values().rev().find(|h| h.store == store).map(|h| &*h.name)
    }

    /// The connection on which a monitor is told things.
    pub fn conn_to(&self, name: &str) -> Option<ConnId> {
        self.out.get(name).filter(|l| l.ready)?.conn
    }

    /// All connections that this monitor opened, which is done with them.
    pub fn take_all(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.out).into_values().filter_map(|l| l.conn).collect()
    }

    /// When [`Mon::tend_links`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let retry = self.out.values().filter(|l| l.conn.is_none()).map(|l| l.retry_at);
        let silent = self.out.values().filter_map(|l| l.asked.map(|at| at + SILENT));
        retry.chain(silent).min()
    }

    fn by_conn(&mut self, conn: ConnId) -> Option<(&String, &mut Link)> {
        self.out.iter_mut().find(|(_, l)| l.conn == Some(conn))
    }
}

impl<S: Storage> Mon<S> {
    /// The monitors as far as this one knows: its own state's, or those of its configuration.
    pub(crate) fn known_monmap(&self) -> &maps::MonMap {
        let map = &self.log.state().monmap;
        if map.mons.is_empty() { &self.config.monmap } else { map }
    }

    /// Opens connections that are missing, and those anew on which nothing comes back.
    pub(crate) fn tend_links(&mut self, now: Instant, out: &mut Vec<Out>) {
        let known = self.known_monmap();
        let wanted: Vec<(String, wire::EntityAddr)> = known
            .mons
            .values()
            .filter(|m| m.name != self.config.name)
            .filter_map(|m| m.addrs.msgr2().map(|addr| (m.name.clone(), addr)))
            .collect();
        let gone: Vec<ConnId> = (self.links.out.iter())
            .filter(|(name, _)| !wanted.iter().any(|(n, _)| n == *name))
            .filter_map(|(_, l)| l.conn)
            .collect();
        out.extend(gone.into_iter().map(|conn| Output::Close { conn }));
        self.links.out.retain(|name, _| wanted.iter().any(|(n, _)| n == name));
        for (name, addr) in wanted {
            let link = self.links.out.entry(name.clone()).or_default();
            if let Some(conn) = link.conn
                && link.asked.is_some_and(|at| now.since(at) >= SILENT)
            {
                out.push(Output::Close { conn });
                *link = Link { retry_at: now, ..Link::default() };
                self.link_lost(&name);
            }
            let link = self.links.out.entry(name.clone()).or_default();
            if link.conn.is_none() && now >= link.retry_at {
                self.links.next_conn += 1;
                let conn = ConnId(self.links.next_conn);
                link.conn = Some(conn);
                // A peer that does not answer the dialling is dialled again as well.
                link.asked = Some(now);
                let auth = Initiator::mon(self.own_credentials(), Tickets::default(), Vec::new());
                let to = Target { service: EntityType::MON, addr, lossless: false, auth: Box::new(auth) };
                out.push(Output::Connect { conn, to: Box::new(to) });
            }
        }
    }

    fn own_credentials(&self) -> Credentials {
        let name = EntityName::new(EntityType::MON, "");
        let known = self.log.state().auth.get(&name).map(|a| a.key.clone());
        let key = known.or_else(|| self.config.keyring.key(&name).cloned());
        let key = key.filter(|_| self.config.methods.contains(&auth::Method::Cephx));
        Credentials { name, key }
    }

    /// Whether a connection is one that this monitor opened.
    pub(crate) fn is_link(&self, conn: ConnId) -> bool {
        conn.0 & ConnId::ACCEPTED == 0 && !super::is_proxy(conn)
    }

    /// Another monitor has answered.
    pub(crate) fn link_ready(&mut self, conn: ConnId, out: &mut Vec<Out>) {
        let hello = peer::MonHello {
            fsid: self.config.monmap.fsid,
            name: self.config.name.clone(),
            store: self.own_store().0,
            empty: self.log.is_blank(),
            feature_level: 1,
            metadata: self.own_metadata(),
        };
        let Some((name, link)) = self.links.by_conn(conn) else { return };
        (link.ready, link.asked) = (true, None);
        let name = name.clone();
        out.push(Self::send(conn, 0, peer::Body::from(hello)));
        if self.leader_name().as_ref() == Some(&name) {
            self.ask_daemons_anew(out);
        }
    }

    pub(crate) fn own_store(&self) -> VoterId {
        self.log.raft().map(|r| r.own()).unwrap_or_default()
    }

    /// What this monitor says of its host.
    pub(crate) fn own_metadata(&self) -> BTreeMap<String, String> {
        let fixed = [
            ("hostname", self.config.hostname.clone()),
            ("ceph_version", crate::commands::status::version()),
            ("ceph_version_short", env!("CARGO_PKG_VERSION").to_owned()),
            ("ceph_release", "pacific".to_owned()),
        ];
        fixed.into_iter().map(|(k, v)| (k.to_owned(), v)).chain(self.soft.host.clone()).collect()
    }

    /// A connection that this monitor opened has ended.
    pub(crate) fn link_closed(&mut self, now: Instant, conn: ConnId) {
        let Some((name, link)) = self.links.by_conn(conn) else { return };
        let name = name.clone();
        *link = Link { retry_at: now + RETRY, ..Link::default() };
        self.link_lost(&name);
    }

    /// What was on its way to a monitor may be lost.
    fn link_lost(&mut self, name: &str) {
        let stores: Vec<VoterId> = (self.links.hellos.values())
            .filter(|h| h.name == name)
            .map(|h| h.store)
            .chain(self.log.raft().into_iter().flat_map(|r| {
                r.voters().iter().filter(|(_, n)| *n == name).map(|(id, _)| *id).collect::<Vec<_>>()
            }))
            .collect();
        for store in stores {
            self.snapshots.forget(store);
            self.log.steer(|raft| raft.lost(store));
        }
        self.requests_lost(name);
    }

    /// An accepted connection of a monitor has ended.
    pub(crate) fn speaker_gone(&mut self, now: Instant, conn: ConnId) {
        if self.links.hellos.remove(&conn).is_some() {
            self.end_proxies(now, Some(conn));
        }
    }

    /// A monitor says who it is.
    pub(crate) fn greeted(&mut self, conn: ConnId, m: peer::MonHello, out: &mut Vec<Out>) {
        if m.fsid != self.config.monmap.fsid {
            let text = format!("mon.{} is of cluster {}: check its `fsid`", m.name, m.fsid);
            out.push(Output::Event(Event::new(Level::Warn, "mon_of_other_cluster", text)));
            self.sessions.remove(conn);
            return out.push(Output::Close { conn });
        }
        // Answers that its earlier connection had under way are lost, and only we know the questions.
        self.requests_lost(&m.name);
        let hello = Hello { name: m.name, store: VoterId(m.store), empty: m.empty, metadata: m.metadata };
        self.links.hellos.insert(conn, hello);
    }

    /// Sends to another monitor; `false` where it is not connected.
    pub(crate) fn tell_mon(
        &mut self,
        now: Instant,
        name: &str,
        body: impl Into<peer::Body>,
        out: &mut Vec<Out>,
    ) -> bool {
        let Some(link) = self.links.out.get_mut(name).filter(|l| l.ready) else { return false };
        let Some(conn) = link.conn else { return false };
        link.asked.get_or_insert(now);
        out.push(Output::Send { conn, msg: Msg::new(0, body.into()) });
        true
    }

    /// A consensus message for a store.
    pub(crate) fn send_raft(&mut self, now: Now, to: VoterId, message: &Message, out: &mut Vec<Out>) {
        let voters = self.log.raft().map(|r| r.voters().clone()).unwrap_or_default();
        let name = self.links.name_of(to).map(str::to_owned).or_else(|| voters.get(&to).cloned());
        let Some(name) = name else { return };
        let payload = codec::encode(message);
        let body = peer::MonRaft { from: self.own_store().0, to: to.0, wall_ns: now.wall.0, payload };
        self.tell_mon(now.mono, &name, body, out);
    }

    /// A consensus message has come.
    pub(crate) fn raft_message(
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
                self.log.step(now, VoterId(m.from), message, events);
            }
            Err(error) => {
                let text = format!("{}: {error}", self.who(conn));
                out.push(Output::Event(Event::new(Level::Warn, "mon_message_undecodable", text)));
            }
        }
    }

    /// The monitor at the other end of an accepted connection lives.
    pub(crate) fn heard(&mut self, conn: ConnId) {
        if let Some(name) = self.links.hellos.get(&conn).map(|h| h.name.clone())
            && let Some(link) = self.links.out.get_mut(&name).filter(|l| l.ready)
        {
            link.asked = None;
        }
    }

    /// By how much another monitor's clock differs, from an answer that says what time it is there.
    fn compare_clocks(&mut self, now: Now, conn: ConnId, sent: u64, wall_ns: u64) {
        let Some(hello) = self.links.hellos.get(&conn).filter(|_| sent != 0 && sent <= now.mono.0) else {
            return;
        };
        let round_trip = (now.mono.0 - sent) as f64 / 1e9;
        let ahead = (wall_ns as f64 - now.wall.0 as f64) / 1e9 + round_trip / 2.0;
        self.soft.quorum.clocks.insert(hello.name.clone(), (ahead, round_trip));
    }
}
