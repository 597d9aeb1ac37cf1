//! Operations of a checkpoint on the frozen table and on the tree.

use super::{Core, Frozen};
use crate::key;
use crate::merge::{Ground, Merge};
use crate::page::{Page, Place, Ptr};
use crate::space_map::{CHUNK_BYTES, SpaceChanges};
use crate::stop::{Stop, corrupt};
use crate::superblock::Super;
use crate::table::Table;
use crate::tree::Tree;
use node::DiskOpId;
use stdx::{BLOCK, Bufs};

/// The most blocks in one write of data.
const WRITE_BLOCKS: u64 = 64;
/// The share of a table's budget that unwritten blocks may take before they are written early.
const EARLY_SHARE: usize = 4;

impl Core {
    /// Freezes the active table.
    pub fn freeze(&mut self) -> Frozen {
        assert!(self.frozen.is_none(), "one checkpoint at a time");
        self.frozen = Some(Box::new(std::mem::take(&mut self.active)));
        Frozen { applied: self.applied, next_id: self.next_id, stats: self.stats }
    }

    /// Freezes an empty table, for a checkpoint that only writes superblocks.
    pub fn freeze_nothing(&mut self) {
        assert!(self.frozen.is_none(), "one checkpoint at a time");
        self.frozen = Some(Box::default());
    }

    fn frozen(&self) -> &Table {
        self.frozen.as_ref().expect("a checkpoint is running")
    }

    /// Changes and blocks of data that the frozen table has.
    pub fn frozen_items(&self) -> u64 {
        (self.frozen().changes.len() + self.frozen().unwritten.len()) as u64
    }

    /// The next blocks in a row of the frozen table that are to be written, from `from` on.
    pub fn next_data(&self, from: u64) -> Option<(u64, Bufs)> {
        next_data(self.frozen(), from)
    }

    /// Takes blocks out of the active table to be written early, if it holds many. No root on the device
    /// refers to them, and from now on they are no longer overwritten in place.
    pub fn take_early(&mut self) -> Option<(u64, Bufs)> {
        if self.active.unwritten_bytes() <= self.table_bytes / EARLY_SHARE {
            return None;
        }
        let (first, data) = next_data(&self.active, 0)?;
        for block in first..first + (data.len() / BLOCK) as u64 {
            self.active.unwritten.remove(&block);
        }
        self.writing.begin(first, data.clone());
        Some((first, data))
    }

    /// The changes that the frozen table makes to the map of blocks.
    pub fn space_changes(&self) -> SpaceChanges {
        SpaceChanges::of(&self.frozen().taken, &self.frozen().given)
    }

    /// Updates the next entry of the map of blocks in the frozen table; false if there are no more.
    pub fn change_space(&mut self, changes: &mut SpaceChanges) -> Result<bool, Stop> {
        let Some(chunk) = changes.next_chunk() else { return Ok(false) };
        let key = key::space(chunk);
        let mut bits = match self.tree.with(&self.cache, &key, |bits| bits.map(<[u8]>::to_vec))? {
            Some(bits) if bits.len() == CHUNK_BYTES => bits,
            Some(_) => return Err(corrupt("an entry of the map of blocks")),
            None => vec![0; CHUNK_BYTES],
        };
        changes.apply_next(&mut bits);
        let value = bits.iter().any(|b| *b != 0).then_some(bits);
        self.frozen.as_mut().expect("a checkpoint is running").put(key, value);
        Ok(true)
    }

    /// A merge of the frozen table into the tree.
    pub fn begin_merge(&self, last_id: u64, generation: u64) -> Merge {
        Merge::new(self.tree, last_id, generation)
    }

    /// Makes up to `most` pages of the new tree, each at the cost of one unit of `effort`, and adds them to
    /// `pages`; gives the tree when it is complete.
    pub fn step_merge(
        &mut self,
        merge: &mut Merge,
        most: usize,
        effort: &mut usize,
        pages: &mut Vec<(Place, Page)>,
    ) -> Result<Option<Tree>, Stop> {
        let leaves = &self.frozen.as_ref().expect("a checkpoint is running").changes;
        let mut ground = Ground { cache: &mut self.cache, alloc: &mut self.alloc, leaves, written: pages };
        let mut result = Ok(None);
        while matches!(result, Ok(None)) && ground.written.len() < most && *effort > 0 {
            result = merge.step(&mut ground);
            *effort -= 1;
        }
        self.cache.trim();
        self.making = merge.made;
        result
    }

    /// The missing ones of the next `most` pages that a merge takes, with their levels.
    pub fn pages_ahead(&self, merge: &Merge, most: usize) -> Vec<(Ptr, u8)> {
        merge.pages_ahead(&self.cache, &self.frozen().changes, most.min(self.cache.limit() / 4))
    }

    /// Takes over a new root that is durable in both superblocks. Only now may blocks that the old root
    /// refers to be freed: they are retired until reads begun before `mark` have ended (see
    /// [`crate::retired`]).
    pub fn install(&mut self, sup: &Super, pages: Vec<Place>, mark: DiskOpId) {
        let mut frozen = self.frozen.take().expect("a checkpoint is running");
        for (block, content) in std::mem::take(&mut frozen.unwritten) {
            self.blocks.insert(block, content);
        }
        self.tree = sup.tree();
        self.retired.push(mark, std::mem::take(&mut frozen.given), pages);
        self.spent.push_back(std::mem::take(&mut frozen.changes));
        self.making = 0;
        self.checkpoints += 1;
        self.alloc.tick();
    }
}

fn next_data(table: &Table, from: u64) -> Option<(u64, Bufs)> {
    let mut blocks = table.unwritten.range(from..);
    let (first, content) = blocks.next()?;
    let mut data = Bufs::from(content.clone());
    for (i, (block, content)) in (1..WRITE_BLOCKS).zip(blocks) {
        if *block != first + i {
            break;
        }
        data.push(content.clone());
    }
    Some((*first, data))
}
