//! Scrub at the primary. Chunk by chunk, the PG's keys are read on all members ([`map`]) and compared
//! ([`mod@compare`]). Damaged copies are replaced from a right one by recovery, and the chunk is scrubbed
//! again.
//!
//! Members apply updates in the primary's order, and each read sees all updates ordered before it. So it
//! suffices that no update of the chunk is ordered between the question and the last answer. Updates do not
//! wait for that long: the first ones make the scrub give the chunk up and try a smaller one later. Only
//! after several attempts do updates wait.
//!
//! A request that fails because our own copy is damaged has its object compared at once, in the same way.

pub mod compare;
pub mod finding;
mod ls;
pub mod map;
mod mend;
mod record;
mod run;
mod scanning;
mod schedule;
mod steps;

pub use record::Record;
pub use run::{Found, Wanted};

use crate::object::head_of;
use crate::pg::member::Member;
use compare::Maps;
use map::Scan;
use maps::OsdId;
use run::Run;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use stdx::Instant;
use store::ObjectKey;

/// Maximum number of times that updates may preempt one chunk.
const PREEMPTIONS: u32 = 5;
/// The longest pause between two chunks.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Pause after a scrub that could not continue.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// An object that no copy has whole is not compared again before.
const HOPELESS_FOR: Duration = Duration::from_secs(60);

/// Purpose of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// The scrub's turn.
    Chunk,
    /// A request needs it.
    Object,
}

/// A range that is being looked at.
#[derive(Debug)]
struct Check {
    tid: u64,
    from: ObjectKey,
    until: ObjectKey,
    purpose: Purpose,
    began: Instant,
    waiting: BTreeSet<Member>,
    maps: Maps,
    failed: bool,
}

/// Progress of a PG's scrub.
#[derive(Debug, Default)]
pub struct Scrub {
    /// The result of the last one.
    record: Record,
    /// The findings of the last one.
    found: Found,
    ordered: Option<Wanted>,
    run: Option<Run>,
    listing: Option<u64>,
    check: Option<Check>,
    /// Heads of objects that requests wait for to be compared.
    objects: VecDeque<ObjectKey>,
    /// Objects that were, in vain.
    hopeless: BTreeMap<ObjectKey, Instant>,
    /// Members whose copy of a resync could not be sent because ours is damaged.
    unsent: bool,
    /// Looks at our own copy.
    scans: BTreeMap<u64, Scan>,
    /// It pauses until then.
    pause: Option<Instant>,
    again_at: Option<Instant>,
}

impl Scrub {
    /// Starts with a stored record.
    pub fn new(record: Record) -> Self {
        Self { record, ..Self::default() }
    }

    /// The result of the last one.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The findings of the last one.
    #[cfg(test)]
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The end of the present pause.
    pub fn paused_until(&self) -> Option<Instant> {
        self.pause
    }

    /// Another PG becomes a part of this one: what is said of both holds.
    pub fn join(&mut self, other: &Self) {
        self.record.join(&other.record);
    }

    /// True if a request for an object must wait: an update of an object under comparison, or any request for
    /// an object that is compared for a request's sake.
    pub fn holds(&self, key: &ObjectKey, writes: bool) -> bool {
        let inside = |check: &Check| {
            (writes || check.purpose == Purpose::Object) && check.from <= *key && *key < check.until
        };
        self.check.as_ref().is_some_and(inside)
            || !self.objects.is_empty() && self.objects.contains(&head_of(key))
    }

    /// Whether an answer of this OSD is awaited.
    pub fn waits_for(&self, osd: OsdId) -> bool {
        let at_it = |check: &Check| check.waiting.iter().any(|member| member.osd == osd);
        self.check.as_ref().is_some_and(at_it)
    }

    pub(in crate::pg) fn is_listing(&self, id: u64) -> bool {
        self.listing == Some(id)
    }

    /// The scrub in progress.
    pub fn running(&self) -> Option<Wanted> {
        self.run.as_ref().map(|run| run.what)
    }
}
