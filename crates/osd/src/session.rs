//! Connections from others: clients, and OSDs that ask us something.

use auth::OsdCap;
use maps::{Epoch, OsdId};
use node::Peer;
use wire::EntityType;

/// One accepted connection.
#[derive(Debug)]
pub struct Session {
    /// Who it is.
    pub peer: Box<Peer>,
    /// What it may do; parsed once.
    pub caps: OsdCap,
    /// Which OSD, once it has said so.
    pub osd: Option<OsdId>,
    /// Whether it was said in the log that it asked for what it may not.
    pub refused: bool,
    /// The newest map that it has, as far as we know.
    pub epoch: Epoch,
}

impl Session {
    /// A new connection. Capabilities that can't be parsed allow nothing.
    pub fn new(peer: Box<Peer>) -> Self {
        let from = peer.socket_addr.addr.map(|a| a.ip());
        let caps = OsdCap::parse(&peer.caps).unwrap_or_default().for_peer(from);
        Self { peer, caps, osd: None, refused: false, epoch: Epoch(0) }
    }

    /// Whether it has authenticated as an OSD.
    pub fn is_osd(&self) -> bool {
        self.peer.name.ty == EntityType::OSD
    }
}
