//! Storage of a PG's records: one object of a private pool for each PG, all in omap entries, changed in the
//! transactions of the objects that they describe (docs/design.md, decision 5).

use super::info::Info;
use super::log::{Dup, Entry, Missing, PgLog};
use super::membership::Members;
use maps::{EVersion, SnapId, Spg};
use std::ops::Range;
use store::{ObjectKey, TxnOp};
use wire::{Decode, DecodeError, Reader, Writer};

/// The private pool of PGs' knowledge.
pub const META_POOL: i64 = -2;
/// The private pool of objects that are only partly here yet.
pub const TEMP_POOL: i64 = -3;

/// The private pool of the pools' indexes of clones.
pub const SNAP_POOL: i64 = -4;

pub const INFO: &[u8] = b"info";
pub const MEMBERS: &[u8] = b"members";
/// The number of the pool's PGs before a split or merge that was decided on and not carried out; stores call
/// it by what came first.
pub const PG_NUM_BEFORE: &[u8] = b"split";
/// A tool has begun to put a copy here and has not ended. It is read before `info`.
pub const IMPORTING: &[u8] = b"importing";
const SCRUB: &[u8] = b"scrub";
const LOG: u8 = b'l';
const DUP: u8 = b'd';
const MISSING: u8 = b'm';

/// The stored records of a PG.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Info of the copy.
    pub info: Info,
    /// Membership of the PG.
    pub members: Members,
    /// Log of the PG.
    pub log: PgLog,
    /// Missing objects of the copy.
    pub missing: Missing,
    /// Number of PGs in its pool when it was to be split or merged; everything here still dates from before.
    pub pg_num_before: Option<u32>,
    /// Record of its scrubs.
    pub scrub: super::scrub::Record,
}

/// The object that holds the knowledge of a PG's shard.
pub fn meta_key(pgid: Spg) -> ObjectKey {
    ObjectKey::private(META_POOL, &pgid.to_string())
}

/// The PG and shard whose knowledge an object holds.
pub fn meta_pgid(key: &ObjectKey) -> Option<Spg> {
    Spg::parse(std::str::from_utf8(&key.name).ok()?)
}

/// Key under which an object is assembled before it is complete.
pub fn temp_key(object: &ObjectKey) -> ObjectKey {
    let mut name = object.pool.to_string().into_bytes();
    for part in [&object.namespace, &object.locator, &object.name] {
        name.push(b'/');
        name.extend_from_slice(part);
    }
    let ObjectKey { shard, snap, hash, .. } = *object;
    ObjectKey { shard, snap, ..ObjectKey::head(TEMP_POOL, hash, b"", b"", &name) }
}

/// Key under which a member keeps pre-shipped parts of an update of this round.
pub fn ahead_key(pgid: Spg, round: u64, version: EVersion) -> ObjectKey {
    // Not to be taken for the name of a [`temp_key`], which begins with a pool.
    ObjectKey::private(TEMP_POOL, &format!("update/{pgid}/{round}/{version}"))
}

/// The object whose omap tells which clones of a pool may show a snapshot. It has each clone that is here
/// under each snapshot that it shows, and may have more: who uses it looks at the head. It is the pool's, so
/// that PGs may split.
pub fn snap_index(pool: i64) -> ObjectKey {
    ObjectKey::private(SNAP_POOL, &pool.to_string())
}

/// Prefix of the entries of a snapshot.
pub fn snap_prefix(snap: SnapId) -> Vec<u8> {
    snap.0.to_be_bytes().to_vec()
}

/// Key before a snapshot's entries for clones at `from` or later: entries are in the order of reversed
/// hashes.
pub fn snap_entries_from(snap: SnapId, from: &ObjectKey) -> Vec<u8> {
    [snap_prefix(snap), from.hash.reverse_bits().to_be_bytes().to_vec()].concat()
}

/// The index's entry for a clone under a snapshot.
pub fn snap_entry(snap: SnapId, clone: &ObjectKey) -> Vec<u8> {
    [snap_entries_from(snap, clone), Writer::encode(clone)].concat()
}

/// The clone of an entry.
pub fn snap_entry_clone(entry: &[u8]) -> Option<ObjectKey> {
    Reader::new(entry.get(12..)?).get().ok()
}

/// The step that enters a clone under these snapshots.
pub fn index_clone(clone: &ObjectKey, snaps: &[SnapId]) -> TxnOp {
    TxnOp::OmapSet(
        snap_index(clone.pool),
        snaps.iter().map(|s| (snap_entry(*s, clone), Vec::new())).collect(),
    )
}

/// The step that takes a clone out from under these snapshots.
pub fn unindex_clone(clone: &ObjectKey, snaps: &[SnapId]) -> TxnOp {
    TxnOp::OmapRemove(snap_index(clone.pool), snaps.iter().map(|s| snap_entry(*s, clone)).collect())
}

fn version_key(prefix: u8, version: EVersion) -> Vec<u8> {
    let mut key = vec![prefix];
    key.extend_from_slice(&version.epoch.0.to_be_bytes());
    key.extend_from_slice(&version.version.to_be_bytes());
    key
}

fn missing_key(object: &ObjectKey) -> Vec<u8> {
    [&[MISSING], &Writer::encode(object)[..]].concat()
}

/// Changes to a PG's stored knowledge, collected for one transaction.
#[derive(Debug, Default)]
pub struct MetaChange {
    set: Vec<(Vec<u8>, Vec<u8>)>,
    remove: Vec<Vec<u8>>,
    clear_log: bool,
}

impl MetaChange {
    /// The copy's description.
    pub fn info(&mut self, info: &Info) {
        self.set.push((INFO.to_vec(), Writer::encode(info)));
    }

    /// Sets the record of scrubs.
    pub fn scrub(&mut self, record: &super::scrub::Record) {
        self.set.push((SCRUB.to_vec(), Writer::encode(record)));
    }

    /// Sets the membership.
    pub fn members(&mut self, members: &Members) {
        self.set.push((MEMBERS.to_vec(), Writer::encode(members)));
    }

    /// Marks the PG for a split or merge, with the number of PGs that its pool had before.
    pub fn pg_num_before(&mut self, pg_num: u32) {
        self.set.push((PG_NUM_BEFORE.to_vec(), Writer::encode(&pg_num)));
    }

    /// It was split: entries, dups and missing objects that are another PG's now are gone, and so is the
    /// mark.
    pub fn split(&mut self, log: &PgLog, missing: &Missing) {
        self.remove.push(PG_NUM_BEFORE.to_vec());
        log.versions().for_each(|version| self.drop_entry(version));
        log.dups().for_each(|d| self.drop_dup(d.version));
        missing.keys().for_each(|object| self.drop_missing(object));
    }

    /// A new entry.
    pub fn add_entry(&mut self, entry: &Entry) {
        self.set.push((version_key(LOG, entry.version), Writer::encode(entry)));
    }

    /// An entry that was cut off or dropped.
    pub fn drop_entry(&mut self, version: EVersion) {
        self.remove.push(version_key(LOG, version));
    }

    /// Adds the remainder of a trimmed entry.
    pub fn add_dup(&mut self, dup: &Dup) {
        self.set.push((version_key(DUP, dup.version), Writer::encode(dup)));
    }

    /// A dup that is forgotten.
    pub fn drop_dup(&mut self, version: EVersion) {
        self.remove.push(version_key(DUP, version));
    }

    /// An object is not here at this version.
    pub fn add_missing(&mut self, object: &ObjectKey, need: EVersion) {
        self.set.push((missing_key(object), Writer::encode(&need)));
    }

    /// An object is here now.
    pub fn drop_missing(&mut self, object: &ObjectKey) {
        self.remove.push(missing_key(object));
    }

    /// Log, dups and missing objects are replaced by these.
    pub fn replace_log(&mut self, log: &PgLog, missing: &Missing) {
        self.clear_log = true;
        log.entries().for_each(|e| self.add_entry(&e));
        log.dups().for_each(|d| self.add_dup(d));
        missing.iter().for_each(|(object, need)| self.add_missing(object, *need));
    }

    /// Makes the stored missing set equal `new`.
    pub fn missing(&mut self, old: &Missing, new: &Missing) {
        old.keys().filter(|o| !new.contains_key(o)).for_each(|o| self.drop_missing(o));
        let changed = new.iter().filter(|(o, need)| old.get(o) != Some(need));
        changed.for_each(|(o, need)| self.add_missing(o, *need));
    }

    /// Appends the changes as steps of a transaction.
    pub fn into_ops(self, pgid: Spg, ops: &mut Vec<TxnOp>) {
        let key = meta_key(pgid);
        if self.clear_log {
            for Range { start, end } in log_records() {
                ops.push(TxnOp::OmapRemoveRange(key.clone(), start, end));
            }
        }
        if !self.remove.is_empty() {
            ops.push(TxnOp::OmapRemove(key.clone(), self.remove));
        }
        if !self.set.is_empty() {
            ops.push(TxnOp::OmapSet(key, self.set));
        }
    }
}

/// Key ranges of log, dups and missing objects; the membership's records lie between them.
fn log_records() -> [Range<Vec<u8>>; 4] {
    let behind_members = [MEMBERS, &[0]].concat();
    [
        vec![LOG]..vec![LOG + 1],
        vec![DUP]..vec![DUP + 1],
        vec![MISSING]..MEMBERS.to_vec(),
        behind_members..vec![MISSING + 1],
    ]
}

/// Reads stored knowledge, page by page in order of keys.
#[derive(Debug, Default)]
pub struct Loader {
    stored: Stored,
    entries: Vec<Entry>,
    dups: Vec<Dup>,
    /// There is only a part of the PG, and what is known of it is not read: its import was begun and has not
    /// ended.
    pub importing: bool,
}

impl Loader {
    /// Takes the next entry.
    pub fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), DecodeError> {
        fn value_of<T: Decode>(value: &[u8]) -> Result<T, DecodeError> {
            Reader::new(value).get()
        }
        match key {
            IMPORTING => self.importing = true,
            // An import that a tool has not finished holds nothing valid.
            _ if self.importing => {}
            INFO => self.stored.info = value_of(value)?,
            MEMBERS => self.stored.members = value_of(value)?,
            PG_NUM_BEFORE => self.stored.pg_num_before = Some(value_of(value)?),
            SCRUB => self.stored.scrub = value_of(value)?,
            [LOG, ..] => self.entries.push(value_of(value)?),
            [DUP, ..] => self.dups.push(value_of(value)?),
            [MISSING, object @ ..] => {
                self.stored.missing.insert(value_of(object)?, value_of(value)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// All of it was read.
    pub fn finish(mut self) -> Stored {
        let Info { log_tail, last_update, .. } = self.stored.info;
        self.stored.log = PgLog::new(log_tail, self.entries, self.dups).known_to(last_update);
        self.stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::log::entry_kind;
    use maps::{Epoch, PgId};

    #[test]
    fn a_log_is_replaced_and_membership_is_not() {
        let falls = |key: &[u8]| log_records().iter().any(|r| r.contains(&key.to_vec()));
        let missing = missing_key(&ObjectKey::head(1, 5, b"", b"", b"o"));
        let logged = version_key(LOG, EVersion::new(Epoch(1), 1));
        assert!(falls(&missing) && falls(&logged) && falls(&version_key(DUP, EVersion::default())));
        assert!(!falls(MEMBERS) && !falls(INFO) && !falls(PG_NUM_BEFORE));
    }

    #[test]
    fn the_entries_of_a_pg_lie_together_in_the_index() {
        let clone = |hash| ObjectKey { snap: 3, ..ObjectKey::head(1, hash, b"", b"", b"o") };
        let entry = snap_entry(SnapId(7), &clone(0b10));
        assert_eq!(snap_entry_clone(&entry), Some(clone(0b10)));
        assert!(snap_entries_from(SnapId(7), &clone(0b10)) < entry);
        assert!(entry < snap_entries_from(SnapId(7), &clone(0b01)), "reversed");
        assert!(entry.starts_with(&snap_prefix(SnapId(7))));
    }

    #[test]
    fn of_a_copy_that_is_only_partly_imported_nothing_is_believed() {
        let mut loader = Loader::default();
        assert!(IMPORTING < INFO && IMPORTING < MEMBERS, "it is read before them");
        for (key, value) in [(IMPORTING, &b"1"[..]), (INFO, b""), (MEMBERS, b"not whole")] {
            loader.take(key, value).expect("nothing is decoded");
        }
        assert!(loader.importing);
        assert_eq!(loader.finish().info, Info::default());
        assert!(Loader::default().take(INFO, b"").is_err(), "what does not know the mark stops there");
    }

    #[test]
    fn what_was_stored_is_loaded() {
        let object = ObjectKey::head(1, 5, b"", b"", b"o");
        let version = EVersion::new(Epoch(300), 7);
        let entry = Entry { version, object: object.clone(), kind: entry_kind::MODIFY, ..Entry::default() };
        let info =
            Info { last_update: version, pgid: Spg { pgid: PgId::new(1, 5), shard: 2 }, ..Info::default() };
        let mut change = MetaChange::default();
        change.info(&info);
        change.add_entry(&entry);
        change.missing(&Missing::new(), &Missing::from([(object.clone(), version)]));
        let mut ops = Vec::new();
        change.into_ops(info.pgid, &mut ops);
        let [TxnOp::OmapSet(key, entries)] = &ops[..] else { panic!("one step: {ops:?}") };
        assert_eq!(meta_pgid(key), Some(info.pgid));
        let mut loader = Loader::default();
        let mut sorted = entries.clone();
        sorted.sort();
        sorted.iter().for_each(|(k, v)| loader.take(k, v).expect("own encoding"));
        let stored = loader.finish();
        assert_eq!((stored.info, stored.log.head(), stored.missing.len()), (info, version, 1));
    }
}
