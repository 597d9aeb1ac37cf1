//! Free space, and the space that checkpoints need.

use super::Core;
use crate::alloc::{Run, ZONE};
use crate::logged::Cost;
use crate::page::{PAGE, PAGE_BLOCKS};
use crate::space_map::SPACE_CHUNK;
use std::ops::Range;

/// A table with less than this share of its budget is not worth a checkpoint, however short space is.
const LEAST_SHARE: u64 = 16;

/// The most pages that so many bytes of changes may take while the old ones are still needed: each is at
/// least half full, and may be made twice.
fn pages_for(bytes: u64) -> u64 {
    2 * bytes.div_ceil(PAGE as u64 / 2)
}

impl Core {
    /// Free places for pages that checkpoints need to succeed, if the index grows by `promised` bytes more
    /// than the tables hold, and `reserve` pages stay free. A checkpoint may have to rewrite every page while
    /// the old ones are still needed; pages are at least half full.
    pub fn needed_pages(&self, promised: u64, reserve: u64) -> u64 {
        let frozen = self.frozen.as_ref().map_or(0, |f| f.change_bytes());
        let bytes = (self.active.change_bytes() + frozen) as u64 + promised;
        let pages = self.tree.pages;
        let map = self.device_blocks / SPACE_CHUNK * SPACE_CHUNK / 8 / (PAGE as u64 / 2);
        let needed = map + pages + pages / 8 + pages_for(bytes) + 2 * (8 + reserve);
        // Pages that the running checkpoint has made are allocated already.
        needed.saturating_sub(self.making)
    }

    /// True if the active table promises so much of the free space that what it really needs should be
    /// found out: a checkpoint takes a quarter of it, and most changes of a table replace others.
    pub fn is_short(&self) -> bool {
        let bytes = self.active.change_bytes() as u64;
        let promised = pages_for(bytes) * PAGE_BLOCKS;
        let left = (self.alloc.free_blocks() + self.retired.blocks())
            .saturating_sub(self.needed_pages(0, 0) * PAGE_BLOCKS);
        bytes >= self.table_bytes as u64 / LEAST_SHARE && promised > left
    }

    pub fn free_blocks(&self) -> u64 {
        self.alloc.free_blocks()
    }

    /// Blocks that will be free when the checkpoints of both tables have ended.
    pub fn soon_free(&self) -> u64 {
        let frozen = self.frozen.as_ref().map_or(0, |f| f.given_blocks());
        self.active.given_blocks() + frozen + self.retired.blocks() + self.alloc.lent_blocks()
    }

    /// Blocks that index pages take.
    pub fn index_blocks(&self) -> u64 {
        self.alloc.pages() * PAGE_BLOCKS
    }

    /// Blocks of data from `first` on that are taken, or whose last reference the device's root still has.
    pub fn used_blocks(&self, first: u64) -> u64 {
        let not_data = self.alloc.free_blocks() + self.alloc.lent_blocks() + self.index_blocks();
        (self.device_blocks - first).saturating_sub(not_data)
    }

    pub fn device_blocks(&self) -> u64 {
        self.device_blocks
    }

    /// True if more blocks would be freed by a checkpoint than are free.
    pub fn may_double_free_space(&self) -> bool {
        self.active.given_blocks() > self.alloc.free_blocks()
    }

    /// Checkpoints finished since the store was opened.
    pub fn checkpoints(&self) -> u64 {
        self.checkpoints
    }

    /// Zones that neither an admitted transaction nor the checkpoint can need meanwhile; half of them.
    pub fn spare_zones(&self, admitted: Cost) -> usize {
        let needed = admitted.blocks + self.needed_pages(admitted.index, 0) * PAGE_BLOCKS;
        (self.alloc.free_blocks().saturating_sub(needed) / ZONE / 2) as usize
    }

    /// Old free zones, see `Alloc::long_free`.
    pub fn long_free(&self, among: Range<usize>, max: usize, checkpoints: u8) -> Result<Range<usize>, usize> {
        self.alloc.long_free(among, max, checkpoints)
    }

    /// Takes free zones out of circulation while they are being discarded.
    pub fn lend(&mut self, zones: Range<usize>) {
        self.alloc.lend(zones);
    }

    /// Puts discarded zones back into circulation.
    pub fn discarded(&mut self, zones: Range<usize>) {
        self.alloc.discarded(zones);
    }

    pub fn lent_blocks(&self) -> u64 {
        self.alloc.lent_blocks()
    }

    /// A run that the active table has given up and the device's root still refers to.
    pub fn first_given(&self) -> Option<Run> {
        self.active.given.first().copied()
    }
}
