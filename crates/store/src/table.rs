//! Changes that are not in the tree yet, and the view of the store through them.
//!
//! Two tables exist at most: the active one, which takes the effects of transactions, and the frozen one,
//! which a checkpoint is writing into a new tree. What is newer hides what is older; `None` is a removal.

use crate::alloc::Run;
use crate::cache::Cache;
use crate::key::Key;
use crate::stop::Stop;
use crate::tree::{Cursor, Entry, Tree};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::iter::Peekable;
use stdx::{BLOCK, Buf, Bufs};

pub(crate) type Changes = BTreeMap<Key, Option<Vec<u8>>>;

/// Totals over all objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stats {
    pub objects: u64,
    /// Sum of sizes.
    pub data: u64,
    pub omap: u64,
    /// The largest omap that there has been, in bytes of keys and values.
    pub largest_omap: u64,
    /// The largest object that there has been, in bytes.
    pub largest_data: u64,
}

#[derive(Default)]
pub(crate) struct Table {
    pub changes: Changes,
    /// Blocks whose content is not on the device yet.
    pub unwritten: BTreeMap<u64, Buf>,
    /// Blocks taken since the last checkpoint …
    pub taken: Vec<Run>,
    /// … and given up, which may be taken again when no root on the device refers to them.
    pub given: Vec<Run>,
    given_blocks: u64,
    /// Memory that the changes take, in bytes.
    bytes: usize,
}

/// Bytes that a change takes besides key and value.
const CHANGE_OVERHEAD: usize = 80;
/// Bytes that a block takes with its content.
const BLOCK_MEMORY: usize = BLOCK + 224;

impl Table {
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.taken.is_empty() && self.given.is_empty()
    }

    pub fn memory(&self) -> usize {
        self.bytes + self.unwritten_bytes() + (self.taken.len() + self.given.len()) * 16
    }

    /// Memory of the blocks that are to be written.
    pub fn unwritten_bytes(&self) -> usize {
        self.unwritten.len() * BLOCK_MEMORY
    }

    /// Memory of the changes alone: what the tree may grow by.
    pub fn change_bytes(&self) -> usize {
        self.bytes
    }

    pub fn put(&mut self, key: Key, value: Option<Vec<u8>>) {
        let size = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
        let key_len = key.len();
        self.bytes += size(&value);
        match self.changes.insert(key, value) {
            Some(old) => self.bytes -= size(&old),
            None => self.bytes += key_len + CHANGE_OVERHEAD,
        }
    }

    /// Blocks are no longer referred to: their content need not be written.
    pub fn give(&mut self, run: Run) {
        for block in run.0..run.0 + run.1 {
            self.unwritten.remove(&block);
        }
        self.given_blocks += run.1;
        self.given.push(run);
    }

    /// Blocks that a checkpoint would free.
    pub fn given_blocks(&self) -> u64 {
        self.given_blocks
    }
}

/// Writes of data under way, by their first blocks: it is not on the device yet.
#[derive(Default)]
pub(crate) struct Writing(BTreeMap<u64, Bufs>);

impl Writing {
    pub fn begin(&mut self, first: u64, data: Bufs) {
        self.0.insert(first, data);
    }

    pub fn end(&mut self, first: u64) -> Option<Bufs> {
        self.0.remove(&first)
    }

    /// The content of a block, where it is being written.
    pub fn get(&self, block: u64) -> Option<Buf> {
        let (first, data) = self.0.range(..=block).next_back()?;
        let at = (block - first) as usize * BLOCK;
        (at < data.len()).then(|| data.slice(at..at + BLOCK).to_buf())
    }
}

/// The store's entries as of now.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub cache: &'a Cache,
    pub tree: &'a Tree,
    /// Newest first.
    pub layers: [Option<&'a Changes>; 3],
}

impl<'a> View<'a> {
    pub fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Stop> {
        self.with(key, |value| value.map(<[u8]>::to_vec))
    }

    /// Calls `take` with the value of `key` and gives its result.
    pub fn with<T>(&self, key: &Key, take: impl FnOnce(Option<&[u8]>) -> T) -> Result<T, Stop> {
        for layer in self.layers.iter().flatten() {
            if let Some(value) = layer.get(key) {
                return Ok(take(value.as_deref()));
            }
        }
        self.tree.with(self.cache, key, take)
    }

    /// Entries from `from`, inclusive, to `to`, exclusive.
    pub fn scan(&self, from: &Key, to: &Key) -> Scan<'a> {
        Scan { layers: self.ranges(from, to), tree: Cursor::new(self.tree, self.cache, from, to) }
    }

    fn ranges(&self, from: &Key, to: &Key) -> [Option<Peekable<LayerRange<'a>>>; 3] {
        self.layers.map(|layer| {
            let layer = layer?;
            (from < to).then(|| layer.range(from..to).peekable())
        })
    }

    /// Entries from the last one that is at most `at`, or from one before it, but not before `least`, to
    /// `to`, exclusive.
    pub fn scan_around(&self, least: &Key, at: &Key, to: &Key) -> Result<Scan<'a>, Stop> {
        if at >= to {
            return Ok(self.scan(least, to));
        }
        let (mut tree, sure) = Cursor::around(self.tree, self.cache, at, to)?;
        let in_tree = tree.peek()?.map(|e| Key::from(e.0)).filter(|key| key <= at);
        // The newest layer that has an entry that late decides whether it is there.
        let mut last = in_tree.map(|key| (key, true));
        for layer in self.layers.iter().rev().flatten() {
            let found = layer.range(least..=at).next_back();
            if let Some((key, value)) = found
                && last.as_ref().is_none_or(|(last, _)| key >= last)
            {
                last = Some((key.clone(), value.is_some()));
            }
        }
        match last {
            Some((from, true)) if sure && from > *least => {
                if tree.peek()?.is_some_and(|e| e.0 < &from[..]) {
                    tree.advance();
                }
                Ok(Scan { layers: self.ranges(&from, to), tree })
            }
            // There may be one on the page before, or before a removed one.
            _ => Ok(self.scan(least, to)),
        }
    }
}

type LayerRange<'a> = Range<'a, Key, Option<Vec<u8>>>;

/// Entries of a [`View`] in order.
pub(crate) struct Scan<'a> {
    layers: [Option<Peekable<LayerRange<'a>>>; 3],
    tree: Cursor<'a>,
}

impl Scan<'_> {
    /// The next entry, lent until the one after it is asked for.
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, Stop> {
        loop {
            let newest = self.layers.iter_mut().flatten().filter_map(|l| l.peek().map(|e| e.0)).min();
            let order = match (self.tree.peek()?, newest) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((in_tree, _)), Some(newest)) => in_tree.cmp(&newest[..]),
            };
            if order.is_le() {
                self.tree.advance();
            }
            let Some(newest) = newest.filter(|_| order.is_ge()) else { return Ok(self.tree.passed()) };
            let mut value = None;
            for layer in self.layers.iter_mut().flatten() {
                if layer.peek().is_some_and(|e| e.0 == newest) {
                    let (_, v) = layer.next().expect("peeked");
                    value.get_or_insert(v);
                }
            }
            if let Some(Some(value)) = value {
                return Ok(Some((newest, value)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{self, Piece, Place};

    fn key(byte: u8) -> Key {
        Key::of([&[byte]])
    }

    /// A tree of two leaves with these keys.
    fn tree(cache: &mut Cache, keys: &[Key]) -> Tree {
        let mut children = Vec::new();
        for (half, first) in [(&keys[..keys.len() / 2], 10), (&keys[keys.len() / 2..], 20)] {
            let place = Place { first, second: first + 1 };
            let (ptr, page) = page::build(0, place, 1, half.iter().map(|key| Piece::Entry(key, b"tree")));
            cache.insert(first, page);
            let name = if children.is_empty() { Key::new() } else { half[0].clone() };
            children.push((name, ptr.to_bytes()));
        }
        let place = Place { first: 30, second: 31 };
        let (root, page) = page::build(1, place, 1, children.iter().map(|(k, v)| Piece::Entry(k, v)));
        cache.insert(30, page);
        Tree { root: Some(root), levels: 2, pages: 3, last_id: 0 }
    }

    fn all(mut scan: Scan<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut out = Vec::new();
        while let Some((key, value)) = scan.next().expect("all pages are there") {
            out.push((key.to_vec(), value.to_vec()));
        }
        out
    }

    #[test]
    fn a_scan_around_a_key_begins_at_the_last_entry_before_it_or_earlier() {
        let mut rng = stdx::Rng::from_seed(7);
        let mut shorter = 0;
        for _ in 0..2000 {
            let mut cache = Cache::new(1 << 20);
            let keys: Vec<Key> = (0..20u8).filter(|_| rng.below(3) == 0).map(key).collect();
            let tree = if keys.len() < 2 { Tree::default() } else { tree(&mut cache, &keys) };
            let layers: [Changes; 3] = std::array::from_fn(|n| {
                let named = |rng: &mut stdx::Rng| (rng.below(3) > 0).then(|| vec![n as u8]);
                let count = rng.below(6);
                (0..count).map(|_| (key(rng.below(20) as u8), named(&mut rng))).collect()
            });
            let view = View { cache: &cache, tree: &tree, layers: layers.each_ref().map(Some) };
            let (least, to) = (rng.below(10) as u8, 10 + rng.below(11) as u8);
            let at = least + rng.below(u64::from(to - least) + 1) as u8;
            let whole = all(view.scan(&key(least), &key(to)));
            let around = all(view.scan_around(&key(least), &key(at), &key(to)).expect("all pages are there"));
            assert!(whole.ends_with(&around), "{around:?} of {whole:?}");
            let before = whole.iter().filter(|e| e.0[0] <= at).count();
            assert!(
                around.len() > whole.len() - before || before == 0,
                "{around:?} of {whole:?} around {at}"
            );
            shorter += usize::from(around.len() < whole.len());
        }
        assert!(shorter > 300, "it saved something only {shorter} times");
    }
}
