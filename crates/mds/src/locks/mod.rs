//! File locks: fcntl's byte ranges and flock's whole files. They are in memory only; after a restart clients
//! claim those that they hold.

mod ask;
mod set;

pub use ask::{Ask, Mode, Style};

use crate::types::{ClientId, OpId};
use ask::Identity;
use fsfmt::InodeKey;
use msgs::FileLock;
use set::LockSet;
use std::collections::{BTreeMap, BTreeSet};

/// The locks of a file.
#[derive(Clone, Default, Debug)]
struct OfFile {
    /// Those set by fcntl.
    posix: LockSet,
    /// Those set by flock.
    flock: LockSet,
}

impl OfFile {
    fn of(&self, style: Style) -> &LockSet {
        match style {
            Style::Posix => &self.posix,
            Style::Flock => &self.flock,
        }
    }

    fn of_mut(&mut self, style: Style) -> &mut LockSet {
        match style {
            Style::Posix => &mut self.posix,
            Style::Flock => &mut self.flock,
        }
    }

    fn has(&self, client: ClientId) -> bool {
        self.posix.has(client) || self.flock.has(client)
    }
}

/// The locks that clients hold on the rank's files, and those that requests wait for.
///
/// Invariants: two owners never hold locks that conflict, and one owner holds at most one mode on each byte;
/// a client is known as a holder of exactly the files that it has locks on; no file is kept without locks. A
/// request waits for one lock at most.
#[derive(Default, Debug)]
pub struct Locks {
    files: BTreeMap<InodeKey, OfFile>,
    holders: BTreeMap<ClientId, BTreeSet<InodeKey>>,
    waiting: BTreeMap<OpId, Ask>,
    /// The requests that wait for fcntl locks, by owner.
    waits: BTreeMap<Identity, BTreeSet<OpId>>,
}

impl Locks {
    /// The first lock in the file that keeps an owner from having what it asks for, if there is one.
    pub fn conflict(&self, ask: &Ask) -> Option<FileLock> {
        self.files.get(&ask.ino)?.of(ask.style).first_conflict(ask).map(|held| held.to_wire())
    }

    /// Sets or frees a range that conflicts with no other lock.
    pub fn set(&mut self, ask: &Ask) {
        if ask.mode == Mode::Free && !self.files.contains_key(&ask.ino) {
            return;
        }
        let file = self.files.entry(ask.ino).or_default();
        let set = file.of_mut(ask.style);
        assert!(set.conflicts(ask).next().is_none(), "a lock that another owner has is given to nobody");
        set.set(ask);
        self.note(ask.owner.client, ask.ino);
    }

    /// Restores locks that a client claims to hold after a restart. Returns those that can't be: they are of
    /// no known mode, or another client has claimed the same.
    pub fn claim(
        &mut self,
        client: ClientId,
        ino: InodeKey,
        (posix, flock): (&[FileLock], &[FileLock]),
    ) -> Vec<(Style, FileLock)> {
        let mut refused = Vec::new();
        for (style, locks) in [(Style::Posix, posix), (Style::Flock, flock)] {
            for lock in locks {
                match Ask::claimed(ino, client, style, lock) {
                    Some(ask) if self.conflict(&ask).is_none() => self.set(&ask),
                    _ => refused.push((style, *lock)),
                }
            }
        }
        refused
    }

    /// The locks on a file by client: those of fcntl, and those of flock.
    pub fn of_file(&self, ino: InodeKey) -> BTreeMap<ClientId, [Vec<FileLock>; 2]> {
        let mut all: BTreeMap<ClientId, [Vec<FileLock>; 2]> = BTreeMap::new();
        let Some(file) = self.files.get(&ino) else { return all };
        for (which, set) in [&file.posix, &file.flock].into_iter().enumerate() {
            for held in set.iter() {
                all.entry(held.owner().client).or_default()[which].push(held.to_wire());
            }
        }
        all
    }

    /// Frees a client's locks on a file. Returns true if there were any.
    pub fn release(&mut self, client: ClientId, ino: InodeKey) -> bool {
        let Some(file) = self.files.get_mut(&ino).filter(|file| file.has(client)) else { return false };
        file.posix.drop_client(client);
        file.flock.drop_client(client);
        self.note(client, ino);
        true
    }

    /// Frees all locks of a client. Returns the files.
    pub fn release_all(&mut self, client: ClientId) -> BTreeSet<InodeKey> {
        let files = self.holders.get(&client).cloned().unwrap_or_default();
        for ino in &files {
            self.release(client, *ino);
        }
        files
    }

    /// Forgets a file that does not exist any more.
    pub fn forget(&mut self, ino: InodeKey) {
        let Some(file) = self.files.remove(&ino) else { return };
        for client in file.posix.clients().chain(file.flock.clients()) {
            self.forget_holder(client, ino);
        }
    }

    /// Notes whether a client holds locks on a file, and forgets the file if nobody does.
    fn note(&mut self, client: ClientId, ino: InodeKey) {
        let file = self.files.get(&ino);
        let is_empty = file.is_none_or(|file| file.posix.is_empty() && file.flock.is_empty());
        if file.is_some_and(|file| file.has(client)) {
            self.holders.entry(client).or_default().insert(ino);
        } else {
            self.forget_holder(client, ino);
        }
        if is_empty {
            self.files.remove(&ino);
        }
    }

    fn forget_holder(&mut self, client: ClientId, ino: InodeKey) {
        if let Some(held) = self.holders.get_mut(&client) {
            held.remove(&ino);
            if held.is_empty() {
                self.holders.remove(&client);
            }
        }
    }

    /// True if somebody holds a lock on a file.
    pub fn is_locked(&self, ino: InodeKey) -> bool {
        self.files.contains_key(&ino)
    }

    /// True if a client holds a lock on a file.
    pub fn holds(&self, client: ClientId, ino: InodeKey) -> bool {
        self.holders.get(&client).is_some_and(|held| held.contains(&ino))
    }

    /// Notes that a request waits for a lock. Only fcntl locks are looked at for deadlocks.
    pub fn wait(&mut self, op: OpId, ask: Ask) {
        self.end_wait(op);
        if ask.style == Style::Posix {
            self.waits.entry(ask.owner.identity()).or_default().insert(op);
        }
        self.waiting.insert(op, ask);
    }

    /// True if a request waits for a lock that a client holds.
    pub fn keeps_waiting(&self, client: ClientId) -> bool {
        let is_holder = |ask: &Ask| {
            let file = self.files.get(&ask.ino);
            file.is_some_and(|file| file.of(ask.style).conflicts(ask).any(|h| h.owner().client == client))
        };
        self.holders.contains_key(&client) && self.waiting.values().any(is_holder)
    }

    /// Notes that a request does not wait any more.
    pub fn end_wait(&mut self, op: OpId) {
        let Some(ask) = self.waiting.remove(&op) else { return };
        let owner = ask.owner.identity();
        if let Some(ops) = self.waits.get_mut(&owner) {
            ops.remove(&op);
            if ops.is_empty() {
                self.waits.remove(&owner);
            }
        }
    }

    /// True if an owner that waited for this lock would wait for itself: each owner of a lock in its way, or
    /// of one in the way of those, waits for the next, and the last for a lock of its own.
    pub fn would_deadlock(&self, ask: &Ask) -> bool {
        let asker = ask.owner.identity();
        let mut seen = BTreeSet::new();
        let mut next = vec![ask];
        while let Some(ask) = next.pop() {
            let Some(file) = self.files.get(&ask.ino) else { continue };
            for held in file.of(ask.style).conflicts(ask) {
                let owner = held.owner().identity();
                if owner == asker {
                    return true;
                }
                if seen.insert(owner) {
                    let ops = self.waits.get(&owner).into_iter().flatten();
                    next.extend(ops.filter_map(|op| self.waiting.get(op)));
                }
            }
        }
        false
    }

    /// Asserts the invariants by a walk over all locks.
    pub fn check_all(&self) {
        let mut holders: BTreeMap<ClientId, BTreeSet<InodeKey>> = BTreeMap::new();
        for (ino, file) in &self.files {
            assert!(!file.posix.is_empty() || !file.flock.is_empty(), "{ino} is kept for its locks");
            file.posix.check();
            file.flock.check();
            for client in file.posix.clients().chain(file.flock.clients()) {
                holders.entry(client).or_default().insert(*ino);
            }
        }
        assert_eq!(self.holders, holders, "holders are those that the files tell");
        let of_posix = self.waiting.values().filter(|ask| ask.style == Style::Posix).count();
        assert_eq!(self.waits.values().map(BTreeSet::len).sum::<usize>(), of_posix);
    }
}

#[cfg(test)]
mod tests {
    use super::ask::Owner;
    use super::*;
    use fsfmt::Ino;

    fn ask(client: u64, ino: u64, mode: Mode, (first, last): (u64, u64)) -> Ask {
        let owner = Owner { client: ClientId(client), owner: client | 1 << 63, pid: client };
        Ask { ino: Ino(ino).head(), style: Style::Posix, owner, mode, first, last }
    }

    fn wire(owner: u64, kind: u8, start: u64, length: u64) -> FileLock {
        FileLock { start, length, client: 0, owner, pid: 0, kind }
    }

    #[test]
    fn a_client_is_known_by_what_it_holds() {
        let mut locks = Locks::default();
        let (a, f) = (ClientId(1), Ino(7).head());
        locks.set(&ask(1, 7, Mode::Exclusive, (0, 9)));
        locks.set(&ask(2, 7, Mode::Shared, (10, 19)));
        locks.set(&ask(1, 8, Mode::Shared, (0, 0)));
        assert!(locks.holds(a, f) && locks.is_locked(f));
        locks.check_all();
        assert_eq!(locks.release_all(a), BTreeSet::from([f, Ino(8).head()]));
        assert!(!locks.holds(a, f) && locks.is_locked(f) && !locks.is_locked(Ino(8).head()));
        locks.forget(f);
        assert!(!locks.holds(ClientId(2), f));
        locks.set(&ask(1, 9, Mode::Free, (0, u64::MAX)));
        assert!(!locks.is_locked(Ino(9).head()), "what nobody holds is not kept");
        locks.check_all();
    }

    #[test]
    fn claims_that_can_not_be_are_refused() {
        let mut locks = Locks::default();
        let f = Ino(7).head();
        assert_eq!(locks.claim(ClientId(1), f, (&[wire(1, 2, 0, 10)], &[wire(1, 1, 0, 0)])), []);
        let bad = [wire(2, 1, 5, 1), wire(2, 0, 100, 1), wire(2, 4, 100, 1), wire(2, 2, u64::MAX, u64::MAX)];
        let refused = locks.claim(ClientId(2), f, (&bad, &[wire(2, 1, 0, 0)]));
        assert_eq!(refused, [0, 1, 2].map(|n| (Style::Posix, bad[n])), "{locks:?}");
        assert!(locks.conflict(&ask(3, 7, Mode::Shared, (u64::MAX, u64::MAX))).is_some());
        locks.check_all();
    }

    #[test]
    fn a_circle_of_owners_that_wait_is_found_over_files() {
        let mut locks = Locks::default();
        let whole = (0, u64::MAX);
        for n in 1..=3 {
            locks.set(&ask(n, n, Mode::Exclusive, whole));
        }
        for n in 1..=2 {
            let next = ask(n, n + 1, Mode::Shared, (5, 5));
            assert!(!locks.would_deadlock(&next));
            locks.wait(OpId(n), next);
        }
        assert!(locks.would_deadlock(&ask(3, 1, Mode::Shared, (0, 0))));
        assert!(!locks.would_deadlock(&ask(4, 1, Mode::Shared, (0, 0))), "it is in nobody's way");
        locks.check_all();
        locks.end_wait(OpId(2));
        assert!(!locks.would_deadlock(&ask(3, 1, Mode::Shared, (0, 0))));
        locks.check_all();
    }

    #[test]
    fn waiting_for_flock_is_no_part_of_a_circle() {
        let mut locks = Locks::default();
        let flock = |client, ino| Ask { style: Style::Flock, ..ask(client, ino, Mode::Exclusive, (0, 9)) };
        locks.set(&flock(1, 1));
        locks.set(&flock(2, 2));
        locks.wait(OpId(1), flock(1, 2));
        assert!(!locks.would_deadlock(&flock(2, 1)), "flock(2) waits, as on Linux");
    }
}
