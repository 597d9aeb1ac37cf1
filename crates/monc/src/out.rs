//! Outputs of a session, for its owner.

use crate::Net;
use auth::{RotatingKeys, Tickets};
use maps::MonMap;
use node::Msg;
use std::sync::Arc;

/// One output of [`crate::Monc`].
#[derive(Debug)]
pub enum MoncOut {
    /// An output for the world.
    Net(Net),
    /// News for the owner.
    Told(Told),
}

impl From<Net> for MoncOut {
    fn from(net: Net) -> Self {
        Self::Net(net)
    }
}

impl From<Told> for MoncOut {
    fn from(told: Told) -> Self {
        Self::Told(told)
    }
}

/// News for the owner.
#[derive(Clone, PartialEq, Debug)]
pub enum Told {
    /// A session is open, perhaps with another monitor than before, or another monitor leads: a daemon
    /// announces itself again.
    Session {
        /// Ours; stays the same over sessions as long as our ticket is good.
        global_id: u64,
    },
    /// The session is gone; another one is being looked for.
    Lost,
    /// A monitor does not accept our key. Others are tried.
    Denied,
    /// All our tickets, renewed: to be used for services from now on.
    Tickets(Box<Tickets>),
    /// The renewed keys of our own role.
    RotatingKeys(Box<RotatingKeys>),
    /// A newer map of the monitors.
    MonMap(Arc<MonMap>),
    /// The answer to a request.
    Reply {
        /// The owner's number.
        token: u64,
        /// The monitor's answer.
        body: msgs::Body,
    },
    /// Any other message of the monitor: maps, configuration, what daemons exchange with monitors.
    Message(Msg),
}
