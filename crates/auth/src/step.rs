//! An authenticator's answers, and the numbers of methods and modes.

use crate::{Denial, DenialKind, Key, Secret};
use wire::{EntityName, Errno};

/// An authentication method.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Method {
    /// Trust every peer.
    None = 1,
    /// Tickets.
    Cephx = 2,
}

impl Method {
    /// The wire's number.
    pub fn from_wire(n: u32) -> Option<Self> {
        match n {
            1 => Some(Self::None),
            2 => Some(Self::Cephx),
            _ => None,
        }
    }
}

/// The protection of frames after the handshake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ConMode {
    /// Checksums.
    Crc = 1,
    /// AES-128-GCM; only with cephx.
    Secure = 2,
}

impl ConMode {
    /// The wire's number.
    pub fn from_wire(n: u32) -> Option<Self> {
        match n {
            1 => Some(Self::Crc),
            2 => Some(Self::Secure),
            _ => None,
        }
    }
}

/// The next step at the accepting end.
#[derive(Clone, PartialEq, Debug)]
pub enum AuthStep {
    /// Send AUTH_REPLY_MORE with this.
    More(Vec<u8>),
    /// Send AUTH_DONE.
    Done(AuthDone),
    /// Send AUTH_BAD_METHOD with this error; the peer may try again with another method.
    Fail {
        /// EOPNOTSUPP if the method is not allowed, EACCES if the proof failed.
        errno: Errno,
        /// For the log.
        denial: Box<Denial>,
    },
    /// Nothing is wrong, but we cannot serve yet (no keys or global ids): the connection is dropped, and the
    /// peer tries again.
    NotReady(&'static str),
}

/// A finished handshake at the accepting end.
#[derive(Clone, PartialEq, Debug)]
pub struct AuthDone {
    /// The peer's global id.
    pub global_id: u64,
    /// Payload of AUTH_DONE.
    pub blob: Vec<u8>,
    /// Signs AUTH_SIGNATURE; no key with `none`.
    pub session_key: Key,
    /// Keys secure mode; empty in crc mode.
    pub connection_secret: Secret,
    /// Its authenticated name.
    pub entity: EntityName,
    /// Its capability string for our service.
    pub caps: String,
}

/// `EACCES`.
pub(crate) fn denied(denial: impl Into<Denial>) -> AuthStep {
    AuthStep::Fail { errno: Errno::EACCES, denial: Box::new(denial.into()) }
}

/// An answer on a connection that was asked nothing.
pub(crate) fn unasked() -> AuthStep {
    denied(Denial::new(DenialKind::Replay, "an answer without a challenge"))
}

/// `EOPNOTSUPP`.
pub(crate) fn bad_method() -> AuthStep {
    let denial = Denial::new(DenialKind::Method, "this method is not allowed here");
    AuthStep::Fail { errno: Errno::EOPNOTSUPP, denial: Box::new(denial) }
}
