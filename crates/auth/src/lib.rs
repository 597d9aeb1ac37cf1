//! cephx and `none`: keys, tickets, authorizers, capability strings (docs/protocol.md 2).
//!
//! Pure functions and small state machines: payloads in, payloads out. The messenger drives a handshake with
//! [`MonAuthenticator`] or [`ServiceAuthenticator`] at the accepting end and [`Initiator`] at the other; a
//! monitor answers later renewals with [`ServerKeys::answer_request`]. What a role publishes to its acceptors
//! is one immutable [`ServerKeys`] and one shared [`GlobalIds`].

mod authenticator;
mod caps;
mod cephx;
mod client;
mod denial;
mod error;
mod global_ids;
mod join;
mod key;
mod key_type;
mod keyring;
mod krb5;
mod mon;
mod password;
mod rotating;
mod sealed;
mod server_keys;
mod service;
mod step;
mod usage;

pub use authenticator::Authenticator;
pub use caps::{
    Access, Caller, CapsError, ClassCall, MdsCap, MgrCap, MonCap, OsdCap, OsdTarget, Perm, check_caps,
};
pub use cephx::TicketBlob;
pub use client::{Credentials, Initiator, InitiatorDone, InitiatorStep, Ticket, Tickets};
pub use denial::{Denial, DenialKind};
pub use error::AuthError;
pub use global_ids::GlobalIds;
pub use join::{join_expiry, join_name};
pub use key::{Key, Secret};
pub use key_type::KeyType;
pub use keyring::{Keyring, KeyringEntry};
pub use mon::MonAuthenticator;
pub use password::{hash_password, is_password};
pub use rotating::{ExpiringKey, RotatingKeys};
pub use server_keys::{EntityAuth, ServerKeys};
pub use service::ServiceAuthenticator;
pub use step::{AuthDone, AuthStep, ConMode, Method};
