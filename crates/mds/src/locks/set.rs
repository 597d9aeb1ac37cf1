//! The locks of one style on one file. A new lock of an owner replaces its old ones.

use super::ask::{Ask, Mode, Owner};
use crate::types::ClientId;
use msgs::FileLock;

/// A mode that an owner holds on a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    first: u64,
    last: u64,
    owner: Owner,
    mode: Mode,
}

impl Held {
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The lock as clients are told of it.
    pub fn to_wire(self) -> FileLock {
        FileLock {
            start: self.first,
            length: if self.last == u64::MAX { 0 } else { self.last - self.first + 1 },
            client: self.owner.client.0,
            owner: self.owner.owner,
            pid: self.owner.pid,
            kind: self.mode.to_wire(),
        }
    }

    fn conflicts(&self, ask: &Ask) -> bool {
        let excludes = self.mode == Mode::Exclusive || ask.mode == Mode::Exclusive;
        let overlaps = self.first <= ask.last && ask.first <= self.last;
        excludes && overlaps && ask.mode != Mode::Free && self.owner.identity() != ask.owner.identity()
    }
}

/// The locks of one style on a file.
///
/// Invariant: locks do not conflict, and those of one owner do not overlap; they are in the order of their
/// first bytes.
#[derive(Clone, Default, Debug)]
pub(super) struct LockSet {
    held: Vec<Held>,
}

impl LockSet {
    /// The locks of others that keep an owner from having what it asks for.
    pub fn conflicts(&self, ask: &Ask) -> impl Iterator<Item = &Held> {
        self.held.iter().filter(|held| held.conflicts(ask))
    }

    /// Sets or frees a range.
    pub fn set(&mut self, ask: &Ask) {
        let Ask { first, last, owner, mode, .. } = *ask;
        let mut next = Vec::with_capacity(self.held.len() + 2);
        for held in self.held.drain(..) {
            if held.owner.identity() != owner.identity() || held.first > last || held.last < first {
                next.push(held);
                continue;
            }
            if held.first < first {
                next.push(Held { last: first - 1, ..held });
            }
            if held.last > last {
                next.push(Held { first: last + 1, ..held });
            }
        }
        if mode != Mode::Free {
            next.push(Held { first, last, owner, mode });
        }
        next.sort_by_key(|held| held.first);
        self.held = next;
    }

    /// Frees all locks of a client.
    pub fn drop_client(&mut self, client: ClientId) {
        self.held.retain(|held| held.owner.client != client);
    }

    /// True if nobody holds a lock.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// True if a client holds a lock.
    pub fn has(&self, client: ClientId) -> bool {
        self.clients().any(|holder| holder == client)
    }

    /// The clients that hold locks, each perhaps several times.
    pub fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.held.iter().map(|held| held.owner.client)
    }

    /// Asserts the invariant.
    pub fn check(&self) {
        assert!(self.held.is_sorted_by_key(|held| held.first));
        for (n, a) in self.held.iter().enumerate() {
            for b in self.held[n + 1..].iter().take_while(|b| b.first <= a.last) {
                assert_ne!(a.owner.identity(), b.owner.identity(), "an owner has one mode on each byte");
                assert!(a.mode == Mode::Shared && b.mode == Mode::Shared, "{a:?} conflicts with {b:?}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ask::Style;
    use super::*;
    use fsfmt::Ino;

    fn ask(n: u64, mode: Mode, first: u64, last: u64) -> Ask {
        let owner = Owner { client: ClientId(n), owner: n | 1 << 63, pid: n };
        Ask { ino: Ino(1).head(), style: Style::Posix, owner, mode, first, last }
    }

    #[test]
    fn ranges_split_and_conflict_as_posix_says() {
        use Mode::{Exclusive, Free, Shared};
        let mut s = LockSet::default();
        let end = u64::MAX;
        let clash = |s: &LockSet, ask: Ask| s.conflicts(&ask).next().map(|held| held.to_wire());
        s.set(&ask(1, Exclusive, 0, 99));
        assert!(clash(&s, ask(2, Shared, 99, 99)).is_some());
        assert!(clash(&s, ask(2, Exclusive, 100, end)).is_none());
        assert!(clash(&s, ask(1, Exclusive, 0, end)).is_none(), "one's own never conflicts");
        s.set(&ask(1, Free, 40, 59));
        assert!(clash(&s, ask(2, Exclusive, 40, 59)).is_none());
        let c = clash(&s, ask(2, Exclusive, 59, 60)).expect("the rest is held");
        assert_eq!((c.start, c.length, c.client), (60, 40, 1));
        s.set(&ask(1, Shared, 0, end));
        assert!(clash(&s, ask(2, Shared, 0, end)).is_none());
        s.set(&ask(2, Shared, 10, 19));
        assert!(clash(&s, ask(1, Exclusive, 0, end)).is_some());
        s.check();
        s.set(&ask(2, Free, 0, end));
        s.set(&ask(1, Free, 0, end));
        assert!(s.is_empty());
    }

    #[test]
    fn an_owner_of_the_old_kind_is_a_process() {
        let mut s = LockSet::default();
        let of = |owner, pid| Ask {
            owner: Owner { client: ClientId(1), owner, pid },
            ..ask(1, Mode::Exclusive, 0, 9)
        };
        s.set(&of(5, 1));
        assert_eq!(s.conflicts(&of(5, 2)).count(), 1);
        assert_eq!(s.conflicts(&of(5, 1)).count(), 0);
    }
}
