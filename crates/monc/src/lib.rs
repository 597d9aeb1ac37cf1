//! A session to one of the monitors, for every other role: clients, OSDs, metadata servers.
//!
//! [`Monc`] is a sub-machine: its owner passes it the inputs of its connections ([`Monc::owns`]) and carries
//! out the [`MoncOut`]s. It hunts for a monitor that answers, leaves one that has fallen silent, keeps
//! subscriptions and unanswered requests over changes of the monitor, renews tickets in time, and passes on
//! every message that is not its own.
//!
//! Invariants of absence: it holds no cluster map but the monitors', and never gives up. An owner that wants
//! a time limit sets its own timer.

mod hunt;
mod net;
mod out;
mod requests;
mod session;
mod stuck;
mod subs;
mod tells;
mod tickets;
mod watch;

pub use net::{ConnSpace, Net};
pub use out::{MoncOut, Told};
pub use session::Monc;
pub use stuck::Stuck;
pub use tells::Tells;

use auth::Credentials;
use wire::{EntityAddr, EntityType};

/// Configuration of a session.
#[derive(Clone, Debug)]
pub struct MoncConfig {
    /// Our name and key.
    pub credentials: Credentials,
    /// Addresses of monitors, until a MonMap replaces them.
    pub mons: Vec<EntityAddr>,
    /// Services for which we need tickets.
    pub services: Vec<EntityType>,
    /// Daemons: the service whose rotating keys are fetched.
    pub rotating_keys: Option<EntityType>,
    /// Our share of the node's connection numbers.
    pub space: u8,
    /// Name of this host, for the monitor's log.
    pub hostname: String,
}
