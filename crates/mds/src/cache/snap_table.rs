//! The table of all snapshots.

use crate::dirty::DirtyIndex;
use crate::types::{Lsn, Segment};
use fsfmt::{SnapRecord, SnapTable, Update, snap_key, snap_state};
use maps::SnapId;
use std::collections::BTreeMap;
use wire::{DecodeError, Reader, Writer};

/// The omap key of the table's head.
const HEAD_KEY: &[u8] = b"head";
/// The head's number among the changed items of the table: no snapshot has it.
const HEAD_ITEM: SnapId = SnapId(0);

/// The write-back of the table: entries to set, and keys to remove.
pub type TableChanges = (BTreeMap<Vec<u8>, Vec<u8>>, Vec<Vec<u8>>);

/// The table of snapshots.
///
/// Invariants: no id is given out twice; what was changed is dirty or in a write-back until it is stored.
#[derive(Default)]
pub struct Snaps {
    head: SnapTable,
    records: BTreeMap<SnapId, SnapRecord>,
    /// The last event that took an id.
    lsn: Lsn,
    dirty: DirtyIndex<SnapId>,
    committing: DirtyIndex<SnapId>,
    /// The version that is stored.
    stored: u64,
    /// The version that is being stored.
    storing: u64,
    others_wait: bool,
    is_fenced: bool,
}

impl Snaps {
    /// The last id that a creation, a removal or a move between realms took; 0 before the first.
    pub fn last(&self) -> SnapId {
        self.head.last_created.max(self.head.last_removed)
    }

    /// Number of changes of the table.
    pub fn version(&self) -> u64 {
        self.head.version
    }

    /// The version that others can read. It has all changes of which the events have expired.
    pub fn stored_version(&self) -> u64 {
        self.stored
    }

    /// The first snapshot that contains what is made now; 0 before the first snapshot.
    pub fn next_first(&self) -> SnapId {
        match self.last() {
            SnapId(0) => SnapId(0),
            SnapId(last) => SnapId(last + 1),
        }
    }

    /// A snapshot in use.
    pub fn live(&self, snap: SnapId) -> Option<&SnapRecord> {
        self.records.get(&snap).filter(|record| record.state == snap_state::LIVE)
    }

    /// All snapshots in use.
    pub fn all_live(&self) -> impl DoubleEndedIterator<Item = SnapId> {
        self.records.iter().filter(|(_, record)| record.state == snap_state::LIVE).map(|(snap, _)| *snap)
    }

    /// The last event that took an id: a removal is not to be acted on before it is durable.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Removed snapshots whose states are being trimmed.
    pub fn trimming(&self) -> impl Iterator<Item = (SnapId, &SnapRecord)> {
        let is_trimming = |(_, record): &(&SnapId, &SnapRecord)| record.state == snap_state::TRIMMING;
        self.records.iter().filter(is_trimming).map(|(snap, record)| (*snap, record))
    }

    /// The update of the table's head after `id` was taken by a creation, or by another change of a realm.
    pub fn take(&self, id: SnapId, is_creation: bool) -> Update {
        let mut table = self.head.clone();
        table.version += 1;
        let last = if is_creation { &mut table.last_created } else { &mut table.last_removed };
        *last = id.max(*last);
        Update::SnapHead { table: Box::new(table) }
    }

    /// Applies an event's change of the table; gives other updates back.
    pub(super) fn apply(&mut self, update: Update, lsn: Lsn, segment: Segment) -> Option<Update> {
        match update {
            Update::Snapshot { snap, record } => {
                match record {
                    Some(record) => drop(self.records.insert(snap, *record)),
                    None => drop(self.records.remove(&snap)),
                }
                self.dirty.mark(snap, segment);
            }
            Update::SnapHead { table } => {
                self.lsn = lsn;
                self.head = *table;
                self.dirty.mark(HEAD_ITEM, segment);
            }
            other => return Some(other),
        }
        None
    }

    /// Takes in stored entries of the table; gives the last key.
    pub fn load(&mut self, entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Option<Vec<u8>>, DecodeError> {
        for (key, value) in entries {
            if key == HEAD_KEY {
                self.head = Reader::new(value).get()?;
                self.stored = self.head.version;
            } else if let Some(snap) =
                std::str::from_utf8(key).ok().and_then(|k| u64::from_str_radix(k, 16).ok())
            {
                self.records.insert(SnapId(snap), Reader::new(value).get()?);
            }
        }
        Ok(entries.keys().next_back().cloned())
    }

    /// Takes in which version is stored: somebody else has served this rank, rank 0.
    pub fn note_stored_version(&mut self, entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), DecodeError> {
        if let Some(head) = entries.get(HEAD_KEY) {
            self.stored = Reader::new(head).get::<SnapTable>()?.version;
        }
        Ok(())
    }

    /// Takes in the stored table again: rank 0 has changed it.
    pub fn renew(&mut self, entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), DecodeError> {
        assert!(self.first_needed().is_none(), "only rank 0 changes the table");
        let mut renewed = Self { lsn: self.lsn, is_fenced: self.is_fenced, ..Self::default() };
        renewed.load(entries)?;
        *self = renewed;
        Ok(())
    }

    /// True while rank 0, this rank, may change the table, because all others wait.
    pub fn others_wait(&self) -> bool {
        self.others_wait
    }

    /// Says whether all other ranks wait.
    pub fn set_others_wait(&mut self, others_wait: bool) {
        self.others_wait = others_wait;
    }

    /// True while rank 0, another rank, may change the table. Files with several names wait, of which all
    /// snapshots count.
    pub fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// Says whether rank 0, another rank, may change the table.
    pub fn set_fenced(&mut self, is_fenced: bool) {
        self.is_fenced = is_fenced;
    }

    /// The oldest segment with a change that is not stored.
    pub fn first_needed(&self) -> Option<Segment> {
        self.dirty.oldest().into_iter().chain(self.committing.oldest()).min()
    }

    /// Somebody else has stored what segments before `segment` changed.
    pub fn note_stored(&mut self, segment: Segment) {
        self.dirty.raise(segment);
    }

    /// Begins the write-back of all changes: entries to set, and keys to remove.
    pub fn begin_commit(&mut self) -> TableChanges {
        assert!(self.committing.is_empty(), "one write-back of the table at a time");
        self.committing = std::mem::take(&mut self.dirty);
        self.storing = self.head.version;
        let (mut set, mut remove) = (BTreeMap::new(), Vec::new());
        for snap in self.committing.keys() {
            match self.records.get(snap) {
                _ if *snap == HEAD_ITEM => drop(set.insert(HEAD_KEY.to_vec(), Writer::encode(&self.head))),
                Some(record) => drop(set.insert(snap_key(*snap), Writer::encode(record))),
                None => remove.push(snap_key(*snap)),
            }
        }
        (set, remove)
    }

    /// Ends a write-back.
    pub fn end_commit(&mut self) {
        self.committing.clear();
        self.stored = self.storing;
    }
}
