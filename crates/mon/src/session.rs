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
    /// Who.
    pub peer: Box<Peer>,
    /// What it may do; nothing where its capabilities can't be read.
    pub caps: MonCap,
    /// By name: `osdmap`, `mdsmap.1`, …
    pub subs: BTreeMap<String, Sub>,
    /// The options that it was sent last.
    pub config: Option<BTreeMap<String, String>>,
    /// What it has of OSD maps that this monitor did not send.
    pub(crate) map_share: MapShare,
}

/// A subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sub {
    /// The oldest version that is still of interest.
    pub next: u64,
    /// How it ends.
    pub end: SubEnd,
}

/// How a subscription ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubEnd {
    /// With the session.
    Never,
    /// With the first answer.
    Once,
    /// It was answered; what comes before then is told as well.
    At(Instant),
    /// Never, and nobody has asked: from this time on it tells where an OSD has gone down.
    Unasked(Instant),
}

impl Session {
    /// Whether this is a daemon of kind `ty`, or an administrator.
    pub fn is(&self, ty: EntityType) -> bool {
        self.peer.name.ty == ty
    }

    /// Whether it may know of this file system.
    pub fn sees_fs(&self, name: &str) -> bool {
        !self.caps.hides_fs() || self.caps.allows_fs(name, Perm::R)
    }

    /// The file systems that it may know of.
    pub fn fsmap(&self, all: &Arc<FsMap>) -> Arc<FsMap> {
        match self.caps.hides_fs() {
            true => Arc::new(all.only(|name| self.sees_fs(name))),
            false => all.clone(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &EntityName {
        &self.peer.name
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub struct Sessions {
    by_conn: FastMap<ConnId, Session>,
}

impl Sessions {
    /// A new connection.
    pub fn add(&mut self, conn: ConnId, peer: Box<Peer>) {
        let from = peer.socket_addr.addr.map(|a| a.ip());
        let caps = MonCap::parse(&peer.caps).unwrap_or_default().for_peer(&peer.name, from);
        let session =
            Session { peer, caps, subs: BTreeMap::new(), config: None, map_share: MapShare::default() };
        self.by_conn.insert(conn, session);
    }

    /// A connection is gone.
    pub fn remove(&mut self, conn: ConnId) -> Option<Session> {
        self.by_conn.remove(&conn)
    }

    /// The session of a connection.
    pub fn get(&self, conn: ConnId) -> Option<&Session> {
        self.by_conn.get(&conn)
    }

    /// The session of a connection, to change.
    pub fn get_mut(&mut self, conn: ConnId) -> Option<&mut Session> {
        self.by_conn.get_mut(&conn)
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
