//! MemberBackfill: a copy that is too old for the log is compared with a complete one, object by object in
//! the order of keys.
//!
//! A member's copy gets updates of objects before the cursor like any other. Of objects after it, it gets the
//! log entry only, because the comparison will bring the object. Writes to objects under comparison wait.
//! Until the end the copy is marked incomplete on its disk, counts neither for `min_size` nor as an
//! authority, and starts over after an interruption.

mod steps;

use crate::object::{first_of, head_of};
use crate::pg::member::{Asker, Member};
use crate::pg::range::successor;
use maps::EVersion;
use std::collections::{BTreeMap, BTreeSet};
use store::ObjectKey;

/// Objects that one member sends or fetches at once.
const AT_ONCE: usize = 8;
/// The most keys that one answer to a scan holds.
const SCAN_LIMIT: usize = 1024;

type Versions = BTreeMap<ObjectKey, EVersion>;

/// A range of our own store, being listed with versions.
#[derive(Debug)]
struct Listing {
    keys: usize,
    until: ObjectKey,
    versions: Versions,
    listed: bool,
    max: usize,
    purpose: Purpose,
}

#[derive(Debug)]
enum Purpose {
    /// To compare with a member's copy.
    Member(Member),
    /// To compare with the copy that we take ours from.
    OwnCopy,
    /// Another OSD asked.
    Asked(Asker),
}

/// A member's copy being compared, as the primary sees it.
#[derive(Debug)]
pub struct MemberBackfill {
    /// Everything before it is equal.
    pub cursor: ObjectKey,
    /// The end of what is being compared now.
    bound: Option<ObjectKey>,
    tid: u64,
    ours: Versions,
    to_send: Vec<(ObjectKey, EVersion, bool)>,
    sending: BTreeSet<ObjectKey>,
    compared: bool,
    ending: bool,
    /// There was no room for an object: what is being compared is compared again when there is some.
    failed: bool,
    /// A client waits for the objects under comparison: they are sent at full speed. Determined again once
    /// the end of the step is known.
    hurry: bool,
}

impl MemberBackfill {
    /// True if something that differs is not on its way.
    fn is_to_be_sent(&self) -> bool {
        self.compared && !self.to_send.is_empty() && self.sending.len() < AT_ONCE
    }

    /// True if the next objects are to be compared.
    fn is_to_be_compared(&self) -> bool {
        self.bound.is_none() && !self.ending
    }

    /// Nothing is compared yet.
    pub fn new(cursor: ObjectKey) -> Self {
        Self {
            cursor,
            bound: None,
            tid: 0,
            ours: Versions::new(),
            to_send: Vec::new(),
            sending: BTreeSet::new(),
            compared: false,
            ending: false,
            failed: false,
            hurry: false,
        }
    }

    /// A client waits for an object. Whether it waits for this.
    pub fn is_waited_for(&mut self, key: &ObjectKey) -> bool {
        let holds = self.holds(key);
        self.hurry |= holds;
        holds
    }

    /// True if writes to an object must wait: it is under comparison, or a clone of it was compared but not
    /// yet the head, so that the member has only a part of the state that a write changes.
    pub fn holds(&self, key: &ObjectKey) -> bool {
        let bound = self.bound.as_ref().unwrap_or(&self.cursor);
        self.cursor <= head_of(key) && first_of(key) < *bound
    }

    /// Fraction of a key range that is not known to be equal.
    pub fn part_left(&self, range: &(ObjectKey, ObjectKey)) -> f64 {
        let at = |key: &ObjectKey| f64::from(key.hash.reverse_bits());
        let (from, to) = (at(&range.0), at(&range.1));
        // The last PG's range ends where that of the next shard begins.
        let to = if to <= from { f64::from(u32::MAX) } else { to };
        if self.cursor >= range.1 { 0.0 } else { ((to - at(&self.cursor)) / (to - from)).clamp(0.0, 1.0) }
    }

    /// An object has arrived.
    pub fn pushed(&mut self, key: &ObjectKey) {
        self.sending.remove(key);
    }

    /// There was no room for an object. What was to follow it is not sent.
    pub fn refused(&mut self, key: &ObjectKey) {
        if self.sending.remove(key) {
            self.failed = true;
            self.to_send.clear();
        }
    }
}

/// Our own copy being compared, before the PG is active.
#[derive(Debug)]
pub struct SelfBackfill {
    source: Member,
    cursor: ObjectKey,
    until: ObjectKey,
    tid: u64,
    theirs: Versions,
    to_fetch: Vec<(ObjectKey, EVersion)>,
    fetching: BTreeSet<ObjectKey>,
}

/// End of a step that begins at a cursor, chosen so that an object's clones are in the step of its head:
/// before this object, or after it if it is the first.
fn before(cursor: &ObjectKey, key: &ObjectKey) -> ObjectKey {
    let first = first_of(key);
    if first > *cursor { first } else { successor(&head_of(key)) }
}

/// The copies of a PG that are compared object by object. It ends with the round of peering.
///
/// Invariants: no key before a cursor differs; only what was compared is sent, and the comparison ends when
/// all of it has arrived.
#[derive(Debug, Default)]
pub struct Backfill {
    /// As primary: the members' copies under backfill.
    members: BTreeMap<Member, MemberBackfill>,
    /// As primary, before the PG is active: our own copy.
    own: Option<SelfBackfill>,
    /// Parts of our store being listed.
    listings: BTreeMap<u64, Listing>,
}

impl Backfill {
    /// A member's copy is to be compared, from the first key on.
    pub fn begin(&mut self, member: Member, from: ObjectKey) {
        self.members.insert(member, MemberBackfill::new(from));
    }

    /// True if a member's copy is not known to be complete.
    pub fn is_filling(&self, member: Member) -> bool {
        self.members.contains_key(&member)
    }

    /// True if no member's copy is left to be filled.
    pub fn is_done(&self) -> bool {
        self.members.is_empty()
    }

    /// True if our own copy is being compared.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// True if a client waits for what is being compared at a member.
    pub fn is_hurried(&self, member: Member) -> bool {
        self.members.get(&member).is_some_and(|fill| fill.hurry)
    }

    /// Everything before it is equal at a member that is filled.
    pub fn cursor(&self, member: Member) -> Option<&ObjectKey> {
        self.members.get(&member).map(|fill| &fill.cursor)
    }

    /// True if writes to an object must wait for a member's comparison.
    pub fn holds(&self, member: Member, key: &ObjectKey) -> bool {
        self.members.get(&member).is_some_and(|fill| fill.holds(key))
    }

    /// The part of a range of keys that is not known to be equal at a member; `None` if its copy is not being
    /// filled.
    pub fn part_left(&self, member: Member, range: &(ObjectKey, ObjectKey)) -> Option<f64> {
        self.members.get(&member).map(|fill| fill.part_left(range))
    }

    /// The members to which something that differs is to be sent.
    pub fn to_be_sent(&self) -> Vec<Member> {
        self.members.iter().filter(|(_, fill)| fill.is_to_be_sent()).map(|(member, _)| *member).collect()
    }

    /// A client waits for an object: what holds it is sent as fast as can be. Gives the members to which
    /// something is to be sent for that.
    pub fn hurry(&mut self, key: &ObjectKey) -> Vec<Member> {
        let waited_for = self.members.iter_mut().filter_map(|(member, fill)| {
            let waited_for = fill.is_waited_for(key);
            (waited_for && fill.is_to_be_sent()).then_some(*member)
        });
        waited_for.collect()
    }

    /// An object has arrived at a member.
    pub fn pushed(&mut self, member: Member, key: &ObjectKey) {
        if let Some(fill) = self.members.get_mut(&member) {
            fill.pushed(key);
        }
    }

    /// A member had no space for an object.
    pub fn refused(&mut self, member: Member, key: &ObjectKey) {
        if let Some(fill) = self.members.get_mut(&member) {
            fill.refused(key);
        }
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        for (member, fill) in &self.members {
            assert!(fill.compared || fill.to_send.is_empty(), "osd.{member} is sent what was not compared");
            assert!(fill.sending.len() <= AT_ONCE, "too much is on its way to osd.{member}");
            assert!(!fill.ending || fill.sending.is_empty(), "osd.{member}'s comparison ends too early");
        }
    }
}
