//! A cluster in a directory: its paths, its making, the start of its daemons.

mod bootstrap;
mod client;
mod daemon;
mod files;
mod host;
mod http;
mod layout;
mod lock;
mod manager;
mod roles;
mod setup;
mod supervise;

pub(crate) use bootstrap::{import_keys, is_served, make_file_system};
pub(crate) use client::{ClientArgs, PATIENCE, ask};
pub(crate) use daemon::{Daemon, Daemons, InUse};
pub(crate) use layout::{Layout, advise};
pub(crate) use lock::DirLock;
pub(crate) use setup::{Cluster, Wanted, daemon_names, open_or_create};
pub(crate) use supervise::{MountProcess, Processes, ready_line};

/// This host's name, for people.
pub(crate) fn hostname() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
