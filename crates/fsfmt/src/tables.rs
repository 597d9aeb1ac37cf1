//! Small tables of a rank: sessions, inode numbers.

use crate::Ino;
use std::collections::{BTreeMap, BTreeSet};
use wire::AddrVec;

wire::wire_structs! {
    /// What is kept of a client's session, under its global id in 16 hex digits.
    pub struct SessionRecord[v 2/1] {
        /// Its address and nonce: what is put on the blocklist when it is evicted.
        pub addrs: AddrVec,
        /// Key and name that it authenticated as.
        pub name: String,
        /// What it said of itself: host name, mount point, version.
        pub metadata: BTreeMap<String, String>,
        /// Feature bits, 64 a word.
        pub features: Vec<u64>,
        /// Requests that were carried out and whose replies it may not have: tid and inode made (or 0).
        pub completed: BTreeMap<u64, Ino>,
        /// Flushes of dirty attributes that were carried out.
        pub flushed: BTreeSet<u64>,
        /// The rank went on without it after a restart: what it believes of anything may be of before that.
        pub was_missing: bool = since 2,
    }

    /// Inode numbers of a rank.
    pub struct InoTable[v 1/1] {
        /// All below are used.
        pub next: u64,
    }
}

/// The omap key of a session.
pub fn session_key(client: u64) -> Vec<u8> {
    format!("{client:016x}").into_bytes()
}

/// The client of an omap key of the session table.
pub fn parse_session_key(key: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(key).ok()?, 16).ok()
}
