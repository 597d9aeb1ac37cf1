//! Cache trimming: entries that no run has used for a while are evicted, unless changed or held, or not
//! counted in the directories above yet.

use super::size::{Counts, extra_of_name};
use super::{Cache, Slot, SlotLink, queue};
use crate::authority::Hold;
use crate::config::MdsOptions;
use crate::types::Place;
use fsfmt::{DirFrag, Ino, InodeData};

/// Size of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Number of inodes.
    pub inodes: usize,
    /// Entries, names known to be absent included.
    pub entries: usize,
    /// Directories of which something is cached.
    pub dirs: usize,
    /// Capabilities that clients hold.
    pub capabilities: usize,
    /// Bytes of memory.
    pub bytes: u64,
}

/// The entries that stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    /// Those used since this run.
    pub since: u64,
    /// Those of inodes whose statistics the directory above does not count yet.
    pub uncounted: bool,
}

impl Cache {
    /// Current size.
    pub fn stats(&self) -> Stats {
        let counts = self.counts();
        Stats {
            inodes: counts.inodes,
            entries: counts.entries,
            dirs: counts.dirs,
            capabilities: self.size.held(),
            bytes: self.size.bytes(counts),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts { entries: self.entries, inodes: self.inodes.len(), dirs: self.dirs.len() }
    }

    /// Looks how many entries fit the limits, with `held` capabilities of all clients.
    pub fn look(&mut self, options: &MdsOptions, held: usize) {
        self.size.look(options, self.counts(), held);
    }

    /// The number of entries that fit, as of the last look.
    pub fn most_entries(&self) -> usize {
        self.size.most()
    }

    /// The number of entries that clients may pin, as of the last look.
    pub fn most_held(&self) -> usize {
        self.size.most_held()
    }

    /// Forgets what trimming would examine in vain.
    pub fn limit_queue(&mut self) {
        self.queue.limit(self.entries, &self.dirs);
    }

    /// Evicts entries until no more are left than fit, or all were examined; those to `keep`, and changed
    /// and held ones, stay. Examines a few more entries than were added since the last call: clients may hold
    /// everything, and then examining all of it at each input would cost far more than the inputs themselves.
    pub fn trim(&mut self, keep: Keep) {
        let looks = 4 * std::mem::take(&mut self.fresh) + 16;
        self.trim_some(keep, looks);
    }

    /// Like [`Self::trim`], but examines up to `looks` entries: those that clients have given up since are
    /// evicted without waiting for new ones.
    pub fn trim_some(&mut self, keep: Keep, looks: usize) {
        for _ in 0..looks.min(self.queue.len()) {
            if self.entries <= self.most_entries() {
                return;
            }
            let Some((dir, hash, seen)) = self.queue.pop() else { return };
            if let Some(used) = self.trim_hash(dir, hash, seen, keep) {
                self.queue.push(dir, hash, used);
            }
        }
    }

    /// Evicts the entries of a hash that no run has used after `seen`; returns the last run that used one of
    /// the others, if any stay.
    fn trim_hash(&mut self, dir: DirFrag, hash: u32, seen: u64, keep: Keep) -> Option<u64> {
        let mut kept = None;
        for key in queue::keys_of(self.dirs.get(&dir)?, hash) {
            let place = (dir, key);
            let used = self.slot(dir, &place.1).map(Slot::used);
            if used.is_some_and(|used| used > seen) || !self.can_drop(&place, keep) {
                kept = kept.max(used);
            } else {
                self.drop_entry(&place);
            }
        }
        kept
    }

    fn can_drop(&self, (dir, key): &Place, keep: Keep) -> bool {
        let Some(d) = self.dirs.get(dir) else { return false };
        let Some(slot) = d.slots.get(key) else { return false };
        if self.replicas.keeps(dir.ino) || self.replicas.is_given(dir.ino) {
            return false;
        }
        if slot.used() >= keep.since || d.is_dirty(key) {
            return false;
        }
        let SlotLink::Primary(ino) = slot.link(key) else { return true };
        if self.subtrees.hold(ino.ino).is_some_and(|hold| !matches!(hold, Hold::Foreign(_))) {
            return false;
        }
        let is_ours = |root: Ino| !matches!(self.subtrees.hold(root), Some(Hold::Foreign(_)));
        if self.subtrees.shards_of(ino.ino).any(is_ours) {
            return false;
        }
        // Directories of the rank's own count nothing.
        let counts = ino.is_head() && (!dir.ino.is_base() || dir.ino == Ino::ROOT);
        let is_counted = |data: &InodeData| !keep.uncounted || !counts || data.rstat == data.accounted;
        // An inode without a name is about to be purged.
        let idle = self.inodes.get(&ino).is_none_or(|i| {
            i.is_idle() && i.data.nlink > 0 && i.data.truncate_from == 0 && is_counted(&i.data)
        });
        idle && !self.locks.is_locked(ino)
            && (!ino.is_head() || self.dirs.range(DirFrag::all_of(ino.ino)).all(|(_, d)| d.is_idle()))
    }

    fn drop_entry(&mut self, (dir, key): &Place) {
        let Some(d) = self.dirs.get_mut(dir) else { return };
        let Some(slot) = d.slots.remove(key) else { return };
        self.entries -= 1;
        self.size.remove(extra_of_name(key));
        if !slot.is_null() {
            d.note_gap(key);
        }
        if d.is_idle() && !d.complete {
            self.dirs.remove(dir);
        }
        if let SlotLink::Primary(ino) = slot.link(key) {
            self.remove_inode(ino);
            if !ino.is_head() {
                return;
            }
            // Only an idle fragment gets here: at most the knowledge that it is empty is lost.
            let frags: Vec<DirFrag> =
                self.dirs.range(DirFrag::all_of(ino.ino)).map(|(dir, _)| *dir).collect();
            frags.iter().for_each(|dir| drop(self.dirs.remove(dir)));
        }
    }
}
