//! LIST_SNAPS and ROLLBACK, and the effects of a vector on an object's clones.

use super::exec::Exec;
use super::load::Loaded;
use super::outcome::Outcome;
use super::result::{OpOutput, done, output};
use super::source::Source;
use crate::object::{INFO_ATTR, ObjectInfo, at_snap};
use crate::snapset::{SnapContext, SnapSet};
use crate::watch::WATCH_ATTR;
use maps::{EVersion, IntervalSet, SnapId};
use msgs::op::input::{CloneInfo, ListSnapsReply};
use store::{ObjectKey, TxnOp};
use wire::Errno;

/// Changes to snapshots that accompany a vector's changes.
#[derive(Debug, Default)]
pub struct Preserved {
    /// The new clone: its id, and the snapshots that it shows.
    pub clone: Option<(SnapId, Vec<SnapId>)>,
    /// Change of the bytes that clones hold beyond shared ones.
    pub bytes: i64,
}

impl Exec<'_> {
    /// Lists clones from the oldest on, then the head, unless it was deleted.
    pub(super) fn list_snaps(&mut self) -> Result<OpOutput, Errno> {
        if !self.loaded.stored {
            return Err(Errno::ENOENT);
        }
        let set = &self.loaded.info.snapset;
        let clones = set.clones.iter().map(|c| CloneInfo {
            cloneid: c.id,
            snaps: c.snaps.clone(),
            overlap: c.overlap.clone(),
            size: c.size,
        });
        let head = CloneInfo { cloneid: SnapId::HEAD, size: self.size, ..CloneInfo::default() };
        let clones = clones.chain(self.exists.then_some(head)).collect();
        output(&ListSnapsReply { clones, seq: set.seq })
    }

    /// Restores the object's state at a snapshot.
    pub(super) fn rollback(&mut self, i: usize) -> Result<OpOutput, Errno> {
        match self.loaded.sources.get(&i) {
            Some(Source::Head) => self.modified |= self.exists,
            Some(Source::Clone(id, size)) => {
                self.exists = true;
                self.size = *size;
                self.txn.push(TxnOp::Clone(at_snap(self.key, id.0), self.key.clone()));
                self.modified = true;
                if !self.watches.is_empty() {
                    // Watches belong to the head, not to its content.
                    self.store_watches();
                }
            }
            Some(Source::Nothing) | None if !self.watches.is_empty() => return Err(Errno::EBUSY),
            Some(Source::Nothing) | None if self.exists => return self.delete(),
            Some(Source::Nothing) | None => {}
        }
        done()
    }
}

impl Outcome {
    /// Keeps the previous state as a clone if the context has snapshots that the object does not know;
    /// records which ranges the clones no longer share with the head; and keeps a deleted head with clones as
    /// a whiteout.
    pub fn preserve(
        &mut self,
        key: &ObjectKey,
        loaded: &Loaded,
        context: &SnapContext,
        version: EVersion,
    ) -> Preserved {
        let mut set = loaded.info.snapset.clone();
        let before = set.bytes();
        let mut made = Preserved::default();
        let clones =
            loaded.exists && set.is_behind(context) && !stdx::mutants::is_active("osd_makes_no_clone");
        let changed = match clones || !set.clones.is_empty() {
            true => changed_ranges(&self.txn, key, loaded.size, &set),
            false => IntervalSet::new(),
        };
        if clones {
            let clone = set.add_clone(context, version, loaded.size);
            let to = at_snap(key, clone.id.0);
            let info = ObjectInfo {
                version,
                user_version: loaded.info.user_version,
                mtime: loaded.info.mtime,
                truncate_seq: loaded.info.truncate_seq,
                truncate_size: loaded.info.truncate_size,
                snaps: clone.snaps.clone(),
                ..ObjectInfo::default()
            };
            made.clone = Some((clone.id, clone.snaps.clone()));
            let mut steps = vec![TxnOp::Clone(key.clone(), to.clone()), info_op(to.clone(), &info)];
            if !loaded.watches.is_empty() {
                steps.push(TxnOp::RemoveAttr(to, WATCH_ATTR.to_vec()));
            }
            self.txn.splice(0..0, steps);
        }
        set.head_changed(&changed);
        set.seq = set.seq.max(context.seq);
        made.bytes = set.bytes() as i64 - before as i64;
        self.info.whiteout = !self.exists && !set.clones.is_empty();
        if self.info.whiteout {
            self.txn.push(TxnOp::Touch(key.clone()));
        }
        self.info.snapset = set;
        made
    }

    /// True if the store holds anything of the object afterwards.
    pub fn stored(&self) -> bool {
        self.exists || self.info.whiteout
    }
}

/// The step that stores an object's info.
pub fn info_op(key: ObjectKey, info: &ObjectInfo) -> TxnOp {
    TxnOp::SetAttr(key, INFO_ATTR.to_vec(), info.to_bytes())
}

/// The ranges of the head that a transaction changes; bytes after its end do not count.
fn changed_ranges(txn: &[TxnOp], key: &ObjectKey, size: u64, set: &SnapSet) -> IntervalSet {
    let (mut changed, mut size) = (IntervalSet::new(), size);
    for op in txn {
        match op {
            TxnOp::Write(to, off, data) if to == key => {
                changed.insert(*off, data.len() as u64);
                size = size.max(off + data.len() as u64);
            }
            TxnOp::Zero(to, off, len) | TxnOp::CloneRange(_, to, _, len, off) if to == key => {
                changed.insert(*off, *len);
                size = size.max(off + len);
            }
            TxnOp::Truncate(to, end) if to == key => {
                changed.insert(*end, size.saturating_sub(*end));
                size = *end;
            }
            TxnOp::Remove(to) if to == key => {
                changed.insert(0, size);
                size = 0;
            }
            TxnOp::Clone(from, to) if to == key => {
                let mut lost = IntervalSet::new();
                lost.insert(0, size);
                lost.subtract(&set.shared_with_head(SnapId(from.snap)));
                changed.union_of(&lost);
                size = set.clones.iter().find(|c| c.id.0 == from.snap).map_or(size, |c| c.size);
            }
            TxnOp::Rename(_, to) if to == key => changed.insert(0, size.max(1)),
            _ => {}
        }
    }
    changed
}
