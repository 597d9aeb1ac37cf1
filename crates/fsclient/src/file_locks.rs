//! The file locks that local callers hold, as their MDS has granted them. Its successor is told of them.

use crate::api::Fh;
use crate::key::{InodeKey, OpId};
use msgs::lock_kind::{EXCLUSIVE, SHARED, UNLOCK};
use msgs::{CapReconnect, FileLock, lock_rule};
use std::collections::{BTreeMap, BTreeSet};
use wire::Writer;

/// The call that sets a lock. The two kinds of locks do not see each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Style {
    /// fcntl(2), on byte ranges.
    Posix,
    /// flock(2), on whole files.
    Flock,
}

impl Style {
    /// The number of the call in requests.
    pub(crate) fn rule(self) -> u8 {
        match self {
            Self::Posix => lock_rule::FCNTL,
            Self::Flock => lock_rule::FLOCK,
        }
    }

    /// The call of this number.
    pub(crate) fn of_rule(rule: u8) -> Option<Self> {
        [Self::Posix, Self::Flock].into_iter().find(|style| style.rule() == rule)
    }
}

/// A mode on a range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    /// First byte.
    pub(crate) first: u64,
    /// Last byte; `u64::MAX` reaches to the end.
    pub(crate) last: u64,
    /// Kind of lock.
    pub(crate) kind: u8,
    /// The process that locks.
    pub(crate) pid: u32,
    /// An MDS has refused the claim of it, or of another by the same owner: it is not claimed again, and no
    /// handle relies on it. What the MDS knows of it is still to be freed.
    pub(crate) is_refused: bool,
}

impl Range {
    /// All of a file, free.
    pub(crate) const NOTHING: Self =
        Self { first: 0, last: u64::MAX, kind: UNLOCK, pid: 0, is_refused: false };

    /// Bytes, as the protocol counts them: 0 to the end.
    pub(crate) fn length(&self) -> u64 {
        if self.last == u64::MAX { 0 } else { self.last - self.first + 1 }
    }
}

/// Locks on one file.
#[derive(Debug, Default)]
struct OfFile {
    held: BTreeMap<(Style, u64), OfOwner>,
}

/// Locks of one owner on a file, and the handles by which they were set.
#[derive(Debug, Default)]
struct OfOwner {
    /// Ranges by their first bytes.
    ranges: BTreeMap<u64, Range>,
    handles: BTreeSet<Fh>,
}

/// A request on its way that makes locks for writing into locks for reading.
#[derive(Debug)]
struct Weakening {
    key: InodeKey,
    owner: (Style, u64),
    range: Range,
    /// The MDS that was asked is lost, and the locks count as weakened.
    is_applied: bool,
}

/// The locks of local callers.
///
/// Invariant: an owner has at most one mode on each byte, and its ranges are in order; no file and no owner
/// is kept without a lock. A handle is lost from the moment when its locks were until it is closed.
#[derive(Debug, Default)]
pub(crate) struct FileLocks {
    files: BTreeMap<InodeKey, OfFile>,
    lost: BTreeSet<Fh>,
    weakening: BTreeMap<OpId, Weakening>,
}

impl FileLocks {
    /// An owner holds a range by a handle, or has freed it.
    pub(crate) fn set(&mut self, key: InodeKey, fh: Fh, (style, owner): (Style, u64), range: Range) {
        let file = self.files.entry(key).or_default();
        let held = file.held.entry((style, owner)).or_default();
        held.cut(range.first, range.last);
        if range.kind != UNLOCK {
            held.ranges.insert(range.first, range);
            held.handles.insert(fh);
        }
        if held.ranges.is_empty() {
            file.held.remove(&(style, owner));
        }
        if file.held.is_empty() {
            self.files.remove(&key);
        }
    }

    /// An operation asks for a range that its owner may hold for writing.
    pub(crate) fn begin_weakening(&mut self, op: OpId, key: InodeKey, owner: (Style, u64), range: Range) {
        let held = self.files.get(&key).and_then(|file| file.held.get(&owner));
        let is_weakened =
            |held: &OfOwner| held.overlapping(range.first, range.last).any(|old| old.kind == EXCLUSIVE);
        if range.kind == SHARED && held.is_some_and(is_weakened) {
            self.weakening.insert(op, Weakening { key, owner, range, is_applied: false });
        }
    }

    /// The MDS of the files for which `is_lost` holds is gone. It may have weakened the locks that it was
    /// asked to, and have given others the same ones: its successor is told of the weaker ones.
    pub(crate) fn mds_lost(&mut self, is_lost: impl Fn(InodeKey) -> bool) {
        for weakening in self.weakening.values_mut().filter(|w| !w.is_applied && is_lost(w.key)) {
            let Weakening { key, owner, range, .. } = *weakening;
            let held = self.files.get_mut(&key).and_then(|file| file.held.get_mut(&owner));
            if let Some(held) = held {
                held.weaken(range);
                weakening.is_applied = true;
            }
        }
    }

    /// An operation that was to weaken locks has ended. If it has failed, and they count as weakened, their
    /// owner does not know of that: its handles fail from now on, and true is returned.
    pub(crate) fn end_weakening(&mut self, op: OpId, was_granted: bool) -> bool {
        let Some(Weakening { key, owner, is_applied, .. }) = self.weakening.remove(&op) else { return false };
        let held = self.files.get(&key).and_then(|file| file.held.get(&owner));
        let Some(held) = held.filter(|_| is_applied && !was_granted) else { return false };
        self.lost.extend(&held.handles);
        true
    }

    /// Frees all locks of an owner on a file. Returns true if there were any.
    pub(crate) fn free(&mut self, key: InodeKey, owner: (Style, u64)) -> bool {
        let Some(file) = self.files.get_mut(&key) else { return false };
        let had_any = file.held.remove(&owner).is_some();
        if file.held.is_empty() {
            self.files.remove(&key);
        }
        had_any
    }

    /// An owner of byte ranges that has locked a file only by this handle. A process gives its own up when it
    /// closes the file; an owner that is left with the handle is the open file itself (`F_OFD_SETLK`).
    pub(crate) fn owner_by(&self, key: InodeKey, fh: Fh) -> Option<(Style, u64)> {
        let file = self.files.get(&key)?;
        let is_by = |held: &OfOwner| held.handles.len() == 1 && held.handles.contains(&fh);
        let by = file.held.iter().find(|((style, _), held)| *style == Style::Posix && is_by(held));
        by.map(|(owner, _)| *owner)
    }

    /// The kind of lock that an owner holds on the first byte of a file.
    pub(crate) fn kind(&self, key: InodeKey, owner: (Style, u64)) -> Option<u8> {
        Some(self.files.get(&key)?.held.get(&owner)?.ranges.get(&0)?.kind)
    }

    /// Adds the locks to the claims for the next MDS.
    pub(crate) fn add_to_claims(&self, claims: &mut BTreeMap<u64, CapReconnect>) {
        for (key, file) in self.files.iter().filter(|(key, _)| key.is_head()) {
            if let Some(claim) = claims.get_mut(&key.ino()) {
                claim.flock =
                    [Style::Posix, Style::Flock].iter().flat_map(|style| file.encode(*style)).collect();
            }
        }
    }

    /// The locks on files for which `is_lost` holds are void: their handles fail from now on. Returns the
    /// number of files.
    pub(crate) fn lose(&mut self, is_lost: impl Fn(InodeKey) -> bool) -> usize {
        let lost: Vec<OfFile> =
            self.files.extract_if(.., |key, _| is_lost(*key)).map(|(_, file)| file).collect();
        let files = lost.len();
        let owners = lost.into_iter().flat_map(|file| file.held.into_values());
        self.lost.extend(owners.flat_map(|held| held.handles));
        files
    }

    /// A new MDS has refused a claim of this owner's: the handles by which it has locked the file fail from
    /// now on. Returns false if it holds nothing there any more.
    pub(crate) fn refuse(&mut self, key: InodeKey, owner: (Style, u64)) -> bool {
        let held = self.files.get_mut(&key).and_then(|file| file.held.get_mut(&owner));
        let Some(held) = held else { return false };
        held.ranges.values_mut().for_each(|range| range.is_refused = true);
        self.lost.extend(&held.handles);
        true
    }

    /// True if locks that were set by a handle are lost.
    pub(crate) fn is_lost(&self, fh: Fh) -> bool {
        self.lost.contains(&fh)
    }

    /// A handle of a file is closed.
    pub(crate) fn closed(&mut self, key: InodeKey, fh: Fh) {
        self.lost.remove(&fh);
        for held in self.files.get_mut(&key).into_iter().flat_map(|file| file.held.values_mut()) {
            held.handles.remove(&fh);
        }
    }

    /// Asserts the invariant.
    pub(crate) fn check(&self) {
        for (key, file) in &self.files {
            assert!(!file.held.is_empty(), "{key:?} is kept for its locks");
            for (owner, OfOwner { ranges, .. }) in &file.held {
                assert!(!ranges.is_empty(), "{owner:?} is kept for its locks on {key:?}");
                let is_ordered = ranges.values().zip(ranges.values().skip(1)).all(|(a, b)| a.last < b.first);
                assert!(ranges.iter().all(|(first, range)| range.first == *first && range.last >= *first));
                assert!(is_ordered, "{owner:?} has one mode on each byte of {key:?}");
            }
        }
    }
}

impl OfOwner {
    /// The ranges that overlap with this one.
    fn overlapping(&self, first: u64, last: u64) -> impl Iterator<Item = &Range> {
        let before = self.ranges.range(..first).next_back().filter(|(_, range)| range.last >= first);
        before.into_iter().chain(self.ranges.range(first..=last)).map(|(_, range)| range)
    }

    /// Cuts a range out. (So does the MDS, `LockSet`.)
    fn cut(&mut self, first: u64, last: u64) {
        let old: Vec<Range> = self.overlapping(first, last).copied().collect();
        for range in old {
            self.ranges.remove(&range.first);
            if range.first < first {
                self.ranges.insert(range.first, Range { last: first - 1, ..range });
            }
            if range.last > last {
                self.ranges.insert(last + 1, Range { first: last + 1, ..range });
            }
        }
    }

    /// What is held for writing in this range is held for reading from now on.
    fn weaken(&mut self, Range { first, last, .. }: Range) {
        let exclusive = self.overlapping(first, last).filter(|old| old.kind == EXCLUSIVE);
        let part = |old: &Range| Range {
            first: old.first.max(first),
            last: old.last.min(last),
            kind: SHARED,
            ..*old
        };
        let parts: Vec<Range> = exclusive.map(part).collect();
        for part in parts {
            self.cut(part.first, part.last);
            self.ranges.insert(part.first, part);
        }
    }
}

impl OfFile {
    /// The locks of one style, as a claim has them.
    fn encode(&self, style: Style) -> Vec<u8> {
        let of_style = self.held.iter().filter(|((s, _), _)| *s == style);
        let locks = of_style.flat_map(|((_, owner), held)| {
            held.ranges.values().filter(|range| !range.is_refused).map(|range| FileLock {
                start: range.first,
                length: range.length(),
                client: 0,
                owner: *owner,
                pid: range.pid.into(),
                kind: range.kind,
            })
        });
        Writer::encode(&locks.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: InodeKey = InodeKey::head(7);
    const OWNER: (Style, u64) = (Style::Posix, 5);

    fn range(first: u64, last: u64, kind: u8) -> Range {
        Range { first, last, kind, pid: 3, is_refused: false }
    }

    #[test]
    fn ranges_are_cut_and_claimed() {
        let mut locks = FileLocks::default();
        locks.set(FILE, 2, OWNER, range(0, u64::MAX, SHARED));
        locks.set(FILE, 2, OWNER, range(10, 19, EXCLUSIVE));
        locks.set(FILE, 2, OWNER, range(15, 29, UNLOCK));
        locks.set(FILE, 3, (Style::Flock, 6), range(0, u64::MAX, EXCLUSIVE));
        locks.check();
        let mut claims = BTreeMap::from([(7, CapReconnect::default()), (8, CapReconnect::default())]);
        locks.add_to_claims(&mut claims);
        assert!(claims[&8].flock.is_empty());
        let mut r = wire::Reader::new(&claims[&7].flock);
        let (posix, flock): (Vec<FileLock>, Vec<FileLock>) = (r.get().expect("one"), r.get().expect("two"));
        let told = |l: &FileLock| (l.start, l.length, l.owner, l.kind);
        let posix: Vec<_> = posix.iter().map(told).collect();
        assert_eq!(posix, [(0, 10, 5, SHARED), (10, 5, 5, EXCLUSIVE), (30, 0, 5, SHARED)]);
        assert_eq!(flock.iter().map(told).collect::<Vec<_>>(), [(0, 0, 6, EXCLUSIVE)]);
        assert!(locks.free(FILE, OWNER) && !locks.free(FILE, OWNER));
        assert_eq!(locks.kind(FILE, (Style::Flock, 6)), Some(EXCLUSIVE));
        locks.check();
    }

    #[test]
    fn many_ranges_cost_what_they_overlap() {
        let mut locks = FileLocks::default();
        // A look at all of them for each would take minutes.
        for n in 0..100_000 {
            locks.set(FILE, 2, OWNER, range(2 * n, 2 * n, EXCLUSIVE));
        }
        locks.check();
        locks.set(FILE, 2, OWNER, range(0, u64::MAX, SHARED));
        assert_eq!(locks.files[&FILE].held[&OWNER].ranges.len(), 1);
    }

    #[test]
    fn a_handle_without_its_locks_fails_until_it_is_closed() {
        let mut locks = FileLocks::default();
        locks.set(FILE, 2, OWNER, range(0, 9, SHARED));
        locks.set(InodeKey::head(8), 4, OWNER, range(0, 9, SHARED));
        assert_eq!(locks.lose(|key| key == FILE), 1);
        assert!(locks.is_lost(2) && !locks.is_lost(4));
        locks.closed(FILE, 2);
        assert!(!locks.is_lost(2));
        assert_eq!(locks.lose(|key| key == FILE), 0);
        locks.check();
    }
}
