//! The inode numbers that sessions have reserved for their creates.
//!
//! A create may be answered before its event is durable only if its number is reserved: after a crash the
//! client repeats the create with this number, which nobody else can have been given meanwhile. A number that
//! a lost create may have used is not used again, for objects with it may exist.

use super::ranges::{contains, remove};
use super::{Session, Sessions};
use crate::cache::Cache;
use crate::rank::commit::commit;
use crate::rank::env::Env;
use crate::types::{ClientId, Lsn};
use fsfmt::{Ino, InoRange, Update};

/// Numbers reserved at once: Ceph's `mds_client_prealloc_inos`.
const RESERVED_AT_ONCE: u64 = 1000;
/// Further ones are reserved when fewer are left, so that they are durable before they are needed.
const LOW: u64 = RESERVED_AT_ONCE / 2;

impl Session {
    /// The number for its next create, if it has one.
    pub fn next_number(&self) -> Option<Ino> {
        self.record.preallocated.first().map(|range| range.first)
    }

    /// True if a number is reserved for it.
    pub fn has_reserved(&self, ino: Ino) -> bool {
        self.record.preallocated.iter().any(|range| contains(range, ino))
    }
}

impl Sessions {
    /// The event that reserved a number for a client, or 0 if that has long been durable.
    pub fn reserved_by(&self, client: ClientId, ino: Ino) -> Lsn {
        self.map.get(&client).filter(|s| ino >= s.reserved_from).map_or(0, |s| s.reserved_by)
    }

    /// The updates by which a client that uses `ino` keeps enough reserved numbers; the numbers from
    /// `ino_next` on are free.
    pub fn refill(&self, client: ClientId, ino: Ino, ino_next: u64) -> Vec<Update> {
        let Some(session) = self.map.get(&client) else { return Vec::new() };
        let mut preallocated = session.record.preallocated.clone();
        remove(&mut preallocated, ino);
        let next = ino_next.max(ino.0 + 1);
        if preallocated.iter().map(|range| range.count).sum::<u64>() >= LOW {
            return vec![Update::InoNext { next }];
        }
        preallocated.push(fresh(next));
        vec![
            Update::InoNext { next: next + RESERVED_AT_ONCE },
            Update::InoRanges { client: client.0, preallocated, delegated: session.record.delegated.clone() },
        ]
    }
}

impl Sessions {
    /// Gives up the numbers that a client has reserved.
    pub fn drop_numbers(&mut self, env: &mut Env, cache: &mut Cache, client: ClientId) {
        if self.map.get(&client).is_some_and(|s| !s.record.preallocated.is_empty()) {
            let (preallocated, delegated) = (Vec::new(), Vec::new());
            let update = Update::InoRanges { client: client.0, preallocated, delegated };
            commit(env, cache, self, "inode numbers given up", vec![update]);
        }
    }
}

/// The numbers that a new session reserves, with the update that takes them.
pub(super) fn first(ino_next: u64) -> (InoRange, Update) {
    (fresh(ino_next), Update::InoNext { next: ino_next + RESERVED_AT_ONCE })
}

fn fresh(next: u64) -> InoRange {
    InoRange { first: Ino(next), count: RESERVED_AT_ONCE }
}
