//! The move of cached entries to the fragments that take the place of others ([`super::Refragments`]).

use super::{Cache, Dir, SlotLink};
use crate::types::Origin;
use fsfmt::{DirFrag, Refragment};
use std::collections::BTreeMap;

impl Cache {
    /// Applies an event about a change of fragments; false if it is not one that this version makes.
    pub(super) fn refragment(&mut self, dir: DirFrag, bits: i8, is_done: bool, origin: Origin) -> bool {
        let Some(change) = Refragment::of_update(dir, bits) else { return false };
        if !is_done {
            self.refragments.begin(change, origin.segment);
            return true;
        }
        self.refragments.switch(change, origin.segment);
        self.move_entries(change);
        true
    }

    /// Moves the cached entries of the old fragments to the new ones, with their marks.
    fn move_entries(&mut self, change: Refragment) {
        let old: Vec<(DirFrag, Option<Dir>)> =
            change.old().into_iter().map(|dir| (dir, self.dirs.remove(&dir))).collect();
        let fresh = joint_state(&old);
        let mut new: BTreeMap<DirFrag, Dir> = change.new_ones().into_iter().map(|to| (to, fresh())).collect();
        for (from, d) in old.into_iter().filter_map(|(from, d)| Some((from, d?))) {
            assert!(d.commit.is_none(), "the write-back of {from} has ended before its entries are copied");
            self.dirty_dirs.remove(&from);
            let Dir { slots, dirty, .. } = d;
            for (key, slot) in slots {
                let to = change.place_of(key.hash);
                if let SlotLink::Primary(inode) = slot.link(&key)
                    && let Some(inode) = self.inodes.get_mut(&inode)
                    && let Some((at, name)) = &mut inode.place
                    && (*at == from && *name == key)
                {
                    *at = to;
                }
                self.queue.push(to, key.hash, slot.used());
                new.entry(to).or_insert_with(&fresh).slots.insert(key, slot);
            }
            if forgets_changes(change) {
                self.dirty_entries -= dirty.len();
                continue;
            }
            for key in dirty {
                new.entry(change.place_of(key.hash)).or_insert_with(&fresh).dirty.insert(key);
            }
        }
        for (to, d) in new {
            if !d.dirty.is_empty() {
                self.dirty_dirs.set(to, d.dirty_since);
            }
            if d.complete || !d.is_idle() {
                self.dirs.insert(to, d);
            }
        }
    }

    /// True if a fragment is one of those that its directory, where it is cached, has at present.
    pub fn is_leaf(&self, dir: DirFrag) -> bool {
        self.frag_of(dir.ino, dir.frag.value()).is_ok_and(|leaf| leaf == dir)
            || !self.inodes.contains_key(&dir.inode())
    }
}

/// Makes fragments without entries that have what all of the old ones had: they are complete if these were,
/// and have their last change and the oldest one that is not written back.
fn joint_state(old: &[(DirFrag, Option<Dir>)]) -> impl Fn() -> Dir + use<> {
    let complete = old.iter().all(|(_, d)| d.as_ref().is_some_and(|d| d.complete));
    let dirs = || old.iter().filter_map(|(_, d)| d.as_ref());
    let change = dirs().map(|d| d.change).reduce(|a, b| a.joined(b)).unwrap_or_default();
    let dirty_since = dirs().filter(|d| !d.dirty.is_empty()).map(|d| d.dirty_since).min().unwrap_or_default();
    move || Dir { complete, change, dirty_since, ..Dir::default() }
}

/// A planted fault.
fn forgets_changes(change: Refragment) -> bool {
    !change.is_join() && stdx::mutants::is_active("mds_forgets_what_changed_during_a_split")
}
