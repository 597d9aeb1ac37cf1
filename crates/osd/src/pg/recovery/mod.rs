//! Log-based recovery: what the log tells of and a copy lacks is fetched to the primary, then sent to the
//! members; first what clients wait for (paper, 5.5).

pub mod reservation;
mod reverting;
mod sending;
mod slots;
mod steps;
pub mod suspended;
mod transfer;
pub mod unfound;

use crate::pg::member::Member;
use crate::qos::Charge;
use maps::{EVersion, OsdId};
use reverting::Reverting;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::ObjectKey;
use transfer::Sender;

/// An object that the primary has asked for.
#[derive(Debug)]
pub struct Pulling {
    /// Number of the request.
    tid: u64,
    from: Member,
    /// The version asked for.
    need: EVersion,
    tried: BTreeSet<Member>,
    /// Bytes charged to recovery before its size was known.
    charged: Charge,
}

/// Objects on their way, those that clients wait for, and those that nobody has. It ends with the round of
/// peering.
///
/// Invariant: an object is pulled from one OSD at a time, and sent to a member once at a time.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Objects that were asked for.
    pulls: BTreeMap<ObjectKey, Pulling>,
    /// Objects being sent, by number.
    sends: BTreeMap<u64, Sender>,
    /// Objects being sent that complete a member's copy.
    pushes: BTreeSet<(Member, ObjectKey)>,
    /// Objects that clients wait for.
    urgent: VecDeque<ObjectKey>,
    /// Objects whose newest version nobody has who answers.
    unfound: BTreeSet<ObjectKey>,
    /// Unfound objects that a person has given up.
    reverting: Reverting,
}

impl Recovery {
    /// True if an answer of this OSD is awaited.
    pub fn waits_for(&self, osd: OsdId) -> bool {
        self.pulls.values().any(|p| p.from.osd == osd) || self.pushes.iter().any(|(to, _)| to.osd == osd)
    }

    /// Number of objects that were asked for.
    pub fn pull_count(&self) -> usize {
        self.pulls.len()
    }

    /// Number of objects that are sent to members.
    pub fn push_count(&self) -> usize {
        self.pushes.len()
    }

    /// Number of objects that nobody has.
    pub fn unfound_count(&self) -> usize {
        self.unfound.len()
    }

    /// True if an object was asked for.
    pub fn is_pulling(&self, key: &ObjectKey) -> bool {
        self.pulls.contains_key(key)
    }

    /// True if a newer version of an object than `than` was asked for.
    pub fn is_pulling_newer(&self, than: EVersion) -> bool {
        self.pulls.values().any(|pulling| pulling.need > than)
    }

    /// Ends the pull of an object. Gives the version that was asked for.
    pub fn end_pull(&mut self, key: &ObjectKey) -> Option<EVersion> {
        self.pulls.remove(key).map(|pulling| pulling.need)
    }

    /// True if an object is on its way to a member.
    pub fn is_pushing(&self, member: Member, key: &ObjectKey) -> bool {
        self.pushes.contains(&(member, key.clone()))
    }

    /// An object is on its way to a member.
    pub fn begin_push(&mut self, member: Member, key: &ObjectKey) {
        self.pushes.insert((member, key.clone()));
    }

    /// An object is not on its way to a member any more.
    pub fn end_push(&mut self, member: Member, key: &ObjectKey) {
        self.pushes.remove(&(member, key.clone()));
    }

    /// True if nobody has an object's newest version.
    pub fn is_unfound(&self, key: &ObjectKey) -> bool {
        self.unfound.contains(key)
    }

    /// Nobody is known to have an object. False if that was known before.
    pub fn lost(&mut self, key: &ObjectKey) -> bool {
        self.unfound.insert(key.clone())
    }

    /// The objects that `found` chooses may be had somewhere. True if one of them was unfound.
    pub fn found(&mut self, found: impl Fn(&ObjectKey) -> bool) -> bool {
        let before = self.unfound.len();
        self.unfound.retain(|key| !found(key));
        self.unfound.len() < before
    }

    /// True if one of the objects that `chosen` chooses is unfound.
    pub fn is_any_unfound(&self, chosen: impl Fn(&ObjectKey) -> bool) -> bool {
        self.unfound.iter().any(chosen)
    }
}
