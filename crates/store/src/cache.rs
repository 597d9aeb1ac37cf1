//! Index pages in memory, up to a budget, by second chance. Pages never change, so they are never written from here.

use crate::page::{PAGE, Page, Ptr};
use std::cell::Cell;
use std::collections::VecDeque;
use stdx::FastMap;

pub(crate) struct Cache {
    pages: FastMap<u64, Slot>,
    /// Pages in the order of their turn; a page that was made anew since has another stamp.
    clock: VecDeque<(u64, u64)>,
    stamp: u64,
    limit: usize,
}

struct Slot {
    page: Page,
    used: Cell<bool>,
    stamp: u64,
}

/// What a page takes besides its bytes.
const OVERHEAD: usize = 256;

impl Cache {
    /// At most `bytes`, but enough for a few ways from the root to a leaf.
    pub fn new(bytes: usize) -> Self {
        Self {
            pages: FastMap::default(),
            clock: VecDeque::new(),
            stamp: 0,
            limit: (bytes / (PAGE + OVERHEAD)).max(32),
        }
    }

    /// The most pages.
    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn memory(&self) -> usize {
        self.pages.len() * (PAGE + OVERHEAD)
    }

    pub fn get(&self, ptr: Ptr) -> Option<Page> {
        let slot = self.pages.get(&ptr.block)?;
        slot.used.set(true);
        (slot.page.crc() == ptr.crc).then(|| slot.page.clone())
    }

    pub fn insert(&mut self, block: u64, page: Page) {
        self.stamp += 1;
        self.clock.push_back((block, self.stamp));
        self.pages.insert(block, Slot { page, used: Cell::new(true), stamp: self.stamp });
    }

    /// Forgets a page whose place is given back.
    pub fn remove(&mut self, block: u64) {
        self.pages.remove(&block);
    }

    /// Forgets pages until the budget is kept. Called between inputs, so that an operation that needs many pages finds
    /// them all.
    pub fn trim(&mut self) {
        while self.pages.len() > self.limit {
            let (block, stamp) = self.clock.pop_front().expect("each page is in the clock");
            match self.pages.get(&block) {
                Some(slot) if slot.stamp != stamp => {}
                Some(slot) if slot.used.take() => self.clock.push_back((block, stamp)),
                _ => drop(self.pages.remove(&block)),
            }
        }
        if self.clock.len() > 2 * self.limit {
            let pages = &self.pages;
            self.clock.retain(|(block, stamp)| pages.get(block).is_some_and(|slot| slot.stamp == *stamp));
        }
    }
}
