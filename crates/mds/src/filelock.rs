//! POSIX and flock locks on one file. An owner holds at most one mode on each byte; a new lock replaces its
//! old ones.

use crate::types::ClientId;
use msgs::FileLock;

/// Holder of a lock: client, owner within the client, and process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Owner {
    /// The client that locks.
    pub client: ClientId,
    /// Its number within the client.
    pub owner: u64,
    /// Its process, shown to others; part of the identity only if `owner` is of the old kind (top bit clear).
    pub pid: u64,
}

impl Owner {
    const NEW_KIND: u64 = 1 << 63;

    fn same(&self, other: &Self) -> bool {
        self.client == other.client
            && self.owner == other.owner
            && (self.owner & Self::NEW_KIND != 0 || self.pid == other.pid)
    }
}

/// An exclusive lock, in the protocol's numbers; 1 is a shared one.
pub const EXCLUSIVE: u8 = 2;
/// Code that releases a lock.
pub const UNLOCK: u8 = 4;

/// A byte range: first and last byte, inclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    first: u64,
    last: u64,
    owner: Owner,
    kind: u8,
}

/// The locks of one kind (POSIX or flock) on a file.
#[derive(Clone, Default, Debug)]
pub struct LockSet {
    held: Vec<Held>,
}

/// The POSIX and flock locks of a file.
#[derive(Clone, Default, Debug)]
pub struct FileLocks {
    /// Locks set by fcntl.
    pub posix: LockSet,
    /// Locks set by flock.
    pub flock: LockSet,
}

impl FileLocks {
    /// True if nobody holds a lock.
    pub fn is_empty(&self) -> bool {
        self.posix.held.is_empty() && self.flock.held.is_empty()
    }

    /// True if a client holds a lock.
    pub fn has_client(&self, client: ClientId) -> bool {
        [&self.posix, &self.flock].iter().any(|set| set.held.iter().any(|h| h.owner.client == client))
    }

    /// Removes all locks of a client.
    pub fn drop_client(&mut self, client: ClientId) {
        for set in [&mut self.posix, &mut self.flock] {
            set.held.retain(|h| h.owner.client != client);
        }
    }
}

/// First and last byte of a range of the protocol, where length 0 reaches to the end.
fn ends(start: u64, length: u64) -> (u64, u64) {
    (start, if length == 0 { u64::MAX } else { start.saturating_add(length - 1) })
}

impl LockSet {
    /// The conflicting lock, if any.
    pub fn conflict(&self, owner: &Owner, kind: u8, start: u64, length: u64) -> Option<FileLock> {
        let (first, last) = ends(start, length);
        let clash = |h: &&Held| {
            !h.owner.same(owner)
                && h.first <= last
                && first <= h.last
                && (h.kind == EXCLUSIVE || kind == EXCLUSIVE)
        };
        self.held.iter().find(clash).map(|h| FileLock {
            start: h.first,
            length: if h.last == u64::MAX { 0 } else { h.last - h.first + 1 },
            client: h.owner.client.0,
            owner: h.owner.owner,
            pid: h.owner.pid,
            kind: h.kind,
        })
    }

    /// Sets or frees a range of `owner`.
    pub fn set(&mut self, owner: Owner, kind: u8, start: u64, length: u64) {
        let (first, last) = ends(start, length);
        let mut next = Vec::with_capacity(self.held.len() + 2);
        for h in self.held.drain(..) {
            if !h.owner.same(&owner) || h.first > last || h.last < first {
                next.push(h);
                continue;
            }
            if h.first < first {
                next.push(Held { last: first - 1, ..h });
            }
            if h.last > last {
                next.push(Held { first: last + 1, ..h });
            }
        }
        if kind != UNLOCK {
            next.push(Held { first, last, owner, kind });
        }
        next.sort_by_key(|h| h.first);
        self.held = next;
    }

    /// Restores locks that a client claims.
    pub fn claim(&mut self, client: ClientId, locks: &[FileLock]) {
        for l in locks {
            self.set(Owner { client, owner: l.owner, pid: l.pid }, l.kind, l.start, l.length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: u8 = 1;

    fn owner(n: u64) -> Owner {
        Owner { client: ClientId(n), owner: n | 1 << 63, pid: n }
    }

    #[test]
    fn ranges_split_and_conflict_as_posix_says() {
        let mut s = LockSet::default();
        s.set(owner(1), EXCLUSIVE, 0, 100);
        assert!(s.conflict(&owner(2), SHARED, 99, 1).is_some());
        assert!(s.conflict(&owner(2), EXCLUSIVE, 100, 0).is_none());
        assert!(s.conflict(&owner(1), EXCLUSIVE, 0, 0).is_none(), "one's own never conflicts");
        s.set(owner(1), UNLOCK, 40, 20);
        assert!(s.conflict(&owner(2), EXCLUSIVE, 40, 20).is_none());
        let c = s.conflict(&owner(2), EXCLUSIVE, 59, 2).expect("the rest is held");
        assert_eq!((c.start, c.length, c.client), (60, 40, 1));
        s.set(owner(1), SHARED, 0, 0);
        assert!(s.conflict(&owner(2), SHARED, 0, 0).is_none());
        s.set(owner(2), SHARED, 10, 10);
        assert!(s.conflict(&owner(1), EXCLUSIVE, 0, 0).is_some());
        s.set(owner(2), UNLOCK, 0, 0);
        s.set(owner(1), UNLOCK, 0, 0);
        assert!(s.held.is_empty());
    }
}
