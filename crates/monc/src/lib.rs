//! A session to one of the monitors, for every role that is not one: clients, OSDs, metadata servers.
//!
//! [`Monc`] is a sub-machine: its owner hands it what concerns its connections ([`Monc::owns`]) and carries out the
//! [`MoncOut`]s. It looks for a monitor that answers, leaves one that has fallen silent, keeps subscriptions and unanswered requests over changes of the
//! monitor, renews tickets in time, and passes on every message that it has no use for itself.
//!
//! Invariants of absence: it holds no cluster map but the monitors', and never gives up: an owner that wants a limit on
//! its patience sets its own timer.

mod hunt;
mod net;
mod out;
mod requests;
mod session;
mod stuck;
mod subs;
mod tickets;
mod watch;

pub use net::{ConnSpace, Net};
pub use out::{MoncOut, Told};
pub use session::Monc;
pub use stuck::Stuck;

use auth::Credentials;
use wire::{EntityAddr, EntityType};

/// What a session is made with.
#[derive(Clone, Debug)]
pub struct MoncConfig {
    /// Who we are.
    pub credentials: Credentials,
    /// Where monitors may be, until a MonMap tells.
    pub mons: Vec<EntityAddr>,
    /// The services whose tickets we need.
    pub services: Vec<EntityType>,
    /// Daemons: fetch the rotating keys of our own role.
    pub rotating_keys: bool,
    /// Our share of the node's connection numbers.
    pub space: u8,
    /// For the monitor's log.
    pub hostname: String,
}
