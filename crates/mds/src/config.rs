//! What an MDS is told when it is made.

use auth::{Credentials, Method};
use std::collections::BTreeMap;
use wire::{AddrVec, EntityAddr};

/// Identity, key and limits of one MDS daemon.
#[derive(Clone, Debug)]
pub struct MdsConfig {
    /// The part after the dot of `mds.a`.
    pub name: String,
    /// Where clients reach it, with this start's nonce.
    pub addrs: AddrVec,
    /// How it proves who it is: `mds.NAME` and its key; no key for the method `none`.
    pub credentials: Credentials,
    /// Authentication methods that it accepts, the preferred one first.
    pub methods: Vec<Method>,
    /// Where monitors may be.
    pub monitors: Vec<EntityAddr>,
    /// For the monitor's log.
    pub hostname: String,
    /// What `ceph mds metadata` tells.
    pub metadata: BTreeMap<String, String>,
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

/// What one cached inode takes, with its entry and a cap, in bytes: an estimate that a measurement may correct.
const INODE_BYTES: u64 = 1280;

impl MdsOptions {
    /// From the options `mds_cache_memory_limit`, `mds_cache_max_inodes` and `mds_journal_limit`; what is not set or
    /// does not parse has its default.
    pub fn from_values(values: &BTreeMap<String, String>) -> Self {
        let size = |name: &str| values.get(name).and_then(|v| decl::options::parse_size(v));
        let default = Self::default();
        let by_memory = size("mds_cache_memory_limit").map(|bytes| bytes / INODE_BYTES);
        let most = values.get("mds_cache_max_inodes").and_then(|v| v.trim().parse().ok()).filter(|n| *n > 0);
        let cache = most.or(by_memory).map(|n: u64| usize::try_from(n).unwrap_or(usize::MAX));
        Self {
            cache_inodes: cache.unwrap_or(default.cache_inodes).max(100),
            journal_bytes: size("mds_journal_limit").unwrap_or(default.journal_bytes).max(1 << 20),
        }
    }
}

impl Default for MdsOptions {
    fn default() -> Self {
        Self { cache_inodes: 50_000, journal_bytes: 64 << 20 }
    }
}
