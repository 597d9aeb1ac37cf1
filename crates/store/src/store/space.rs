//! Space: which transactions fit, and which must wait.
//!
//! Submitted transactions must not fail for lack of space, so their highest possible cost is promised at
//! submission. A reserve stays free for transactions that free space, and for the checkpoints that carry them
//! out.

use super::Store;
use crate::api::{StoreOut, Transaction};
use crate::config::Refusal;
use crate::logged::{Class, Cost};
use crate::page::{PAGE, PAGE_BLOCKS};
use crate::ring::record_len;
use stdx::BLOCK;

/// Blocks that only transactions without data may take.
const RESERVED_BLOCKS: u64 = 32;
/// Bytes of the index that a clone takes besides omap and extents.
const CLONE_INDEX_BYTES: u64 = 16 << 10;

impl Store {
    pub(super) fn largest_record(&self) -> u64 {
        self.commit.ring().len() / 4
    }

    /// The most that a transaction may need, if that much is free.
    pub(super) fn check_space(
        &self,
        txn: &Transaction,
        beside: Option<u64>,
        left: u64,
    ) -> Result<Cost, Refusal> {
        let cost = self.cost(txn, beside)?;
        if record_len(cost.log) > self.largest_record() {
            return Err(Refusal::TooLarge);
        }
        if cost.class == Class::Removes {
            return Ok(cost);
        }
        if self.reserved_blocks(cost, cost.class, left) <= self.core.free_blocks() + self.core.soon_free() {
            Ok(cost)
        } else {
            Err(Refusal::NoSpace)
        }
    }

    /// Blocks that promised transactions and one more of this class may need, with `left` bytes of the index
    /// more.
    pub(super) fn reserved_blocks(&self, cost: Cost, class: Class, left: u64) -> u64 {
        let promised = self.commit.promised();
        let (pages, blocks) = self.reserve(class);
        let pages = self.core.needed_pages(promised.index + cost.index + left, pages);
        promised.blocks + cost.blocks + blocks + pages * PAGE_BLOCKS
    }

    /// The most that a transaction may need.
    pub(super) fn cost(&self, txn: &Transaction, beside: Option<u64>) -> Result<Cost, Refusal> {
        let mut cost = Cost::of(txn, beside, self.config.direct_bytes)?;
        cost.cloned = cost.clones * (CLONE_INDEX_BYTES + self.largest_clone(cost));
        cost.index += cost.cloned;
        Ok(cost)
    }

    /// Bytes by which the index may grow by a clone of the largest object that can exist once a transaction's
    /// other operations are done. A clone replaces its target, so it makes no object larger than its source:
    /// promised clones make this one no larger.
    fn largest_clone(&self, others: Cost) -> u64 {
        let (stats, promised) = (self.core.stats(), self.commit.promised());
        let (pending, blocks) = (promised.index - promised.cloned, promised.blocks + others.blocks);
        let blocks = (stats.largest_data / BLOCK as u64).min(self.used_blocks()) + blocks;
        let omap = stats.largest_omap.min(stats.omap) + pending + others.index;
        omap + omap / 2 + 12 * blocks
    }

    /// Pages and blocks that a transaction of this class must leave free, so that transactions that free
    /// space fit.
    fn reserve(&self, class: Class) -> (u64, u64) {
        let tables = 2 * self.core.table_bytes() as u64 / PAGE as u64;
        let pages = (self.core.device_blocks() / 1024).clamp(16, 4096) + tables;
        match class {
            Class::Grows => (pages, RESERVED_BLOCKS),
            Class::Small => (pages / 2, RESERVED_BLOCKS / 2),
            Class::Frees | Class::Removes => (0, 0),
        }
    }

    /// True if the next transaction has space now, beside those admitted.
    pub(super) fn has_space(&self, cost: Cost) -> bool {
        let admitted = self.commit.admitted();
        let pages = self.core.needed_pages(admitted.index + cost.index, 0);
        admitted.blocks + cost.blocks + pages * PAGE_BLOCKS <= self.core.free_blocks()
    }

    /// The bytes of omap keys and values that may still be stored, about. It is the least there may be: what
    /// changes really take is known when a checkpoint has ended.
    pub fn omap_left(&self) -> u64 {
        self.usage().available * 2 / 9
    }

    /// Begins a checkpoint as soon as one can begin, to see what space the last changes leave.
    pub fn make_space(&mut self, out: &mut Vec<StoreOut>) {
        if self.is_open() {
            self.checkpoints.request();
            self.settle(out);
        }
    }

    /// True if space may become free without new transactions, once [`Self::make_space`] is called.
    pub fn may_free(&self) -> bool {
        let running = self.checkpoints.is_running() || !self.core.is_active_empty();
        let freeing = self.core.has_retired() || self.core.lent_blocks() > 0;
        running || freeing || !self.commit.is_applied()
    }

    /// Blocks that hold data, or did when the last checkpoint was made.
    pub(super) fn used_blocks(&self) -> u64 {
        self.core.used_blocks(self.supers.newest().first_block())
    }
}
