//! An index of unsaved changes, by the journal segment of the oldest one.

use crate::types::Segment;
use std::collections::{BTreeMap, BTreeSet};

/// Items with changes that are not stored yet. Both maps hold the same pairs: one finds an item, the other
/// the oldest segment, so that journal expiry never walks over everything dirty.
#[derive(Clone, Debug)]
pub struct DirtyIndex<K> {
    since: BTreeMap<K, Segment>,
    by_segment: BTreeSet<(Segment, K)>,
}

impl<K> Default for DirtyIndex<K> {
    fn default() -> Self {
        Self { since: BTreeMap::new(), by_segment: BTreeSet::new() }
    }
}

impl<K: Ord + Copy> DirtyIndex<K> {
    /// Records a change by an event of `segment`; an older mark stays.
    pub fn mark(&mut self, key: K, segment: Segment) {
        if self.since.get(&key).is_none_or(|old| segment < *old) {
            self.set(key, segment);
        }
    }

    /// Replaces the mark: older changes are stored by now.
    pub fn set(&mut self, key: K, segment: Segment) {
        self.remove(&key);
        self.since.insert(key, segment);
        self.by_segment.insert((segment, key));
    }

    /// Removes an item: all of it is stored, or it is gone.
    pub fn remove(&mut self, key: &K) -> Option<Segment> {
        let segment = self.since.remove(key)?;
        self.by_segment.remove(&(segment, *key));
        Some(segment)
    }

    /// Changes of segments before `segment` are stored. It is not known what later ones changed: everything
    /// with an older mark gets this one.
    pub fn raise(&mut self, segment: Segment) {
        let old: Vec<K> = self.by_segment.iter().take_while(|(s, _)| *s < segment).map(|(_, k)| *k).collect();
        old.into_iter().for_each(|key| self.set(key, segment));
    }

    /// The oldest segment with a change that is not stored.
    pub fn oldest(&self) -> Option<Segment> {
        self.by_segment.first().map(|(segment, _)| *segment)
    }

    /// Things with changes of segments up to `last`, oldest first.
    pub fn up_to(&self, last: Segment) -> impl Iterator<Item = K> {
        self.by_segment.iter().take_while(move |(segment, _)| *segment <= last).map(|(_, key)| *key)
    }

    /// All things, in the order of their keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.since.keys()
    }

    /// The segment of a thing's oldest change that is not stored.
    pub fn since(&self, key: &K) -> Option<Segment> {
        self.since.get(key).copied()
    }

    /// True if nothing is dirty.
    pub fn is_empty(&self) -> bool {
        self.since.is_empty()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.since.clear();
        self.by_segment.clear();
    }

    /// Asserts by a walk that both maps agree.
    pub fn check(&self) {
        assert_eq!(self.since.len(), self.by_segment.len(), "each dirty thing has one mark");
        let agree = self.since.iter().all(|(key, segment)| self.by_segment.contains(&(*segment, *key)));
        assert!(agree, "the marks of dirty things agree");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Rng;

    #[test]
    fn the_oldest_mark_equals_that_of_a_walk() {
        let mut rng = Rng::from_seed(5);
        let mut index = DirtyIndex::default();
        let mut model: BTreeMap<u64, Segment> = BTreeMap::new();
        for _ in 0..5000 {
            let (key, segment) = (rng.below(40), rng.below(20));
            match rng.below(4) {
                0 => {
                    index.mark(key, segment);
                    let entry = model.entry(key).or_insert(segment);
                    *entry = segment.min(*entry);
                }
                1 => {
                    index.set(key, segment);
                    model.insert(key, segment);
                }
                _ => assert_eq!(index.remove(&key), model.remove(&key)),
            }
            index.check();
            assert_eq!(index.oldest(), model.values().min().copied());
            assert!(index.keys().eq(model.keys()));
            let due: BTreeSet<u64> = index.up_to(segment).collect();
            let walked = model.iter().filter(|(_, s)| **s <= segment).map(|(k, _)| *k);
            assert_eq!(due, walked.collect());
        }
    }
}
