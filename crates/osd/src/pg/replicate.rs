//! The primary's half of replication: an update goes to all members at once and is answered when all have it on stable
//! storage (paper, 5.2 and 5.3).

use super::Pg;
use super::ahead::Sent;
use super::info::{Delta, Stats};
use super::log::{Entry, entry_kind};
use super::meta::MetaChange;
use super::request::{ClientOp, Reply};
use crate::completion::CommitFor;
use crate::core::Core;
use crate::object::{first_of, hobject_of};
use maps::{EVersion, OsdId};
use msgs::errno::ENOSPC;

use std::collections::{BTreeMap, BTreeSet};
use store::{ObjectKey, Refusal, Transaction, TxnOp};
use wire::{Writer, wire_structs};

wire_structs! {
    /// An update as all members append it.
    pub struct Update[v 1/1] {
        /// For the log.
        pub entry: Entry,
        /// Of the PG, afterwards.
        pub stats: Stats,
        /// Of the PG, afterwards.
        pub last_user_version: u64,
    }
}

/// An update that is not durable everywhere.
#[derive(Debug)]
pub struct InFlight {
    /// Its version.
    pub version: EVersion,
    /// Its object.
    pub object: ObjectKey,
    /// Who has not made it durable, we ourselves included.
    pub waiting: BTreeSet<OsdId>,
    /// Who has logged it and had no room for these objects: it is durable there once they have been sent.
    pub lacking: BTreeMap<OsdId, Vec<ObjectKey>>,
    /// It leaves no object, nor had it to.
    pub deletes: bool,
    /// The request and what it will be answered.
    pub reply: Option<(u64, Box<Reply>)>,
}

impl InFlight {
    /// Whether all members have logged it: it is durable there, or they have said that they have no room for its objects.
    pub fn is_heard_of(&self) -> bool {
        self.waiting.iter().all(|osd| self.lacking.contains_key(osd))
    }
}

impl Pg {
    /// The version of the next update.
    pub fn next_version(&self, core: &Core) -> EVersion {
        EVersion::new(core.epoch(), self.info.last_update.version + 1)
    }

    /// Orders an update: submits it here and sends it to the others. Nothing has happened where the store refuses.
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
        let mut update = Update { stats: self.info.stats, last_user_version: 0, entry };
        // That of a copy is its source's.
        update.last_user_version = self.info.last_user_version.max(update.entry.answer.user_version);
        update.stats.apply(&delta);
        let (version, object) = (update.entry.version, update.entry.object.clone());
        // Also where there was nothing to delete.
        let deletes = update.entry.kind == entry_kind::DELETE || op.deletes();
        let mut change = MetaChange::default();
        let txn = Transaction { ops };
        let log = Writer::encode(&update);
        if let Some(refusal) = self.would_refuse(core, &txn, log.len()) {
            return Err((refusal, reply));
        }
        self.send_update(core, &update, log, &txn);
        self.members_will_have(&update.entry);
        self.append_update(core, update, &mut change);
        self.trim_log(core, &mut change);
        let mut waiting: BTreeSet<OsdId> = self.others(core).into_iter().collect();
        waiting.insert(core.config.id);
        if stdx::mutants::is_active("osd_answers_before_replicas") {
            waiting.retain(|osd| *osd == core.config.id);
        }
        self.in_flight.push_back(InFlight {
            version,
            object: object.clone(),
            waiting,
            lacking: BTreeMap::new(),
            deletes,
            reply: Some((op.id, reply)),
        });
        self.last_write.insert(object, version);
        self.stats.mark_changed();
        self.submit(core, txn.ops, change, CommitFor::Update { pgid: self.id, round: self.round, version });
        Ok(())
    }

    fn send_update(&self, core: &mut Core, update: &Update, log: Vec<u8>, txn: &Transaction) {
        let version = update.entry.version;
        let (whole, parted) = (Sent::whole(txn), self.in_parts(core, version, txn, log.len()));
        for osd in self.others(core) {
            // A copy that is being compared gets what lies before the cursor; the comparison brings it the rest.
            let cursor = self.copies.get(&osd).and_then(|c| c.resync.as_ref()).map(|r| &r.cursor);
            let behind = cursor.is_some_and(|cursor| first_of(&update.entry.object) >= *cursor);
            // What is deleted goes there too: that may be what makes room for the comparison to go on.
            let behind = behind && update.entry.kind != entry_kind::DELETE;
            let parted = parted.as_ref().filter(|_| !behind && self.takes_parts(osd));
            if let Some(sent) = parted {
                self.send_ahead(core, osd, version, sent);
                core.count("updates_in_parts", 1);
            }
            let sent = if behind { &Sent::whole(&Transaction::default()) } else { parted.unwrap_or(&whole) };
            // Snapshots of one object are compared together: writes to it wait until all of them are on one side.
            let body = peer::RepOp {
                head: self.head(core),
                reqid: update.entry.reqid,
                version,
                committed_to: self.sure_to,
                trim_to: self.sure_to,
                object: hobject_of(&update.entry.object),
                log: log.clone(),
                transaction: sent.with.steps.clone(),
                data: sent.with.payload.clone(),
            };
            core.send_osd(osd, self.round, peer::Body::from(body));
        }
    }

    /// An update is durable here.
    pub fn on_update_committed(&mut self, core: &mut Core, round: u64, version: EVersion) {
        if round == self.round {
            let us = core.config.id;
            self.durable_at(core, us, version);
        }
    }

    /// An update is durable at another member.
    pub fn on_rep_op_reply(&mut self, core: &mut Core, from: OsdId, tid: u64, msg: &peer::RepOpReply) {
        if tid != self.round {
            return;
        }
        match msg.result {
            0 => {
                let without_room = self.in_flight.iter().any(|f| f.lacking.contains_key(&from));
                let at = self.in_flight_at(msg.version).filter(|_| without_room);
                let object = at.map(|at| self.in_flight[at].object.clone());
                self.durable_at(core, from, msg.version);
                // What it had no room for before may have gone with this.
                if let Some(object) = object {
                    self.lacking_arrived(core, from, &object);
                }
            }
            _ if msg.result == -ENOSPC => self.on_no_room(core, from, msg.version),
            _ => {}
        }
    }

    /// Where an update is among those under way.
    pub(super) fn in_flight_at(&self, version: EVersion) -> Option<usize> {
        self.in_flight.binary_search_by_key(&version, |f| f.version).ok()
    }

    pub(super) fn durable_at(&mut self, core: &mut Core, osd: OsdId, version: EVersion) {
        if let Some(at) = self.in_flight_at(version) {
            self.in_flight[at].waiting.remove(&osd);
        }
        while self.in_flight.front().is_some_and(|f| f.waiting.is_empty()) {
            let Some(done) = self.in_flight.pop_front() else { break };
            self.committed_to = done.version;
            if self.last_write.get(&done.object) == Some(&done.version) {
                self.last_write.remove(&done.object);
            }
            if let Some((op, reply)) = done.reply {
                self.answer_by_id(core, op, *reply);
            }
            // Who waits for it comes before what was ordered later: a watch that goes on, say, before it ends with its object.
            self.answer_waiting(core);
        }
        self.update_sure();
        self.answer_deletions(core);
        self.scrub_compare(core);
    }

    /// Answers deletions that are durable behind updates that are not only because members had no room for them. Who waits for them may be
    /// about to make room with the next one. Should those updates be undone, the deletions are not. What was ordered before for their objects is
    /// answered first, and who asks again, or what they leave, does not wait either.
    pub(super) fn answer_deletions(&mut self, core: &mut Core) {
        if self.in_flight.front().is_none_or(|first| first.lacking.is_empty()) {
            return;
        }
        let durable = |update: &&InFlight| update.waiting.is_empty();
        let heard_of = || self.in_flight.iter().take_while(|f| f.is_heard_of());
        let without_room: BTreeSet<_> = heard_of().filter(|f| !durable(f)).map(|f| &f.object).collect();
        let deletions = heard_of().filter(|f| f.deletes && durable(f));
        let to_answer: BTreeMap<ObjectKey, EVersion> = deletions
            .filter(|deletion| !without_room.contains(&deletion.object))
            .map(|deletion| (deletion.object.clone(), deletion.version))
            .collect();
        let mut answers = Vec::new();
        let answered =
            |object: &ObjectKey, version: EVersion| to_answer.get(object).is_some_and(|to| version <= *to);
        for update in self.in_flight.iter_mut().filter(|f| answered(&f.object, f.version)) {
            answers.extend(update.reply.take().map(|(op, reply)| (update.version, op, reply)));
        }
        let waits_for_them = |version, op: &ClientOp| !op.is_pg_op() && answered(&op.key, version);
        answers.extend(self.requests.take_answers(waits_for_them));
        // An update first, then who waits for it, then what was ordered later.
        answers.sort_by_key(|(version, ..)| *version);
        for (_, op, reply) in answers {
            self.answer_by_id(core, op, *reply);
        }
    }
}
