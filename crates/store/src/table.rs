//! Changes that are not in the tree yet, and the view of the store through them.
//!
//! Two tables exist at most: the active one, which takes the effects of transactions, and the frozen one, which a
//! checkpoint is writing into a new tree. What is newer hides what is older; `None` is a removal.

use crate::alloc::Run;
use crate::cache::Cache;
use crate::key::Key;
use crate::tree::{Cursor, Entry, Stop, Tree};
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

/// What a change takes besides key and value.
const CHANGE_OVERHEAD: usize = 80;
/// What a block takes with its content.
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
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        self.with(key, |value| value.map(<[u8]>::to_vec))
    }

    /// What `take` makes of the value of `key`, lent to it.
    pub fn with<T>(&self, key: &[u8], take: impl FnOnce(Option<&[u8]>) -> T) -> Result<T, Stop> {
        for layer in self.layers.iter().flatten() {
            if let Some(value) = layer.get(key) {
                return Ok(take(value.as_deref()));
            }
        }
        self.tree.with(self.cache, key, take)
    }

    /// Entries from `from`, inclusive, to `to`, exclusive.
    pub fn scan(&self, from: &[u8], to: &[u8]) -> Scan<'a> {
        let layers = self.layers.map(|layer| {
            let layer = layer?;
            (from < to)
                .then(|| layer.range::<[u8], _>((bound(from), std::ops::Bound::Excluded(to))).peekable())
        });
        Scan { layers, tree: Cursor::new(self.tree, self.cache, from, to) }
    }
}

fn bound(from: &[u8]) -> std::ops::Bound<&[u8]> {
    std::ops::Bound::Included(from)
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
                (Some((in_tree, _)), Some(newest)) => in_tree.cmp(newest),
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
