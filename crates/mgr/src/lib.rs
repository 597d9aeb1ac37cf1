//! The manager: takes clients' commands that are not for monitors, as the active one of several.
//!
//! [`Mgr`] is a [`node::Node`] in the process of each metadata server. It keeps a session to a monitor,
//! sends beacons, and knows from the `mgrmap` whether it is active. It checks the capabilities of each
//! command. Those about file systems' volumes leave as a [`Notice::Run`] for a worker outside, whose answer
//! comes back as [`Request::Done`]; others go on to the monitors.
//!
//! Invariants of absence: it stores nothing, opens no file system, and carries out no command by itself.

mod commands;
mod manager;
mod sessions;

pub use manager::Mgr;

use auth::{Credentials, Method};
use decl::{Args, MgrCmd};
use std::collections::BTreeMap;
use stdx::Bufs;
use wire::{AddrVec, EntityAddr};

/// Configuration of a manager.
#[derive(Clone, Debug)]
pub struct MgrConfig {
    /// Name: that of the metadata server whose process and key it uses.
    pub name: String,
    /// The addresses that it listens on; their nonce is its incarnation.
    pub addrs: AddrVec,
    /// Name and key for monitors.
    pub credentials: Credentials,
    /// The methods by which clients may authenticate.
    pub methods: Vec<Method>,
    /// Addresses of monitors.
    pub monitors: Vec<EntityAddr>,
    /// Name of this host, for the monitors' log.
    pub hostname: String,
    /// `ceph mgr metadata`.
    pub metadata: BTreeMap<String, String>,
}

/// The outcome of a command.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// 0 or a negative errno.
    pub code: i32,
    /// The status line: an error, or what was done.
    pub status: String,
    /// The output.
    pub output: Bufs,
}

/// What the worker tells the manager.
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    /// A command has ended.
    Done {
        /// The number in [`Notice::Run`].
        job: u64,
        /// Its outcome.
        outcome: Outcome,
    },
    /// A command for a metadata server. To be answered by [`Notice::Told`].
    Tell {
        /// Its address.
        addr: EntityAddr,
        /// The command, one JSON object.
        command: String,
    },
    /// The worker's clients of OSDs and metadata servers, by the nonces that they announce.
    Clients(Vec<u32>),
}

/// What the manager tells the worker.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// From now on it is active, or not. A worker that is not active changes nothing.
    Active(bool),
    /// A client's command, whose permission is checked. To be answered by [`Request::Done`].
    Run {
        /// The manager's number for it.
        job: u64,
        /// The command.
        command: MgrCmd,
        /// Its arguments.
        args: Args,
    },
    /// The answer to [`Request::Tell`].
    Told(Outcome),
}
