//! A PG's log: the newest updates in order, with what a resent request must be answered; and the set of
//! objects that the log tells of and that are not here yet.
//!
//! Two logs of one PG agree up to some version, their common point; what one of them has behind it was never
//! acknowledged and diverges. [`PgLog::rewind`] drops such entries, [`PgLog::extend`] takes over the
//! authority's.

mod entry;
mod kept;

pub use entry::{Answer, CloneChange, Dup, Entry, KeyChange, entry_kind};

use kept::{Kept, Requests, push};
use maps::{EVersion, ReqId};
use std::collections::{BTreeMap, VecDeque};
use store::ObjectKey;

/// Objects that the log tells of and that are not here, with the version needed.
pub type Missing = BTreeMap<ObjectKey, EVersion>;

/// The log in memory.
#[derive(Clone, Debug, Default)]
pub struct PgLog {
    /// Everything up to here is cut off.
    tail: EVersion,
    /// Everything up to here is known. That may be behind the last entry: after a split the newest entries
    /// may be another PG's.
    head: EVersion,
    entries: VecDeque<Kept>,
    dups: VecDeque<Dup>,
    /// Requests of entries and dups, for the search.
    requests: Requests,
}

/// Result of dropping divergent entries: objects to remove because they should not exist.
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
        let mut log = Self { tail, head: tail, ..Self::default() };
        for dup in dups {
            log.push_dup(dup);
        }
        for entry in entries {
            log.push(entry);
        }
        log
    }

    /// The log, known to have nothing between its last entry and `head`.
    pub fn known_to(mut self, head: EVersion) -> Self {
        self.head = self.head.max(head);
        self
    }

    /// Version before the first entry.
    pub fn tail(&self) -> EVersion {
        self.tail
    }

    /// The newest version that it tells of.
    pub fn head(&self) -> EVersion {
        self.head
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = Entry> {
        self.entries.iter().map(Kept::entry)
    }

    /// The versions of the entries, oldest first.
    pub fn versions(&self) -> impl Iterator<Item = EVersion> {
        self.entries.iter().map(|e| e.version)
    }

    /// The remains of older entries, oldest first.
    pub fn dups(&self) -> impl Iterator<Item = &Dup> {
        self.dups.iter()
    }

    /// The entries from `version` on.
    pub fn from(&self, version: EVersion) -> impl Iterator<Item = Entry> {
        let at = self.entries.partition_point(|e| e.version < version);
        self.entries.range(at..).map(Kept::entry)
    }

    /// The last version before `version`: where the log ends when it is cut there.
    pub fn before(&self, version: EVersion) -> EVersion {
        let at = self.entries.partition_point(|e| e.version < version);
        self.entries.range(..at).next_back().map_or(self.tail, |e| e.version)
    }

    /// The entries behind `version`.
    pub fn since(&self, version: EVersion) -> impl Iterator<Item = Entry> {
        let at = self.entries.partition_point(|e| e.version <= version);
        self.entries.range(at..).map(Kept::entry)
    }

    /// True if an entry after `version` concerns the object.
    pub fn has_since(&self, version: EVersion, object: &ObjectKey) -> bool {
        let at = self.entries.partition_point(|e| e.version <= version);
        self.entries.range(at..).any(|e| e.is_of(object))
    }

    /// True if an update of this version is, or was, part of this log's history: its tail, its head, or an
    /// entry.
    pub fn contains(&self, version: EVersion) -> bool {
        version == self.tail
            || version == self.head
            || self.entries.binary_search_by_key(&version, |e| e.version).is_ok()
    }

    /// Appends the next entry.
    pub fn push(&mut self, entry: Entry) {
        assert!(
            entry.version > self.head(),
            "log entries are ordered: {:?} after {:?}",
            entry.version,
            self.head()
        );
        if entry.reqid != ReqId::default() {
            self.requests.insert(&entry.reqid, entry.version);
        }
        self.head = entry.version;
        if entry.undoes != EVersion::default() {
            self.set_undone(&entry.object, entry.undoes, true);
        }
        push(&mut self.entries, entry.into());
    }

    /// The entries of an object from `first` on are undone, or are not any more.
    fn set_undone(&mut self, object: &ObjectKey, first: EVersion, undone: bool) {
        let at = self.entries.partition_point(|e| e.version < first);
        let asked = |e: &&mut Kept| e.reqid != ReqId::default() && e.undone != undone && e.is_of(object);
        for kept in self.entries.range_mut(at..).filter(asked) {
            kept.undone = undone;
            match undone {
                true => self.requests.remove(&kept.reqid, kept.version),
                false => self.requests.insert(&kept.reqid, kept.version),
            }
        }
    }

    fn push_dup(&mut self, dup: Dup) {
        self.requests.insert(&dup.reqid, dup.version);
        push(&mut self.dups, dup);
    }

    /// Finds what a request was answered, and at which version.
    pub fn find(&self, reqid: &ReqId) -> Option<(EVersion, Answer)> {
        self.requests.find(reqid).find_map(|version| {
            if let Ok(at) = self.entries.binary_search_by_key(&version, |e| e.version)
                && self.entries[at].reqid == *reqid
            {
                return Some((version, self.entries[at].answer()));
            }
            let at = self.dups.binary_search_by_key(&version, |d| d.version).ok()?;
            (self.dups[at].reqid == *reqid).then(|| (version, self.dups[at].answer.clone()))
        })
    }

    /// Cuts off the oldest entries up to `to` while there are more than `keep`; their answers stay as dups,
    /// of which the newest `keep` stay. Gives the versions cut off, the dups made of them, and the versions
    /// of dups forgotten.
    pub fn trim(&mut self, to: EVersion, keep: usize) -> (Vec<EVersion>, Vec<Dup>, Vec<EVersion>) {
        let (mut cut, mut made, mut forgotten) = (Vec::new(), Vec::new(), Vec::new());
        while self.entries.len() > keep && self.entries.front().is_some_and(|e| e.version <= to) {
            let Some(entry) = self.entries.pop_front() else { break };
            self.tail = entry.version;
            cut.push(entry.version);
            if !entry.is_asked_for() {
                continue;
            }
            let dup = dup_of(&entry);
            made.push(dup.clone());
            self.push_dup(dup);
        }
        while self.dups.len() > keep {
            let Some(dup) = self.dups.pop_front() else { break };
            self.requests.remove(&dup.reqid, dup.version);
            forgotten.push(dup.version);
        }
        (cut, made, forgotten)
    }

    /// The newest version that both logs have, where this one reaches back to `other`'s tail; `None` where
    /// the histories have nothing in common that is still logged, so that only a resync helps.
    pub fn common_point(&self, other: &Self) -> Option<EVersion> {
        if self.head() < other.tail || other.head() < self.tail {
            return None;
        }
        // Versions up to either tail are acknowledged history, which both share.
        let floor = self.tail.max(other.tail);
        let shared = |e: &&Kept| e.version <= floor || other.contains(e.version);
        let newest = self.entries.iter().rev().find(shared).map_or(self.tail, |e| e.version);
        Some(newest.max(self.tail))
    }

    /// Drops the entries after `to`, which no authority has. The content of their objects here is invalid: it
    /// is missing at the version before, or must be removed if there was none.
    pub fn rewind(&mut self, to: EVersion, missing: &mut Missing) -> Rewound {
        let mut out = Rewound::default();
        let keep = self.entries.partition_point(|e| e.version <= to);
        let divergent: Vec<Kept> = self.entries.drain(keep..).collect();
        self.head = self.head.min(to.max(self.tail));
        // Newest first, so that the oldest entry of an object has the last word about what was before.
        for entry in divergent.into_iter().rev() {
            out.dropped.push(entry.version);
            self.requests.remove(&entry.reqid, entry.version);
            if entry.undoes() != EVersion::default() {
                self.set_undone(&entry.entry().object, entry.undoes(), false);
            }
            if stdx::mutants::is_active("osd_keeps_divergent_objects") {
                continue;
            }
            for KeyChange { key, prior, .. } in entry.entry().changes() {
                out.remove.retain(|o| *o != key);
                if prior == EVersion::default() {
                    missing.remove(&key);
                    out.remove.push(key);
                } else {
                    missing.insert(key, prior);
                }
            }
        }
        out
    }

    /// Appends the authority's entries, up to its `head`. Objects that they removed are to be removed here
    /// too: they are given back.
    pub fn extend(
        &mut self,
        entries: impl IntoIterator<Item = Entry>,
        head: EVersion,
        missing: &mut Missing,
    ) -> Vec<ObjectKey> {
        let mut remove = Vec::new();
        for entry in entries {
            note_missing(&entry, missing, &mut remove);
            self.push(entry);
        }
        self.head = self.head.max(head);
        remove
    }

    /// Takes out what is about objects whose hash `goes` elsewhere: a log of the same history, as the other
    /// PG has it.
    pub fn split_off(&mut self, goes: impl Fn(u32) -> bool) -> Self {
        let (theirs, ours) = std::mem::take(&mut self.entries).into_iter().partition(|e| goes(e.hash));
        let (dups, our_dups) = std::mem::take(&mut self.dups).into_iter().partition(|d| goes(d.hash));
        let (theirs, ours): (Vec<Kept>, Vec<Kept>) = (theirs, ours);
        let entries = |kept: Vec<Kept>| kept.iter().map(Kept::entry).collect();
        let (dups, our_dups): (Vec<_>, Vec<_>) = (dups, our_dups);
        let (tail, head) = (self.tail, self.head);
        *self = Self::new(tail, entries(ours), our_dups).known_to(head);
        Self::new(tail, entries(theirs), dups).known_to(head)
    }

    /// The log of PGs that have become one, `head` being its first version: nothing is left of their entries
    /// but what repeated requests are answered, of each PG the newest `keep`. Versions of two PGs may be the
    /// same, so these get new ones, in the old order.
    pub fn merged(logs: impl IntoIterator<Item = Self>, head: EVersion, keep: usize) -> Self {
        let kept = |log: Self| {
            let beyond = (log.dups.len() + log.entries.len()).saturating_sub(keep);
            log.into_dups().skip(beyond)
        };
        let mut dups: Vec<Dup> = logs.into_iter().flat_map(kept).collect();
        if stdx::mutants::is_active("osd_forgets_answers_of_merged_pgs") {
            dups.clear();
        }
        dups.sort_by_key(|dup| dup.version);
        for (version, dup) in (1..).zip(&mut dups) {
            dup.version = EVersion::new(head.epoch, version);
        }
        Self::new(head, Vec::new(), dups)
    }

    /// Answers for repeated requests, oldest first.
    fn into_dups(self) -> impl Iterator<Item = Dup> {
        let asked = self.entries.into_iter().filter(Kept::is_asked_for);
        self.dups.into_iter().chain(asked.map(|entry| dup_of(&entry)))
    }
}

/// The remainder of an entry that is trimmed.
fn dup_of(entry: &Kept) -> Dup {
    Dup { version: entry.version, reqid: entry.reqid, answer: entry.answer(), hash: entry.hash }
}

/// Records the effect on objects of an entry that was not executed here.
fn note_missing(entry: &Entry, missing: &mut Missing, remove: &mut Vec<ObjectKey>) {
    for KeyChange { key, removed, .. } in entry.changes() {
        if removed {
            missing.remove(&key);
            remove.push(key);
        } else if !stdx::mutants::is_active("osd_misses_nothing") {
            let of_clone = key.snap != ObjectKey::HEAD;
            if of_clone && stdx::mutants::is_active("osd_misses_no_clone") {
                continue;
            }
            missing.insert(key, entry.version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::at_snap;
    use maps::{Epoch, SnapId};

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
        assert!(old.extend(new.since(common), new.head(), &mut missing).is_empty());
        assert_eq!(missing, Missing::from([(key("a"), v(1, 1)), (key("b"), v(3, 3))]));
        assert_eq!(old.head(), v(3, 3));
        assert!(old.find(&entry(v(1, 3), v(0, 0), "a").reqid).is_none(), "a dropped request may come again");
    }

    #[test]
    fn what_is_undone_may_be_asked_for_again_until_that_is_dropped() {
        let mut log = log(&[
            (v(1, 1), v(0, 0), "a"),
            (v(1, 2), v(1, 1), "a"),
            (v(1, 3), v(0, 0), "b"),
            (v(1, 4), v(1, 2), "a"),
        ]);
        let asked = |n| entry(v(1, n), v(0, 0), "").reqid;
        let found = |log: &PgLog| (1..=4).map(|n| log.find(&asked(n)).is_some()).collect::<Vec<_>>();
        let reqid = ReqId::default();
        log.push(Entry { reqid, undoes: v(1, 2), ..entry(v(2, 5), v(1, 4), "a") });
        assert_eq!(found(&log), [true, false, true, false]);
        let stored: Vec<Entry> = log.from(v(0, 0)).collect();
        assert_eq!(stored[1].reqid, asked(2), "who reads it later finds the same");
        assert_eq!(found(&PgLog::new(v(0, 0), stored, Vec::new())), [true, false, true, false]);
        let mut trimmed = PgLog::new(v(0, 0), log.from(v(0, 0)).collect(), Vec::new());
        let (_, dups, _) = trimmed.trim(v(1, 4), 1);
        assert_eq!(dups.iter().map(|d| d.version).collect::<Vec<_>>(), [v(1, 1), v(1, 3)]);
        log.rewind(v(1, 4), &mut Missing::new());
        assert_eq!(found(&log), [true; 4]);
    }

    #[test]
    fn an_object_created_and_changed_divergently_is_removed_once() {
        let mut old = log(&[(v(1, 1), v(0, 0), "a"), (v(1, 2), v(0, 0), "x"), (v(1, 3), v(1, 2), "x")]);
        let mut missing = Missing::new();
        let rewound = old.rewind(v(1, 1), &mut missing);
        assert_eq!((rewound.remove, missing), (vec![key("x")], Missing::new()));
    }

    #[test]
    fn clones_come_and_go_with_the_entry_of_their_head() {
        let mut old = log(&[(v(1, 1), v(0, 0), "a"), (v(1, 2), v(1, 1), "a")]);
        let made = CloneChange { id: SnapId(4), prior: v(0, 0) };
        let trimmed = CloneChange { id: SnapId(2), prior: v(1, 1) };
        let change = Entry { clones: vec![made, trimmed], ..entry(v(1, 3), v(1, 2), "a") };
        old.push(change.clone());
        let (first, second) = (at_snap(&key("a"), 2), at_snap(&key("a"), 4));
        let mut missing = Missing::new();
        let rewound = old.rewind(v(1, 2), &mut missing);
        assert_eq!(rewound.remove, std::slice::from_ref(&second), "what it made goes");
        let want = Missing::from([(key("a"), v(1, 2)), (first.clone(), v(1, 1))]);
        assert_eq!(missing, want, "what it removed comes back");
        let removed = old.extend([change], v(1, 3), &mut missing);
        assert_eq!(removed, [first]);
        assert_eq!(missing, Missing::from([(key("a"), v(1, 3)), (second, v(1, 3))]));
    }

    #[test]
    fn a_log_that_ends_before_the_others_tail_has_no_common_point() {
        let old = log(&[(v(1, 1), v(0, 0), "a")]);
        let new = PgLog::new(v(2, 5), vec![entry(v(2, 6), v(0, 0), "b")], Vec::new());
        assert_eq!(old.common_point(&new), None);
        assert_eq!(PgLog::default().common_point(&old), Some(v(0, 0)));
    }

    /// A log with an entry for each version, of objects of one of two hashes, parted.
    fn parted(tail: u64, entries: &[(EVersion, u32)]) -> (PgLog, PgLog) {
        let of = |(version, hash): &(EVersion, u32)| Entry {
            object: ObjectKey::head(1, *hash, b"", b"", b"o"),
            ..entry(*version, v(0, 0), "o")
        };
        let mut ours = PgLog::new(v(1, tail), entries.iter().map(of).collect(), Vec::new());
        let theirs = ours.split_off(|hash| hash == 1);
        (ours, theirs)
    }

    #[test]
    fn logs_of_a_pg_that_was_split_still_have_their_history_in_common() {
        // One has cut off more, the other has an entry that nobody else has; nothing of either is the
        // child's.
        let (old, old_child) = parted(5, &[(v(1, 6), 0), (v(1, 7), 0), (v(1, 8), 0), (v(1, 9), 0)]);
        let (new, new_child) = parted(8, &[(v(2, 9), 0), (v(2, 10), 0)]);
        assert_eq!(old.common_point(&new), Some(v(1, 8)));
        assert_eq!((old_child.head(), new_child.head()), (v(1, 9), v(2, 10)));
        let common = old_child.common_point(&new_child).expect("neither is too old");
        let (mut child, mut missing) = (old_child, Missing::new());
        assert_eq!(child.rewind(common, &mut missing), Rewound::default());
        assert!(child.extend(new_child.since(common), new_child.head(), &mut missing).is_empty());
        assert_eq!((child.head(), missing), (v(2, 10), Missing::new()));
        assert!(new_child.contains(child.head()), "a head is known though its entry is elsewhere");
    }

    #[test]
    fn a_split_log_answers_repeated_requests_on_the_side_of_their_objects() {
        let of = |version, hash| Entry {
            object: ObjectKey::head(1, hash, b"", b"", b"o"),
            ..entry(version, v(0, 0), "o")
        };
        let mut ours = PgLog::new(v(1, 0), (1..=4).map(|n| of(v(1, n), n as u32 % 2)).collect(), Vec::new());
        ours.trim(v(1, 2), 2);
        let theirs = ours.split_off(|hash| hash == 1);
        for n in 1..=4 {
            let reqid = of(v(1, n), 0).reqid;
            let found = (ours.find(&reqid).is_some(), theirs.find(&reqid).is_some());
            assert_eq!(found, (n % 2 == 0, n % 2 == 1), "{n}");
        }
        assert_eq!((ours.tail(), theirs.tail()), (v(1, 2), v(1, 2)));
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
