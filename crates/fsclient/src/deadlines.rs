//! Times at which something is to be done.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use stdx::Instant;

/// One deadline a key. The next is found without a walk over all.
///
/// Invariant: `by_time` has what `at` has.
#[derive(Debug)]
pub(crate) struct Deadlines<K> {
    at: BTreeMap<K, Instant>,
    by_time: BTreeSet<(Instant, K)>,
}

impl<K> Default for Deadlines<K> {
    fn default() -> Self {
        Self { at: BTreeMap::new(), by_time: BTreeSet::new() }
    }
}

impl<K: Ord + Copy> Deadlines<K> {
    /// Sets the deadline of a key that has none.
    pub(crate) fn note(&mut self, key: K, at: Instant) {
        if let Entry::Vacant(place) = self.at.entry(key) {
            place.insert(at);
            self.by_time.insert((at, key));
        }
    }

    /// Moves the deadline of a key that has one to an earlier time.
    pub(crate) fn bring_forward(&mut self, key: K, at: Instant) {
        if self.at.get(&key).is_some_and(|old| at < *old) {
            self.remove(key);
            self.note(key, at);
        }
    }

    pub(crate) fn remove(&mut self, key: K) {
        if let Some(at) = self.at.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// True if a key's deadline has passed.
    pub(crate) fn is_due(&self, now: Instant, key: K) -> bool {
        self.at.get(&key).is_some_and(|at| *at <= now)
    }

    /// Takes a key whose deadline has passed; it has none then.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<K> {
        let (_, key) = self.by_time.first().copied().filter(|(at, _)| *at <= now)?;
        self.remove(key);
        Some(key)
    }

    /// The next deadline.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = K> {
        self.at.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_deadline_and_is_taken_once() {
        let mut deadlines = Deadlines::default();
        for (key, at) in [(1, 30), (2, 10), (1, 5), (3, 20), (3, 40)] {
            deadlines.note(key, Instant(at));
        }
        deadlines.remove(3);
        for (key, at) in [(3, 1), (2, 11), (1, 29)] {
            deadlines.bring_forward(key, Instant(at));
        }
        assert_eq!((deadlines.first(), deadlines.take_due(Instant(9))), (Some(Instant(10)), None));
        assert!(deadlines.is_due(Instant(10), 2) && !deadlines.is_due(Instant(10), 1));
        let taken: Vec<i32> = std::iter::from_fn(|| deadlines.take_due(Instant(29))).collect();
        assert_eq!(taken, [2, 1]);
        assert_eq!((deadlines.first(), deadlines.keys().count()), (None, 0));
    }
}
