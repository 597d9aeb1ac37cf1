//! The primary's half of replication: an update goes to all members at once and is answered when all have it
//! on stable storage (paper, 5.2 and 5.3).

use super::Pg;
use super::ahead::Sent;
use super::backend::Share;
use super::info::Delta;
use super::local::Update;
use super::log::{Entry, entry_kind};
use super::meta::MetaChange;
use super::request::{ClientOp, Reply};
use crate::completion::CommitFor;
use crate::core::Core;
use crate::object::{first_of, hobject_of};
use crate::pg::member::Member;
use maps::EVersion;
use std::collections::BTreeSet;
use stdx::Buf;
use store::{ObjectKey, Refusal, Transaction, TxnOp};
use wire::{Errno, Writer};

/// True if a planted fault has updates answered before the other members have them.
fn answers_before_replicas() -> bool {
    stdx::mutants::is_active("osd_answers_before_replicas")
}

impl Pg {
    /// The version of the next update.
    pub fn next_version(&self, core: &Core) -> EVersion {
        self.local.next_version(core.epoch())
    }

    /// Orders an update: submits it here and sends it to the others. Nothing has happened where the store
    /// refuses.
    pub fn replicate(
        &mut self,
        core: &mut Core,
        entry: Entry,
        ops: Vec<TxnOp>,
        delta: Delta,
        op: &ClientOp,
        reply: Box<Reply>,
    ) -> Result<(), (Refusal, Box<Reply>)> {
        let quiet = self.members.is_premerge() && !self.is_serving();
        assert!(!quiet, "pg {}: an update while it is about to be merged", self.id);
        let mut update = Update { stats: self.local.info().stats, last_user_version: 0, entry };
        // That of a copy is its source's.
        update.last_user_version = self.local.info().last_user_version.max(update.entry.answer.user_version);
        update.stats.apply(&delta);
        let (version, object) = (update.entry.version, update.entry.object.clone());
        // True even if there was nothing to delete.
        let deletes = update.entry.kind == entry_kind::DELETE || op.deletes();
        let mut change = MetaChange::default();
        let us = self.us(core);
        let members: Vec<Member> = self.others(core).into_iter().chain([us]).collect();
        let mut waiting: BTreeSet<Member> = members.iter().copied().collect();
        let mut shares = self.backend.plan(Transaction { ops }, members);
        let own = shares.iter().position(|share| share.members.contains(&us)).expect("we take part");
        let log = Buf::from(Writer::encode(&update));
        if let Some(refusal) = self.would_refuse(core, &shares[own].txn, log.len()) {
            return Err((refusal, reply));
        }
        shares.iter().for_each(|share| self.send_update(core, &update, &log, share));
        let ops = shares.swap_remove(own).txn.ops;
        self.round.update_sent(&update.entry);
        let sure_to = self.replication.sure_to();
        self.local.append(update, sure_to, self.state, &mut change);
        core.count("updates", 1);
        self.local.trim(sure_to, core.log_keep(), &mut change);
        if answers_before_replicas() {
            waiting.retain(|member| *member == us);
        }
        self.replication.order((version, object), waiting, deletes, (op.id, reply));
        self.stats.mark_changed();
        self.submit(
            core,
            ops,
            change,
            CommitFor::Update { pgid: self.id, round: self.round.number(), version },
        );
        Ok(())
    }

    /// Sends the others of a share their part of an update.
    fn send_update(&self, core: &mut Core, update: &Update, log: &Buf, share: &Share) {
        let (version, us) = (update.entry.version, self.us(core));
        let (whole, parted) = (Sent::whole(&share.txn), self.in_parts(core, version, &share.txn, log.len()));
        for member in share.members.iter().copied().filter(|member| *member != us) {
            // A copy that is being compared gets what lies before the cursor; the comparison brings it the
            // rest.
            let cursor = self.backfill.cursor(member);
            let behind = cursor.is_some_and(|cursor| first_of(&update.entry.object) >= *cursor);
            // Deletions are sent there too: they may free the space that the comparison waits for.
            let behind = behind && update.entry.kind != entry_kind::DELETE;
            let parted = parted.as_ref().filter(|_| !behind && self.takes_parts(member));
            if let Some(sent) = parted {
                self.send_ahead(core, member, version, sent);
                core.count("updates_in_parts", 1);
            }
            let sent = if behind { &Sent::whole(&Transaction::default()) } else { parted.unwrap_or(&whole) };
            // Snapshots of one object are compared together: writes to it wait until all of them are on one
            // side.
            let body = peer::RepOp {
                head: self.head(core, member.shard),
                reqid: update.entry.reqid,
                version,
                committed_to: self.replication.sure_to(),
                trim_to: self.replication.sure_to(),
                object: hobject_of(&update.entry.object),
                log: log.clone(),
                transaction: sent.with.steps.clone(),
                data: sent.with.payload.clone(),
            };
            core.send_osd(member.osd, self.round.number(), peer::Body::from(body));
        }
    }

    /// An update is durable here.
    pub fn on_update_committed(&mut self, core: &mut Core, round: u64, version: EVersion) {
        if round == self.round.number() {
            let us = self.us(core);
            self.durable_at(core, us, version);
        }
    }

    /// An update is durable at another member.
    pub fn on_rep_op_reply(&mut self, core: &mut Core, from: Member, tid: u64, msg: &peer::RepOpReply) {
        if tid != self.round.number() {
            return;
        }
        match msg.result {
            0 => {
                let out_of_space = self.replication.is_out_of_space(from);
                let object = self.replication.object_of(msg.version).filter(|_| out_of_space);
                self.durable_at(core, from, msg.version);
                // Objects that it had no space for may have been removed by this.
                if let Some(object) = object {
                    self.lacking_arrived(core, from, &object);
                }
            }
            _ if msg.result == Errno::ENOSPC.to_result_code() => self.on_no_room(core, from, msg.version),
            _ => {}
        }
    }

    /// An update is durable at a member: answers whatever is durable everywhere by that.
    pub(super) fn durable_at(&mut self, core: &mut Core, member: Member, version: EVersion) {
        self.replication.made_durable(member, version);
        while let Some(reply) = self.replication.take_durable() {
            if let Some((op, reply)) = reply {
                self.answer_by_id(core, op, *reply);
            }
            // Requests that wait for it come before what was ordered later: a watch that goes on, say, before
            // it ends with its object.
            self.answer_waiting(core);
        }
        self.update_sure();
        self.answer_deletions(core);
        self.scrub_compare(core);
    }

    /// Answers deletions that are durable behind updates that are not only because members had no space for
    /// them. Clients that wait for them may be about to make space with the next one. Should those updates be
    /// undone, the deletions are not. What was ordered before for their objects is answered first; repeated
    /// requests, and reads of what they leave, do not wait either.
    pub(super) fn answer_deletions(&mut self, core: &mut Core) {
        let early = self.replication.early_deletions();
        if early.is_empty() {
            return;
        }
        let answered =
            |object: &ObjectKey, version: EVersion| early.get(object).is_some_and(|to| version <= *to);
        let replies = self.replication.take_replies(answered);
        let mut answers: Vec<_> =
            replies.into_iter().map(|(version, (op, reply))| (version, op, reply)).collect();
        let waits_for_them = |version, op: &ClientOp| !op.is_pg_op() && answered(&op.key, version);
        answers.extend(self.requests.take_answers(waits_for_them));
        // An update first, then who waits for it, then what was ordered later.
        answers.sort_by_key(|(version, ..)| *version);
        for (_, op, reply) in answers {
            self.answer_by_id(core, op, *reply);
        }
    }
}
