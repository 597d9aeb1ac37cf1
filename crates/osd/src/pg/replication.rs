//! The updates of a PG on their way to stable storage, and how far all members are known to have them.

use super::request::Reply;
use crate::pg::member::Member;
use maps::{EVersion, OsdId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::ObjectKey;

/// The reply to an update: the number of its request, and what the request is answered.
pub type PendingReply = (u64, Box<Reply>);

/// An update that is not durable everywhere.
#[derive(Debug)]
struct InFlight {
    version: EVersion,
    object: ObjectKey,
    /// Members that have not made it durable, we ourselves included.
    waiting: BTreeSet<Member>,
    /// Members that have logged it and had no space for these objects: it is durable there once they have
    /// been sent.
    lacking: BTreeMap<Member, Vec<ObjectKey>>,
    /// The update is a deletion, even of an object that did not exist.
    deletes: bool,
    reply: Option<PendingReply>,
}

impl InFlight {
    /// True if all members have logged it: it is durable there, or they have said that they have no space for
    /// its objects.
    fn is_heard_of(&self) -> bool {
        self.waiting.iter().all(|member| self.lacking.contains_key(member))
    }
}

/// The updates that this OSD has ordered as primary, and the versions up to which all members have them.
///
/// Invariants: updates in flight have ascending versions behind `committed_to`; the oldest is not durable
/// everywhere, or it would have been taken out; each of `last_write` is in flight.
#[derive(Debug, Default)]
pub struct Replication {
    /// Updates that are not durable everywhere, oldest first.
    in_flight: VecDeque<InFlight>,
    /// All updates up to here are durable on all members.
    committed_to: EVersion,
    /// All updates up to here are known to have been durable, with their objects, on all members at some
    /// time. Behind it, after a change of members, an update may have its object on a single disk.
    sure_to: EVersion,
    /// Nothing behind `sure_to` lacks its object on a member any more, so `sure_to` follows `committed_to`.
    tail_sure: bool,
    /// The newest update of each object that has one in flight.
    last_write: BTreeMap<ObjectKey, EVersion>,
}

impl Replication {
    /// Nothing is in flight; the log goes to `head`.
    pub fn new(head: EVersion, sure_to: EVersion) -> Self {
        Self { committed_to: head, sure_to, ..Self::default() }
    }

    /// Another round of peering begins: what is in flight is found in the members' logs.
    pub fn new_round(&mut self) {
        *self = Self::new(self.committed_to, self.sure_to);
    }

    /// All members have the log up to `head`.
    pub fn activated(&mut self, head: EVersion) {
        assert!(self.in_flight.is_empty(), "updates before the activation at {head}");
        self.committed_to = head;
    }

    /// All updates up to here are durable on all members.
    pub fn committed_to(&self) -> EVersion {
        self.committed_to
    }

    /// All updates up to here were durable on all members, with their objects.
    pub fn sure_to(&self) -> EVersion {
        self.sure_to
    }

    /// True if no member lacks the object of an update behind [`Self::sure_to`].
    pub fn is_tail_sure(&self) -> bool {
        self.tail_sure
    }

    /// Another OSD knows that all members have had what goes up to here.
    pub fn learn_sure(&mut self, to: EVersion) {
        self.sure_to = self.sure_to.max(to);
    }

    /// Follows the commits, once no object is `unsure`. True if that has just become so.
    pub fn update_sure(&mut self, unsure: bool) -> bool {
        let became = !self.tail_sure && !unsure;
        self.tail_sure |= became;
        if self.tail_sure {
            self.sure_to = self.sure_to.max(self.committed_to);
        }
        became
    }

    /// An update is on its way to all of `waiting`.
    pub fn order(
        &mut self,
        (version, object): (EVersion, ObjectKey),
        waiting: BTreeSet<Member>,
        deletes: bool,
        reply: PendingReply,
    ) {
        let last = self.in_flight.back().map_or(self.committed_to, |update| update.version);
        assert!(version > last, "update {version} is ordered behind {last}");
        self.last_write.insert(object.clone(), version);
        let (lacking, reply) = (BTreeMap::new(), Some(reply));
        self.in_flight.push_back(InFlight { version, object, waiting, lacking, deletes, reply });
    }

    fn at(&self, version: EVersion) -> Option<usize> {
        self.in_flight.binary_search_by_key(&version, |f| f.version).ok()
    }

    /// The object of an update in flight.
    pub fn object_of(&self, version: EVersion) -> Option<ObjectKey> {
        self.at(version).map(|at| self.in_flight[at].object.clone())
    }

    /// An update is durable at a member.
    pub fn made_durable(&mut self, member: Member, version: EVersion) {
        if let Some(at) = self.at(version) {
            self.in_flight[at].waiting.remove(&member);
        }
    }

    /// Takes out the oldest update if it is durable everywhere. Gives its reply, unless that was sent before.
    pub fn take_durable(&mut self) -> Option<Option<PendingReply>> {
        let done = self.in_flight.pop_front_if(|update| update.waiting.is_empty())?;
        self.committed_to = done.version;
        if self.last_write.get(&done.object) == Some(&done.version) {
            self.last_write.remove(&done.object);
        }
        Some(done.reply)
    }

    /// The newest update in flight of an object; 0 if there is none.
    pub fn last_write(&self, object: &ObjectKey) -> EVersion {
        self.last_write.get(object).copied().unwrap_or_default()
    }

    /// Number of updates in flight.
    pub fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// True if an update is not durable at a member on this OSD.
    pub fn waits_for(&self, osd: OsdId) -> bool {
        self.in_flight.iter().any(|update| update.waiting.iter().any(|member| member.osd == osd))
    }

    /// True if not all members have logged the updates of these objects.
    pub fn is_unheard_of(&self, objects: impl Fn(&ObjectKey) -> bool) -> bool {
        self.in_flight.iter().any(|update| objects(&update.object) && !update.is_heard_of())
    }

    /// A member has logged an update and has no space for these objects.
    pub fn lacks(&mut self, member: Member, version: EVersion, objects: Vec<ObjectKey>) {
        let at = self.at(version).expect("it is in flight");
        self.in_flight[at].lacking.insert(member, objects);
    }

    /// True if a member has no space for some update in flight.
    pub fn is_out_of_space(&self, member: Member) -> bool {
        self.in_flight.iter().any(|update| update.lacking.contains_key(&member))
    }

    /// The objects that members lack for updates in flight, oldest first.
    pub fn lacking(&self) -> impl Iterator<Item = (Member, &ObjectKey)> {
        let lacking = self.in_flight.iter().flat_map(|update| &update.lacking);
        lacking.flat_map(|(member, keys)| keys.iter().map(|key| (*member, key)))
    }

    /// The updates of an object that a member had no space for and has now, oldest first. `is_missing` tells
    /// what it still lacks.
    pub fn arrived(
        &self,
        member: Member,
        object: &ObjectKey,
        is_missing: impl Fn(&ObjectKey) -> bool,
    ) -> Vec<EVersion> {
        let mut arrived = Vec::new();
        let not_there = |update: &&InFlight| update.object == *object && update.waiting.contains(&member);
        for update in self.in_flight.iter().rev().filter(not_there) {
            let Some(keys) = update.lacking.get(&member) else {
                // An object that was ordered to be removed is no longer missing, but may not be gone yet.
                break;
            };
            if !keys.iter().any(&is_missing) {
                arrived.push(update.version);
            }
        }
        arrived.reverse();
        arrived
    }

    /// Objects whose deletion is durable behind updates that are not only because members had no space for
    /// them, each with the version of the deletion. None of them has an update of its own that waits for
    /// space.
    pub fn early_deletions(&self) -> BTreeMap<ObjectKey, EVersion> {
        if self.in_flight.front().is_none_or(|first| first.lacking.is_empty()) {
            return BTreeMap::new();
        }
        let durable = |update: &&InFlight| update.waiting.is_empty();
        let heard_of = || self.in_flight.iter().take_while(|f| f.is_heard_of());
        let out_of_space: BTreeSet<_> = heard_of().filter(|f| !durable(f)).map(|f| &f.object).collect();
        let deletions = heard_of().filter(|f| f.deletes && durable(f));
        let early = deletions.filter(|deletion| !out_of_space.contains(&deletion.object));
        early.map(|deletion| (deletion.object.clone(), deletion.version)).collect()
    }

    /// Takes out the replies to updates that `ready` chooses.
    pub fn take_replies(
        &mut self,
        ready: impl Fn(&ObjectKey, EVersion) -> bool,
    ) -> Vec<(EVersion, PendingReply)> {
        let chosen = self.in_flight.iter_mut().filter(|f| ready(&f.object, f.version));
        chosen.filter_map(|update| Some((update.version, update.reply.take()?))).collect()
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        let mut last = self.committed_to;
        for update in &self.in_flight {
            assert!(last < update.version, "{} is in flight behind {last}", update.version);
            last = update.version;
        }
        let oldest = self.in_flight.front();
        assert!(oldest.is_none_or(|update| !update.waiting.is_empty()), "{oldest:?} is durable");
        for (object, version) in &self.last_write {
            let here = self.at(*version).is_some_and(|at| self.in_flight[at].object == *object);
            assert!(here, "{version} of {object:?} is not in flight");
        }
    }
}
