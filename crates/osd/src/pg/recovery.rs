//! Log-based recovery: what the log tells of and a copy lacks is fetched to the primary, then sent to the members; first what
//! clients wait for (paper, 5.5).

use super::Pg;
use super::peering::round::PeerCopy;
use super::state::State;
use super::transfer::Sender;
use crate::core::Core;
use crate::object::{head_of, hobject_of};
use crate::qos::Charge;
use maps::{EVersion, OsdId};
use node::Level;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::ObjectKey;

/// An object that the primary has asked for.
#[derive(Debug)]
pub struct Pulling {
    /// Number of the request.
    pub tid: u64,
    from: OsdId,
    /// The version asked for.
    pub need: EVersion,
    tried: BTreeSet<OsdId>,
    /// What recovery paid for it before its size was known.
    pub charged: Charge,
}

/// Objects on their way.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Asked for.
    pub pulls: BTreeMap<ObjectKey, Pulling>,
    /// Being sent, by number.
    pub sends: BTreeMap<u64, Sender>,
    /// Which of them complete a member's copy.
    pub pushes: BTreeSet<(OsdId, ObjectKey)>,
    /// What clients wait for.
    urgent: VecDeque<ObjectKey>,
    /// What nobody has who answers.
    pub unfound: BTreeSet<ObjectKey>,
    /// Which of it a person has given up.
    pub reverting: super::unfound::Reverting,
}

impl Recovery {
    /// Whether an answer of `osd` is awaited.
    pub fn waits_for(&self, osd: OsdId) -> bool {
        self.pulls.values().any(|p| p.from == osd) || self.pushes.iter().any(|(to, _)| *to == osd)
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

    /// Whether an object must be complete on some copies before a request for it can be carried out: here; for a write on
    /// all members, because it is sent as a change to what they have; and on all members too where its newest version may
    /// be on a single disk only, because nobody may be shown what a single failure can take back.
    pub fn must_recover_first(&self, key: &ObjectKey, writes: bool) -> bool {
        let sure_to = self.replication.sure_to();
        let lacks = |(osd, copy): (OsdId, &PeerCopy)| {
            let unsure = copy.missing().get(key).is_some_and(|need| writes || *need > sure_to);
            unsure || writes && self.backfill.holds(osd, key)
        };
        self.lacks(key) || self.scrub.holds(key, writes) || self.members_copies().any(lacks)
    }

    /// Whether an object is not durable here as it should be. What has just arrived may be lost again, while an update of it that is ordered
    /// already outlives us at a member: then nobody has the state before, and nobody else the one after.
    pub(super) fn lacks(&self, key: &ObjectKey) -> bool {
        if stdx::mutants::is_active("osd_has_what_is_not_durable") {
            return self.missing.contains_key(key);
        }
        self.missing.contains_key(key) || self.recovery.pulls.contains_key(key)
    }

    /// Moves on what is known to be on all members, once nothing behind it lacks its object somewhere. `true` where that
    /// has just become so.
    pub fn update_sure(&mut self) -> bool {
        if !self.state.is_active() {
            return false;
        }
        let sure_to = self.replication.sure_to();
        let unsure = |missing: &super::log::Missing| missing.values().any(|need| *need > sure_to);
        let arriving = self.recovery.pulls.values().any(|pulling| pulling.need > sure_to);
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

    /// Whether there is something to recover that is not on its way.
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
            // Urgent ones may exceed the limit by as many as clients wait for; they are bounded by the requests held.
            self.recover_object(core, &key);
        }
        if self.has_slots(core) {
            self.recover_in_turn(core);
        }
        self.check_clean(core);
    }

    fn recover_in_turn(&mut self, core: &mut Core) {
        while core.recovering < core.config.options.recovery_max_active {
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

    /// Whether an object is to be sent to a member now: it lacks it, has room as far as we know, and it is not on its way.
    fn is_push_due(&self, core: &Core, osd: OsdId, key: &ObjectKey) -> bool {
        !self.recovery.pushes.contains(&(osd, key.clone()))
            && !self.missing.contains_key(key)
            && !core.is_without_room(osd)
    }

    pub(super) fn next_to_recover(&self, core: &Core) -> Option<ObjectKey> {
        let r = &self.recovery;
        let may_pull = !core.is_without_room(core.config.id);
        let own =
            self.missing.keys().find(|k| may_pull && !r.pulls.contains_key(*k) && !r.unfound.contains(*k));
        if let Some(key) = own {
            return Some(key.clone());
        }
        // What an update waits for may be less than what comes before it, and have room where that has none.
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
            if !self.recovery.pulls.contains_key(key) && !core.is_without_room(core.config.id) {
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
                self.recovery.pushes.insert((osd, key.clone()));
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
                && core.map.is_up(*osd)
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
        core.recovering += 1;
        let charged = core.qos.object_begins(core.now.mono);
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
        self.recovery.pushes.remove(&(osd, key.clone()));
        self.lacking_arrived(core, osd, &head_of(&key));
        self.backfill_go_on(core, osd);
        self.arrived(core, &key);
    }

    /// Whether no member's copy lacks anything.
    pub fn all_complete(&self) -> bool {
        let members = self.members_copies();
        self.missing.is_empty()
            && self.recovery.pulls.is_empty()
            && members.into_iter().all(|(_, c)| c.missing().is_empty())
            && self.backfill.is_done()
    }

    /// Once the PG is clean, copies of OSDs that CRUSH does not want it on take space for nothing.
    pub fn remove_strays(&mut self, core: &mut Core) {
        if self.state != State::Clean && !stdx::mutants::is_active("osd_removes_copies_too_early") {
            return;
        }
        for osd in self.round.take_strays() {
            let body = peer::PgRemove { head: self.head(core) };
            core.send_osd(osd, self.round.number(), peer::Body::from(body));
        }
    }

    /// Nothing is missing on any copy, and those serve that should, as many as the pool wants: the past is forgotten.
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
