//! A cluster in a directory: its paths, its making, the start of its daemons.

mod bootstrap;
mod build;
mod client;
mod daemon;
mod export;
pub(crate) mod files;
mod host;
mod http;
mod keys;
mod layout;
mod lock;
mod manager;
mod roles;
mod setup;
mod supervise;

pub(crate) use bootstrap::{FS_NAME, import_keys, is_served, make_file_system};
pub(crate) use build::{PROGRAM, build, program};
pub(crate) use client::{ClientArgs, PATIENCE, ask, ask_with};
pub(crate) use daemon::{Daemon, Daemons, InUse, local_ip_towards};
pub(crate) use export::export;
pub(crate) use keys::{ADMIN_CAPS, daemon_caps, keyring_of, new_key, take_key};
pub(crate) use layout::{Layout, Place, advise};
pub(crate) use lock::DirLock;
pub(crate) use setup::{CLIENT_SECTION, Cluster, Wanted, daemon_names, open_or_create};
pub(crate) use supervise::{MountProcess, Processes, ready_line};

/// This host's name, for people.
pub(crate) fn hostname() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
