//! How far a connection's handshake is, and what each of its two sides remembers of it.

use crate::config::Auth;
use crate::control::Reconnect;
use auth::{ConMode, Initiator};
use wire::{EntityAddr, EntityName, EntityType};

#[derive(Debug)]
pub(crate) enum Side {
    Acceptor(Acceptor),
    Initiator(Initiating),
}

/// The frame that the peer has to send next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Banner,
    Hello,
    /// Frames of the authentication.
    Auth,
    /// AUTH_SIGNATURE with this value.
    Signature([u8; 32]),
    /// CLIENT_IDENT or SESSION_RECONNECT at the acceptor, their answers at the initiator.
    Ident,
    /// At the acceptor: [`crate::Conn::resume`] is awaited.
    Resuming,
    Open,
    Closed,
}

/// Results of the handshake so far.
#[derive(Debug)]
pub(crate) struct Peer {
    pub ty: EntityType,
    pub entity: EntityName,
    pub global_id: u64,
    pub caps: String,
    pub seen_as: EntityAddr,
    pub mode: ConMode,
    pub tickets: Option<auth::Tickets>,
}

#[derive(Debug)]
pub(crate) struct Acceptor {
    pub auth: Auth,
    pub lossy: bool,
    /// AUTH_REQUESTs seen.
    pub attempts: u32,
    /// The method of the last one.
    pub method: u32,
    /// The client's request to resume a session, until that session is found.
    pub reconnect: Reconnect,
}

impl Acceptor {
    pub fn new(auth: Auth, lossy: bool) -> Self {
        Self { auth, lossy, attempts: 0, method: 0, reconnect: Reconnect::default() }
    }
}

#[derive(Debug)]
pub(crate) struct Initiating {
    pub auth: Initiator,
    pub peer_type: EntityType,
    pub target: EntityAddr,
    pub lossy: bool,
    /// SESSION_RETRYs and RESETs seen.
    pub retries: u32,
}

impl Initiating {
    pub fn new(auth: Initiator, peer_type: EntityType, target: EntityAddr, lossy: bool) -> Self {
        Self { auth, peer_type, target, lossy, retries: 0 }
    }
}
