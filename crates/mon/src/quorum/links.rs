//! Connections between monitors. Each monitor opens one to each other and sends on it; what it receives comes
//! on the connections that the others opened (ADR 0002). All hold the key of `mon.`; the first message says
//! which monitor and which store its sender is.

use crate::consensus::VoterId;
use node::ConnId;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;
use wire::EntityAddr;

/// Interval between attempts to reach a monitor.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// A monitor that was sent a message and answers nothing for this long is dialled again: the connection may
/// be dead without a sign.
const SILENCE_GRACE: Duration = Duration::from_secs(2);

/// The connection to one monitor.
#[derive(Debug, Default)]
struct Link {
    conn: Option<ConnId>,
    is_ready: bool,
    retry_at: Instant,
    /// Send time of the oldest message without an answer.
    unanswered_since: Option<Instant>,
}

/// A monitor's introduction on a connection that it opened.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    /// The monitor's name.
    pub name: String,
    /// Number of its store.
    pub store: VoterId,
    /// True if the store has no state and no log.
    pub is_blank: bool,
    /// Metadata of its host.
    pub metadata: BTreeMap<String, String>,
}

/// Connections to and from the other monitors.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Connections opened by this monitor, by the other one's name.
    out: BTreeMap<String, Link>,
    /// Introductions on accepted connections.
    hellos: BTreeMap<ConnId, Hello>,
    last_conn: u64,
}

/// Changes of connections that [`Links::maintain`] asks for.
#[derive(Debug, Default)]
pub(crate) struct LinkWork {
    /// Connections to close.
    pub close: Vec<ConnId>,
    /// Connections to open.
    pub connect: Vec<(ConnId, EntityAddr)>,
    /// Monitors to which messages may have been lost.
    pub lost: Vec<String>,
}

impl Links {
    /// The newest introduction of a monitor.
    pub fn hello(&self, name: &str) -> Option<&Hello> {
        self.hellos.values().rev().find(|h| h.name == name)
    }

    /// The monitor at the other end of an accepted connection.
    pub fn speaker(&self, conn: ConnId) -> Option<&Hello> {
        self.hellos.get(&conn)
    }

    /// The stores with which a monitor introduced itself.
    pub fn stores_of(&self, name: &str) -> Vec<VoterId> {
        self.hellos.values().filter(|h| h.name == name).map(|h| h.store).collect()
    }

    /// The monitor that a store belongs to, while it is connected.
    pub fn name_of(&self, store: VoterId) -> Option<&str> {
        self.hellos.values().rev().find(|h| h.store == store).map(|h| &*h.name)
    }

    /// The connection on which messages to a monitor go.
    pub fn conn_to(&self, name: &str) -> Option<ConnId> {
        self.out.get(name).filter(|l| l.is_ready)?.conn
    }

    /// Notes a monitor's introduction on a connection that it opened.
    pub fn greeted(&mut self, conn: ConnId, hello: Hello) {
        self.hellos.insert(conn, hello);
    }

    /// An accepted connection was closed. Returns true if a monitor spoke on it.
    pub fn speaker_gone(&mut self, conn: ConnId) -> bool {
        self.hellos.remove(&conn).is_some()
    }

    /// Opens missing connections to `wanted`, reopens silent ones, and closes all others.
    pub fn maintain(&mut self, now: Instant, wanted: Vec<(String, EntityAddr)>) -> LinkWork {
        let mut work = LinkWork::default();
        let is_wanted = |name: &String| wanted.iter().any(|(n, _)| n == name);
        work.close.extend(self.out.iter().filter(|(name, _)| !is_wanted(name)).filter_map(|(_, l)| l.conn));
        self.out.retain(|name, _| is_wanted(name));
        for (name, addr) in wanted {
            let link = self.out.entry(name.clone()).or_default();
            if let Some(conn) = link.conn
                && link.unanswered_since.is_some_and(|at| now.since(at) >= SILENCE_GRACE)
            {
                work.close.push(conn);
                *link = Link { retry_at: now, ..Link::default() };
                work.lost.push(name);
            }
            if link.conn.is_none() && now >= link.retry_at {
                self.last_conn += 1;
                let conn = ConnId(self.last_conn);
                link.conn = Some(conn);
                // A monitor that does not answer the dialling is dialled again as well.
                link.unanswered_since = Some(now);
                work.connect.push((conn, addr));
            }
        }
        work
    }

    /// A connection that this monitor opened is ready. Returns the name of the monitor at its other end.
    pub fn ready(&mut self, conn: ConnId) -> Option<String> {
        let (name, link) = self.by_conn(conn)?;
        (link.is_ready, link.unanswered_since) = (true, None);
        Some(name.clone())
    }

    /// A connection that this monitor opened was closed. Returns the name of the monitor at its other end.
    pub fn closed(&mut self, now: Instant, conn: ConnId) -> Option<String> {
        let (name, link) = self.by_conn(conn)?;
        *link = Link { retry_at: now + RETRY_INTERVAL, ..Link::default() };
        Some(name.clone())
    }

    /// The connection for a message to a monitor, which is expected to answer soon. `None` if it is not
    /// connected.
    pub fn begin_send(&mut self, now: Instant, name: &str) -> Option<ConnId> {
        let link = self.out.get_mut(name).filter(|l| l.is_ready)?;
        let conn = link.conn?;
        link.unanswered_since.get_or_insert(now);
        Some(conn)
    }

    /// The monitor at the other end of an accepted connection is alive.
    pub fn heard(&mut self, conn: ConnId) {
        if let Some(hello) = self.hellos.get(&conn)
            && let Some(link) = self.out.get_mut(&hello.name).filter(|l| l.is_ready)
        {
            link.unanswered_since = None;
        }
    }

    /// Takes all connections that this monitor opened, to close them.
    pub fn take_all(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.out).into_values().filter_map(|l| l.conn).collect()
    }

    /// The time at which [`Self::maintain`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let retry = self.out.values().filter(|l| l.conn.is_none()).map(|l| l.retry_at);
        let silent = self.out.values().filter_map(|l| l.unanswered_since.map(|at| at + SILENCE_GRACE));
        retry.chain(silent).min()
    }

    fn by_conn(&mut self, conn: ConnId) -> Option<(&String, &mut Link)> {
        self.out.iter_mut().find(|(_, l)| l.conn == Some(conn))
    }
}
