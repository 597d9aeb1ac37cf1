//! The move of cached entries to the parts of a fragment that is split ([`super::Splits`]).

use super::{Cache, Dir, SlotLink};
use crate::types::Origin;
use fsfmt::DirFrag;
use std::collections::BTreeMap;

impl Cache {
    /// Applies an event about the split of a fragment; false if it is not one that this version makes.
    pub(super) fn refragment(&mut self, dir: DirFrag, bits: i8, is_done: bool, origin: Origin) -> bool {
        let Some(bits) = u32::try_from(bits).ok().filter(|bits| (1..=8).contains(bits)) else { return false };
        if !is_done {
            self.splits.begin(dir, bits, origin.segment);
            return true;
        }
        self.splits.switch(dir, bits, origin.segment);
        self.move_to_parts(dir, bits);
        true
    }

    /// Moves the cached entries of a fragment to its parts, with their marks.
    fn move_to_parts(&mut self, dir: DirFrag, bits: u32) {
        let Some(old) = self.dirs.remove(&dir) else { return };
        assert!(old.commit.is_none(), "the write-back of {dir} has ended before its entries are copied");
        self.dirty_dirs.remove(&dir);
        let Dir { slots, complete, dirty, dirty_since, change, .. } = old;
        let part = || Dir { complete, change, dirty_since, ..Dir::default() };
        let mut parts: BTreeMap<DirFrag, Dir> = dir.parts(bits).map(|to| (to, part())).collect();
        for (key, slot) in slots {
            let to = dir.part_of(key.hash, bits);
            if let SlotLink::Primary(inode) = slot.link(&key)
                && let Some(inode) = self.inodes.get_mut(&inode)
                && let Some((at, name)) = &mut inode.place
                && (*at == dir && *name == key)
            {
                *at = to;
            }
            self.queue.push(to, key.hash, slot.used());
            parts.entry(to).or_insert_with(part).slots.insert(key, slot);
        }
        if stdx::mutants::is_active("mds_forgets_what_changed_during_a_split") {
            self.dirty_entries -= dirty.len();
        } else {
            for key in dirty {
                let to = dir.part_of(key.hash, bits);
                parts.entry(to).or_insert_with(part).dirty.insert(key);
            }
        }
        for (to, d) in parts {
            if !d.dirty.is_empty() {
                self.dirty_dirs.set(to, dirty_since);
            }
            if d.complete || !d.is_idle() {
                self.dirs.insert(to, d);
            }
        }
    }

    /// True if a fragment is one of those that its directory, where it is cached, has at present.
    pub fn is_leaf(&self, dir: DirFrag) -> bool {
        self.inodes.get(&dir.inode()).is_none_or(|inode| inode.data.frag_of(dir.frag.value()) == dir)
    }
}
