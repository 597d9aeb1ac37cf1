//! Damaged copies are replaced from right ones, for a scrub or for a request that met one.

use super::HOPELESS_FOR;
use super::finding::Finding;
use crate::completion::CommitFor;
use crate::core::Core;
use crate::object::{first_of, head_of};
use crate::pg::Pg;
use crate::pg::member::Member;
use crate::pg::meta::MetaChange;
use crate::pg::request::ClientOp;
use crate::pg::state::State;
use node::Level;
use store::ObjectKey;

/// True if a planted fault has damaged copies left as they are when a request meets them.
fn reads_do_not_mend() -> bool {
    stdx::mutants::is_active("osd_reads_do_not_mend")
}

impl Pg {
    /// Replaces damaged copies of an object by recovery from one that is right.
    pub(super) fn mend(&mut self, core: &mut Core, finding: &Finding) {
        if !finding.can_be_mended() {
            return;
        }
        let us = self.us(core);
        let key = &finding.key;
        for member in &finding.good {
            self.round.found_copy(*member);
        }
        for member in finding.bad() {
            if member != us {
                self.round.found_damaged(member, key, finding.version);
                continue;
            }
            // Durably, so that nobody takes our copy for a good one should another primary follow.
            let mut change = MetaChange::default();
            self.local.found_damaged(key, finding.version, &mut change);
            self.submit(core, Vec::new(), change, CommitFor::Nothing);
            core.object_repaired();
        }
        core.count("copies_mended", finding.bad().len() as u64);
        if self.state == State::Clean {
            self.set_state(core, State::Active);
        }
        if self.local.lacks(key) && !self.recovery.is_pulling(key) {
            let not_from = self
                .round
                .copies()
                .map(|(member, _)| member)
                .filter(|member| !finding.good.contains(member))
                .collect();
            self.pull(core, key, finding.version, not_from);
        }
        self.scrub_changed(core);
    }
}

/// A request that our own copy is in the way of.
impl Pg {
    /// Has the object of a request compared with the other copies, once. Gives the request back if that is of
    /// no use.
    pub(in crate::pg) fn unless_checked_first(
        &mut self,
        core: &mut Core,
        mut op: ClientOp,
    ) -> Option<ClientOp> {
        let now = core.now().mono;
        if op.checked || self.members.acting().count() < 2 || reads_do_not_mend() {
            return Some(op);
        }
        op.checked = true;
        let head = head_of(&op.key);
        if self.scrub.hopeless.get(&head).is_some_and(|until| *until > now) {
            return Some(op);
        }
        op.wait_again(now);
        op.damaged = false;
        self.requests.put(op);
        self.queue_check(core, head);
        None
    }

    fn queue_check(&mut self, core: &mut Core, head: ObjectKey) {
        if !self.scrub.objects.contains(&head) {
            self.scrub.objects.push_back(head);
        }
        self.scrub_go_on(core);
    }

    /// An object that a member lacks can't be read here.
    pub(in crate::pg) fn unreadable_here(&mut self, core: &mut Core, member: Member, key: ObjectKey) {
        core.recovery_ended(1);
        self.recovery.end_push(member, &key);
        // Objects that a backfill should have sent are found again by the next comparison.
        self.scrub.unsent |= self.backfill.is_filling(member);
        // Until it is known who has it.
        self.recovery.lost(&key);
        self.queue_check(core, head_of(&key));
    }

    /// The object that a request waits for has been compared.
    pub(super) fn object_checked(&mut self, core: &mut Core, head: &ObjectKey, findings: Vec<Finding>) {
        let us = self.us(core);
        let ours = |f: &&Finding| f.shards.contains_key(&us) && !f.good.contains(&us);
        let (mut mended, mut lost) = (false, Vec::new());
        let states = first_of(head)..=head.clone();
        for finding in &findings {
            tell(core, self.id, finding);
        }
        for finding in findings.iter().filter(ours) {
            if finding.can_be_mended() {
                mended = true;
                self.recovery.found(|key| *key == finding.key);
                self.mend(core, finding);
                core.count("objects_mended_for_requests", 1);
                self.scrub.record.repaired += 1;
            } else {
                lost.push(finding.clone());
            }
        }
        if lost.is_empty() {
            self.recovery.found(|key| states.contains(key));
        }
        if !mended {
            // Whatever it was, it has gone, or there is nothing better anywhere.
            self.scrub.hopeless.retain(|_, until| *until > core.now().mono);
            self.scrub.hopeless.insert(head.clone(), core.now().mono + HOPELESS_FOR);
        }
        if !lost.is_empty() {
            let record = &mut self.scrub.record;
            record.deep_errors = record.deep_errors.max(lost.len() as u32);
            self.scrub.found.interval = self.members.interval();
            self.scrub.found.unconfirmed = true;
            self.scrub.found.add(lost, Vec::new());
            self.scrub_save(core);
        }
        if std::mem::take(&mut self.scrub.unsent) {
            self.round.repeer(core.now().mono + core.options().reconnect_delay);
        } else if self.round.repeer_at().is_none() && self.recovery.is_any_unfound(|key| states.contains(key))
        {
            // Perhaps it can be read later.
            self.round.repeer(core.now().mono + HOPELESS_FOR);
        }
        self.scrub_changed(core);
        self.recover(core);
        self.kick_all(core);
    }
}

/// Reports a damaged object.
pub(super) fn tell(core: &mut Core, pgid: maps::Spg, finding: &Finding) {
    let bad: Vec<String> = finding.bad().iter().map(|member| format!("osd.{member}")).collect();
    let name = String::from_utf8_lossy(&finding.key.name).into_owned();
    let whose = match finding.can_be_mended() {
        true => format!("the copies on {} are damaged", bad.join(", ")),
        false => "no copy is known to be right".to_owned(),
    };
    core.event(Level::Error, "object_damaged", format!("pg {pgid} {name:?}: {whose}"));
}
