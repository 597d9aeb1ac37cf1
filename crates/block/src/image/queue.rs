//! Changes of data objects, in order: those of one object are carried out in the order in which they came.
//!
//! Changes that are a single operation may be on their way together, since OSDs keep the order of a client's
//! operations on an object. One of several steps is alone with its object. Those of some objects may be held,
//! while somebody else changes these.

use crate::change::What;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// A change that has not begun.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: u64,
    pub(super) what: What,
}

#[derive(Debug, Default)]
struct Object {
    flying: usize,
    /// The one that is on its way must be alone.
    alone: bool,
    waiting: VecDeque<Waiting>,
}

/// Data objects with changes.
#[derive(Debug, Default)]
pub(super) struct Queue {
    objects: BTreeMap<u64, Object>,
    flying: usize,
    waiting: usize,
    /// No change of these objects begins.
    held: Range<u64>,
}

impl Queue {
    /// Adds a change.
    pub(super) fn push(&mut self, object: u64, change: Waiting) {
        self.objects.entry(object).or_default().waiting.push_back(change);
        self.waiting += 1;
    }

    /// True if no change is on its way.
    pub(super) fn is_quiet(&self) -> bool {
        self.flying == 0
    }

    /// Lets no change of these objects begin until [`Self::release`]. Returns true once none is on its way.
    pub(super) fn hold(&mut self, objects: Range<u64>) -> bool {
        let is_free = self.objects.range(objects.clone()).all(|(_, object)| object.flying == 0);
        self.held = objects;
        is_free
    }

    /// Ends what [`Self::hold`] began.
    pub(super) fn release(&mut self) {
        self.held = 0..0;
    }

    /// True if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Objects whose first change may begin, if it need not be alone.
    pub(super) fn ready(&self) -> Vec<u64> {
        let ready = |o: &Object| !o.waiting.is_empty() && !o.alone;
        let may = |(n, o): &(&u64, &Object)| ready(o) && !self.held.contains(*n);
        self.objects.iter().filter(may).map(|(n, _)| *n).collect()
    }

    /// The first change of an object, if it may begin.
    pub(super) fn first(&self, object: u64) -> Option<&Waiting> {
        let of = self.objects.get(&object)?;
        if of.alone || self.held.contains(&object) { None } else { of.waiting.front() }
    }

    /// Begins the first change of an object; `alone` if no other may be on its way. `None` if it must wait.
    pub(super) fn begin(&mut self, object: u64, alone: bool) -> Option<Waiting> {
        let of = self.objects.get_mut(&object)?;
        if of.alone || alone && of.flying > 0 || self.held.contains(&object) {
            return None;
        }
        let change = of.waiting.pop_front()?;
        of.flying += 1;
        of.alone = alone;
        self.flying += 1;
        self.waiting -= 1;
        Some(change)
    }

    /// A change of an object has ended.
    pub(super) fn end(&mut self, object: u64) {
        let of = self.objects.get_mut(&object).expect("it has a change on its way");
        of.flying -= 1;
        of.alone = false;
        self.flying -= 1;
        if of.flying == 0 && of.waiting.is_empty() {
            self.objects.remove(&object);
        }
    }

    /// Drops what waits. Returns the requests that it was for, each as often as it had changes.
    pub(super) fn clear(&mut self) -> Vec<u64> {
        self.waiting = 0;
        let of = self.objects.values_mut().flat_map(|o| std::mem::take(&mut o.waiting));
        let requests = of.map(|change| change.request).collect();
        self.objects.retain(|_, o| o.flying > 0);
        requests
    }
}
