//! The snapshots of one object: its clones, the snapshots that each shows, and the extents that they share.
//!
//! A snapshot costs nothing until the object changes. Then its previous state is kept as a clone, an object
//! of its own under the same name, whose id is the newest snapshot that the writer knew. The set is stored
//! with the head. A head that is deleted while it has clones stays as a *whiteout*, invisible to clients.

use maps::{EVersion, IntervalSet, SnapId};
use wire::wire_structs;

wire_structs! {
    /// A clone of the object.
    #[derive(Eq)]
    pub struct CloneEntry[plain] {
        /// Its id, which is the snapshot id of its key.
        pub id: SnapId,
        /// The PG's version of the change that created it; clones never change.
        pub version: EVersion,
        /// The snapshots that it shows, ascending; those that were removed are taken out.
        pub snaps: Vec<SnapId>,
        /// Size in bytes.
        pub size: u64,
        /// Ranges that it shares with the next newer clone, the newest one with the head.
        pub overlap: IntervalSet,
    }

    /// All clones of an object.
    #[derive(Eq)]
    pub struct SnapSet[v 1/1] {
        /// The newest snapshot that a writer knew: older ones that no clone shows did not exist then.
        pub seq: SnapId,
        /// Clones in ascending order.
        pub clones: Vec<CloneEntry>,
    }
}

/// The snapshots for which a write must preserve the object's state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapContext {
    /// The newest snapshot that existed.
    pub seq: SnapId,
    /// Existing snapshots, descending.
    pub snaps: Vec<SnapId>,
}

impl SnapContext {
    /// True if the context is well-formed: ids in order, none above the newest.
    pub fn is_valid(&self) -> bool {
        let descending = self.snaps.windows(2).all(|pair| pair[0] > pair[1]);
        let bounded = self.snaps.first().is_none_or(|newest| *newest <= self.seq);
        self.seq <= SnapId::MAX && descending && bounded && self.snaps.last() != Some(&SnapId(0))
    }
}

/// The state that shows an object at a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// The head: unchanged since.
    Head,
    /// A clone of this id.
    Clone(SnapId),
    /// There was no such object.
    Nothing,
}

/// Remainder of a clone after snapshots were removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trimmed {
    /// It shows none of the snapshots removed, or there is no such clone.
    Untouched,
    /// It still shows these.
    Shows(Vec<SnapId>),
    /// It shows none any more and is to be removed.
    Removed,
}

impl SnapSet {
    /// The state that shows the object at `snap`.
    pub fn at(&self, snap: SnapId) -> Shown {
        if snap > self.seq {
            return Shown::Head;
        }
        match self.clones.iter().find(|c| c.id >= snap) {
            // The first clone after it may have been created for later snapshots only: then the object did
            // not exist yet.
            Some(clone) if clone.snaps.first().is_some_and(|first| *first <= snap) => Shown::Clone(clone.id),
            _ => Shown::Nothing,
        }
    }

    /// Like [`Self::at`], for a clone named by its own id (MAP_SNAP_CLONE).
    pub fn at_clone(&self, id: SnapId) -> Shown {
        if id > self.seq {
            return Shown::Head;
        }
        self.clones.iter().find(|c| c.id == id).map_or(Shown::Nothing, |c| Shown::Clone(c.id))
    }

    /// True if a change under this context must preserve the head's state, if there is any.
    pub fn is_behind(&self, context: &SnapContext) -> bool {
        context.snaps.first().is_some_and(|newest| *newest > self.seq)
    }

    /// Records that the head, of this size, was cloned for the context's new snapshots. Returns the clone.
    pub fn add_clone(&mut self, context: &SnapContext, version: EVersion, size: u64) -> &CloneEntry {
        let new = context.snaps.iter().rev().filter(|snap| **snap > self.seq);
        let mut overlap = IntervalSet::new();
        overlap.insert(0, size);
        let snaps = new.copied().collect();
        self.clones.push(CloneEntry { id: context.seq, version, snaps, size, overlap });
        self.clones.last().expect("just added")
    }

    /// Records that these ranges of the head have changed.
    pub fn head_changed(&mut self, ranges: &IntervalSet) {
        if let Some(newest) = self.clones.last_mut() {
            newest.overlap.subtract(ranges);
        }
    }

    /// Ranges that the head shares with a clone, through all clones between them.
    pub fn shared_with_head(&self, id: SnapId) -> IntervalSet {
        let mut newer = self.clones.iter().filter(|c| c.id >= id);
        let mut shared = newer.next().map(|c| c.overlap.clone()).unwrap_or_default();
        newer.for_each(|c| intersect(&mut shared, &c.overlap));
        shared
    }

    /// Removes snapshots from a clone, and the clone from the set if it shows none any more.
    pub fn trim(&mut self, id: SnapId, is_removed: impl Fn(SnapId) -> bool) -> Trimmed {
        let Some(at) = self.clones.iter().position(|c| c.id == id) else { return Trimmed::Untouched };
        let left: Vec<SnapId> = self.clones[at].snaps.iter().copied().filter(|s| !is_removed(*s)).collect();
        if left == self.clones[at].snaps && !left.is_empty() {
            return Trimmed::Untouched;
        }
        if !left.is_empty() {
            self.clones[at].snaps.clone_from(&left);
            return Trimmed::Shows(left);
        }
        let gone = self.clones.remove(at);
        // The previous clone now borders on the next one.
        if at > 0 {
            intersect(&mut self.clones[at - 1].overlap, &gone.overlap);
        }
        Trimmed::Removed
    }

    /// Bytes that the clones hold beyond shared ones.
    pub fn bytes(&self) -> u64 {
        self.clones.iter().map(|c| c.size.saturating_sub(c.overlap.size())).sum()
    }
}

/// Intersects `set` with `other`.
fn intersect(set: &mut IntervalSet, other: &IntervalSet) {
    let mut rest = set.clone();
    rest.subtract(other);
    set.subtract(&rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[u64]) -> Vec<SnapId> {
        ids.iter().copied().map(SnapId).collect()
    }

    fn context(snaps: &[u64]) -> SnapContext {
        SnapContext { seq: SnapId(snaps.first().copied().unwrap_or(0)), snaps: ids(snaps) }
    }

    fn range(from: u64, len: u64) -> IntervalSet {
        let mut set = IntervalSet::new();
        set.insert(from, len);
        set
    }

    /// Cloned at 4 (for 2, 3 and 4) and at 7.
    fn two_clones() -> SnapSet {
        let mut set = SnapSet { seq: SnapId(1), ..SnapSet::default() };
        assert_eq!(set.add_clone(&context(&[4, 3, 2, 1]), EVersion::default(), 100).snaps, ids(&[2, 3, 4]));
        set.seq = SnapId(4);
        set.head_changed(&range(0, 10));
        set.add_clone(&context(&[7, 4, 3, 2, 1]), EVersion::default(), 50);
        set.seq = SnapId(7);
        set.head_changed(&range(5, 10));
        set
    }

    #[test]
    fn a_snapshot_is_shown_by_the_first_clone_behind_it_that_was_made_for_it() {
        let set = two_clones();
        let shown: Vec<Shown> = (1..9).map(|s| set.at(SnapId(s))).collect();
        let clone = |id| Shown::Clone(SnapId(id));
        // 5 and 6 were never in a context: nobody has seen the object through them.
        assert_eq!(
            shown,
            [
                Shown::Nothing,
                clone(4),
                clone(4),
                clone(4),
                Shown::Nothing,
                Shown::Nothing,
                clone(7),
                Shown::Head
            ]
        );
        assert_eq!(set.at_clone(SnapId(4)), clone(4));
        assert_eq!(set.at_clone(SnapId(3)), Shown::Nothing);
    }

    #[test]
    fn overlaps_are_kept_from_one_clone_to_the_next() {
        let mut set = two_clones();
        assert_eq!(set.clones[0].overlap, range(10, 90));
        assert_eq!(set.shared_with_head(SnapId(4)).iter().collect::<Vec<_>>(), [(15, 35)]);
        assert_eq!(set.bytes(), 10 + 10);
        assert_eq!(set.trim(SnapId(7), |s| s == SnapId(7)), Trimmed::Removed);
        assert_eq!(set.clones[0].overlap.iter().collect::<Vec<_>>(), [(15, 35)]);
        assert_eq!(set.trim(SnapId(4), |s| s == SnapId(3)), Trimmed::Shows(ids(&[2, 4])));
        assert_eq!(set.trim(SnapId(4), |s| s == SnapId(3)), Trimmed::Untouched);
        assert_eq!(set.at(SnapId(3)), Shown::Clone(SnapId(4)), "as Ceph: nobody asks for a removed one");
    }

    #[test]
    fn contexts_are_descending_and_bounded() {
        assert!(context(&[]).is_valid() && context(&[5, 3]).is_valid());
        for bad in [&[3, 5][..], &[5, 5], &[5, 0]] {
            assert!(!context(bad).is_valid(), "{bad:?}");
        }
        assert!(!SnapContext { seq: SnapId(2), snaps: ids(&[3]) }.is_valid());
    }
}
