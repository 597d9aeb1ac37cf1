//! Log-based recovery: what the log tells of and a copy lacks is fetched to the primary, then sent to the
//! members; first what clients wait for (paper, 5.5).

pub mod reservation;
pub mod transfer;
pub mod unfound;

use crate::core::Core;
use crate::object::{head_of, hobject_of};
use crate::pg::Pg;
use crate::pg::backend::Transfer;
use crate::pg::member::Member;
use crate::pg::peering::round::PeerCopy;
use crate::pg::state::State;
use crate::qos::Charge;
use maps::{EVersion, OsdId};
use node::Level;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::ObjectKey;
use transfer::Sender;

/// True if a planted fault has objects that have just arrived taken for durable.
fn takes_arriving_for_durable() -> bool {
    stdx::mutants::is_active("osd_has_what_is_not_durable")
}

/// True if a planted fault has copies of former members removed before the PG is clean.
fn removes_copies_too_early() -> bool {
    stdx::mutants::is_active("osd_removes_copies_too_early")
}

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
    reverting: unfound::Reverting,
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
    fn is_pulling_newer(&self, than: EVersion) -> bool {
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

impl Pg {
    /// Forgets what is on its way.
    pub fn recovery_reset(&mut self, core: &mut Core) {
        let active = self.recovery.pulls.len() + self.recovery.sends.len();
        core.recovery_ended(active);
        self.recovery = Recovery::default();
        self.forget_slots(core);
    }

    /// True if an object must be complete on some copies before a request for it can be executed: here; for a
    /// write on all members, because it is sent as a change to their objects; and on all members too if its
    /// newest version may be on a single disk only, because nobody may be shown state that a single failure
    /// can take back.
    pub fn must_recover_first(&self, key: &ObjectKey, writes: bool) -> bool {
        let sure_to = self.replication.sure_to();
        let lacks = |(member, copy): (Member, &PeerCopy)| {
            let unsure = copy.missing().get(key).is_some_and(|need| writes || *need > sure_to);
            unsure || writes && self.backfill.holds(member, key)
        };
        self.lacks(key) || self.scrub.holds(key, writes) || self.members_copies().any(lacks)
    }

    /// True if an object is not durable here as it should be. An object that has just arrived may be lost
    /// again, while an update of it that is already ordered survives at a member: then nobody would have the
    /// previous state, and nobody else the new one.
    pub(in crate::pg) fn lacks(&self, key: &ObjectKey) -> bool {
        self.missing.contains_key(key) || self.recovery.is_pulling(key) && !takes_arriving_for_durable()
    }

    /// Advances `sure_to`, the version up to which all members are known to have all objects, once nothing
    /// after it lacks its object anywhere. Returns true if that has just become so.
    pub fn update_sure(&mut self) -> bool {
        if !self.state.is_active() {
            return false;
        }
        let sure_to = self.replication.sure_to();
        let unsure = |missing: &super::log::Missing| missing.values().any(|need| *need > sure_to);
        let arriving = self.recovery.is_pulling_newer(sure_to);
        let lacks_unsure =
            arriving || unsure(&self.missing) || self.members_copies().any(|(_, c)| unsure(c.missing()));
        self.replication.update_sure(lacks_unsure)
    }

    /// A client waits for an object.
    pub fn recover_first(&mut self, core: &mut Core, key: &ObjectKey) {
        if !self.recovery.urgent.contains(key) {
            self.recovery.urgent.push_back(key.clone());
        }
        for member in self.backfill.hurry(key) {
            self.backfill_go_on(core, member);
        }
        self.recover(core);
    }

    /// True if there is something to recover that is not in transit.
    pub fn wants_recovery(&self, core: &Core) -> bool {
        self.state == State::Active
            && self.is_primary(core)
            && self.holds_slots()
            && (self.next_to_recover(core).is_some()
                || !self.backfill.to_be_sent().is_empty()
                || self.to_be_compared(core).next().is_some())
    }

    /// Starts as many transfers as are allowed.
    pub fn recover(&mut self, core: &mut Core) {
        if !self.state.is_active() || !self.is_primary(core) {
            return;
        }
        while let Some(key) = self.recovery.urgent.pop_front() {
            // Urgent ones may exceed the limit by as many as clients wait for; they are bounded by the
            // requests held.
            self.recover_object(core, &key);
        }
        if self.has_slots(core) {
            self.recover_in_turn(core);
        }
        self.check_clean(core);
    }

    fn recover_in_turn(&mut self, core: &mut Core) {
        while core.has_free_transfer() {
            let Some(key) = self.next_to_recover(core) else { break };
            if !core.may_recover() {
                break;
            }
            self.recover_object(core, &key);
        }
        for member in self.backfill.to_be_sent() {
            self.backfill_go_on(core, member);
        }
        self.backfill_members(core);
    }

    /// True if an object should be sent to a member now: the member lacks it, has space as far as we know,
    /// and it is not in transit.
    fn is_push_due(&self, core: &Core, member: Member, key: &ObjectKey) -> bool {
        !self.recovery.is_pushing(member, key)
            && !self.missing.contains_key(key)
            && !core.is_out_of_space(member.osd)
    }

    pub(in crate::pg) fn next_to_recover(&self, core: &Core) -> Option<ObjectKey> {
        let r = &self.recovery;
        let may_pull = !core.is_out_of_space(core.id());
        let own =
            self.missing.keys().find(|k| may_pull && !r.pulls.contains_key(*k) && !r.unfound.contains(*k));
        if let Some(key) = own {
            return Some(key.clone());
        }
        // The objects that an update waits for may be smaller than those before them, and fit where those do
        // not.
        let is_due = |(member, key): &(Member, &ObjectKey)| {
            let lacks = self.round.is_missing(*member, key);
            lacks && self.is_push_due(core, *member, key) && !r.unfound.contains(*key)
        };
        if let Some((_, key)) = self.replication.lacking().find(is_due) {
            return Some(key.clone());
        }
        let members = self.members_copies();
        members
            .filter_map(|(member, c)| {
                c.missing().keys().find(|k| self.is_push_due(core, member, k) && !r.unfound.contains(*k))
            })
            .next()
            .cloned()
    }

    fn recover_object(&mut self, core: &mut Core, key: &ObjectKey) {
        if let Some(need) = self.missing.get(key).copied() {
            if !self.recovery.pulls.contains_key(key) && !core.is_out_of_space(core.id()) {
                self.pull(core, key, need, BTreeSet::new());
            }
            return;
        }
        if self.recovery.unfound.contains(key) {
            return;
        }
        let members = self.members_copies();
        let lacking = members.filter_map(|(member, c)| c.missing().get(key).map(|need| (member, *need)));
        let due = lacking.filter(|(member, _)| self.is_push_due(core, *member, key));
        for (member, need) in due.collect::<Vec<(Member, EVersion)>>() {
            let tried = BTreeSet::new();
            let transfer = self.backend.rebuild(self.us(core), member, &self.holders(core, key, &tried));
            if let Some(Transfer::Push(to)) = transfer {
                self.recovery.begin_push(to, key);
                self.push(core, to, key.clone(), need, false);
            }
        }
    }

    /// The members that are thought to have an object whole, without those that were `tried` in vain.
    fn holders(&self, core: &Core, key: &ObjectKey, tried: &BTreeSet<Member>) -> Vec<Member> {
        let we_have = !self.info.incomplete && !self.missing.contains_key(key);
        let has = |(member, copy): &(Member, &PeerCopy)| {
            copy.exists()
                && !copy.info().incomplete
                && !copy.lacks(key)
                && !tried.contains(member)
                && core.map().is_up(member.osd)
        };
        let others = self.round.copies().filter(has).map(|(member, _)| member);
        we_have.then(|| self.us(core)).into_iter().chain(others).collect()
    }

    /// Asks the next one who may have an object at this version.
    pub fn pull(&mut self, core: &mut Core, key: &ObjectKey, need: EVersion, tried: BTreeSet<Member>) {
        let us = self.us(core);
        let transfer = self.backend.rebuild(us, us, &self.holders(core, key, &tried));
        let Some(Transfer::Pull(from)) = transfer else {
            if self.recovery.unfound.insert(key.clone()) {
                core.event(Level::Warn, "object_unfound", format!("pg {} {key:?}@{need}", self.id));
                self.undo_refused(core, key);
            }
            return;
        };
        let tid = core.next_round();
        let body = peer::Pull {
            head: self.head(core, from.shard),
            object: hobject_of(key),
            version: need,
            offset: 0,
        };
        core.send_osd(from.osd, tid, peer::Body::from(body));
        core.begin_transfer();
        let charged = core.charge_object();
        self.recovery.pulls.insert(key.clone(), Pulling { tid, from, need, tried, charged });
    }

    /// Whom we asked does not have it.
    pub fn on_pull_refused(&mut self, core: &mut Core, from: Member, tid: u64) {
        let key = self.recovery.pulls.iter().find(|(_, p)| p.tid == tid).map(|(k, _)| k.clone());
        let Some(key) = key else { return };
        let Some(mut pulling) = self.recovery.pulls.remove(&key) else { return };
        core.recovery_ended(1);
        pulling.tried.insert(from);
        self.pull(core, &key, pulling.need, pulling.tried);
    }

    /// An object that we asked for is durable here.
    pub fn on_pulled(&mut self, core: &mut Core, round: u64, key: &ObjectKey) {
        if round != self.round.number() || self.recovery.pulls.remove(key).is_none() {
            return;
        }
        core.recovery_ended(1);
        core.count("objects_recovered", 1);
        if self.state == State::SelfBackfill {
            return self.self_backfill_got(core, key);
        }
        self.arrived(core, key);
    }

    /// An object has arrived here or at a member: requests that waited for it look again.
    fn arrived(&mut self, core: &mut Core, key: &ObjectKey) {
        if self.update_sure() {
            self.kick_all(core);
        }
        self.run_queue(core, &head_of(key));
        self.kick_lists(core);
        self.recover(core);
    }

    /// An object that we sent is durable at a member.
    pub fn on_pushed(&mut self, core: &mut Core, member: Member, key: ObjectKey) {
        core.count("objects_recovered", 1);
        self.round.arrived(member, &key);
        self.backfill.pushed(member, &key);
        self.recovery.end_push(member, &key);
        self.lacking_arrived(core, member, &head_of(&key));
        self.backfill_go_on(core, member);
        self.arrived(core, &key);
    }

    /// True if no member's copy lacks anything.
    pub fn all_complete(&self) -> bool {
        let members = self.members_copies();
        self.missing.is_empty()
            && self.recovery.pulls.is_empty()
            && members.into_iter().all(|(_, c)| c.missing().is_empty())
            && self.backfill.is_done()
    }

    /// Once the PG is clean, copies of OSDs that CRUSH does not want it on take space for nothing.
    pub fn remove_strays(&mut self, core: &mut Core) {
        if self.state != State::Clean && !removes_copies_too_early() {
            return;
        }
        for member in self.round.take_strays() {
            let body = peer::PgRemove { head: self.head(core, member.shard) };
            core.send_osd(member.osd, self.round.number(), peer::Body::from(body));
        }
    }

    /// Makes the PG clean if nothing is missing on any copy and the right OSDs serve it, as many as the pool
    /// wants: the past is forgotten.
    pub fn check_clean(&mut self, core: &mut Core) {
        if self.state != State::Active || !self.all_complete() {
            return;
        }
        let others_should_serve = self.follow_acting(core);
        if others_should_serve || self.members.acting.count() < usize::from(self.members.size) {
            return;
        }
        self.set_state(core, State::Clean);
        self.info.history.last_epoch_clean = core.epoch();
        self.members.past.clear();
        self.save(core);
        self.share_history(core);
        self.remove_strays(core);
        core.look_for_trims();
        self.scrub_clean(core);
    }
}
