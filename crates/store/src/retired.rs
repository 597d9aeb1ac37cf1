//! Retired blocks: the copy-on-write rule "old blocks are freed when the new root is durable".
//!
//! A checkpoint leaves the blocks of the old tree and of overwritten data as they are. Once its root is
//! durable in both superblocks, [`crate::core::Core::install`] retires them here, and `Core::release` gives
//! them to the allocator when the last read that may still be looking at them has ended. No other path frees
//! blocks that a root on the device refers to.

use crate::alloc::Run;
use crate::io::Io;
use crate::page::{PAGE_BLOCKS, Place};
use node::DiskOpId;
use std::collections::VecDeque;

/// The blocks that one checkpoint has retired.
struct Batch {
    /// Reads begun before this operation may still look at them.
    mark: DiskOpId,
    runs: VecDeque<Run>,
    pages: VecDeque<Place>,
}

/// Something to be freed.
pub(crate) enum Freed {
    Run(Run),
    Page(Place),
}

/// Retired blocks, oldest first. Invariant: `blocks` is their sum.
#[derive(Default)]
pub(crate) struct Retired {
    batches: VecDeque<Batch>,
    blocks: u64,
}

impl Retired {
    /// Retires blocks to which no root on the device refers any more.
    pub fn push(&mut self, mark: DiskOpId, runs: Vec<Run>, pages: Vec<Place>) {
        self.blocks += runs.iter().map(|run| run.1).sum::<u64>() + pages.len() as u64 * PAGE_BLOCKS;
        self.batches.push_back(Batch { mark, runs: runs.into(), pages: pages.into() });
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// All blocks that are still to be freed.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Takes out what may be freed next; `None` while reads of the oldest batch are under way.
    pub fn pop(&mut self, io: &Io) -> Option<Freed> {
        loop {
            let batch = self.batches.front_mut().filter(|batch| io.read_until(batch.mark))?;
            let freed = match batch.runs.pop_front() {
                Some(run) => Some((run.1, Freed::Run(run))),
                None => batch.pages.pop_front().map(|page| (PAGE_BLOCKS, Freed::Page(page))),
            };
            if let Some((blocks, freed)) = freed {
                self.blocks -= blocks;
                return Some(freed);
            }
            self.batches.pop_front();
        }
    }
}
