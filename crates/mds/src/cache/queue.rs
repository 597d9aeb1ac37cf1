//! The order in which trimming examines entries.

use super::dir::Dir;
use fsfmt::{DentryKey, DirFrag, Frag, Ino};
use std::collections::{BTreeMap, VecDeque};

/// An entry by its directory and hash, and the run that had used it last when it was noted. Without the
/// name an item takes 24 bytes; the few entries that share a hash are examined together.
#[derive(Clone, Copy, Debug)]
struct Item {
    used: u64,
    ino: Ino,
    frag: Frag,
    hash: u32,
}

/// Items that may have no entry any more, before the queue is made again.
const STALE: usize = 1024;

/// Entries in the order of arrival, or of the last time that trimming passed them over.
///
/// Invariants: each cached entry has an item; between inputs there are at most twice as many items as
/// entries, and [`STALE`].
#[derive(Default, Debug)]
pub(super) struct Queue {
    items: VecDeque<Item>,
}

impl Queue {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Adds the entries of a hash at the end; `used` is the last run that used one of them.
    pub fn push(&mut self, dir: DirFrag, hash: u32, used: u64) {
        self.items.push_back(Item { used, ino: dir.ino, frag: dir.frag, hash });
    }

    /// Takes the first item: fragment, hash, and the run that had used its entries last.
    pub fn pop(&mut self) -> Option<(DirFrag, u32, u64)> {
        self.items.pop_front().map(|item| (item.dir(), item.hash, item.used))
    }

    /// Makes the queue again if it has too many items without an entry: those of removed directories.
    pub fn limit(&mut self, entries: usize, dirs: &BTreeMap<DirFrag, Dir>) {
        if self.items.len() <= 2 * entries + STALE {
            return;
        }
        let all =
            dirs.iter().flat_map(|(dir, d)| d.slots.iter().map(|(key, slot)| (*dir, key.hash, slot.used())));
        let mut items: Vec<Item> = Vec::with_capacity(entries);
        for (DirFrag { ino, frag }, hash, used) in all {
            match items.last_mut().filter(|last| (last.ino, last.frag, last.hash) == (ino, frag, hash)) {
                Some(last) => last.used = last.used.max(used),
                None => items.push(Item { used, ino, frag, hash }),
            }
        }
        items.sort_by_key(|item| item.used);
        self.items = items.into();
    }

    /// Asserts the invariants by a walk.
    pub fn check_all(&self, entries: usize, dirs: &BTreeMap<DirFrag, Dir>) {
        assert!(self.items.len() <= 2 * entries + STALE, "{} items for {entries} entries", self.items.len());
        let mut known: Vec<(DirFrag, u32)> = self.items.iter().map(|item| (item.dir(), item.hash)).collect();
        known.sort_unstable();
        for (dir, key) in dirs.iter().flat_map(|(dir, d)| d.slots.keys().map(move |key| (*dir, key))) {
            assert!(known.binary_search(&(dir, key.hash)).is_ok(), "{dir}/{key:?} is never examined");
        }
    }
}

impl Item {
    fn dir(&self) -> DirFrag {
        DirFrag { ino: self.ino, frag: self.frag }
    }
}

/// The keys of a fragment's cached entries with a hash.
pub(super) fn keys_of(d: &Dir, hash: u32) -> Vec<DentryKey> {
    d.slots
        .range(DentryKey::start_of(hash)..)
        .map(|(key, _)| key)
        .take_while(|key| key.hash == hash)
        .cloned()
        .collect()
}
