//! The configuration of a client.

use auth::Credentials;
use std::time::Duration;
use wire::{EntityAddr, Uuid};

/// The configuration of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Its name (`client.admin`) and key; no key for the method `none`.
    pub credentials: Credentials,
    /// The addresses of the monitors.
    pub mons: Vec<EntityAddr>,
    /// The cluster, if it is known: monitors of another one end the client.
    pub fsid: Option<Uuid>,
    /// True to open file system sessions; without them only objects and commands work.
    pub mount: bool,
    /// True if commands are given to metadata servers ([`Request::Tell`](crate::Request::Tell)).
    pub tells: bool,
    /// The host name for the monitors' log and `session ls`.
    pub hostname: String,
    /// The mount point for `session ls`.
    pub mount_point: String,
    /// Limits and names.
    pub options: ClientOptions,
}

/// Limits and names of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// The limit of buffered writes in bytes; beyond it writers wait.
    pub dirty_bytes: u64,
    /// The number of inodes beyond which those that nobody uses are dropped from memory, and with them the
    /// pages that the kernel has of them (`client_cache_size` of Ceph). Each takes 1.3 KB.
    pub idle_inodes: usize,
    /// The name in each directory of the directory of its snapshots; empty for none.
    pub snapdir: String,
    /// The file system by name; `None` for the cluster's default.
    pub fs_name: Option<String>,
    /// The directory that is mounted, for `session ls`.
    pub root: String,
    /// Quotas limit what is done here (`client_quota` of Ceph). Administrators' tools move and remove trees
    /// whatever their quotas.
    pub quotas: bool,
    /// Files are created and removed without waiting for an MDS where that is possible (ADR 0017).
    pub asynchronous: bool,
    /// The time for which messages to an MDS that nobody here waits for may gather.
    pub gather: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            dirty_bytes: 32 << 20,
            idle_inodes: 36_864,
            snapdir: ".snap".into(),
            fs_name: None,
            root: "/".into(),
            quotas: true,
            asynchronous: true,
            gather: Duration::from_millis(1),
        }
    }
}
