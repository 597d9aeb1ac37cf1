//! Space: which entries may be proposed, and which writes wait until the store has found out what is left.
//!
//! An entry takes space twice: in the log, and as rows of the state's next checkpoint, which are written
//! before the entry is removed. A committed entry can't be refused any more, so a leader looks before it
//! proposes: at its own store, and at what the others have told it of theirs. It keeps a reserve for what the
//! monitors do by themselves, and for commands that remove something.

use super::{LogEvent, ROW_OVERHEAD_BYTES, RaftLog, rows_len};
use crate::entry::Change;
use crate::state::Row;
use crate::storage::{Space, Storage};
use stdx::Now;
use wire::Writer;

/// The part of the device that keys and values of the reserve take. Until they are in its index the store
/// needs four to five times as much for them, so this is at most 2.5 % of the device: by then `MON_DISK_CRIT`
/// has been told.
const RESERVE_SHARE: u64 = 192;
/// Smallest and largest reserve, in bytes of keys and values.
const RESERVE_BYTES: std::ops::RangeInclusive<u64> = (128 << 10)..=(16 << 20);
/// While more of the device is in use, in thousandths, what a checkpoint of the state removes is given back
/// at once and not with one of the store's next checkpoints.
const SHORT_PERMILLE: u32 = 700;
/// The most bytes of an entry that counts as a removal.
const MAX_REMOVAL_BYTES: u64 = 4 << 10;

/// Fewer bytes that wait for a checkpoint of the state make no difference.
const FEW_BYTES: usize = 16 << 10;

/// An entry for which a store has no space, in bytes of keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoSpace {
    /// What it needs.
    pub needed: u64,
    /// What there is for such entries.
    pub left: u64,
}

impl<S: Storage> RaftLog<S> {
    /// The use of the store's device; not known while it opens.
    pub fn space(&self) -> Space {
        if self.raft.is_some() { self.store.space() } else { Space::default() }
    }

    /// Looks if an entry with these changes fits the own store and one with `left` bytes of keys and values
    /// left, which holds the same.
    pub fn fits(&self, changes: &[Change], left: u64) -> Result<(), NoSpace> {
        if changes.iter().all(is_note) {
            return Ok(());
        }
        let space = self.space();
        let left = left.min(space.left);
        let bytes: u64 = changes.iter().map(|change| Writer::encode(change).len() as u64).sum();
        let removes = bytes <= MAX_REMOVAL_BYTES && changes.iter().any(is_removal);
        let reserve = (space.total / RESERVE_SHARE).clamp(*RESERVE_BYTES.start(), *RESERVE_BYTES.end());
        let left = if removes { left } else { left.saturating_sub(reserve) };
        // Usually there is far more than even a whole state takes.
        if left / 4 > space.stored + bytes {
            return Ok(());
        }
        let needed = self.needed(bytes + ROW_OVERHEAD_BYTES as u64);
        if needed <= left { Ok(()) } else { Err(NoSpace { needed, left }) }
    }

    /// Finds out what space there is once the last entries are part of a checkpoint, which comes with the
    /// next entry.
    pub fn make_space(&mut self) {
        self.wants_checkpoint |= self.dirty_bytes > FEW_BYTES;
    }

    /// Bytes of keys and values that are written until an entry of `bytes` is part of a checkpoint.
    fn needed(&self, bytes: u64) -> u64 {
        let raft = self.raft.as_ref();
        let waiting = raft.map_or(0, |raft| {
            let entries = (self.state.version + 1..=raft.last().index).filter_map(|index| raft.entry(index));
            entries.map(|entry| (entry.data.len() + ROW_OVERHEAD_BYTES) as u64).sum()
        });
        let rows = self.rows_bytes(self.tail.common_rows());
        let one_checkpoint = rows + bytes + self.piece_bytes() as u64 / 2;
        let whole = if one_checkpoint > self.checkpoint_bytes() as u64 { self.space().stored } else { 0 };
        2 * (waiting + bytes) + self.dirty_bytes as u64 + rows + whole
    }

    /// Bytes that these rows take in a checkpoint.
    fn rows_bytes(&self, rows: impl IntoIterator<Item = Row>) -> u64 {
        let values = rows.into_iter().filter_map(|row| Some((row.key(), self.tail.row(&row)?)));
        rows_len(&values.collect::<Vec<_>>()) as u64
    }

    /// Bytes of what changes replace or remove, as far as users decide how much that is.
    pub(super) fn replaced_bytes(&self, changes: &[Change]) -> usize {
        let replaced = changes.iter().filter_map(|change| match change {
            Change::Kv(key, _) => self.state.kv.get(key),
            _ => None,
        });
        replaced.map(Vec::len).sum()
    }

    /// True if the next write has to wait: it would not fit, and the store may find space meanwhile.
    pub(super) fn waits_for_space(&mut self, now: Now, events: &mut Vec<LogEvent>) -> bool {
        if !self.lacks_space() {
            return false;
        }
        let mut out = Vec::new();
        self.store.make_space(&mut out);
        self.store_outs(now, out, events);
        self.lacks_space()
    }

    fn lacks_space(&self) -> bool {
        let space = self.space();
        space.may_grow && space.left / 4 <= space.stored && self.needed(0) > space.left
    }

    /// Lets the store find out what a checkpoint of the state has left, if there is little.
    pub(super) fn give_space_back(&mut self, now: Now, events: &mut Vec<LogEvent>) {
        if self.space().used_permille() >= SHORT_PERMILLE {
            let mut out = Vec::new();
            self.store.make_space(&mut out);
            self.store_outs(now, out, events);
        }
    }
}

/// True if a change only notes a command's outcome, in place of an older one's.
fn is_note(change: &Change) -> bool {
    matches!(change, Change::Done(..) | Change::Refused(..))
}

/// True if a change leaves less behind than there was.
fn is_removal(change: &Change) -> bool {
    matches!(
        change,
        Change::Kv(_, None) | Change::Config(_, _, None) | Change::Auth(_, None) | Change::Metadata(_, None)
    )
}
