//! Connections from others: clients, and OSDs that ask us something.

use auth::OsdCap;
use maps::{Epoch, OsdId};
use node::{ConnId, Peer};
use std::collections::{BTreeMap, BTreeSet};
use wire::{EntityAddr, EntityId, EntityType};

/// One accepted connection.
#[derive(Debug)]
pub struct Session {
    peer: Box<Peer>,
    /// Its capabilities, parsed once.
    caps: OsdCap,
    /// The OSD that it is, once it has said so.
    osd: Option<OsdId>,
    /// A request of it was refused for its capabilities, and that is in the log.
    refused: bool,
    /// The newest map that it has, as far as we know.
    epoch: Epoch,
}

impl Session {
    /// Capabilities that can't be parsed allow nothing.
    fn new(peer: Box<Peer>) -> Self {
        let from = peer.socket_addr.addr.map(|a| a.ip());
        let caps = OsdCap::parse(&peer.caps).unwrap_or_default().for_peer(from);
        Self { peer, caps, osd: None, refused: false, epoch: Epoch(0) }
    }

    /// True if it has authenticated as an OSD.
    pub fn is_osd(&self) -> bool {
        self.peer.name.ty == EntityType::OSD
    }

    /// The other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Capabilities of its key.
    pub fn caps(&self) -> &OsdCap {
        &self.caps
    }

    /// The name and address that its requests and watches are known by.
    pub fn client(&self) -> (EntityId, EntityAddr) {
        let name = match self.peer.id.ty {
            EntityType::CLIENT => self.peer.id,
            _ => EntityId { ty: self.peer.name.ty, num: self.peer.global_id as i64 },
        };
        (name, self.peer.addrs.front())
    }

    fn is_client_with_map(&self) -> bool {
        self.peer.role() == EntityType::CLIENT && self.epoch > Epoch(0)
    }
}

/// All accepted connections.
#[derive(Debug, Default)]
pub struct Sessions {
    by_conn: BTreeMap<ConnId, Session>,
    /// Clients that are sent the map with the next one: their requests were dropped, or may wait for an OSD
    /// that is gone.
    uninformed: BTreeSet<ConnId>,
}

impl Sessions {
    /// A new connection.
    pub fn add(&mut self, conn: ConnId, peer: Box<Peer>) {
        self.by_conn.insert(conn, Session::new(peer));
    }

    /// A connection is gone. Returns true if it was here.
    pub fn remove(&mut self, conn: ConnId) -> bool {
        self.by_conn.remove(&conn).is_some()
    }

    /// The session of a connection.
    pub fn get(&self, conn: ConnId) -> Option<&Session> {
        self.by_conn.get(&conn)
    }

    /// All connections of clients and OSDs.
    pub fn conns(&self) -> impl Iterator<Item = ConnId> {
        self.by_conn.keys().copied()
    }

    /// The OSD at the other end, if it has said which it is.
    pub fn osd(&self, conn: ConnId) -> Option<OsdId> {
        self.get(conn)?.osd
    }

    /// The other end has said that it is this OSD.
    pub fn is_osd(&mut self, conn: ConnId, osd: Option<OsdId>) {
        if let Some(session) = self.by_conn.get_mut(&conn) {
            session.osd = osd;
        }
    }

    /// A request was refused. Returns true if that is the first time on this connection.
    pub fn refuse(&mut self, conn: ConnId) -> bool {
        self.by_conn.get_mut(&conn).is_some_and(|session| !std::mem::replace(&mut session.refused, true))
    }

    /// The other end has map `its` or a newer one and will have `ours`; gives the newest that it had. `None`
    /// if it is gone.
    pub fn brings_to(&mut self, conn: ConnId, its: Epoch, ours: Epoch) -> Option<Epoch> {
        let session = self.by_conn.get_mut(&conn)?;
        Some(std::mem::replace(&mut session.epoch, ours).max(its))
    }

    /// These clients are sent the next map.
    pub fn inform(&mut self, conns: impl IntoIterator<Item = ConnId>) {
        self.uninformed.extend(conns);
    }

    /// All clients that have shown a map are sent the next one.
    pub fn inform_all_clients(&mut self) {
        let clients = self.by_conn.iter().filter(|(_, session)| session.is_client_with_map());
        self.uninformed.extend(clients.map(|(conn, _)| *conn));
    }

    /// Takes the clients that are to be sent the map.
    pub fn take_uninformed(&mut self) -> BTreeSet<ConnId> {
        std::mem::take(&mut self.uninformed)
    }
}
