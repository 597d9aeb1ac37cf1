//! The store's entries and blocks: the tree on the device, the changes since, the caches and the allocator.
//!
//! `freeze` has the operations of a checkpoint, `load` those of opening, `space` counts free blocks.

mod freeze;
mod load;
mod space;

use crate::alloc::{Alloc, Run};
use crate::cache::{Blocks, Cache};
use crate::config::Config;
use crate::io::Io;
use crate::key::Key;
use crate::page::{Page, Ptr};
use crate::plan::{Base, Done, Plan, Scratch};
use crate::retired::{Freed, Retired};
use crate::table::{Changes, Stats, Table, View, Writing};
use crate::tree::Tree;
use std::collections::VecDeque;
use stdx::{BLOCK, Buf, Bufs};

/// Changes that are dropped at a time: dropping many takes milliseconds.
const DROPPED_PER_STEP: usize = 128;

/// Entries as they are on the device and as they have changed since.
///
/// Invariants: the tree never refers to a block that the allocator calls free; a block whose content is in a
/// table's `unwritten` or in `writing` is not read from the device.
pub(crate) struct Core {
    cache: Cache,
    blocks: Blocks,
    tree: Tree,
    active: Table,
    /// The table that the running checkpoint writes.
    frozen: Option<Box<Table>>,
    writing: Writing,
    alloc: Alloc,
    retired: Retired,
    /// Changes that a finished checkpoint has written, to be dropped bit by bit.
    spent: VecDeque<Changes>,
    stats: Stats,
    next_id: u64,
    /// The last transaction applied.
    applied: u64,
    /// True if removed objects or omaps may have entries left.
    garbage: bool,
    /// The last entry of the first of these that was removed: a search from there passes over nothing that is
    /// gone.
    collected: Option<Key>,
    /// Pages that the running checkpoint has made.
    making: u64,
    /// Blocks of the device.
    device_blocks: u64,
    /// The size at which a table is frozen, in bytes.
    table_bytes: usize,
    /// Checkpoints finished since the store was opened.
    checkpoints: u64,
}

/// The totals at the moment at which a checkpoint's table was frozen.
#[derive(Clone, Copy, Default)]
pub(crate) struct Frozen {
    /// The last transaction that the table contains.
    pub applied: u64,
    /// The last id given.
    pub next_id: u64,
    pub stats: Stats,
}

impl Core {
    pub fn new(config: &Config) -> Self {
        Self {
            cache: Cache::new(config.cache_bytes),
            blocks: Blocks::new(config.data_cache_bytes),
            tree: Tree::default(),
            active: Table::default(),
            frozen: None,
            writing: Writing::default(),
            alloc: Alloc::new(0, 0),
            retired: Retired::default(),
            spent: VecDeque::new(),
            stats: Stats::default(),
            next_id: 0,
            applied: 0,
            garbage: true,
            collected: None,
            making: 0,
            device_blocks: 0,
            table_bytes: config.table_bytes,
            checkpoints: 0,
        }
    }

    pub fn view(&self) -> View<'_> {
        let frozen = self.frozen.as_ref().map(|f| &f.changes);
        View { cache: &self.cache, tree: &self.tree, layers: [Some(&self.active.changes), frozen, None] }
    }

    /// Begins a plan for a transaction. It changes nothing but the allocator until [`Self::absorb`].
    pub fn plan<'a>(&'a mut self, scratch: &'a Scratch) -> Plan<'a> {
        let frozen = self.frozen.as_deref();
        let layers = [Some(&self.active.changes), frozen.map(|f| &f.changes), None];
        let view = View { cache: &self.cache, tree: &self.tree, layers };
        let base = Base { view, active: &self.active, frozen, writing: &self.writing, scratch };
        Plan::new(base, &mut self.alloc, self.stats, self.next_id)
    }

    /// Takes over the effects of a finished plan.
    pub fn absorb(&mut self, done: Done) {
        self.stats = done.stats;
        self.next_id = done.next_id;
        self.garbage |= done.garbage;
        done.apply(&mut self.active);
    }

    /// Notes the number of the transaction that [`Self::absorb`] has applied.
    pub fn set_applied(&mut self, seq: u64) {
        self.applied = seq;
    }

    pub fn has_garbage(&self) -> bool {
        self.garbage
    }

    /// The last entry that was removed of the first removed object or omap that has any left.
    pub fn collected(&self) -> Option<Key> {
        self.collected.clone()
    }

    /// Notes if removed objects or omaps still have entries, and the last one that was removed.
    pub fn set_garbage(&mut self, garbage: bool, collected: Option<Key>) {
        (self.garbage, self.collected) = (garbage, collected);
    }

    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// True if the active table is larger than it should become.
    pub fn is_crowded(&self) -> bool {
        self.active.memory() > self.table_bytes
    }

    pub fn table_bytes(&self) -> usize {
        self.table_bytes
    }

    pub fn active_memory(&self) -> usize {
        self.active.memory()
    }

    pub fn is_active_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Takes up to `want` blocks in a row for a large write that bypasses the log.
    pub fn take_blocks(&mut self, want: u64, goal: Option<u64>) -> Option<Run> {
        self.alloc.data(want, goal)
    }

    /// Notes that a write of these blocks has begun: until it ends, their content is taken from here.
    pub fn begin_write(&mut self, first: u64, data: Bufs) {
        self.writing.begin(first, data);
    }

    pub fn end_write(&mut self, first: u64) {
        self.writing.end(first);
    }

    /// Ends an early write of a table's blocks, whose content stays in the cache.
    pub fn end_early_write(&mut self, first: u64) {
        let written = self.writing.end(first);
        let blocks = written.iter().flat_map(|data| data.parts()).cloned();
        (first..).zip(blocks).for_each(|(block, content)| self.blocks.insert(block, content));
    }

    /// The content of a block that is not on the device yet.
    pub fn unwritten(&self, block: u64) -> Option<Buf> {
        let frozen = || self.frozen.as_ref().and_then(|f| f.unwritten.get(&block));
        self.active.unwritten.get(&block).or_else(frozen).cloned().or_else(|| self.writing.get(block))
    }

    /// The content of a block of the device, if the cache has it with this checksum.
    pub fn cached_block(&self, block: u64, crc: u32) -> Option<Buf> {
        self.blocks.get(block, crc)
    }

    /// Caches blocks that were read.
    pub fn keep_blocks(&mut self, first: u64, content: &Buf) {
        for (i, block) in content.chunks(BLOCK).enumerate() {
            self.blocks.insert(first + i as u64, Buf::from(block.to_vec()));
        }
    }

    pub fn keep_page(&mut self, block: u64, page: Page) {
        self.cache.insert(block, page);
    }

    /// Most index pages that the cache keeps between inputs.
    pub fn cache_limit(&self) -> usize {
        self.cache.limit()
    }

    /// Forgets pages until the budget of the cache is kept; none while an operation needs more at once
    /// (`holds`), which is so until the next call.
    pub fn trim_cache(&mut self, holds: bool) {
        self.cache.hold(holds);
        self.cache.trim();
    }

    /// Sets the budgets of the caches, in bytes.
    pub fn set_caches(&mut self, cache_bytes: usize, data_cache_bytes: usize) {
        self.cache.set_budget(cache_bytes);
        self.blocks.set_budget(data_cache_bytes);
    }

    /// Leaves that follow the one of `key` under the same parent, begin before `to` and are not in memory, at
    /// most `max`; with their level.
    pub fn leaves_after(&self, key: &[u8], to: &[u8], max: usize) -> Vec<(Ptr, u8)> {
        self.tree.leaves_after(&self.cache, key, to, max)
    }

    /// Frees up to `most` retired places that no read looks at any more.
    pub fn release(&mut self, most: usize, io: &mut Io) {
        for _ in 0..most {
            match self.retired.pop(io) {
                None => return,
                Some(Freed::Run(run)) => {
                    self.blocks.remove(run.0, run.1);
                    self.alloc.free(run);
                }
                Some(Freed::Page(page)) => {
                    self.alloc.free_page(page);
                    self.cache.remove(page.first);
                    io.forget(page.first);
                }
            }
        }
    }

    /// True if blocks wait for reads to end before they are freed.
    pub fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Drops some of the changes that the last checkpoints have written.
    pub fn drop_spent(&mut self) {
        let Some(changes) = self.spent.front_mut() else { return };
        for _ in 0..DROPPED_PER_STEP {
            if changes.pop_first().is_none() {
                self.spent.pop_front();
                return;
            }
        }
    }

    /// Drops all of them.
    pub fn drop_all_spent(&mut self) {
        self.spent.clear();
    }

    /// Bytes of the caches, of the tables, of the allocator.
    pub fn memory(&self) -> (usize, usize, usize) {
        let frozen = self.frozen.as_ref().map_or(0, |f| f.memory());
        let caches = self.cache.memory() + self.blocks.memory();
        (caches, self.active.memory() + frozen, self.alloc.memory())
    }

    /// Makes the allocation after the next `count` fail; for tests.
    pub fn fail_allocation_after(&mut self, count: u64) {
        self.alloc.fail_after(count);
    }
}
