//! Index pages in memory, up to a budget, by second chance. Pages never change, so they are never written from here.

use crate::page::{PAGE, Page, Ptr};
use std::cell::Cell;
use std::collections::VecDeque;
use stdx::FastMap;

pub(crate) struct Cache {
    pages: FastMap<u64, Slot>,
    clock: VecDeque<u64>,
    limit: usize,
}

struct Slot {
    page: Page,
    used: Cell<bool>,
}

/// What a page takes besides its bytes.
const OVERHEAD: usize = 256;

impl Cache {
    /// At most `bytes`, but enough for a few ways from the root to a leaf.
    pub fn new(bytes: usize) -> Self {
        Self { pages: FastMap::default(), clock: VecDeque::new(), limit: (bytes / (PAGE + OVERHEAD)).max(32) }
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
        if self.pages.insert(block, Slot { page, used: Cell::new(true) }).is_none() {
            self.clock.push_back(block);
        }
    }

    /// Forgets a page whose place is given back.
    pub fn remove(&mut self, block: u64) {
        self.pages.remove(&block);
    }

    /// Forgets pages until the budget is kept. Called between inputs, so that an operation that needs many pages finds
    /// them all.
    pub fn trim(&mut self) {
        while self.pages.len() > self.limit || self.clock.len() > 2 * self.limit {
            let Some(block) = self.clock.pop_front() else { return };
            let Some(slot) = self.pages.get(&block) else { continue };
            if slot.used.take() || self.pages.len() <= self.limit {
                self.clock.push_back(block);
            } else {
                self.pages.remove(&block);
            }
        }
    }
}
