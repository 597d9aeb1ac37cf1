//! Configuration of a connection.

use auth::{Authenticator, ConMode, Initiator};
use std::time::Duration;
use wire::{AddrVec, EntityAddr, EntityType};

pub use wire::FEATURES;
/// Required features of a peer: MSG_ADDR2, without which there are no msgr2 addresses.
pub const REQUIRED_FEATURES: u64 = 1 << 59;

/// Configuration of both ends.
#[derive(Clone, Debug)]
pub struct Common {
    /// Our role.
    pub entity_type: EntityType,
    /// Our number within the role: OSD id, monitor's or MDS's rank, a client's global id; -1 if not known
    /// yet.
    pub num: i64,
    /// Our addresses; of a client one of type "any" with port 0 and its nonce.
    pub addrs: AddrVec,
    /// The peer's socket address as we see it.
    pub peer_addr: EntityAddr,
    /// Allowed modes, the preferred one first. The acceptor takes the first of its own that the peer offers.
    pub con_modes: Vec<ConMode>,
    /// A count of this process's connections, higher for each one.
    pub global_seq: u64,
    /// Time limit of the handshake.
    pub handshake_timeout: Duration,
    /// Time of silence after which a connection counts as dead; `None` for no limit. An initiator sends a
    /// keepalive every third of it.
    pub idle_timeout: Option<Duration>,
    /// The most bytes that may wait to be sent or, on a lossless session, to be acknowledged; beyond it the
    /// connection is closed.
    pub max_queued: usize,
}

impl Common {
    /// Defaults for all that is not asked for.
    pub fn new(entity_type: EntityType, num: i64, addrs: AddrVec, peer_addr: EntityAddr) -> Self {
        Self {
            entity_type,
            num,
            addrs,
            peer_addr,
            con_modes: vec![ConMode::Crc, ConMode::Secure],
            global_seq: 1,
            handshake_timeout: Duration::from_secs(20),
            idle_timeout: None,
            max_queued: 1 << 30,
        }
    }
}

/// For [`crate::Conn::accept`].
#[derive(Debug)]
pub struct AcceptConfig {
    /// Configuration common to both ends.
    pub common: Common,
    /// Authentication of clients.
    pub auth: Auth,
    /// Monitors and OSDs keep no session: messages in flight are lost with the connection, and the client
    /// repeats its requests. An MDS is lossless towards clients.
    pub lossy: bool,
}

/// The acceptor's side of the authentication, with the numbers of the methods that it allows.
#[derive(Debug)]
pub struct Auth {
    /// The state machine.
    pub machine: Authenticator,
    /// For AUTH_BAD_METHOD.
    pub methods: Vec<u32>,
}

/// For [`crate::Conn::connect`].
#[derive(Debug)]
pub struct ConnectConfig {
    /// Configuration common to both ends.
    pub common: Common,
    /// Our credentials.
    pub auth: Initiator,
    /// The role that must answer.
    pub peer_type: EntityType,
    /// The address that we dial, with the nonce of the incarnation that we mean.
    pub target: EntityAddr,
    /// True to ask for no session; the acceptor decides.
    pub lossy: bool,
}
