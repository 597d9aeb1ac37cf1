//! One round of peering: whom the primary has asked, and what it knows of the other copies.

use crate::pg::info::Info;
use crate::pg::log::{Entry, Missing, PgLog};
use crate::pg::member::Member;
use maps::{EVersion, OsdId};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Instant;
use store::ObjectKey;

/// The primary's knowledge of another OSD's copy, in one round of peering.
#[derive(Debug, Default)]
pub struct PeerCopy {
    /// It has one.
    exists: bool,
    info: Info,
    /// Its log, if that was asked for and has not been compared.
    log: Option<PgLog>,
    missing: Missing,
    /// The newest version that it has in common with the primary's log.
    common: EVersion,
    /// The protocol that its OSD understands.
    feature_level: u32,
    /// It has made log and info durable.
    activated: bool,
}

impl PeerCopy {
    /// A copy as its OSD describes it.
    pub fn new(exists: bool, info: Info, feature_level: u32) -> Self {
        Self { exists, info, feature_level, ..Self::default() }
    }

    /// True if the OSD has a copy.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// The copy's description.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The objects that it lacks.
    pub fn missing(&self) -> &Missing {
        &self.missing
    }

    /// True if it lacks an object.
    pub fn lacks(&self, key: &ObjectKey) -> bool {
        self.missing.contains_key(key)
    }

    /// The newest version that it has in common with the primary's log.
    pub fn common(&self) -> EVersion {
        self.common
    }

    /// The protocol that its OSD understands.
    pub fn feature_level(&self) -> u32 {
        self.feature_level
    }

    /// True if it has made log and info durable.
    pub fn is_activated(&self) -> bool {
        self.activated
    }

    /// Finds out by our log what the copy lacks. False if the log does not tell: only backfill completes the
    /// copy.
    fn compare(&mut self, ours: &PgLog) -> bool {
        let common = match &mut self.log {
            _ if self.info.incomplete => None,
            Some(log) => log.common_point(ours),
            None => PgLog::new(self.info.last_update, Vec::new(), Vec::new()).common_point(ours),
        };
        let Some(common) = common else {
            self.missing.clear();
            return false;
        };
        self.common = common;
        if let Some(mut log) = self.log.take() {
            log.rewind(common, &mut self.missing);
        }
        let mut log = PgLog::new(common, Vec::new(), Vec::new());
        log.extend(ours.since(common), ours.head(), &mut self.missing);
        true
    }
}

/// One round of peering. A new interval, or a lost connection, begins the next one, with nothing known.
///
/// Invariants: of an OSD that was asked for its description nothing is known until it has answered; strays
/// are removed only by the round that found them.
#[derive(Debug, Default)]
pub struct PeeringRound {
    /// Answers to another round are ignored. 0: the PG is new here, and no round has begun.
    number: u64,
    copies: BTreeMap<Member, PeerCopy>,
    /// OSDs that have a copy, or at least remember the PG, and are no members.
    strays: BTreeSet<Member>,
    /// OSDs that were asked and have not answered.
    asked: BTreeSet<Member>,
    /// OSDs that are down and may know more than those who are up.
    blocked_by: Vec<OsdId>,
    /// Our own part of the activation is durable.
    activated: bool,
    /// A connection was lost: the next round begins then.
    repeer_at: Option<Instant>,
    /// Not primary: the number of the primary's round that we take part in; 0 for none.
    activation: u64,
}

impl PeeringRound {
    /// A round of this number.
    pub fn new(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    /// Number of the round.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The known copies of other OSDs.
    pub fn copies(&self) -> impl Iterator<Item = (Member, &PeerCopy)> {
        self.copies.iter().map(|(member, copy)| (*member, copy))
    }

    /// A known copy of another OSD.
    pub fn copy(&self, member: Member) -> Option<&PeerCopy> {
        self.copies.get(&member)
    }

    /// True if `member` has described its copy.
    pub fn knows(&self, member: Member) -> bool {
        self.copies.contains_key(&member)
    }

    /// True if a member is known to lack an object.
    pub fn is_missing(&self, member: Member, key: &ObjectKey) -> bool {
        self.copy(member).is_some_and(|copy| copy.lacks(key))
    }

    /// `member` is asked for its description. False if that has been done.
    pub fn ask_info(&mut self, member: Member) -> bool {
        !self.copies.contains_key(&member) && self.asked.insert(member)
    }

    /// `member` is asked for its log.
    pub fn ask_log(&mut self, member: Member) {
        self.asked.insert(member);
    }

    /// Takes note of an answer to the round `tid`. False if it was not awaited.
    pub fn take_answer(&mut self, from: Member, tid: u64) -> bool {
        tid == self.number && self.asked.remove(&from)
    }

    /// The OSDs that have not answered.
    pub fn asked(&self) -> impl Iterator<Item = Member> {
        self.asked.iter().copied()
    }

    /// True if an answer of this OSD is awaited.
    pub fn waits_for(&self, osd: OsdId) -> bool {
        self.asked.iter().any(|member| member.osd == osd)
    }

    /// True if everybody who was asked has answered.
    pub fn has_all_answers(&self) -> bool {
        self.asked.is_empty()
    }

    /// Takes the description of a copy.
    pub fn learn(&mut self, from: Member, copy: PeerCopy) {
        self.copies.insert(from, copy);
    }

    /// Takes a member's log.
    pub fn learn_log(&mut self, from: Member, info: Info, log: PgLog, missing: Missing) {
        if let Some(copy) = self.copies.get_mut(&from) {
            (copy.info, copy.log, copy.missing) = (info, Some(log), missing);
        }
    }

    /// These OSDs are down, and may know more than those who are up.
    pub fn block_by(&mut self, osds: Vec<OsdId>) {
        self.blocked_by = osds;
    }

    /// The OSDs that are down and may know more.
    pub fn blocked_by(&self) -> &[OsdId] {
        &self.blocked_by
    }

    /// An OSD that is no member has a copy, or remembers the PG.
    pub fn found_stray(&mut self, member: Member) {
        self.strays.insert(member);
    }

    /// Takes the strays, which are told to remove their copies.
    pub fn take_strays(&mut self) -> BTreeSet<Member> {
        std::mem::take(&mut self.strays)
    }

    /// Finds out by our log what a member lacks. False if only backfill completes its copy.
    pub fn compare_log(&mut self, member: Member, ours: &PgLog) -> bool {
        self.copies.entry(member).or_default().compare(ours)
    }

    /// Our own part of the activation is durable.
    pub fn activated(&mut self) {
        self.activated = true;
    }

    /// True if our own part of the activation is durable.
    pub fn is_activated(&self) -> bool {
        self.activated
    }

    /// A member's part of the activation is durable.
    pub fn member_activated(&mut self, member: Member) {
        if let Some(copy) = self.copies.get_mut(&member) {
            copy.activated = true;
        }
    }

    /// True if a member's part of the activation is durable.
    pub fn has_activated(&self, member: Member) -> bool {
        self.copy(member).is_some_and(PeerCopy::is_activated)
    }

    /// Not primary: we take part in this round of the primary.
    pub fn join(&mut self, activation: u64) {
        assert!(activation > self.activation, "activation {activation} after {}", self.activation);
        self.activation = activation;
    }

    /// Not primary: the number of the primary's round that we take part in; 0 for none.
    pub fn activation(&self) -> u64 {
        self.activation
    }

    /// The next round begins at this time.
    pub fn repeer(&mut self, at: Instant) {
        self.repeer_at = Some(at);
    }

    /// The time at which the next round begins.
    pub fn repeer_at(&self) -> Option<Instant> {
        self.repeer_at
    }

    /// An update is sent to the members: what they lacked and it removes they lack no more, and what it
    /// leaves otherwise they lack as it is then. They have no space for it, or it would have gone there
    /// first.
    pub fn update_sent(&mut self, entry: &Entry) {
        for change in entry.changes() {
            for copy in self.copies.values_mut() {
                if change.removed {
                    copy.missing.remove(&change.key);
                } else if let Some(need) = copy.missing.get_mut(&change.key) {
                    *need = entry.version;
                }
            }
        }
    }

    /// A member has no space for the first of these updates of one object, and so lacks the others too. Gives
    /// the objects that it lacks; `None` if nothing is known of it.
    pub fn update_refused(
        &mut self,
        member: Member,
        updates: impl Iterator<Item = Entry>,
    ) -> Option<Vec<ObjectKey>> {
        let copy = self.copies.get_mut(&member)?;
        let mut lacking = Vec::new();
        for entry in updates {
            for change in entry.changes() {
                if change.removed {
                    copy.missing.remove(&change.key);
                } else {
                    copy.missing.insert(change.key.clone(), entry.version);
                    lacking.push(change.key);
                }
            }
        }
        Some(lacking)
    }

    /// A member's copy of an object is damaged: it is replaced like one that it lacks.
    pub fn found_damaged(&mut self, member: Member, key: &ObjectKey, need: EVersion) {
        if let Some(copy) = self.copies.get_mut(&member) {
            copy.missing.insert(key.clone(), need);
        }
    }

    /// A member has shown objects, so it has a copy. One that was made after the members came together was
    /// not there when they were asked.
    pub fn found_copy(&mut self, member: Member) {
        if let Some(copy) = self.copies.get_mut(&member) {
            copy.exists = true;
        }
    }

    /// An object is durable at a member.
    pub fn arrived(&mut self, member: Member, key: &ObjectKey) {
        if let Some(copy) = self.copies.get_mut(&member) {
            copy.missing.remove(key);
        }
    }

    /// A member's copy was compared to its end, and equals ours.
    pub fn completed(&mut self, member: Member) {
        if let Some(copy) = self.copies.get_mut(&member) {
            copy.info.incomplete = false;
        }
    }

    /// Asserts the invariants: outside a comparison of logs, each log that was asked for has been compared.
    pub fn check(&self) {
        assert!(
            self.number != 0 || self.copies.is_empty() && self.asked.is_empty(),
            "asked before the first round"
        );
        assert!(!self.activated || self.has_all_answers(), "activated while {:?} are asked", self.asked);
    }
}
