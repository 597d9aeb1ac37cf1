//! A PG's log: the newest updates in order, with what a resent request must be answered; and the set of objects that
//! the log tells of and that are not here yet.
//!
//! Two logs of one PG agree up to some version, their common point; what one of them has behind it was never
//! acknowledged and diverges. [`PgLog::rewind`] drops such entries, [`PgLog::extend`] takes over the authority's.

use maps::{EVersion, ReqId};
use std::collections::{BTreeMap, VecDeque};
use store::ObjectKey;
use wire::{Utime, wire_structs};

/// Kinds of entries.
pub mod entry_kind {
    /// The object was written.
    pub const MODIFY: u8 = 1;
    /// The object was removed.
    pub const DELETE: u8 = 2;
    /// A request failed; recorded so that its repetition fails the same way.
    pub const ERROR: u8 = 3;
}

wire_structs! {
    /// What a request was answered.
    pub struct Answer[v 1/1] {
        /// The vector's result.
        pub result: i32,
        /// Of each operation: rval, and output where the client asked for it.
        pub ops: Vec<(i32, Vec<u8>)>,
        /// The version that the client was told.
        pub user_version: u64,
    }

    /// One update.
    pub struct Entry[v 1/1] {
        /// Its version.
        pub version: EVersion,
        /// The version of the object before it; 0 where it did not exist.
        pub prior: EVersion,
        /// One of [`entry_kind`].
        pub kind: u8,
        /// Which object.
        pub object: ObjectKey,
        /// Whose request.
        pub reqid: ReqId,
        /// What it was answered.
        pub answer: Answer,
        /// When.
        pub mtime: Utime,
    }

    /// What is left of an update whose entry was cut off.
    pub struct Dup[v 1/1] {
        /// Its version.
        pub version: EVersion,
        /// Whose request.
        pub reqid: ReqId,
        /// What it was answered.
        pub answer: Answer,
    }
}

/// Objects that the log tells of and that are not here, with the version needed.
pub type Missing = BTreeMap<ObjectKey, EVersion>;

/// The log in memory.
#[derive(Clone, Debug, Default)]
pub struct PgLog {
    /// Everything up to here is cut off.
    tail: EVersion,
    entries: VecDeque<Entry>,
    dups: VecDeque<Dup>,
    /// Requests of both, for the search.
    requests: BTreeMap<ReqId, EVersion>,
}

/// What dropping divergent entries asks of the objects: which to remove because they should not exist.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rewound {
    /// Versions of the entries dropped.
    pub dropped: Vec<EVersion>,
    /// Objects that the dropped entries created.
    pub remove: Vec<ObjectKey>,
}

impl PgLog {
    /// A log of these entries behind `tail`.
    pub fn new(tail: EVersion, entries: Vec<Entry>, dups: Vec<Dup>) -> Self {
        let mut log = Self { tail, ..Self::default() };
        for dup in dups {
            log.push_dup(dup);
        }
        for entry in entries {
            log.push(entry);
        }
        log
    }

    /// Where it begins, exclusive.
    pub fn tail(&self) -> EVersion {
        self.tail
    }

    /// The newest entry's version, or the tail.
    pub fn head(&self) -> EVersion {
        self.entries.back().map_or(self.tail, |e| e.version)
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The remains of older entries, oldest first.
    pub fn dups(&self) -> impl Iterator<Item = &Dup> {
        self.dups.iter()
    }

    /// The entries behind `version`.
    pub fn since(&self, version: EVersion) -> impl Iterator<Item = &Entry> {
        let at = self.entries.partition_point(|e| e.version <= version);
        self.entries.range(at..)
    }

    /// Whether an update of this version is, or was, part of this log's history: its tail, or one of the entries.
    pub fn contains(&self, version: EVersion) -> bool {
        version == self.tail || self.entries.binary_search_by_key(&version, |e| e.version).is_ok()
    }

    /// Appends the next entry.
    pub fn push(&mut self, entry: Entry) {
        assert!(
            entry.version > self.head(),
            "log entries are ordered: {:?} after {:?}",
            entry.version,
            self.head()
        );
        self.requests.insert(entry.reqid, entry.version);
        self.entries.push_back(entry);
    }

    fn push_dup(&mut self, dup: Dup) {
        self.requests.insert(dup.reqid, dup.version);
        self.dups.push_back(dup);
    }

    /// Finds what a request was answered, and at which version.
    pub fn find(&self, reqid: &ReqId) -> Option<(EVersion, &Answer)> {
        let version = *self.requests.get(reqid)?;
        if let Ok(at) = self.entries.binary_search_by_key(&version, |e| e.version) {
            return Some((version, &self.entries[at].answer));
        }
        let at = self.dups.binary_search_by_key(&version, |d| d.version).ok()?;
        Some((version, &self.dups[at].answer))
    }

    /// Cuts off the oldest entries up to `to` while there are more than `keep`; their answers stay as dups, of which the
    /// newest `keep` stay. Gives the versions cut off, the dups made of them, and the versions of dups forgotten.
    pub fn trim(&mut self, to: EVersion, keep: usize) -> (Vec<EVersion>, Vec<Dup>, Vec<EVersion>) {
        let (mut cut, mut made, mut forgotten) = (Vec::new(), Vec::new(), Vec::new());
        while self.entries.len() > keep && self.entries.front().is_some_and(|e| e.version <= to) {
            let Some(entry) = self.entries.pop_front() else { break };
            self.tail = entry.version;
            cut.push(entry.version);
            let dup = Dup { version: entry.version, reqid: entry.reqid, answer: entry.answer };
            made.push(dup.clone());
            self.push_dup(dup);
        }
        while self.dups.len() > keep {
            let Some(dup) = self.dups.pop_front() else { break };
            // A request may have come again after it was forgotten; then the newer version counts.
            if self.requests.get(&dup.reqid) == Some(&dup.version) {
                self.requests.remove(&dup.reqid);
            }
            forgotten.push(dup.version);
        }
        (cut, made, forgotten)
    }

    /// The newest version that both logs have, where this one reaches back to `other`'s tail; `None` where the histories
    /// have nothing in common that is still logged, so that only a resync helps.
    pub fn common_point(&self, other: &Self) -> Option<EVersion> {
        if self.head() < other.tail || other.head() < self.tail {
            return None;
        }
        // What is at or before either tail is acknowledged history, which both share.
        let floor = self.tail.max(other.tail);
        let shared = |e: &&Entry| e.version <= floor || other.contains(e.version);
        let newest = self.entries.iter().rev().find(shared).map_or(self.tail, |e| e.version);
        Some(newest.max(self.tail))
    }

    /// Drops the entries behind `to`, which no authority knows. Their objects' content here is not to be used: it is
    /// missing at the version before, or must go where there was none.
    pub fn rewind(&mut self, to: EVersion, missing: &mut Missing) -> Rewound {
        let mut out = Rewound::default();
        let keep = self.entries.partition_point(|e| e.version <= to);
        let divergent: Vec<Entry> = self.entries.drain(keep..).collect();
        // Newest first, so that the oldest entry of an object has the last word about what was before.
        for entry in divergent.into_iter().rev() {
            out.dropped.push(entry.version);
            if self.requests.get(&entry.reqid) == Some(&entry.version) {
                self.requests.remove(&entry.reqid);
            }
            if entry.kind == entry_kind::ERROR || stdx::mutants::is_active("osd_keeps_divergent_objects") {
                continue;
            }
            out.remove.retain(|o| *o != entry.object);
            if entry.prior == EVersion::default() {
                missing.remove(&entry.object);
                out.remove.push(entry.object);
            } else {
                missing.insert(entry.object, entry.prior);
            }
        }
        out
    }

    /// Appends the authority's entries. Objects that they removed are to be removed here too: they are given back.
    pub fn extend(
        &mut self,
        entries: impl IntoIterator<Item = Entry>,
        missing: &mut Missing,
    ) -> Vec<ObjectKey> {
        let mut remove = Vec::new();
        for entry in entries {
            note_missing(&entry, missing, &mut remove);
            self.push(entry);
        }
        remove
    }
}

/// What an entry that was not carried out here means for the objects here.
fn note_missing(entry: &Entry, missing: &mut Missing, remove: &mut Vec<ObjectKey>) {
    match entry.kind {
        entry_kind::MODIFY if stdx::mutants::is_active("osd_misses_nothing") => {}
        entry_kind::MODIFY => {
            missing.insert(entry.object.clone(), entry.version);
        }
        entry_kind::DELETE => {
            missing.remove(&entry.object);
            remove.push(entry.object.clone());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::Epoch;

    fn v(epoch: u32, version: u64) -> EVersion {
        EVersion::new(Epoch(epoch), version)
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::head(1, 7, b"", b"", name.as_bytes())
    }

    fn entry(version: EVersion, prior: EVersion, name: &str) -> Entry {
        let reqid = ReqId { tid: version.version, inc: version.epoch.0 as i32, ..ReqId::default() };
        Entry { version, prior, kind: entry_kind::MODIFY, object: key(name), reqid, ..Entry::default() }
    }

    fn log(entries: &[(EVersion, EVersion, &str)]) -> PgLog {
        PgLog::new(v(0, 0), entries.iter().map(|(a, b, n)| entry(*a, *b, n)).collect(), Vec::new())
    }

    #[test]
    fn divergent_updates_are_dropped_and_their_objects_fetched_or_removed() {
        let base = [(v(1, 1), v(0, 0), "a"), (v(1, 2), v(0, 0), "b")];
        let mut old = log(&[&base[..], &[(v(1, 3), v(1, 1), "a"), (v(1, 4), v(0, 0), "new")]].concat());
        let new = log(&[&base[..], &[(v(3, 3), v(1, 2), "b")]].concat());
        let common = old.common_point(&new).expect("shared history");
        assert_eq!(common, v(1, 2));
        let mut missing = Missing::new();
        let rewound = old.rewind(common, &mut missing);
        assert_eq!(rewound.remove, [key("new")]);
        assert_eq!(rewound.dropped, [v(1, 4), v(1, 3)]);
        assert!(old.extend(new.since(common).cloned(), &mut missing).is_empty());
        assert_eq!(missing, Missing::from([(key("a"), v(1, 1)), (key("b"), v(3, 3))]));
        assert_eq!(old.head(), v(3, 3));
        assert!(old.find(&entry(v(1, 3), v(0, 0), "a").reqid).is_none(), "a dropped request may come again");
    }

    #[test]
    fn an_object_created_and_changed_divergently_is_removed_once() {
        let mut old = log(&[(v(1, 1), v(0, 0), "a"), (v(1, 2), v(0, 0), "x"), (v(1, 3), v(1, 2), "x")]);
        let mut missing = Missing::new();
        let rewound = old.rewind(v(1, 1), &mut missing);
        assert_eq!((rewound.remove, missing), (vec![key("x")], Missing::new()));
    }

    #[test]
    fn a_log_that_ends_before_the_others_tail_has_no_common_point() {
        let old = log(&[(v(1, 1), v(0, 0), "a")]);
        let new = PgLog::new(v(2, 5), vec![entry(v(2, 6), v(0, 0), "b")], Vec::new());
        assert_eq!(old.common_point(&new), None);
        assert_eq!(PgLog::default().common_point(&old), Some(v(0, 0)));
    }

    #[test]
    fn trimmed_entries_still_answer_repeated_requests() {
        let mut log = log(&[(v(1, 1), v(0, 0), "a"), (v(1, 2), v(1, 1), "a"), (v(1, 3), v(1, 2), "a")]);
        let (cut, made, forgotten) = log.trim(v(1, 2), 1);
        assert_eq!((cut, forgotten), (vec![v(1, 1), v(1, 2)], vec![v(1, 1)]));
        assert_eq!(made.len(), 2);
        assert_eq!(log.tail(), v(1, 2));
        assert!(log.find(&made[1].reqid).is_some());
        assert!(log.find(&made[0].reqid).is_none());
    }
}
