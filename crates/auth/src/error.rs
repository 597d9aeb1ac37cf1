//! Errors of an exchange.

use crate::{Denial, DenialKind};
use wire::DecodeError;

/// Why a payload was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AuthError {
    /// Bytes that violate the protocol.
    #[error("malformed: {0}")]
    Malformed(#[from] DecodeError),
    /// A ciphertext that the key does not open.
    #[error("cannot be decrypted with this key")]
    WrongKey,
    /// A key of a type or length that this build cannot use.
    #[error("unusable key: {0}")]
    BadKey(String),
    /// The other end refused or answered something else than was asked.
    #[error("refused: {0}")]
    Refused(String),
    /// Not let in.
    #[error("{0}")]
    Denied(Box<Denial>),
    /// A ticket under a rotating key with this number, newer than all keys here: ours are out of date.
    #[error("ticket under key {0}, which is not known yet")]
    NewerKey(u64),
    /// A keyring file that cannot be read, with the line.
    #[error("keyring, line {line}: {what}")]
    Keyring {
        /// Counted from 1.
        line: usize,
        /// The expected value.
        what: String,
    },
}

impl AuthError {
    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }

    pub(crate) fn denied(kind: DenialKind, why: impl std::fmt::Display) -> Self {
        Self::Denied(Box::new(Denial::new(kind, why)))
    }
}

impl From<AuthError> for Denial {
    fn from(error: AuthError) -> Self {
        let kind = match error {
            AuthError::Denied(denial) => return *denial,
            AuthError::WrongKey => DenialKind::ForgedTicket,
            AuthError::NewerKey(_) => DenialKind::UnknownTicketKey,
            AuthError::Malformed(_)
            | AuthError::BadKey(_)
            | AuthError::Refused(_)
            | AuthError::Keyring { .. } => DenialKind::Malformed,
        };
        Self::new(kind, error)
    }
}
