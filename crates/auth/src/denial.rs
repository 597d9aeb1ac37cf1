//! Reasons for refusing a peer, for the log, each with a name for its counter.

use std::fmt;
use wire::EntityName;

/// The fault of a proof.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DenialKind {
    /// The method is not allowed, or not for this.
    Method,
    /// Bytes that violate the protocol.
    Malformed,
    /// No such principal.
    UnknownEntity,
    /// The challenge was answered with another key.
    WrongKey,
    /// The principal may not talk to monitors at all.
    NoMonCaps,
    /// A global id without the ticket that proves it (CVE-2021-20288).
    GlobalId,
    /// An expired ticket.
    ExpiredTicket,
    /// A ticket under a rotating key that is not held any more, or never was.
    UnknownTicketKey,
    /// A ticket, or a proof of its key, that was not made with the right key, or that belongs to another
    /// entity.
    ForgedTicket,
    /// Not the answer to our challenge: an authorizer of another connection, or a replayed one
    /// (CVE-2018-1128).
    Replay,
}

impl DenialKind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::Method,
        Self::Malformed,
        Self::UnknownEntity,
        Self::WrongKey,
        Self::NoMonCaps,
        Self::GlobalId,
        Self::ExpiredTicket,
        Self::UnknownTicketKey,
        Self::ForgedTicket,
        Self::Replay,
    ];

    /// The counter.
    pub fn counter(self) -> &'static str {
        match self {
            Self::Method => "auth_denied_method",
            Self::Malformed => "auth_denied_malformed",
            Self::UnknownEntity => "auth_denied_unknown_entity",
            Self::WrongKey => "auth_denied_wrong_key",
            Self::NoMonCaps => "auth_denied_no_mon_caps",
            Self::GlobalId => "auth_denied_global_id",
            Self::ExpiredTicket => "auth_denied_expired_ticket",
            Self::UnknownTicketKey => "auth_denied_unknown_ticket_key",
            Self::ForgedTicket => "auth_denied_forged_ticket",
            Self::Replay => "auth_denied_replay",
        }
    }
}

/// A refusal. Holds no key, and nothing of a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denial {
    /// The kind.
    pub kind: DenialKind,
    /// The entity that the ticket or the peer names; `None` if neither could be read.
    pub entity: Option<EntityName>,
    /// In words.
    pub why: String,
}

impl Denial {
    /// Without an entity.
    pub fn new(kind: DenialKind, why: impl fmt::Display) -> Self {
        Self { kind, entity: None, why: why.to_string() }
    }

    /// Adds the entity, unless one is known.
    #[must_use]
    pub fn of(mut self, entity: &EntityName) -> Self {
        self.entity.get_or_insert_with(|| entity.clone());
        self
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.entity {
            Some(entity) => write!(f, "{entity}: {}", self.why),
            None => write!(f, "somebody: {}", self.why),
        }
    }
}
