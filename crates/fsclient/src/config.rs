//! How a client is made.

use auth::Credentials;
use wire::{EntityAddr, Uuid};

/// What a client needs to know at its start.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Who it is (`client.admin`) and its key; no key for the method `none`.
    pub credentials: Credentials,
    /// Where monitors are.
    pub mons: Vec<EntityAddr>,
    /// The cluster that is meant, where that is known: monitors of another one end the client.
    pub fsid: Option<Uuid>,
    /// Whether to open a file system session; without it only objects and commands work.
    pub mount: bool,
    /// For the monitor's log and `session ls`.
    pub hostname: String,
    /// For `session ls`.
    pub mount_point: String,
    /// Limits.
    pub options: ClientOptions,
}

/// Limits of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Buffered writes, in bytes: beyond it writers wait.
    pub dirty_bytes: u64,
    /// Inodes that nobody refers to kept for later.
    pub idle_inodes: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { dirty_bytes: 64 << 20, idle_inodes: 16_384 }
    }
}
