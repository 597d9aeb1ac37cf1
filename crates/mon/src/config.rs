//! Configuration of a monitor, and the lookup of options.

use maps::MonMap;
use std::collections::BTreeMap;

/// A monitor's place in its cluster and its options.
#[derive(Clone, Debug)]
pub struct MonConfig {
    /// `a` of `mon.a`.
    pub name: String,
    /// The initial monitor map: fsid, names and addresses. An existing store's own map takes precedence,
    /// except for the fsid.
    pub monmap: MonMap,
    /// Keys that a new cluster begins with: at least `mon.` and `client.admin`, with their capabilities.
    pub keyring: auth::Keyring,
    /// Methods that clients and daemons may authenticate with, the preferred one first.
    pub methods: Vec<auth::Method>,
    /// Options from the configuration file and command line, which take precedence over `ceph config set`.
    pub options: BTreeMap<String, String>,
    /// Name of this host, for `mon metadata` and `node ls`.
    pub hostname: String,
    /// The device that the store is on.
    pub disk: node::DiskInfo,
    /// Path of the store, for messages to people.
    pub store_path: String,
    /// Marker file of a monitor that has been in a cluster, if the file exists. Such a monitor never founds a
    /// new cluster: with an empty store it waits for monitors that have the cluster's state.
    pub joined: Option<String>,
    /// What it says of its build.
    pub build: peer::level::Build,
}
