//! The locks of one style on one file. A new lock of an owner replaces its old ones.

use super::ask::{Ask, Identity, Mode, Owner};
use crate::types::ClientId;
use msgs::FileLock;
use std::collections::BTreeMap;

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

/// Ranges that do not overlap, by their first bytes.
type Ranges = BTreeMap<u64, Held>;

/// The locks of one style on a file. What a lock costs follows from the locks that its range overlaps, and
/// for an exclusive one from the number of owners that share the file, not from the number of their locks.
///
/// Invariant: locks do not conflict, and those of one owner do not overlap; thus exclusive ones overlap with
/// none. No owner and no client is kept without a lock.
#[derive(Clone, Default, Debug)]
pub(super) struct LockSet {
    exclusive: Ranges,
    shared: BTreeMap<Identity, Ranges>,
    /// The number of locks of each client.
    counts: BTreeMap<ClientId, usize>,
}

impl LockSet {
    /// All locks.
    pub fn iter(&self) -> impl Iterator<Item = &Held> {
        self.exclusive.values().chain(self.shared.values().flat_map(BTreeMap::values))
    }

    /// The locks of others that keep an owner from having what it asks for.
    pub fn conflicts(&self, ask: &Ask) -> impl Iterator<Item = &Held> {
        let all = self.in_the_way(ask.mode);
        all.flat_map(|ranges| overlapping(ranges, ask.first, ask.last)).filter(|held| held.conflicts(ask))
    }

    /// Of the locks that keep an owner from having what it asks for the one that begins first, which is what
    /// `F_GETLK` tells (fcntl(2) of POSIX).
    pub fn first_conflict(&self, ask: &Ask) -> Option<&Held> {
        let first = |ranges| overlapping(ranges, ask.first, ask.last).find(|held| held.conflicts(ask));
        self.in_the_way(ask.mode).filter_map(first).min_by_key(|held| held.first)
    }

    /// The ranges of which some may keep somebody from a lock of this mode.
    fn in_the_way(&self, mode: Mode) -> impl Iterator<Item = &Ranges> {
        // Who asks to share is kept from it by exclusive ones only.
        let sharers = if mode == Mode::Exclusive { Some(self.shared.values()) } else { None };
        [&self.exclusive].into_iter().chain(sharers.into_iter().flatten())
    }

    /// Sets or frees a range.
    pub fn set(&mut self, ask: &Ask) {
        let Ask { first, last, owner, mode, .. } = *ask;
        let identity = owner.identity();
        let shared = self.shared.entry(identity).or_default();
        let before = self.exclusive.len() + shared.len();
        cut(&mut self.exclusive, first, last, |held| held.owner.identity() == identity);
        cut(shared, first, last, |_| true);
        let held = Held { first, last, owner, mode };
        match mode {
            Mode::Exclusive => drop(self.exclusive.insert(first, held)),
            Mode::Shared => drop(shared.insert(first, held)),
            Mode::Free => {}
        }
        let after = self.exclusive.len() + shared.len();
        if shared.is_empty() {
            self.shared.remove(&identity);
        }
        let count = self.counts.entry(owner.client).or_default();
        *count = *count + after - before;
        if *count == 0 {
            self.counts.remove(&owner.client);
        }
    }

    /// Frees all locks of a client.
    pub fn drop_client(&mut self, client: ClientId) {
        if self.counts.remove(&client).is_some() {
            self.exclusive.retain(|_, held| held.owner.client != client);
            self.shared.retain(|owner, _| owner.client() != client);
        }
    }

    /// True if nobody holds a lock.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// True if a client holds a lock.
    pub fn has(&self, client: ClientId) -> bool {
        self.counts.contains_key(&client)
    }

    /// The clients that hold locks.
    pub fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.counts.keys().copied()
    }

    /// Asserts the invariant.
    pub fn check(&self) {
        assert!(self.shared.values().all(|ranges| !ranges.is_empty()), "an owner is kept for its locks");
        let mut all: Vec<&Held> =
            self.exclusive.values().chain(self.shared.values().flat_map(BTreeMap::values)).collect();
        all.sort_by_key(|held| held.first);
        let mut counts = BTreeMap::new();
        for (n, a) in all.iter().enumerate() {
            *counts.entry(a.owner.client).or_default() += 1;
            for b in all[n + 1..].iter().take_while(|b| b.first <= a.last) {
                assert_ne!(a.owner.identity(), b.owner.identity(), "an owner has one mode on each byte");
                assert!(a.mode == Mode::Shared && b.mode == Mode::Shared, "{a:?} conflicts with {b:?}");
            }
        }
        assert_eq!(self.counts, counts, "the locks of each client are counted");
    }
}

/// The ranges that overlap with this one.
fn overlapping(ranges: &Ranges, first: u64, last: u64) -> impl Iterator<Item = &Held> {
    let before = ranges.range(..first).next_back().filter(|(_, held)| held.last >= first);
    before.into_iter().chain(ranges.range(first..=last)).map(|(_, held)| held)
}

/// Cuts a range out of those ranges for which `is_meant` holds. (So does `FileLocks` in the client.)
fn cut(ranges: &mut Ranges, first: u64, last: u64, is_meant: impl Fn(&Held) -> bool) {
    let old: Vec<Held> = overlapping(ranges, first, last).filter(|held| is_meant(held)).copied().collect();
    for held in old {
        ranges.remove(&held.first);
        if held.first < first {
            ranges.insert(held.first, Held { last: first - 1, ..held });
        }
        if held.last > last {
            ranges.insert(last + 1, Held { first: last + 1, ..held });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ask::Style;
    use super::*;
    use fsfmt::Ino;
    use std::collections::BTreeSet;

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
    fn the_conflict_that_is_told_is_the_first_in_the_file() {
        use Mode::{Exclusive, Shared};
        let mut s = LockSet::default();
        s.set(&ask(1, Exclusive, 30, 39));
        s.set(&ask(1, Shared, 10, 19));
        s.set(&ask(2, Shared, 12, 29));
        let first = |ask| s.first_conflict(&ask).map(|held| (held.first, held.owner.client.0));
        assert_eq!(first(ask(3, Exclusive, 0, 99)), Some((10, 1)), "a shared one before an exclusive one");
        assert_eq!(first(ask(3, Exclusive, 20, 99)), Some((12, 2)));
        assert_eq!(first(ask(1, Exclusive, 0, 99)), Some((12, 2)), "not one's own");
        assert_eq!(first(ask(3, Shared, 0, 99)), Some((30, 1)), "shared ones do not matter");
        assert_eq!(first(ask(3, Exclusive, 40, 99)), None);
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

    #[test]
    fn what_many_locks_cost_follows_from_what_they_overlap() {
        let mut s = LockSet::default();
        let mut rng = stdx::Rng::from_seed(1);
        // A mode for each owner and byte, as a model.
        let mut model = [[Mode::Free; 40]; 4];
        for _ in 0..3000 {
            let (n, first) = (rng.below(4), rng.below(40));
            let last = first + rng.below(40 - first);
            let mode = *rng.pick(&[Mode::Free, Mode::Shared, Mode::Exclusive]);
            let asked = ask(n, mode, first, last);
            let bytes = first as usize..=last as usize;
            let excludes = |held: Mode| match mode {
                Mode::Free => false,
                Mode::Shared => held == Mode::Exclusive,
                Mode::Exclusive => held != Mode::Free,
            };
            let others: BTreeSet<u64> = (0..4)
                .filter(|o| *o != n && model[*o as usize][bytes.clone()].iter().any(|m| excludes(*m)))
                .collect();
            let found: BTreeSet<u64> = s.conflicts(&asked).map(|held| held.owner.client.0).collect();
            assert_eq!(found, others);
            if found.is_empty() {
                s.set(&asked);
                model[n as usize][bytes].fill(mode);
            }
            s.check();
            for n in 0..4 {
                assert_eq!(s.has(ClientId(n)), model[n as usize].iter().any(|m| *m != Mode::Free));
            }
        }
        let many = 100_000;
        for n in 0..many {
            s.set(&ask(7, Mode::Exclusive, 1000 + 2 * n, 1000 + 2 * n));
        }
        // A look at all of them for each would take minutes.
        for n in 0..many {
            let asked = ask(8, Mode::Exclusive, 1000 + 2 * n, 1001 + 2 * n);
            assert_eq!(s.conflicts(&asked).count(), 1);
        }
        s.drop_client(ClientId(7));
        assert!(!s.has(ClientId(7)));
    }
}
