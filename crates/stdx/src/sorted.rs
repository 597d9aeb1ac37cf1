//! A map for few entries.

/// A map in one sorted block of memory. A `BTreeMap` with one entry takes the room of eleven, and keeps it
/// when the last one is gone; this one takes what it holds, and nothing if it is empty. Insertion and removal
/// move what is behind and resize the block, so it is for maps that have a few entries nearly always.
#[derive(Clone, PartialEq, Eq)]
pub struct SortedMap<K, V> {
    /// Sorted by key; no key is there twice.
    entries: Box<[(K, V)]>,
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self { entries: Box::default() }
    }
}

impl<K, V> SortedMap<K, V> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries in the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// All keys in their order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> {
        self.entries.iter().map(|(key, _)| key)
    }

    /// All values in the order of their keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> {
        self.entries.iter().map(|(_, value)| value)
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries = Box::default();
    }

    /// Removes the entries for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.change(|entries| entries.retain_mut(|(key, value)| keep(key, value)));
    }

    fn change<R>(&mut self, change: impl FnOnce(&mut Vec<(K, V)>) -> R) -> R {
        let mut entries = std::mem::take(&mut self.entries).into_vec();
        let result = change(&mut entries);
        self.entries = entries.into_boxed_slice();
        result
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    fn find(&self, key: &K) -> Result<usize, usize> {
        self.entries.binary_search_by(|(other, _)| other.cmp(key))
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.entries[at].1)
    }

    /// The value of a key, to change it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).ok().map(|at| &mut self.entries[at].1)
    }

    /// True if the key has a value.
    pub fn contains_key(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    /// The value of a key; `new` makes it if there is none.
    pub fn get_or_insert_with(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        let at = self.find(&key).unwrap_or_else(|at| {
            self.insert_at(at, key, new());
            at
        });
        &mut self.entries[at].1
    }

    /// Sets the value of a key; returns the old one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.entries[at].1, value)),
            Err(at) => {
                self.insert_at(at, key, value);
                None
            }
        }
    }

    fn insert_at(&mut self, at: usize, key: K, value: V) {
        self.change(|entries| {
            entries.reserve_exact(1);
            entries.insert(at, (key, value));
        });
    }

    /// Removes a key; returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.find(key).ok()?;
        Some(self.change(|entries| entries.remove(at)).1)
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl<K: std::fmt::Debug, V: std::fmt::Debug> std::fmt::Debug for SortedMap<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn it_holds_what_a_tree_holds() {
        let mut rng = Rng::from_seed(4);
        let (mut map, mut model) = (SortedMap::default(), BTreeMap::new());
        for _ in 0..5000 {
            let (key, value) = (rng.below(12), rng.u64());
            match rng.below(5) {
                0 | 1 => assert_eq!(map.insert(key, value), model.insert(key, value)),
                2 => assert_eq!(
                    map.get_or_insert_with(key, || value),
                    model.entry(key).or_insert_with(|| value)
                ),
                3 => assert_eq!(map.remove(&key), model.remove(&key)),
                _ => {
                    map.retain(|k, v| *k != key && *v % 8 != 0);
                    model.retain(|k, v| *k != key && *v % 8 != 0);
                }
            }
            assert_eq!((map.get(&key), map.contains_key(&key)), (model.get(&key), model.contains_key(&key)));
            assert!(map.iter().eq(model.iter()) && map.len() == model.len());
        }
    }
}
