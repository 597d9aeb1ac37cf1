//! Changes of directory fragments that the journal has: splits, and joins of parts.
//!
//! A change has four steps, so that a crash between any two leaves the directory whole. *Old* fragments are
//! those that are split or joined, *new* ones take their place:
//!
//! 1. An event says that the change begins. What had changed before in the old fragments is written back once
//!    more; what changes after it is not, so that the stored fragments stay as they are.
//! 2. The stored entries are copied to the objects of the new fragments.
//! 3. An event gives the directory its new tree of fragments. What has changed since the first event is still
//!    marked, now in the new fragments, whose write-back makes the copy whole.
//! 4. The objects of the old fragments are removed.
//!
//! The journal keeps the first event until the last step is done. So a replay that finds only the beginning
//! removes the objects of the new fragments, and one that finds both events removes those of the old ones.
//!
//! A fragment that was replaced may come back: what was split is joined, or split by other bits. Before that,
//! the journal must have expired up to its end. Else a replay that writes changes back, since they crowd the
//! cache, would write what had changed in the former fragment to the object of the present one.

use crate::types::Segment;
use fsfmt::{DirFrag, Refragment};
use std::collections::BTreeMap;

/// The last change that has begun.
#[derive(Clone, Copy, Debug)]
struct Current {
    change: Refragment,
    /// True if the new fragments have taken the place of the old ones.
    is_done: bool,
    /// True if the write-back of what had changed before has begun.
    is_flushed: bool,
    /// The segment of the event with which it began.
    since: Segment,
}

/// The changes of fragments that the journal still has to keep. The rank makes one at a time, but a replay
/// may find several: their objects are gone, or may have come back by a write-back during the replay.
///
/// Invariant: a fragment of `leftovers` is none that its directory has.
#[derive(Default, Debug)]
pub struct Refragments {
    current: Option<Current>,
    /// Fragments whose objects may be there although nobody needs them, each with the segment of the event
    /// with which its change began.
    leftovers: BTreeMap<DirFrag, Segment>,
    /// Fragments that were replaced, each with the segment of the event: no later one changed it.
    former: BTreeMap<DirFrag, Segment>,
}

impl Refragments {
    /// The segment up to which the journal, whose first segment is `oldest`, must expire before a change
    /// begins.
    pub fn must_expire(&mut self, change: Refragment, oldest: Segment) -> Option<Segment> {
        self.former.retain(|_, segment| *segment >= oldest);
        change.new_ones().iter().filter_map(|dir| self.former.get(dir)).max().copied()
    }

    /// Fragments whose objects may be left: those of a change that was not carried out, or the old ones of
    /// one that was.
    pub fn leftovers(&self) -> impl Iterator<Item = DirFrag> {
        self.leftovers.keys().copied()
    }

    /// The first segment that a change needs.
    pub(super) fn first_needed(&self) -> Option<Segment> {
        self.leftovers.values().copied().min()
    }

    /// True if changes in a fragment are not to be written back: its entries are being copied.
    pub(super) fn is_copied(&self, dir: DirFrag) -> bool {
        self.current.is_some_and(|current| !current.is_done && current.change.replaces(dir))
    }

    /// Notes the beginning of a change, by an event of `segment`.
    pub(super) fn begin(&mut self, change: Refragment, segment: Segment) {
        self.current = Some(Current { change, is_done: false, is_flushed: false, since: segment });
        self.leftovers.extend(change.new_ones().into_iter().map(|dir| (dir, segment)));
    }

    /// Notes that new fragments have taken the place of the old ones, by an event of `segment`.
    pub(super) fn switch(&mut self, change: Refragment, segment: Segment) {
        let begun = self.current.filter(|current| current.change == change);
        let since = begun.map_or(segment, |current| current.since);
        self.current = Some(Current { change, is_done: true, is_flushed: true, since });
        for dir in change.new_ones() {
            self.leftovers.remove(&dir);
        }
        self.leftovers.extend(change.old().into_iter().map(|dir| (dir, since)));
        self.former.extend(change.old().into_iter().map(|dir| (dir, segment)));
    }

    /// Notes that the write-back of what had changed before has begun.
    pub fn note_flush(&mut self) {
        self.current.iter_mut().for_each(|current| current.is_flushed = true);
    }

    /// True if the write-back of what had changed before has begun.
    pub fn is_flushed(&self) -> bool {
        self.current.is_some_and(|current| current.is_flushed)
    }

    /// No objects are left of any change.
    pub fn end(&mut self) {
        self.current = None;
        self.leftovers.clear();
    }

    /// Somebody else has ended the changes that began before `segment`.
    pub fn note_stored(&mut self, segment: Segment) {
        self.current = self.current.filter(|current| current.since >= segment);
        self.leftovers.retain(|_, since| *since >= segment);
        self.former.retain(|_, since| *since >= segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsfmt::Ino;

    /// A fragment that has come back by another way is not removed because of what it was before.
    #[test]
    fn what_has_taken_a_place_again_is_not_left_over() {
        let whole = DirFrag::whole(Ino(Ino::FIRST_USER));
        let low = whole.parts(1).next().expect("a part");
        let split = |dir, bits| Refragment::split(dir, bits).expect("possible");
        let join = |dir, bits| Refragment::join(dir, bits).expect("possible");
        let mut refragments = Refragments::default();
        let changes = [split(whole, 1), split(low, 2), join(low, 2), join(whole, 1), split(whole, 3)];
        for (change, segment) in changes.into_iter().zip(1..) {
            refragments.begin(change, segment);
            refragments.switch(change, segment);
        }
        let left: Vec<DirFrag> = refragments.leftovers().collect();
        let halves = whole.parts(1);
        let expected: Vec<DirFrag> = [whole].into_iter().chain(halves).collect();
        assert_eq!(left, expected, "the eight parts are in use");
        assert_eq!(refragments.first_needed(), Some(4), "the halves were joined last");
        assert_eq!(refragments.must_expire(split(whole, 1), 1), Some(4));
        assert_eq!(refragments.must_expire(join(whole, 3), 1), Some(5));
        assert_eq!(refragments.must_expire(join(whole, 3), 6), None);
        refragments.begin(join(whole, 3), 9);
        assert!(refragments.is_copied(whole.parts(3).last().expect("a part")) && !refragments.is_copied(low));
        refragments.note_stored(9);
        assert_eq!(refragments.leftovers().collect::<Vec<_>>(), [whole]);
    }
}
