//! The copy of a PG that this OSD has: its range of keys, its log, the objects that the log tells of and that
//! are not here, and the info that describes all of it to others.
//!
//! What a PG learns, orders or receives changes its copy only by the operations of this folder. An operation
//! that takes a [`MetaChange`] adds to it what stores its effect; others are stored with the next
//! [`LocalCopy::save`]. [`growth`]: the log grows and is trimmed. [`authority`]: the copy follows another
//! one. [`parts`]: splits and merges.

mod authority;
mod growth;
mod parts;
#[cfg(test)]
mod tests;
mod update;

pub use update::Update;

use super::info::{History, Info};
use super::log::{Missing, PgLog};
use super::meta::MetaChange;
use super::range::objects_of;
use super::state::State;
use maps::{EVersion, Epoch, Spg};
use std::collections::BTreeMap;
use store::{ObjectKey, TxnOp};

/// Our own copy of a PG.
///
/// Invariants: info names the ends of the log and counts the objects that are missing; if updates may be
/// forgotten, it names the first of them. Only a copy that was given up counts its missing objects later,
/// when it is saved.
#[derive(Debug)]
pub struct LocalCopy {
    /// The copy's description. It names the PG and the shard of it that we have.
    info: Info,
    log: PgLog,
    /// Objects that the log tells of and that are not here.
    missing: Missing,
    /// Not primary: objects for which there was no room since the activation, each with the first update of
    /// it that is not here.
    refused: BTreeMap<ObjectKey, EVersion>,
    /// True if any record of the copy is stored.
    stored: bool,
    /// Its objects' keys, from the first to the second, exclusive.
    range: (ObjectKey, ObjectKey),
    /// Set if the PG is to be split or merged: the number of PGs that its pool had before. Range, log and all
    /// else still date from then.
    pg_num_before: Option<u32>,
}

impl LocalCopy {
    /// A copy of which nothing is stored yet, of a PG of a pool with `pg_num` PGs.
    pub fn new(id: Spg, pg_num: u32, info: Info, log: PgLog, missing: Missing) -> Self {
        Self {
            info: Info { pgid: id, ..info },
            log,
            missing,
            refused: BTreeMap::new(),
            stored: false,
            range: objects_of(id, pg_num),
            pg_num_before: None,
        }
    }

    /// The copy, whose records were found on the disk.
    pub fn found(self) -> Self {
        Self { stored: true, ..self }
    }

    /// The copy's description.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The log.
    pub fn log(&self) -> &PgLog {
        &self.log
    }

    /// The objects that the log tells of and that are not here.
    pub fn missing(&self) -> &Missing {
        &self.missing
    }

    /// True if an object is not here as the log tells.
    pub fn lacks(&self, key: &ObjectKey) -> bool {
        self.missing.contains_key(key)
    }

    /// The first update of an object, since the activation, for which there was no room.
    pub fn refused_since(&self, key: &ObjectKey) -> Option<EVersion> {
        self.refused.get(key).copied()
    }

    /// True if any record of the copy is stored.
    pub fn is_stored(&self) -> bool {
        self.stored
    }

    /// The keys of its objects: from the first to the second, exclusive.
    pub fn range(&self) -> &(ObjectKey, ObjectKey) {
        &self.range
    }

    /// The pool's number of PGs before a split or merge that has not been carried out.
    pub fn pg_num_before(&self) -> Option<u32> {
        self.pg_num_before
    }

    /// Appends the steps that store changes of the copy, of which there are records from now on.
    pub fn store(&mut self, change: MetaChange, ops: &mut Vec<TxnOp>) {
        change.into_ops(self.info.pgid, ops);
        self.stored = true;
    }

    /// Stores the copy's description.
    pub fn save(&mut self, change: &mut MetaChange) {
        self.info.missing = self.missing.len() as u64;
        change.info(&self.info);
    }

    /// Stores log, missing objects and description, in place of all that is stored of them.
    pub fn save_all(&self, change: &mut MetaChange) {
        change.replace_log(&self.log, &self.missing);
        change.info(&self.info);
    }

    /// A client was answered with `bytes` bytes.
    pub fn count_read(&mut self, bytes: u64) {
        self.info.stats.reads += 1;
        self.info.stats.read_bytes += bytes;
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        self.assert_described();
        let named = self.info.short_of != EVersion::default();
        assert!(
            named || !self.info.forgettable,
            "pg {}: the first update to forget is not named",
            self.info.pgid
        );
    }

    /// Asserts that info describes log and missing objects.
    fn assert_described(&self) {
        let Info { pgid, last_update, log_tail, .. } = self.info;
        let ends = (self.log.tail(), self.log.head());
        assert_eq!((log_tail, last_update), ends, "pg {pgid}: info and log end at different versions");
        let counted = self.info.missing == self.missing.len() as u64;
        assert!(counted || self.info.incomplete, "pg {pgid}: missing objects are not counted");
    }
}

/// The PG's past, as far as all members must agree on it.
impl LocalCopy {
    /// The map says when the PG was created, and that nobody wrote to it since.
    pub fn created(&mut self, epoch: Epoch) {
        self.info.history.epoch_created = epoch;
    }

    /// Maps were skipped: another OSD must tell what happened to the PG meanwhile.
    pub fn forget_creation(&mut self) {
        self.info.history.epoch_created = Epoch(0);
    }

    /// Takes over what another OSD knows better of the past. Whether anything changed.
    pub fn learn_history(&mut self, other: &History) -> bool {
        self.info.history.merge(other)
    }

    /// The PG is active on all members, of which we are the primary.
    pub fn became_active(&mut self) {
        self.info.history.last_epoch_started = self.info.last_epoch_started;
    }

    /// All members have all objects.
    pub fn became_clean(&mut self, epoch: Epoch) {
        self.info.history.last_epoch_clean = epoch;
    }
}

/// Objects come and go.
impl LocalCopy {
    /// An object has come, as the log tells of it or newer. False if it was not missing.
    pub fn arrived(&mut self, key: &ObjectKey, state: State, change: &mut MetaChange) -> bool {
        if self.missing.remove(key).is_none() {
            return false;
        }
        change.drop_missing(key);
        self.missing_changed(state);
        change.info(&self.info);
        true
    }

    /// The object here is damaged: it is missing at the version that the others have.
    pub fn found_damaged(&mut self, key: &ObjectKey, need: EVersion, change: &mut MetaChange) {
        self.missing.insert(key.clone(), need);
        self.info.missing = self.missing.len() as u64;
        change.add_missing(key, need);
        change.info(&self.info);
    }

    /// The copy is about to be removed: from now on it counts for nothing.
    pub fn give_up(&mut self, change: &mut MetaChange) {
        self.log = PgLog::default();
        self.missing.clear();
        self.settle_refused();
        self.info.incomplete = true;
        (self.info.last_update, self.info.log_tail) = (EVersion::default(), EVersion::default());
        self.save_all(change);
    }

    /// The copy was compared object by object with a complete one, to the end.
    pub fn completed(&mut self, change: &mut MetaChange) {
        self.info.incomplete = false;
        self.assert_described();
        change.info(&self.info);
    }
}
