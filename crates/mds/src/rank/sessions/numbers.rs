//! The inode numbers that sessions have reserved for their creates.
//!
//! A create may be answered before its event is durable only if its number is reserved: after a crash the
//! client repeats the create with this number, which nobody else can have been given meanwhile. A number that
//! a lost create may have used is not used again, for objects with it may exist.
//!
//! Some of its numbers are *delegated* to a client that creates asynchronously: it chooses one itself and
//! uses it before the create has arrived here. After a restart of the rank the client forgets them. But it
//! may have chosen one before that, for a request that it sends after its claims, so it may still use them.

use super::session::end_of;
use super::{Session, Sessions};
use crate::cache::Cache;
use crate::rank::commit::commit;
use crate::rank::env::Env;
use crate::types::{ClientId, Lsn};
use fsfmt::ranges::{contains, count, remove, take};
use fsfmt::tables::SessionRecord;
use fsfmt::{Ino, InoRange, Update};

/// Numbers reserved at once: Ceph's `mds_client_prealloc_inos`.
const RESERVED_AT_ONCE: u64 = 1000;
/// Further ones are reserved when fewer are left, so that they are durable before they are needed.
const LOW: u64 = RESERVED_AT_ONCE / 2;
/// Numbers that are delegated to a client: Ceph's `mds_client_delegate_inos_pct` of the reserved ones.
const DELEGATED: u64 = RESERVED_AT_ONCE / 2;
/// Further ones are delegated when fewer are left.
const DELEGATED_LOW: u64 = DELEGATED / 2;
/// Numbers from before restarts that a client may still use.
const FORMER: u64 = 2 * RESERVED_AT_ONCE;

/// The change of a session's numbers that goes with a create.
#[derive(Default)]
pub(in crate::rank) struct Refill {
    /// The updates of its event.
    pub updates: Vec<Update>,
    /// The numbers that are delegated to the client with the answer.
    pub delegated: Vec<InoRange>,
    /// The event that must be durable before the client learns of them.
    pub after: Lsn,
    /// True if the create's own event reserves some of them: it must be durable too.
    pub is_news: bool,
}

impl Session {
    /// The number for its next create, if it has one.
    pub fn next_number(&self) -> Option<Ino> {
        self.record.preallocated.first().map(|range| range.first)
    }

    /// True if a number is reserved for it.
    pub fn has_reserved(&self, ino: Ino) -> bool {
        let SessionRecord { preallocated, delegated, .. } = &self.record;
        preallocated.iter().chain(delegated).any(|range| contains(range, ino))
    }
}

impl Sessions {
    /// The event that reserved a number for a client, or 0 if that has long been durable.
    pub fn reserved_by(&self, client: ClientId, ino: Ino) -> Lsn {
        self.map.get(&client).filter(|s| ino >= s.reserved_from).map_or(0, |s| s.reserved_by)
    }

    /// The updates by which a client that uses `ino` keeps enough reserved numbers, and delegated ones if the
    /// answer tells it of them; the numbers from `ino_next` on are free.
    pub fn refill(&self, client: ClientId, ino: Ino, ino_next: u64, tells: bool) -> Refill {
        let Some(session) = self.map.get(&client) else { return Refill::default() };
        let SessionRecord { preallocated, delegated, .. } = &session.record;
        let (mut preallocated, mut delegated) = (preallocated.clone(), delegated.clone());
        remove(&mut preallocated, ino);
        remove(&mut delegated, ino);
        let known: u64 = delegated.iter().filter(|r| r.first >= session.known_from).map(|r| r.count).sum();
        let missing = DELEGATED - known.min(DELEGATED);
        let may_use_more = session.creates_async && !session.is_repeating;
        let delegates = tells && may_use_more && missing > DELEGATED - DELEGATED_LOW;
        let mut next = ino_next.max(ino.0 + 1);
        let needed = if delegates { missing } else { 0 };
        let reserves = count(&preallocated) < LOW.max(needed);
        if reserves {
            preallocated.push(fresh(next));
            next += RESERVED_AT_ONCE;
        }
        let mut refill = Refill { updates: vec![Update::InoNext { next }], ..Refill::default() };
        refill.delegated = take(&mut preallocated, needed);
        delegated.extend(&refill.delegated);
        let last = refill.delegated.iter().map(|range| range.first.0 + range.count - 1).max().unwrap_or(0);
        refill.after = self.reserved_by(client, Ino(last));
        refill.is_news = last >= session.reserved_end;
        if reserves || delegates {
            refill.updates.push(Update::InoRanges { client: client.0, preallocated, delegated });
        }
        refill
    }

    /// A client repeats requests from before a restart, which use the numbers that it had then. It is
    /// delegated no others until [`Self::drop_numbers`].
    pub fn keep_numbers(&mut self, client: ClientId) {
        if let Some(s) = self.map.get_mut(&client) {
            s.is_repeating = true;
        }
    }

    /// Gives nothing else the numbers that a client has reserved. Some of them it may have chosen already.
    pub fn drop_numbers(&mut self, env: &mut Env, cache: &mut Cache, client: ClientId) {
        let Some(s) = self.map.get_mut(&client) else { return };
        s.is_repeating = false;
        let mut all = [&s.record.preallocated[..], &s.record.delegated].concat();
        all.sort_by_key(|range| range.first);
        s.known_from = Ino(end_of(&all));
        let surplus = count(&all).saturating_sub(FORMER);
        take(&mut all, surplus);
        if !s.record.preallocated.is_empty() || all != s.record.delegated {
            let update = Update::InoRanges { client: client.0, preallocated: Vec::new(), delegated: all };
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
