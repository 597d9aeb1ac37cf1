//! Events of a connection, and the reasons for its end.

use auth::{ConMode, Tickets};
use stdx::Reservation;
use wire::{AddrVec, EntityAddr, EntityName, EntityType, Errno, RawMsg};

/// An event on a connection.
#[derive(Debug)]
pub enum Event {
    /// The handshake is complete: messages may be sent and will come.
    Ready(Box<Ready>),
    /// A lossless client is back: find its session with [`crate::SessionTable::claim`] and call
    /// [`crate::Conn::resume`].
    Resume(crate::Resume),
    /// A message. Its data carries the reservation of its budget; without data `hold` does.
    Message {
        /// The message.
        msg: RawMsg,
        /// To be dropped once the message was handled.
        hold: Option<Reservation>,
    },
    /// The connection is over; nothing follows. The session of a lossless one can still be taken.
    Closed(Reason),
}

/// The peer, once it is known and authenticated.
#[derive(Clone, PartialEq, Debug)]
pub struct Ready {
    /// The peer's role.
    pub peer_type: EntityType,
    /// At the acceptor, the name that was authenticated.
    pub entity: EntityName,
    /// The number that the peer gives itself (OSD id, rank); -1 if unknown.
    pub num: i64,
    /// At the acceptor the peer's global id, at the initiator our own.
    pub global_id: u64,
    /// At the acceptor, the peer's capability string for our service.
    pub caps: String,
    /// The peer's addresses, with its nonce.
    pub addrs: AddrVec,
    /// Our address as the peer sees it.
    pub seen_as: EntityAddr,
    /// Features of both ends.
    pub features: u64,
    /// Protection of frames.
    pub mode: ConMode,
    /// True if a broken connection loses messages in flight.
    pub lossy: bool,
    /// Key of the session in a [`crate::SessionTable`]; 0 for a lossy connection.
    pub cookie: u64,
    /// True if this resumes an earlier connection's session: no message was lost or duplicated.
    pub resumed: bool,
    /// At the initiator, after a handshake with a monitor: our global id and tickets.
    pub tickets: Option<Tickets>,
}

/// Why a connection ended; each is counted under its [`Reason::name`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Reason {
    /// The socket ended or failed; reported by the runtime.
    #[error("the peer closed the connection")]
    Eof,
    /// The owner closed the connection.
    #[error("closed by us")]
    Local,
    /// The first bytes are not msgr2's, or it requires a revision that we do not have.
    #[error("not msgr2.1: {0}")]
    Banner(&'static str),
    /// A frame that the protocol does not allow.
    #[error("bad frame: {0}")]
    Frame(&'static str),
    /// A segment longer than allowed.
    #[error("a segment of {0} bytes is too long")]
    Oversize(u32),
    /// A checksum does not match.
    #[error("wrong checksum of {0}")]
    Crc(&'static str),
    /// A secure frame was not made with our key.
    #[error("a frame that cannot be authenticated")]
    Decrypt,
    /// A payload that cannot be decoded.
    #[error("malformed payload: {0}")]
    Malformed(wire::DecodeError),
    /// A frame that is not expected now.
    #[error("unexpected frame {0}")]
    Unexpected(u8),
    /// Authentication failed.
    #[error("authentication failed: {0}")]
    Auth(Box<auth::Denial>),
    /// We cannot authenticate anybody yet.
    #[error("not ready to authenticate: {0}")]
    NotReady(&'static str),
    /// The peer refused our method or proof, and names the methods that it allows.
    #[error(
        "the peer refused to authenticate us: error {}, it allows methods {methods:?}",
        errno.to_result_code()
    )]
    Refused {
        /// Its error; EACCES where it names none.
        errno: Errno,
        /// Numbers of methods.
        methods: Vec<u32>,
    },
    /// AUTH_SIGNATURE does not match: the handshake was tampered with.
    #[error("wrong handshake signature")]
    Signature,
    /// The peer lacks features that we require, or we lack some that it requires.
    #[error("missing features {0:#x}")]
    Features(u64),
    /// The peer is not, or looks for, another role or incarnation.
    #[error("wrong peer: {0}")]
    WrongPeer(&'static str),
    /// A message is missing in a lossless session.
    #[error("message {got} follows {had}")]
    Gap {
        /// The last one that came.
        had: u64,
        /// The next one.
        got: u64,
    },
    /// The handshake took too long.
    #[error("the handshake timed out")]
    HandshakeTimeout,
    /// Nothing was heard for too long.
    #[error("silent for too long")]
    Idle,
    /// Too much waits to be sent or acknowledged.
    #[error("too much is queued")]
    QueueFull,
    /// The session went to a newer connection of the same client.
    #[error("replaced by a newer connection")]
    Replaced,
    /// The peer asked us to wait for its own connection.
    #[error("the peer connects itself")]
    Wait,
}

impl Reason {
    /// A short name for counters.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Eof => "eof",
            Self::Local => "local",
            Self::Banner(_) => "banner",
            Self::Frame(_) => "frame",
            Self::Oversize(_) => "oversize",
            Self::Crc(_) => "crc",
            Self::Decrypt => "decrypt",
            Self::Malformed(_) => "malformed",
            Self::Unexpected(_) => "unexpected",
            Self::Auth(_) => "auth",
            Self::NotReady(_) => "not_ready",
            Self::Refused { .. } => "refused",
            Self::Signature => "signature",
            Self::Features(_) => "features",
            Self::WrongPeer(_) => "wrong_peer",
            Self::Gap { .. } => "gap",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::Idle => "idle",
            Self::QueueFull => "queue_full",
            Self::Replaced => "replaced",
            Self::Wait => "wait",
        }
    }
}

impl From<wire::DecodeError> for Reason {
    fn from(e: wire::DecodeError) -> Self {
        Self::Malformed(e)
    }
}
