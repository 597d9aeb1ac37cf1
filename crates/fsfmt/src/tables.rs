//! Small tables of a rank: sessions, inode numbers.

use crate::sparse::sparse_structs;
use crate::{Ino, InoRange, ranges};
use std::collections::{BTreeMap, BTreeSet};
use wire::AddrVec;

sparse_structs! {
    /// A client's session, under its global id in 16 hex digits.
    pub struct SessionRecord[v 1/1, u16] {
        /// Its address and nonce: an eviction puts them on the blocklist.
        pub addrs: AddrVec,
        /// Key and name that it authenticated as.
        pub name: String,
        /// Its description of itself: host name, mount point, version.
        pub metadata: BTreeMap<String, String>,
        /// Feature bits, 64 a word.
        pub features: Vec<u64>,
        /// Requests that were carried out and whose replies it may not have: tid and inode made (or 0).
        pub completed: BTreeMap<u64, Ino>,
        /// Flushes of dirty attributes that were carried out.
        pub flushed: BTreeSet<u64>,
        /// The rank went on without it after a restart: its cached shared state may be stale.
        pub was_absent: bool,
        /// Inode numbers reserved for its creates.
        pub preallocated: Vec<InoRange>,
        /// Inode numbers that it may use for asynchronous creates.
        pub delegated: Vec<InoRange>,
        /// Its file locks by inode; filled by locks that survive a restart of the rank.
        pub locks: BTreeMap<Ino, Vec<LockRecord>>,
    }

    /// Inode numbers of a rank.
    pub struct InoTable[v 1/1, u8] {
        /// All numbers from here on are free.
        pub next: u64,
        /// Free numbers below `next`, given back by clients; filled by delegated inode numbers.
        pub free: Vec<InoRange>,
    }
}

impl SessionRecord {
    /// Notes a request that was carried out and has made `ino` (or 0), which is reserved no more.
    pub fn note_completed(&mut self, tid: u64, ino: Ino) {
        self.completed.insert(tid, ino);
        ranges::remove(&mut self.preallocated, ino);
        ranges::remove(&mut self.delegated, ino);
    }
}

wire::wire_structs! {
    /// A file lock.
    #[derive(Copy, Eq)]
    pub struct LockRecord[v 1/1] {
        /// The first byte.
        pub first: u64,
        /// The last byte; `u64::MAX` reaches to the end.
        pub last: u64,
        /// The owner within the client.
        pub owner: u64,
        /// Process.
        pub pid: u64,
        /// 1 shared, 2 exclusive.
        pub kind: u8,
        /// Set by flock rather than by fcntl.
        pub is_flock: bool,
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
