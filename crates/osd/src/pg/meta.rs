//! How a PG's knowledge is stored: one object of a private pool for each PG, everything as omap entries, changed in the
//! transactions of the objects that it tells of (DESIGN, decision 5).

use super::info::{Info, Interval};
use super::log::{Dup, Entry, Missing, PgLog};
use maps::{EVersion, Epoch, OsdId, PgId, SnapId};
use store::{ObjectKey, TxnOp};
use wire::{Decode, DecodeError, Reader, Writer, wire_structs};

/// The private pool of PGs' knowledge.
pub const META_POOL: i64 = -2;
/// The private pool of objects that are only partly here yet.
pub const TEMP_POOL: i64 = -3;

/// The private pool of the PGs' indexes of clones.
pub const SNAP_POOL: i64 = -4;

pub const INFO: &[u8] = b"info";
pub const MEMBERS: &[u8] = b"members";
const LOG: u8 = b'l';
const DUP: u8 = b'd';
const MISSING: u8 = b'm';

wire_structs! {
    /// Who served the PG when, up to the newest map that was acted on.
    pub struct Members[v 1/1] {
        /// The present interval began at this epoch.
        pub interval: Epoch,
        /// Where CRUSH wants it.
        pub up: Vec<OsdId>,
        /// Who serves it, the primary first.
        pub acting: Vec<OsdId>,
        /// Since when each of `acting` is up: a restart begins a new interval.
        pub up_from: Vec<Epoch>,
        /// The pool's replicas wanted.
        pub size: u8,
        /// Below so many replicas the PG does not serve.
        pub min_size: u8,
        /// Earlier intervals, since the PG was last clean.
        pub past: Vec<Interval>,
    }
}

/// What was stored of one PG.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// The copy.
    pub info: Info,
    /// Who served it.
    pub members: Members,
    /// Its log.
    pub log: PgLog,
    /// What it lacks.
    pub missing: Missing,
}

/// The object that holds the knowledge of `pgid`.
pub fn meta_key(pgid: PgId) -> ObjectKey {
    ObjectKey::private(META_POOL, &pgid.to_string())
}

/// The PG whose knowledge an object holds.
pub fn meta_pgid(key: &ObjectKey) -> Option<PgId> {
    PgId::parse(std::str::from_utf8(&key.name).ok()?)
}

/// Where an object is put together before it is complete.
pub fn temp_key(object: &ObjectKey) -> ObjectKey {
    let mut name = object.pool.to_string().into_bytes();
    for part in [&object.namespace, &object.locator, &object.name] {
        name.push(b'/');
        name.extend_from_slice(part);
    }
    ObjectKey { snap: object.snap, ..ObjectKey::head(TEMP_POOL, object.hash, b"", b"", &name) }
}

/// The object whose omap tells which clones of a PG may show a snapshot. It has each clone that is here under each snapshot that
/// it shows, and may have more: who uses it looks at the head.
pub fn snap_index(pgid: PgId) -> ObjectKey {
    ObjectKey::private(SNAP_POOL, &pgid.to_string())
}

/// Where the entries of a snapshot begin.
pub fn snap_prefix(snap: SnapId) -> Vec<u8> {
    snap.0.to_be_bytes().to_vec()
}

/// The index's entry for a clone under a snapshot.
pub fn snap_entry(snap: SnapId, clone: &ObjectKey) -> Vec<u8> {
    [snap_prefix(snap), Writer::encode(clone)].concat()
}

/// The clone of an entry.
pub fn snap_entry_clone(entry: &[u8]) -> Option<ObjectKey> {
    Reader::new(entry.get(8..)?).get().ok()
}

/// The step that enters a clone under these snapshots.
pub fn index_clone(pgid: PgId, clone: &ObjectKey, snaps: &[SnapId]) -> TxnOp {
    TxnOp::OmapSet(snap_index(pgid), snaps.iter().map(|s| (snap_entry(*s, clone), Vec::new())).collect())
}

/// The step that takes a clone out from under these snapshots.
pub fn unindex_clone(pgid: PgId, clone: &ObjectKey, snaps: &[SnapId]) -> TxnOp {
    TxnOp::OmapRemove(snap_index(pgid), snaps.iter().map(|s| snap_entry(*s, clone)).collect())
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

    /// The membership.
    pub fn members(&mut self, members: &Members) {
        self.set.push((MEMBERS.to_vec(), Writer::encode(members)));
    }

    /// A new entry.
    pub fn add_entry(&mut self, entry: &Entry) {
        self.set.push((version_key(LOG, entry.version), Writer::encode(entry)));
    }

    /// An entry that was cut off or dropped.
    pub fn drop_entry(&mut self, version: EVersion) {
        self.remove.push(version_key(LOG, version));
    }

    /// What remains of a cut-off entry.
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
        log.entries().for_each(|e| self.add_entry(e));
        log.dups().for_each(|d| self.add_dup(d));
        missing.iter().for_each(|(object, need)| self.add_missing(object, *need));
    }

    /// Makes the stored missing set equal `new`.
    pub fn missing(&mut self, old: &Missing, new: &Missing) {
        old.keys().filter(|o| !new.contains_key(o)).for_each(|o| self.drop_missing(o));
        let changed = new.iter().filter(|(o, need)| old.get(o) != Some(need));
        changed.for_each(|(o, need)| self.add_missing(o, *need));
    }

    /// As steps of a transaction.
    pub fn into_ops(self, pgid: PgId, ops: &mut Vec<TxnOp>) {
        let key = meta_key(pgid);
        if self.clear_log {
            for prefix in [LOG, DUP, MISSING] {
                ops.push(TxnOp::OmapRemoveRange(key.clone(), vec![prefix], vec![prefix + 1]));
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

/// Reads stored knowledge, page by page in order of keys.
#[derive(Debug, Default)]
pub struct Loader {
    stored: Stored,
    entries: Vec<Entry>,
    dups: Vec<Dup>,
}

impl Loader {
    /// Takes the next entry.
    pub fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), DecodeError> {
        fn value_of<T: Decode>(value: &[u8]) -> Result<T, DecodeError> {
            Reader::new(value).get()
        }
        match key {
            INFO => self.stored.info = value_of(value)?,
            MEMBERS => self.stored.members = value_of(value)?,
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
        self.stored.log = PgLog::new(self.stored.info.log_tail, self.entries, self.dups);
        self.stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::log::entry_kind;

    #[test]
    fn what_was_stored_is_loaded() {
        let object = ObjectKey::head(1, 5, b"", b"", b"o");
        let version = EVersion::new(Epoch(300), 7);
        let entry = Entry { version, object: object.clone(), kind: entry_kind::MODIFY, ..Entry::default() };
        let info = Info { last_update: version, pgid: PgId::new(1, 5), ..Info::default() };
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
