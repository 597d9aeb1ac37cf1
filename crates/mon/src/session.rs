//! Sessions of clients and daemons, and what each subscribed to.

use crate::map_share::MapShare;
use auth::{MonCap, Perm};
use maps::FsMap;
use node::{ConnId, Peer};
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::{FastMap, Instant};
use wire::{EntityName, EntityType};

/// One authenticated connection.
#[derive(Debug)]
pub struct Session {
    /// Identity of the peer.
    pub peer: Box<Peer>,
    /// Its capabilities; none if they can't be parsed.
    pub caps: MonCap,
    /// Subscriptions by name: `osdmap`, `mdsmap.1`, …
    pub subs: BTreeMap<String, Sub>,
    /// The options that it was sent last.
    pub config: Option<BTreeMap<String, String>>,
    /// The OSD maps that it has from elsewhere.
    pub(crate) map_share: MapShare,
}

/// A subscription to one kind of map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sub {
    /// The oldest version that the subscriber still wants.
    pub next: u64,
    /// Its end.
    pub end: SubEnd,
}

/// Duration of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubEnd {
    /// Ends with the session.
    Never,
    /// Ends with the first answer.
    Once,
    /// It was answered, but maps that follow before this time are sent as well.
    At(Instant),
    /// Never, but not requested: since this time it announces OSDs that have gone down.
    Unasked(Instant),
}

impl Session {
    /// True if the peer acts as a daemon of kind `ty`, or as a client.
    pub fn is(&self, ty: EntityType) -> bool {
        self.peer.role() == ty
    }

    /// True if it may see this file system.
    pub fn sees_fs(&self, name: &str) -> bool {
        !self.caps.hides_fs() || self.caps.allows_fs(name, Perm::R)
    }

    /// The file systems that it may see.
    pub fn fsmap(&self, all: &Arc<FsMap>) -> Arc<FsMap> {
        match self.caps.hides_fs() {
            true => Arc::new(all.only(|name| self.sees_fs(name))),
            false => all.clone(),
        }
    }

    /// Name of the peer.
    pub fn name(&self) -> &EntityName {
        &self.peer.name
    }
}

/// All sessions of this monitor.
#[derive(Debug, Default)]
pub struct Sessions {
    by_conn: FastMap<ConnId, Session>,
    /// Those that were begun and that have ended, since the start.
    turnover: (u64, u64),
}

impl Sessions {
    /// A new connection.
    pub fn add(&mut self, conn: ConnId, peer: Box<Peer>) {
        let from = peer.socket_addr.addr.map(|a| a.ip());
        let caps = MonCap::parse(&peer.caps).unwrap_or_default().for_peer(&peer.name, from);
        let session =
            Session { peer, caps, subs: BTreeMap::new(), config: None, map_share: MapShare::default() };
        self.by_conn.insert(conn, session);
        self.turnover.0 += 1;
    }

    /// A connection is gone.
    pub fn remove(&mut self, conn: ConnId) -> Option<Session> {
        let gone = self.by_conn.remove(&conn);
        self.turnover.1 += u64::from(gone.is_some());
        gone
    }

    /// The session of a connection.
    pub fn get(&self, conn: ConnId) -> Option<&Session> {
        self.by_conn.get(&conn)
    }

    /// The session of a connection, to change.
    pub fn get_mut(&mut self, conn: ConnId) -> Option<&mut Session> {
        self.by_conn.get_mut(&conn)
    }

    /// Sessions that there are, that were begun and that have ended.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.by_conn.len() as u64, self.turnover.0, self.turnover.1)
    }

    /// All connections, in order.
    pub fn conns(&self) -> Vec<ConnId> {
        let mut out: Vec<_> = self.by_conn.keys().copied().collect();
        out.sort_unstable();
        out
    }

    /// All sessions, in order of connection.
    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.conns().into_iter().filter_map(|c| self.by_conn.get(&c))
    }
}
