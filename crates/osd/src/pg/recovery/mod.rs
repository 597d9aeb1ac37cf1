//! Log-based recovery: what the log tells of and a copy lacks is fetched to the primary, then sent to the
//! members; first what clients wait for (paper, 5.5).

pub mod reservation;
pub mod transfer;
pub mod unfound;

use crate::core::Core;
use crate::object::{head_of, hobject_of};
use crate::pg::Pg;
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
    from: OsdId,
    /// The version asked for.
    need: EVersion,
    tried: BTreeSet<OsdId>,
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
    pushes: BTreeSet<(OsdId, ObjectKey)>,
    /// Objects that clients wait for.
    urgent: VecDeque<ObjectKey>,
    /// Objects whose newest version nobody has who answers.
    unfound: BTreeSet<ObjectKey>,
    /// Unfound objects that a person has given up.
    reverting: unfound::Reverting,
}

impl Recovery {
    /// True if an answer of `osd` is awaited.
    pub fn waits_for(&self, osd: OsdId) -> bool {
        self.pulls.values().any(|p| p.from == osd) || self.pushes.iter().any(|(to, _)| *to == osd)
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
    pub fn is_pushing(&self, osd: OsdId, key: &ObjectKey) -> bool {
        self.pushes.contains(&(osd, key.clone()))
    }

    /// An object is on its way to a member.
    pub fn begin_push(&mut self, osd: OsdId, key: &ObjectKey) {
        self.pushes.insert((osd, key.clone()));
    }

    /// An object is not on its way to a member any more.
    pub fn end_push(&mut self, osd: OsdId, key: &ObjectKey) {
        self.pushes.remove(&(osd, key.clone()));
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
        let lacks = |(osd, copy): (OsdId, &PeerCopy)| {
            let unsure = copy.missing().get(key).is_some_and(|need| writes || *need > sure_to);
            unsure || writes && self.backfill.holds(osd, key)
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
        for osd in self.backfill.hurry(key) {
            self.backfill_go_on(core, osd);
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
        for osd in self.backfill.to_be_sent() {
            self.backfill_go_on(core, osd);
        }
        self.backfill_members(core);
    }

    /// True if an object should be sent to a member now: the member lacks it, has space as far as we know,
    /// and it is not in transit.
    fn is_push_due(&self, core: &Core, osd: OsdId, key: &ObjectKey) -> bool {
        !self.recovery.is_pushing(osd, key) && !self.missing.contains_key(key) && !core.is_out_of_space(osd)
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
        let is_due = |(osd, key): &(OsdId, &ObjectKey)| {
            let lacks = self.round.is_missing(*osd, key);
            lacks && self.is_push_due(core, *osd, key) && !r.unfound.contains(*key)
        };
        if let Some((_, key)) = self.replication.lacking().find(is_due) {
            return Some(key.clone());
        }
        let members = self.members_copies();
        members
            .filter_map(|(osd, c)| {
                c.missing().keys().find(|k| self.is_push_due(core, osd, k) && !r.unfound.contains(*k))
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
        let lacking = members.filter_map(|(osd, c)| c.missing().get(key).map(|need| (osd, *need)));
        let lacking: Vec<(OsdId, EVersion)> = lacking.collect();
        for (osd, need) in lacking {
            if self.is_push_due(core, osd, key) {
                self.recovery.begin_push(osd, key);
                self.push(core, osd, key.clone(), need, false);
            }
        }
    }

    /// Asks the next one who may have an object at this version.
    pub fn pull(&mut self, core: &mut Core, key: &ObjectKey, need: EVersion, tried: BTreeSet<OsdId>) {
        let has = |(osd, copy): &(OsdId, &PeerCopy)| {
            copy.exists()
                && !copy.info().incomplete
                && !copy.lacks(key)
                && !tried.contains(osd)
                && core.map().is_up(*osd)
        };
        let Some(from) = self.round.copies().find(has).map(|(osd, _)| osd) else {
            if self.recovery.unfound.insert(key.clone()) {
                core.event(Level::Warn, "object_unfound", format!("pg {} {key:?}@{need}", self.id));
                self.undo_refused(core, key);
            }
            return;
        };
        let tid = core.next_round();
        let body = peer::Pull { head: self.head(core), object: hobject_of(key), version: need, offset: 0 };
        core.send_osd(from, tid, peer::Body::from(body));
        core.begin_transfer();
        let charged = core.charge_object();
        self.recovery.pulls.insert(key.clone(), Pulling { tid, from, need, tried, charged });
    }

    /// Whom we asked does not have it.
    pub fn on_pull_refused(&mut self, core: &mut Core, from: OsdId, tid: u64) {
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
    pub fn on_pushed(&mut self, core: &mut Core, osd: OsdId, key: ObjectKey) {
        core.count("objects_recovered", 1);
        self.round.arrived(osd, &key);
        self.backfill.pushed(osd, &key);
        self.recovery.end_push(osd, &key);
        self.lacking_arrived(core, osd, &head_of(&key));
        self.backfill_go_on(core, osd);
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
        for osd in self.round.take_strays() {
            let body = peer::PgRemove { head: self.head(core) };
            core.send_osd(osd, self.round.number(), peer::Body::from(body));
        }
    }

    /// Makes the PG clean if nothing is missing on any copy and the right OSDs serve it, as many as the pool
    /// wants: the past is forgotten.
    pub fn check_clean(&mut self, core: &mut Core) {
        if self.state != State::Active || !self.all_complete() {
            return;
        }
        let others_should_serve = self.follow_acting(core);
        if others_should_serve || self.members.acting.len() < usize::from(self.members.size) {
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
