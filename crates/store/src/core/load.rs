//! Operations of opening: the tree of the newest root, its pages, the map of blocks.

use super::Core;
use crate::alloc::{Alloc, Run};
use crate::key::{self, Key};
use crate::page::Ptr;
use crate::space_map::marked_blocks;
use crate::stop::{Stop, corrupt};
use crate::superblock::Super;
use stdx::BLOCK;

/// A table takes at most this fraction of the device: the space that a checkpoint may need is kept free.
const TABLE_SHARE: usize = 64;

impl Core {
    /// Takes over a root. Gives the pages above the leaves that are still to be walked, with their levels.
    pub fn adopt(&mut self, sup: &Super) -> Result<Vec<(Ptr, u8)>, Stop> {
        self.tree = sup.tree();
        self.stats = sup.stats();
        self.next_id = sup.next_id;
        self.applied = sup.applied;
        self.device_blocks = sup.blocks;
        self.table_bytes = self.table_bytes.min(sup.blocks as usize * BLOCK / TABLE_SHARE);
        self.alloc = Alloc::new(sup.first_block(), sup.blocks);
        let Some(root) = self.tree.root else { return Ok(Vec::new()) };
        self.mark_page(root)?;
        let level = self.tree.levels - 1;
        Ok(if level > 0 { vec![(root, level)] } else { Vec::new() })
    }

    fn mark_page(&mut self, ptr: Ptr) -> Result<(), Stop> {
        if self.alloc.mark_page(ptr.place()) {
            return Ok(());
        }
        Err(corrupt(format!("index page at block {}: two claim its place", ptr.block)))
    }

    /// Marks the children of a page as taken and gives them.
    pub fn mark_children(&mut self, ptr: Ptr, level: u8) -> Result<Vec<Ptr>, Stop> {
        let page = self.cache.get(ptr).ok_or(Stop::Page(ptr, level))?;
        let children: Vec<Ptr> = (0..page.count()).map(|i| page.child(i)).collect();
        children.iter().try_for_each(|child| self.mark_page(*child))?;
        self.cache.trim();
        Ok(children)
    }

    /// True if the page is in memory.
    pub fn has_page(&self, ptr: Ptr) -> bool {
        self.cache.get(ptr).is_some()
    }

    /// Loads one entry of the map of blocks, the first from `from` on; gives the key to go on from, if any.
    pub fn load_space(&mut self, from: &Key) -> Result<Option<Key>, Stop> {
        let next =
            self.view().scan(from, &Key::of([b"G"])).next()?.map(|(k, bits)| (Key::from(k), bits.to_vec()));
        let Some((key, bits)) = next else { return Ok(None) };
        let marked = key::number(&key, 1).and_then(|chunk| marked_blocks(chunk, &bits, self.device_blocks));
        for block in marked.ok_or_else(|| corrupt("an entry of the map of blocks"))? {
            if !self.alloc.mark((block, 1)) {
                return Err(corrupt(format!("block {block} is in use twice")));
            }
        }
        self.cache.trim();
        Ok(Some(key::after(&key)))
    }

    /// Marks blocks that a log record refers to; false if they are taken.
    pub fn mark_run(&mut self, run: Run) -> bool {
        self.alloc.mark(run)
    }
}
