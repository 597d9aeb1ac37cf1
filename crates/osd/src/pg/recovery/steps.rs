//! What is recovered next, from whom, and when a PG is clean.

use super::{Pulling, Recovery};
use crate::core::Core;
use crate::object::{head_of, hobject_of};
use crate::pg::Pg;
use crate::pg::backend::Transfer;
use crate::pg::log::Missing;
use crate::pg::member::Member;
use crate::pg::peering::round::PeerCopy;
use crate::pg::state::State;
use maps::EVersion;
use node::Level;
use std::collections::BTreeSet;
use store::ObjectKey;

/// True if a planted fault has objects that have just arrived taken for durable.
fn takes_arriving_for_durable() -> bool {
    stdx::mutants::is_active("osd_has_what_is_not_durable")
}

/// True if a planted fault has copies of former members removed before the PG is clean.
fn removes_copies_too_early() -> bool {
    stdx::mutants::is_active("osd_removes_copies_too_early")
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
        self.local.lacks(key) || self.recovery.is_pulling(key) && !takes_arriving_for_durable()
    }

    /// Advances `sure_to`, the version up to which all members are known to have all objects, once nothing
    /// after it lacks its object anywhere. Returns true if that has just become so.
    pub fn update_sure(&mut self) -> bool {
        if !self.state.is_active() {
            return false;
        }
        let sure_to = self.replication.sure_to();
        let unsure = |missing: &Missing| missing.values().any(|need| *need > sure_to);
        let arriving = self.recovery.is_pulling_newer(sure_to);
        let lacks_unsure = arriving
            || unsure(self.local.missing())
            || self.members_copies().any(|(_, c)| unsure(c.missing()));
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
                || self.to_be_sent(core).next().is_some()
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
        for member in self.to_be_sent(core).collect::<Vec<_>>() {
            self.backfill_go_on(core, member);
        }
        self.backfill_members(core);
    }

    /// True if an object should be sent to a member now: the member lacks it, has space as far as we know,
    /// and it is not in transit.
    fn is_push_due(&self, core: &Core, member: Member, key: &ObjectKey) -> bool {
        !self.recovery.is_pushing(member, key) && !self.local.lacks(key) && !core.is_out_of_space(member.osd)
    }

    pub(in crate::pg) fn next_to_recover(&self, core: &Core) -> Option<ObjectKey> {
        let r = &self.recovery;
        let suspended = Self::recovery_is_suspended(core);
        let may_pull = !suspended && !core.is_out_of_space(core.id());
        let own = self
            .local
            .missing()
            .keys()
            .find(|k| may_pull && !r.pulls.contains_key(*k) && !r.unfound.contains(*k));
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
        let members = self.members_copies().filter(|_| !suspended);
        members
            .filter_map(|(member, c)| {
                c.missing().keys().find(|k| self.is_push_due(core, member, k) && !r.unfound.contains(*k))
            })
            .next()
            .cloned()
    }

    fn recover_object(&mut self, core: &mut Core, key: &ObjectKey) {
        if let Some(need) = self.local.missing().get(key).copied() {
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
        let we_have = !self.local.info().incomplete && !self.local.lacks(key);
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
        core.perf().pull_began();
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
        self.stats.object_recovered();
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
        self.stats.object_recovered();
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
        self.local.missing().is_empty()
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
        if others_should_serve || self.members.acting().count() < self.members.size() {
            return;
        }
        self.set_state(core, State::Clean);
        self.local.became_clean(core.epoch());
        self.members.forget_past();
        self.save(core);
        self.share_history(core);
        self.remove_strays(core);
        core.look_for_trims();
        self.scrub_clean(core);
    }
}
