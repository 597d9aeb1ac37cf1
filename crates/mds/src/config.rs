//! What an MDS is told when it is made.

use auth::Key;
use wire::AddrVec;

/// Identity, key and limits of one MDS daemon.
#[derive(Clone, Debug)]
pub struct MdsConfig {
    /// The part after the dot of `mds.a`.
    pub name: String,
    /// Our listening addresses, with this start's nonce.
    pub addrs: AddrVec,
    /// The key of `mds.NAME`; `None` with `auth none`.
    pub key: Option<Key>,
    /// The monitors' addresses.
    pub mons: Vec<wire::EntityAddr>,
    /// Limits.
    pub options: MdsOptions,
}

/// Limits of one MDS daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdsOptions {
    /// Inodes and other directory entries to keep in memory; clients are asked to give back what exceeds it.
    pub cache_inodes: usize,
    /// Bytes of journal after which changes wait until directories are written back.
    pub journal_bytes: u64,
}

impl Default for MdsOptions {
    fn default() -> Self {
        Self { cache_inodes: 50_000, journal_bytes: 64 << 20 }
    }
}
