//! Caches of index pages and of data blocks, each with a budget and second-chance eviction: pages and
//! blocks of data. Neither changes in its place as long as anything refers to it, so nothing is ever written
//! from here.

use crate::crc::block_crc;
use crate::page::{PAGE, Page, Ptr};
use std::cell::Cell;
use std::collections::VecDeque;
use stdx::{BLOCK, Buf, FastMap};

/// Values by the block of the device where they are.
struct Clock<V> {
    slots: FastMap<u64, Slot<V>>,
    /// Values in the order of their turn; one that was put anew since has another stamp.
    turns: VecDeque<(u64, u64)>,
    stamp: u64,
    limit: usize,
}

struct Slot<V> {
    value: V,
    used: Cell<bool>,
    stamp: u64,
}

impl<V> Clock<V> {
    fn new(limit: usize) -> Self {
        Self { slots: FastMap::default(), turns: VecDeque::new(), stamp: 0, limit }
    }

    fn get(&self, block: u64) -> Option<&V> {
        let slot = self.slots.get(&block)?;
        slot.used.set(true);
        Some(&slot.value)
    }

    fn insert(&mut self, block: u64, value: V) {
        self.stamp += 1;
        self.turns.push_back((block, self.stamp));
        self.slots.insert(block, Slot { value, used: Cell::new(true), stamp: self.stamp });
    }

    fn remove(&mut self, block: u64) {
        self.slots.remove(&block);
    }

    /// Forgets values until the limit is kept.
    fn trim(&mut self) {
        while self.slots.len() > self.limit {
            let (block, stamp) = self.turns.pop_front().expect("each value has a turn");
            match self.slots.get(&block) {
                Some(slot) if slot.stamp != stamp => {}
                Some(slot) if slot.used.take() => self.turns.push_back((block, stamp)),
                _ => drop(self.slots.remove(&block)),
            }
        }
        if self.turns.len() > 2 * self.limit {
            let slots = &self.slots;
            self.turns.retain(|(block, stamp)| slots.get(block).is_some_and(|slot| slot.stamp == *stamp));
        }
    }
}

/// Bytes that a page or a block takes besides its content.
const OVERHEAD: usize = 256;

/// Pages of the index.
pub(crate) struct Cache {
    pages: Clock<Page>,
    /// True while an operation needs more pages at once than the budget allows.
    holds: bool,
}

impl Cache {
    /// At most `bytes`, but enough for a few ways from the root to a leaf.
    pub fn new(bytes: usize) -> Self {
        Self { pages: Clock::new(Self::pages(bytes)), holds: false }
    }

    fn pages(bytes: usize) -> usize {
        (bytes / (PAGE + OVERHEAD)).max(32)
    }

    /// Another budget, from the next [`Self::trim`] on.
    pub fn set_budget(&mut self, bytes: usize) {
        self.pages.limit = Self::pages(bytes);
    }

    /// The most pages.
    pub fn limit(&self) -> usize {
        self.pages.limit
    }

    pub fn memory(&self) -> usize {
        self.pages.slots.len() * (PAGE + OVERHEAD)
    }

    pub fn get(&self, ptr: Ptr) -> Option<Page> {
        self.pages.get(ptr.block).filter(|page| page.crc() == ptr.crc).cloned()
    }

    pub fn insert(&mut self, block: u64, page: Page) {
        self.pages.insert(block, page);
    }

    /// Forgets a page whose place is given back.
    pub fn remove(&mut self, block: u64) {
        self.pages.remove(block);
    }

    /// Keeps all pages, or no longer.
    pub fn hold(&mut self, holds: bool) {
        self.holds = holds;
    }

    /// Forgets pages until the budget is kept, unless all are to be kept. Called between inputs, so that an
    /// operation finds those that it has waited for.
    pub fn trim(&mut self) {
        if !self.holds {
            self.pages.trim();
        }
    }
}

/// Blocks of data.
pub(crate) struct Blocks(Clock<Buf>);

impl Blocks {
    /// At most `bytes`.
    pub fn new(bytes: usize) -> Self {
        Self(Clock::new(bytes / (BLOCK + OVERHEAD)))
    }

    /// Changes the budget.
    pub fn set_budget(&mut self, bytes: usize) {
        self.0.limit = bytes / (BLOCK + OVERHEAD);
        self.0.trim();
    }

    pub fn memory(&self) -> usize {
        self.0.slots.len() * (BLOCK + OVERHEAD)
    }

    /// The content of a block, where it has this checksum.
    pub fn get(&self, block: u64, crc: u32) -> Option<Buf> {
        self.0.get(block).filter(|content| block_crc(content) == crc).cloned()
    }

    /// Keeps a block, whose memory must be its own.
    pub fn insert(&mut self, block: u64, content: Buf) {
        if self.0.limit > 0 {
            self.0.insert(block, content);
            self.0.trim();
        }
    }

    /// Forgets blocks that are given back.
    pub fn remove(&mut self, first: u64, count: u64) {
        if count as usize > self.0.slots.len() {
            self.0.slots.retain(|block, _| !(first..first + count).contains(block));
        } else {
            (first..first + count).for_each(|block| self.0.remove(block));
        }
    }
}
