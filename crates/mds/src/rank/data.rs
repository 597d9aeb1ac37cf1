//! Work on files' data objects: what a truncation cuts off, and everything of a file that has neither a name nor a cap.
//! Both are in the journal before they begin (`truncate_from`, the stray entry), so that a crash only repeats them.

use super::{Rank, Stage};
use crate::cache::DataWork;
use crate::io::{IoWhy, ObjOp, ObjectId};
use fsfmt::{DirFrag, Ino, InodeData, InodeKey, Update, names};
use maps::FileLayout;

/// Objects of one file that are worked on at once.
const PARALLEL: u32 = 8;
/// Files that are worked on at once.
const FILES: usize = 32;

/// Objects of a file that has `size` bytes: all numbers below this.
fn object_count(layout: &FileLayout, size: u64) -> u64 {
    let (object, stripes) = (u64::from(layout.object_size.max(1)), u64::from(layout.stripe_count.max(1)));
    // A set of `stripes` objects fills together.
    size.div_ceil(object * stripes) * stripes
}

/// Bytes of object `number` that belong to the first `size` bytes of a file.
fn object_size(layout: &FileLayout, number: u64, size: u64) -> u64 {
    let (object, unit) = (u64::from(layout.object_size), u64::from(layout.stripe_unit));
    let stripes = u64::from(layout.stripe_count);
    let (set, position) = (number / stripes, number % stripes);
    let in_set = size.saturating_sub(set * object * stripes).min(object * stripes);
    let (whole, rest) = (in_set / (unit * stripes), in_set % (unit * stripes));
    whole * unit + rest.saturating_sub(position * unit).min(unit)
}

impl Rank {
    /// Starts what is due. Not before all clients are back: what has no name may be open, and its caps not claimed yet.
    pub(super) fn start_data_work(&mut self) {
        if self.stage != Stage::Active {
            return;
        }
        if self.purges.len() < FILES
            && let Some(after) = self.stray_next.take()
        {
            self.load_strays(after);
        }
        let durable = self.journal.durable;
        let mut started = 0;
        let mut due: Vec<InodeKey> = self.truncations.iter().copied().collect();
        // A client that is missing may have a removed file open.
        if self.missing.is_empty() {
            due.extend(self.purges.difference(&self.truncations));
        }
        for ino in due {
            if started >= FILES {
                break;
            }
            let Some(inode) = self.cache.inodes.get(&ino) else {
                self.forget_data_work(ino);
                continue;
            };
            if inode.data_work.is_some() {
                started += 1;
                continue;
            }
            if inode.lsn > durable {
                continue;
            }
            let Some(work) = self.due_work(ino) else {
                if inode.data.truncate_from == 0 && inode.data.nlink > 0 {
                    self.forget_data_work(ino);
                }
                continue;
            };
            if inode.data.is_dir() && self.cache.has_commit(ino.ino) {
                continue;
            }
            if let Some(inode) = self.cache.inodes.get_mut(&ino) {
                inode.data_work = Some(work);
            }
            started += 1;
            self.advance_data_work(ino);
        }
    }

    fn forget_data_work(&mut self, ino: InodeKey) {
        self.purges.remove(&ino);
        self.truncations.remove(&ino);
    }

    /// What is to be done about a file's objects now.
    fn due_work(&self, ino: InodeKey) -> Option<DataWork> {
        let inode = self.cache.inodes.get(&ino)?;
        let data = &inode.data;
        let stray = inode.place.as_ref().is_some_and(|(dir, _)| dir.ino == Ino::stray(self.cfg.rank));
        if stray && data.nlink == 0 && inode.is_idle() && self.missing.is_empty() {
            let end = if data.is_file() {
                object_count(&data.layout, data.max_size_ever.max(data.size))
            } else {
                // One object for each fragment.
                data.fragtree.leaves().len() as u64
            };
            return Some(DataWork::Purge { next: 0, end, in_flight: 0 });
        }
        if data.truncate_from == 0 {
            return None;
        }
        let stripes = u64::from(data.layout.stripe_count.max(1));
        let set = u64::from(data.layout.object_size.max(1)) * stripes;
        let end = object_count(&data.layout, data.truncate_from);
        Some(DataWork::Truncate { next: data.size / set * stripes, end, in_flight: 0 })
    }

    /// Issues further object operations, or ends the work.
    fn advance_data_work(&mut self, ino: InodeKey) {
        loop {
            let Some(inode) = self.cache.inodes.get_mut(&ino) else { return };
            let data = &inode.data;
            let (next, end, in_flight, purge) = match &mut inode.data_work {
                Some(DataWork::Truncate { next, end, in_flight }) => (next, *end, in_flight, false),
                Some(DataWork::Purge { next, end, in_flight }) => (next, *end, in_flight, true),
                None => return,
            };
            if *next >= end {
                if *in_flight == 0 {
                    self.end_data_work(ino, purge);
                }
                return;
            }
            if *in_flight >= PARALLEL {
                return;
            }
            let number = *next;
            *next += 1;
            *in_flight += 1;
            let (object, op) = Self::data_op(data, number, purge, self.cfg.metadata_pool);
            self.start_io(object, vec![op], IoWhy::Data(ino));
        }
    }

    fn data_op(data: &InodeData, number: u64, purge: bool, metadata_pool: i64) -> (ObjectId, ObjOp) {
        if data.is_dir() {
            let frag = data.fragtree.leaves()[number as usize];
            let name = names::dir_object(DirFrag { ino: data.ino, frag });
            return (ObjectId { pool: metadata_pool, ns: String::new(), name }, ObjOp::Delete);
        }
        let layout = &data.layout;
        let object = ObjectId {
            pool: layout.pool,
            ns: layout.pool_ns.clone(),
            name: names::data_object(data.ino, number),
        };
        let keep = if purge { 0 } else { object_size(layout, number, data.size) };
        (object, if keep == 0 { ObjOp::Delete } else { ObjOp::Truncate(keep) })
    }

    /// One object operation has ended; that the object was not there is as good.
    pub(super) fn data_done(&mut self, ino: InodeKey) {
        if let Some(inode) = self.cache.inodes.get_mut(&ino) {
            match &mut inode.data_work {
                Some(DataWork::Truncate { in_flight, .. } | DataWork::Purge { in_flight, .. }) => {
                    *in_flight -= 1
                }
                None => {}
            }
        }
        self.advance_data_work(ino);
    }

    fn end_data_work(&mut self, ino: InodeKey, purge: bool) {
        self.truncations.remove(&ino);
        let Some(inode) = self.cache.inodes.get_mut(&ino) else { return };
        inode.data_work = None;
        if purge {
            let (dir, key) = inode.place.clone().expect("a purged inode is a stray");
            let updates = vec![Update::Dentry { dir, key, value: None }, Update::Forget { ino: ino.ino }];
            self.commit_event("purge", updates);
            self.purges.remove(&ino);
            self.unaccounted.remove(&ino);
            return;
        }
        let mut data = inode.data.clone();
        data.truncate_from = 0;
        self.put_inode("truncated", data, Vec::new());
        self.caps_changed(ino);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_a_size_are_those_that_striping_uses() {
        let layout = FileLayout {
            stripe_unit: 64 << 10,
            stripe_count: 3,
            object_size: 256 << 10,
            ..FileLayout::new(1)
        };
        for size in [0u64, 1, 65_536, 65_537, 200_000, 786_432, 786_433, 5_000_000] {
            // A naive model: walk the bytes' last positions unit by unit.
            let mut model: Vec<u64> = Vec::new();
            let mut at = 0;
            while at < size {
                let len = (size - at).min(65_536);
                let block = at / 65_536;
                let (stripe, position) = (block / 3, block % 3);
                let (set, in_object) = (stripe / 4, stripe % 4);
                let number = (set * 3 + position) as usize;
                model.resize(model.len().max(number + 1), 0);
                model[number] = in_object * 65_536 + len;
                at += len;
            }
            let count = object_count(&layout, size);
            assert!(count >= model.len() as u64 && count < model.len() as u64 + 3, "{size}");
            for number in 0..count {
                let want = model.get(number as usize).copied().unwrap_or(0);
                assert_eq!(object_size(&layout, number, size), want, "size {size}, object {number}");
            }
        }
    }
}
