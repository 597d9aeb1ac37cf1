//! Connections to other OSDs, which are sent the maps that they lack, and sessions of clients.

use super::{Core, Out};
use crate::links::{LinkCtx, Links, Purpose};
use crate::session::{Session, Sessions};
use maps::{Epoch, OsdId, OsdMap};
use monc::Monc;
use msgs::Body;
use node::{CloseReason, ConnId, Msg, Peer};
use wire::EntityType;

/// Messages to other nodes.
impl Core {
    /// Sends on an accepted connection. If another OSD opened it and lacks our map, the map goes ahead of a
    /// message about a PG, which would wait for it there.
    pub fn send(&mut self, conn: ConnId, tid: u64, body: impl Into<node::Body>) {
        let body = body.into();
        if matches!(&body, node::Body::Peer(body) if body.pg_head().is_some()) {
            self.share_maps_on(conn);
        }
        self.outbox.send(conn, Msg::new(tid, body));
    }

    /// Sends to another OSD on our own connection, which is opened if necessary; the maps that it lacks go
    /// ahead. Nothing is sent to an OSD that the map has down.
    pub fn send_osd(&mut self, osd: OsdId, tid: u64, body: impl Into<node::Body>) {
        if self.map().is_up(osd) {
            if let Some(maps) = self.maps_for(osd) {
                self.links.send(osd, maps);
            }
            self.links.send(osd, Msg::new(tid, body));
        }
    }

    /// Sends a ping to another OSD.
    pub fn ping(&mut self, osd: OsdId, ping: peer::OsdPing) {
        self.links.ping(osd, Msg::new(0, peer::Body::from(ping)));
    }
}

/// Maps that other OSDs lack.
impl Core {
    /// Sends the OSD at the other end of a connection the maps that it lacks.
    pub fn share_maps_on(&mut self, conn: ConnId) {
        if let Some(osd) = self.osd_at(conn)
            && let Some(maps) = self.maps_for(osd)
        {
            self.outbox.send(conn, maps);
        }
    }

    /// The maps that an OSD lacks, as far as they are shared.
    fn maps_for(&mut self, osd: OsdId) -> Option<Msg> {
        let (newest, now) = (self.epoch(), self.now.mono);
        let incrementals = self.peer_epochs.take_lacking(osd, newest, self.view.recent(), now)?;
        self.count("maps_shared", incrementals.len() as u64);
        let maps = msgs::OsdMap { fsid: self.config.fsid, newest, incrementals, ..msgs::OsdMap::default() };
        Some(Msg::new(0, Body::from(maps)))
    }

    /// Notes the newest map of another OSD.
    pub fn heard_epoch(&mut self, osd: OsdId, epoch: Epoch) {
        self.peer_epochs.heard(osd, epoch, self.now.mono);
    }

    /// Notes that a message about a PG named a map that its sender has.
    pub fn has_at_least(&mut self, osd: OsdId, epoch: Epoch) {
        self.peer_epochs.has_at_least(osd, epoch);
    }

    /// Forgets the maps of OSDs with another incarnation than in `before`: a restarted OSD continues from its
    /// newest stored map, which may be older than the newest one sent.
    pub fn forget_old_incarnations(&mut self, before: &OsdMap) {
        for (osd, entry) in self.view.map().existing() {
            if before.osd(osd).is_none_or(|old| old.info.up_from != entry.info.up_from) {
                self.peer_epochs.forget(osd);
            }
        }
    }

    /// Keeps an incremental for others.
    pub fn keep_incremental(&mut self, epoch: Epoch, bytes: stdx::Buf) {
        self.view.keep_incremental(epoch, bytes);
    }

    /// Forgets all incrementals: epochs were skipped.
    pub fn forget_incrementals(&mut self) {
        self.view.forget_incrementals();
    }

    /// The message that brings a client from map `has` to ours, in full if an incremental is not kept.
    pub fn maps_since(&self, has: Epoch, oldest: Epoch) -> msgs::OsdMap {
        let newest = self.epoch();
        let head = msgs::OsdMap { fsid: self.config.fsid, oldest, newest, ..msgs::OsdMap::default() };
        match self.view.since(has) {
            Some(incrementals) => msgs::OsdMap { incrementals, ..head },
            None => {
                let full = wire::Writer::encode(&**self.map()).into();
                msgs::OsdMap { fulls: [(newest, full)].into(), ..head }
            }
        }
    }
}

/// Connections to other OSDs.
impl Core {
    /// Our connections to other OSDs.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The OSD at the other end of a connection, if there is one.
    pub fn osd_at(&self, conn: ConnId) -> Option<OsdId> {
        self.links.of(conn).map(|(_, osd)| osd).or_else(|| self.sessions.osd(conn))
    }

    /// Handles the loss of a connection to another OSD; returns its purpose. The last messages may not have
    /// arrived.
    pub fn link_closed(&mut self, conn: ConnId, reason: CloseReason) -> Option<(Purpose, OsdId)> {
        let closed = self.links.closed(self.now.mono, conn, reason)?;
        self.peer_epochs.forget(closed.1);
        Some(closed)
    }

    /// Closes heartbeat connections to OSDs that are no longer peers.
    pub fn keep_pings(&mut self, peers: &[OsdId]) {
        self.links.keep_pings(peers, &mut self.outbox);
    }

    /// Closes connections to OSDs that the map has down, or in another incarnation. Returns those from which
    /// something may be awaited.
    pub fn links_follow_map(&mut self) -> Vec<OsdId> {
        self.links.map_changed(self.view.map(), &mut self.outbox)
    }

    /// Opens connections that are needed and sends the queued messages.
    pub fn flush_links(&mut self, monc: &Monc) {
        let Self { links, outbox, view, config, now, .. } = self;
        let may_connect = config.credentials.key.is_none() || monc.tickets().get(EntityType::OSD).is_some();
        let (id, fsid) = (config.id, config.fsid);
        let ctx = LinkCtx { now: now.mono, map: view.map(), monc, may_connect, id, fsid };
        links.flush(&ctx, outbox);
    }
}

/// Sessions of accepted connections.
impl Core {
    /// The accepted connections.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The session of an accepted connection.
    pub fn session(&self, conn: ConnId) -> Option<&Session> {
        self.sessions.get(conn)
    }

    /// A connection was accepted.
    pub fn add_session(&mut self, conn: ConnId, peer: Box<Peer>) {
        self.sessions.add(conn, peer);
    }

    /// Removes an accepted connection. Returns true if it was here.
    pub fn remove_session(&mut self, conn: ConnId) -> bool {
        self.backoffs.forget(conn);
        self.sessions.remove(conn)
    }

    /// Notes that the other end of an accepted connection is this OSD, with map `epoch`.
    pub fn greeted(&mut self, conn: ConnId, osd: Option<OsdId>, epoch: Epoch) {
        self.sessions.is_osd(conn, osd);
        if let Some(osd) = osd {
            self.heard_epoch(osd, epoch);
        }
    }

    /// Notes a request that was refused for its sender's capabilities. Returns true for the first one on this
    /// connection.
    pub fn refuse(&mut self, conn: ConnId) -> bool {
        self.sessions.refuse(conn)
    }

    /// Notes that the other end has map `its` or a newer one and will have ours; returns the newest that it
    /// had.
    pub fn brings_to_ours(&mut self, conn: ConnId, its: Epoch) -> Option<Epoch> {
        let ours = self.epoch();
        self.sessions.brings_to(conn, its, ours)
    }

    /// Marks clients to be sent the next map: their requests are dropped.
    pub fn inform(&mut self, conns: impl IntoIterator<Item = ConnId>) {
        self.sessions.inform(conns);
    }

    /// Marks all clients with a known epoch to be sent the next map.
    pub fn inform_all_clients(&mut self) {
        self.sessions.inform_all_clients();
    }

    /// Takes the clients to be sent the map.
    pub fn take_uninformed(&mut self) -> impl Iterator<Item = ConnId> + use<> {
        self.sessions.take_uninformed().into_iter()
    }

    /// Closes a connection.
    pub fn close(&mut self, conn: ConnId) {
        self.outbox.push(Out::Close { conn });
    }
}
