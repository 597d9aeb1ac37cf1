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

impl Default for MdsOptions {
    fn default() -> Self {
        Self { cache_inodes: 50_000, journal_bytes: 64 << 20 }
    }
}
