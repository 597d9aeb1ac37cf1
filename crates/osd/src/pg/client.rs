//! Client requests at the primary: one object's requests are executed strictly in their order of arrival; each sees the effect of
//! those before it at once, and is answered only when everything that it saw is durable on all members (DESIGN, decision 5); what came before it in the log too,
//! but for deletions behind what waits for room.

use super::Pg;
use super::info::Delta;
use super::log::{Answer, CloneChange, Entry, entry_kind};
use super::meta::index_clone;
use super::request::{ClientOp, Reply, Stage};
use super::snaps::shown_at;
use super::watching::tell;
use crate::completion::ReadFor;
use crate::copies::{CopyFor, CopyResult};
use crate::core::Core;
use crate::object::at_snap;
use crate::ops::{Caller, Loaded, Loads, MAX_WRITE_OUTPUT, Outcome, Preserved, execute, info_op};
use crate::watch::Effect;
use maps::{EVersion, ReqId};
use msgs::errno::{EFBIG, EIO, EMSGSIZE, ENAMETOOLONG, ENOSPC, EOLDSNAPC};
use msgs::{OpResult, OsdOpReply, osd_flag};
use node::{ConnId, Level};
use std::collections::BTreeSet;
use stdx::Bufs;
use store::{ObjectKey, ReadReply, Refusal, StoreError, TxnOp};
use wire::{EntityId, EntityType, Utime};

impl Pg {
    /// Takes a request. `id` grows with the order of arrival.
    pub fn on_client_op(&mut self, core: &mut Core, id: u64, op: ClientOp) {
        self.hear_of_watchers(core, &op);
        self.ops.insert(id, op);
        if !self.is_primary(core) {
            return self.begin_balanced(core, id);
        }
        match self.is_serving() {
            true => self.enqueue(core, id),
            false => self.back_off(core),
        }
    }

    /// The PG serves (again): all requests in their order.
    pub fn kick_all(&mut self, core: &mut Core) {
        if !self.is_serving() {
            return self.back_off(core);
        }
        self.end_backoffs(core);
        let queued: BTreeSet<u64> = self.queues.values().flatten().copied().collect();
        let waiting = self.ops.iter().filter(|(id, op)| op.stage == Stage::Waiting && !queued.contains(id));
        let ids: Vec<u64> = waiting.map(|(id, _)| *id).collect();
        for id in ids {
            self.enqueue(core, id);
        }
    }

    /// All requests start from scratch once the PG serves again.
    pub fn requeue_all(&mut self, core: &Core) {
        self.queues.clear();
        self.waiting_commit.clear();
        self.ops.retain(|_, op| op.trim.is_none());
        for op in self.ops.values_mut() {
            op.enter(Stage::Waiting, core.now.mono);
            op.attempt += 1;
            (op.loads, op.loaded, op.reply, op.damaged) = (None, Loaded::default(), None, false);
            (op.resolving, op.page) = (false, None);
        }
    }

    /// We are not primary: clients ask the one who is.
    pub fn drop_all_ops(&mut self, core: &mut Core) {
        // They do not know yet: clients fetch maps by themselves only after ten seconds without an answer.
        core.uninformed.extend(self.ops.values().filter_map(|op| op.conn));
        // Who let any member answer may believe that we still can.
        self.send_all_to_primary(core);
        self.end_backoffs(core);
        self.watches.clear();
        self.ops.clear();
        self.requeue_all(core);
    }

    /// A client's connection is gone: it will ask again on another. What is ordered already goes on, unanswered.
    pub fn on_client_gone(&mut self, core: &mut Core, conn: ConnId) {
        self.watches.disconnected(core.now.mono, conn);
        let gone = self.ops.iter().filter(|(_, op)| op.conn == Some(conn)).map(|(id, _)| *id);
        for id in gone.collect::<Vec<_>>() {
            // Watchers of an object that it deletes are told all the same.
            if let Some(op) = self.ops.get_mut(&id)
                && op.effects.iter().any(|e| matches!(e, Effect::End { .. }))
                && op.stage == Stage::Replicating
            {
                op.conn = None;
                continue;
            }
            let Some(op) = self.ops.remove(&id) else { continue };
            if let Some(queue) = self.queues.get_mut(&op.key) {
                queue.retain(|queued| *queued != id);
                self.run_queue(core, &op.key);
            }
        }
    }

    fn enqueue(&mut self, core: &mut Core, id: u64) {
        let Some(op) = self.ops.get(&id) else { return };
        if op.is_pg_op() {
            self.start_list(core, id);
            return;
        }
        let key = op.key.clone();
        if op.from.0.ty == EntityType::OSD && !op.writes && !self.must_recover_first(&key, false) {
            // What is read for a copy sees what is ordered, and waits for nothing that may wait for the copy.
            return self.load(core, id);
        }
        let deletes = op.deletes();
        let queue = self.queues.entry(key.clone()).or_default();
        queue.push_back(id);
        // A deletion may pass what waits.
        if queue.len() == 1 || deletes {
            self.run_queue(core, &key);
        }
    }

    /// Starts the first request of an object's queue, if it can.
    pub fn run_queue(&mut self, core: &mut Core, key: &ObjectKey) {
        while let Some(id) = self.queues.get(key).and_then(|q| q.front()).copied() {
            let Some(op) = self.ops.get(&id) else {
                self.pop_queue(key, id);
                continue;
            };
            if op.stage != Stage::Waiting {
                return;
            }
            let (writes, expires) = (op.writes, op.expired.is_some());
            if writes {
                self.scrub_gives_way(core, key);
            }
            let forgets = stdx::mutants::is_active("osd_forgets_what_it_answered");
            if writes
                && !expires
                && !forgets
                && let Some((version, reply)) = self.answer_again(core, id)
            {
                if version > self.sure_to
                    && let Some(lacking) = self.lacking_state(key)
                {
                    if self.deletion_passes(core, key) {
                        continue;
                    }
                    return self.recover_first(core, &lacking);
                }
                self.pop_queue(key, id);
                // A deletion that has passed it is what all members have of it, once they have that.
                let may_be_passed = version > self.sure_to;
                let passed = self.last_write.get(key).filter(|_| may_be_passed).copied().unwrap_or_default();
                self.answer_when_durable(core, id, version.max(passed), Box::new(reply));
                continue;
            }
            if self.must_recover_first(key, writes)
                && !self.ops.get(&id).is_some_and(|op| self.may_delete_first(core, op))
            {
                self.recover_first(core, key);
                return self.back_off_unfound(core, key);
            }
            self.load(core, id);
            return;
        }
        self.queues.remove(key);
        if !core.backoffs.is_empty() && !self.must_recover_first(key, false) {
            self.end_backoffs_of(core, key);
        }
    }

    pub(super) fn pop_queue(&mut self, key: &ObjectKey, id: u64) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.retain(|queued| *queued != id);
        }
    }

    /// The answer to a request that was carried out before, and the version that it must wait for.
    fn answer_again(&self, core: &Core, id: u64) -> Option<(EVersion, Reply)> {
        let op = self.ops.get(&id)?;
        let (version, answer) = self.log.find(&op.reqid)?;
        let mut reply = OsdOpReply::to(&op.request, answer.result, core.epoch());
        for (result, (rval, data)) in reply.ops.iter_mut().zip(&answer.ops) {
            (result.rval, result.data) = (*rval, Bufs::from(data.clone()));
        }
        reply.set_version(version, answer.user_version);
        Some((version, reply))
    }

    /// Loads what the request needs; where it is about a snapshot, the head first, which tells what shows that.
    pub(super) fn load(&mut self, core: &mut Core, id: u64) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        op.target = op.key.clone();
        op.resolving = op.at_snapshot();
        let loads = match op.resolving {
            true => Loads::of_head(&op.key),
            false => Loads::of(&op.request, &op.key, &core.config.options.limits),
        };
        self.load_these(core, id, loads);
    }

    fn load_these(&mut self, core: &mut Core, id: u64, loads: Loads) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        op.loaded = Loaded::default();
        self.load_more(core, id, loads);
    }

    /// Whether a request waits for an object that it is to copy.
    pub fn waits_for_copy(&self, id: u64, attempt: u32) -> bool {
        self.ops.get(&id).is_some_and(|op| op.attempt == attempt && op.stage == Stage::Loading)
    }

    /// An object that a request is to copy has been read.
    pub fn on_copied(&mut self, core: &mut Core, (id, attempt, at): (u64, u32, usize), result: CopyResult) {
        if !self.waits_for_copy(id, attempt) {
            return;
        }
        if let Some(op) = self.ops.get_mut(&id) {
            let copied = result.map(|(copied, memory)| {
                // It ends with the request, as that of an answer.
                op.hold = memory;
                copied
            });
            op.loaded.copies.insert(at, copied);
        }
        self.finish(core, id);
    }

    fn load_more(&mut self, core: &mut Core, id: u64, loads: Loads) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        op.enter(Stage::Loading, core.now.mono);
        op.reads_left = loads.reads.len();
        let reads: Vec<_> = loads.reads.iter().map(|(_, read)| read.clone()).collect();
        op.loads = Some(loads);
        let attempt = op.attempt;
        for (i, read) in reads.into_iter().enumerate() {
            core.io.read(core.now, read, ReadFor::Op { pgid: self.id, id, attempt, index: i });
        }
    }

    /// The head of a request about a snapshot is loaded: goes on with what shows it.
    fn resolve(&mut self, core: &mut Core, id: u64) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        op.resolving = false;
        let head = std::mem::take(&mut op.loaded);
        let target = head.stored.then(|| shown_at(&op.request, &op.key, &head.info.snapset)).flatten();
        let Some(target) = target.filter(|_| !op.damaged) else { return self.finish(core, id) };
        op.target = target.clone();
        if op.balanced.is_some() && self.missing.contains_key(&target) {
            return self.send_to_primary(core, id);
        }
        if self.waits_for(core, id, &target, false) {
            return;
        }
        let Some(op) = self.ops.get(&id) else { return };
        let loads = Loads::of(&op.request, &target, &core.config.options.limits);
        // A later answer must not be taken for one of the head's.
        if let Some(op) = self.ops.get_mut(&id) {
            op.attempt += 1;
        }
        self.load_these(core, id, loads);
    }

    /// Whether a request that is about to be carried out must wait for this state of its object to be complete. Then it
    /// starts from scratch once that is so.
    pub(super) fn waits_for(&mut self, core: &mut Core, id: u64, key: &ObjectKey, writes: bool) -> bool {
        if !self.must_recover_first(key, writes) {
            return false;
        }
        if let Some(op) = self.ops.get_mut(&id) {
            op.enter(Stage::Waiting, core.now.mono);
            op.attempt += 1;
        }
        self.recover_first(core, key);
        true
    }

    /// The store has answered one read of a request.
    pub fn on_op_read(
        &mut self,
        core: &mut Core,
        (id, attempt, i): (u64, u32, usize),
        result: Result<ReadReply, StoreError>,
    ) {
        let Some(op) = self.ops.get_mut(&id).filter(|op| op.attempt == attempt && op.stage == Stage::Loading)
        else {
            return;
        };
        let Some(loads) = &op.loads else { return };
        match result {
            Ok(reply) => op.damaged |= !loads.take(i, reply, &mut op.loaded),
            Err(error) => {
                op.damaged = true;
                let key = op.key.clone();
                core.event(Level::Error, "object_unreadable", format!("pg {} {key:?}: {error}", self.id));
            }
        }
        op.reads_left -= 1;
        match (op.reads_left, op.resolving) {
            (0, true) => self.resolve(core, id),
            (0, false) => self.finish(core, id),
            _ => {}
        }
    }

    /// All is loaded: executes the request.
    pub fn finish(&mut self, core: &mut Core, id: u64) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        if let Some(since) = op.balanced {
            return self.finish_balanced(core, id, since);
        }
        if op.target != op.key && !op.loaded.stored && !op.damaged {
            // The head says that there is a clone.
            let text = format!("pg {} {:?}", self.id, op.target);
            op.damaged = true;
            core.event(Level::Error, "clone_not_here", text);
        }
        if op.damaged {
            return self.fail(core, id);
        }
        let (key, target, writes) = (op.key.clone(), op.target.clone(), op.writes);
        let lacking = [&key, &target].into_iter().find(|key| self.must_recover_first(key, writes)).cloned();
        if let Some(lacking) = lacking
            && !self.ops.get(&id).is_some_and(|op| self.may_delete_first(core, op))
        {
            // A comparison has begun while the request was loading; it must not miss what the request changes.
            if let Some(op) = self.ops.get_mut(&id) {
                op.enter(Stage::Waiting, core.now.mono);
                op.attempt += 1;
            }
            if !self.queues.get(&key).is_some_and(|queue| queue.contains(&id)) {
                self.enqueue(core, id);
            }
            return self.recover_first(core, &lacking);
        }
        if self.waits_for_sources(core, id) {
            return;
        }
        let Some(op) = self.ops.get(&id) else { return };
        if op.trim.is_some() {
            return self.trim_loaded(core, id);
        }
        if op.expired.is_some_and(|watcher| self.watches.has_returned(core.now.mono, &key, watcher)) {
            return self.drop_expiry(core, id);
        }
        if target == key {
            self.watches.found(core.now.mono, &key, &op.loaded.watches);
            if op.loaded.watches.values().any(|watch| core.map.is_blocklisted(&watch.addr)) {
                self.end_blocklisted(core);
            }
        }
        let Some(mut outcome) = self.outcome(core, id) else { return };
        let Some(op) = self.ops.get(&id) else { return };
        let ordered = outcome.modified || op.writes && outcome.result < 0;
        if op.expired.is_some() && !ordered {
            return self.drop_expiry(core, id);
        }
        if !ordered && !self.has_lease(core) && !stdx::mutants::is_active("osd_reads_without_lease") {
            if let Some(op) = self.ops.get_mut(&id) {
                op.enter(Stage::NeedsLease, core.now.mono);
            }
            core.count("reads_waiting_for_lease", 1);
            return;
        }
        self.pop_queue(&key, id);
        if let Some(op) = self.ops.get_mut(&id) {
            op.effects = std::mem::take(&mut outcome.effects);
        }
        if ordered {
            self.order(core, id, outcome);
        } else {
            let seen = self.last_write.get(&key).copied().unwrap_or_default();
            let reply = self.reply_of(core, id, &outcome);
            self.count_read(&reply);
            self.answer_when_durable(core, id, seen, Box::new(reply));
        }
        self.run_queue(core, &key);
    }

    /// What a request comes to; `None` where its course has shown that more is to be loaded.
    pub(super) fn outcome(&mut self, core: &mut Core, id: u64) -> Option<Outcome> {
        let op = self.ops.get(&id)?;
        let caller = Caller {
            who: op.from.0,
            addr: op.from.1,
            expired: op.expired.is_some(),
            now: core.now.wall,
            version: self.next_version(core),
            notify_id: core.notify_ids(op.request.ops.len()),
            watches: &self.watches,
        };
        let old_context = op.writes
            && op.request.flags & osd_flag::ORDERSNAP != 0
            && self.snap_context(core, &op.request).seq < op.loaded.info.snapset.seq;
        if old_context {
            return Some(Outcome::refused(&op.request, &op.loaded, EOLDSNAPC));
        }
        let mut outcome = execute(&op.request, &op.target, &op.loaded, &core.config.options.limits, caller);
        if !outcome.needs.is_empty() {
            let needs = std::mem::take(&mut outcome.needs);
            let loads = Loads::called(needs, &op.target, &core.config.options.limits);
            self.load_more(core, id, loads);
            return None;
        }
        if !outcome.copies.is_empty() {
            let (pgid, attempt) = (self.id, op.attempt);
            let wanted = outcome.copies.into_iter();
            core.copies_wanted
                .extend(wanted.map(|(at, source)| (CopyFor { pgid, op: id, attempt, at }, source)));
            return None;
        }
        Some(outcome)
    }

    /// What was loaded is damaged: where another copy may have it, that comes first.
    fn fail(&mut self, core: &mut Core, id: u64) {
        if self.check_object(core, id) {
            return;
        }
        let Some(op) = self.ops.get(&id) else { return };
        let (key, reply) = (op.key.clone(), OsdOpReply::to(&op.request, -EIO, core.epoch()));
        self.pop_queue(&key, id);
        self.answer(core, id, reply);
        self.run_queue(core, &key);
    }

    /// A promise came: requests that waited for one go on.
    pub fn on_lease(&mut self, core: &mut Core) {
        let waiting = self.ops.iter().filter(|(_, op)| op.stage == Stage::NeedsLease);
        let ids: Vec<u64> = waiting.map(|(id, _)| *id).collect();
        if ids.is_empty() || !self.has_lease(core) {
            return;
        }
        for id in ids {
            let Some(op) = self.ops.get_mut(&id) else { continue };
            op.enter(Stage::Loading, core.now.mono);
            if op.is_pg_op() { self.start_list(core, id) } else { self.finish(core, id) }
        }
    }

    fn count_read(&mut self, reply: &Reply) {
        self.info.stats.reads += 1;
        self.info.stats.read_bytes += reply.ops.iter().map(|o| o.data.len() as u64).sum::<u64>();
    }

    pub(super) fn reply_of(&self, core: &Core, id: u64, outcome: &Outcome) -> Reply {
        let request = &self.ops[&id].request;
        let mut reply = OsdOpReply::to(request, outcome.result, core.epoch());
        reply.ops.clone_from(&outcome.ops);
        if outcome.modified && request.flags & osd_flag::RETURNVEC == 0 {
            // What a write gives might not be given again after a failure, unless the client takes little.
            reply.result = 0;
            reply.ops.iter_mut().for_each(|op| op.data = Bufs::new());
        }
        if outcome.exists {
            reply.set_version(outcome.info.version, outcome.info.user_version);
        } else {
            reply.set_version(self.info.last_update, self.info.last_user_version);
        }
        reply
    }

    /// Gives a request that changes something, or that failed and must fail again when repeated, its place in the log.
    fn order(&mut self, core: &mut Core, id: u64, mut outcome: Outcome) {
        let version = self.next_version(core);
        let mut reply = self.reply_of(core, id, &outcome);
        let Some(op) = self.ops.get(&id) else { return };
        let context = self.snap_context(core, &op.request);
        let Some(op) = self.ops.get_mut(&id) else { return };
        if op.expired.is_some() {
            // Nobody repeats it; its place in the log is its own.
            op.reqid = ReqId {
                name: EntityId::new(EntityType::OSD, core.config.id.0.into()),
                tid: version.version,
                inc: version.epoch.0 as i32,
            };
        }
        let (loaded, key) = (std::mem::take(&mut op.loaded), op.key.clone());
        let mut preserved = Preserved::default();
        if outcome.modified {
            preserved = outcome.preserve(&key, &loaded, &context, version);
        }
        let kind = match outcome.result {
            0.. if outcome.stored() => entry_kind::MODIFY,
            0.. => entry_kind::DELETE,
            _ => entry_kind::ERROR,
        };
        let user_version =
            user_version_after(&outcome, kind, (self.info.last_user_version, loaded.info.user_version));
        let shown = if kind == entry_kind::MODIFY {
            stamp(&mut outcome, version, user_version, op.request.mtime);
            outcome.txn.push(info_op(key.clone(), &outcome.info));
            outcome.info.user_version
        } else {
            user_version
        };
        if let Some((clone, snaps)) = &preserved.clone {
            outcome.txn.push(index_clone(&at_snap(&key, clone.0), snaps));
        }
        reply.set_version(version, shown);
        let plain = reply.ops.iter().all(|o| o.rval == 0 && o.data.is_empty());
        let ops = if plain { Vec::new() } else { reply.ops.iter().map(logged).collect() };
        let (made, preserved_bytes) = (preserved.clone.map(|(id, _)| id), preserved.bytes);
        let entry = Entry {
            version,
            prior: if loaded.stored { loaded.info.version } else { EVersion::default() },
            kind,
            object: key,
            reqid: op.reqid,
            answer: Answer { result: reply.result, ops, user_version: shown },
            mtime: op.request.mtime,
            clones: made.map(|id| CloneChange { id, prior: EVersion::default() }).into_iter().collect(),
            undoes: EVersion::default(),
        };
        let delta = match kind {
            entry_kind::ERROR => Delta::default(),
            _ => delta_of(&outcome, &loaded, made.is_some(), preserved_bytes),
        };
        if !self.has_room(core, id, &delta, &outcome.txn) {
            return;
        }
        let Some(op) = self.ops.get_mut(&id) else { return };
        op.enter(Stage::Replicating, core.now.mono);
        if let Err((refusal, mut reply)) =
            self.replicate(core, entry, outcome.txn, delta, id, Box::new(reply))
        {
            if let Some(op) = self.ops.get_mut(&id) {
                op.effects.clear();
            }
            reply.result = -errno_of(refusal);
            self.answer(core, id, *reply);
        }
    }

    /// Answers once `version` is durable on all members.
    pub fn answer_when_durable(&mut self, core: &mut Core, id: u64, version: EVersion, reply: Box<Reply>) {
        if version <= self.committed_to || stdx::mutants::is_active("osd_shows_what_is_not_durable") {
            return self.answer(core, id, *reply);
        }
        if let Some(op) = self.ops.get_mut(&id) {
            op.enter(Stage::Durable, core.now.mono);
            op.reply = Some(reply);
            self.waiting_commit.push((version, id));
            self.answer_deletions(core);
        }
    }

    /// More is durable than before.
    pub fn answer_waiting(&mut self, core: &mut Core) {
        let to = self.committed_to;
        let (ready, rest) = std::mem::take(&mut self.waiting_commit).into_iter().partition(|(v, _)| *v <= to);
        self.waiting_commit = rest;
        let ready: Vec<(EVersion, u64)> = ready;
        for (_, id) in ready {
            if let Some(reply) = self.ops.get_mut(&id).and_then(|op| op.reply.take()) {
                self.answer(core, id, *reply);
            }
        }
    }

    /// Answers a request.
    pub fn answer(&mut self, core: &mut Core, id: u64, reply: Reply) {
        let Some(mut op) = self.ops.remove(&id) else { return };
        if op.trim.is_some() {
            return self.trim_done(core, &op, reply.result);
        }
        core.history.note(self.id, &op, core.now);
        if op.stage == Stage::Replicating {
            core.qos.client_wrote(op.waits.in_stage(core.now.mono), core.now.mono);
        }
        let (before, after) = self.carry_out_effects(core, &mut op, reply.result >= 0);
        tell(core, before);
        if let Some(tid) = op.ours {
            core.local_answers.push((tid, Box::new(reply)));
        } else if let Some(conn) = op.conn {
            core.count("ops", 1);
            core.answer(conn, op.tid, reply, op.hold);
        }
        tell(core, after);
    }
}

/// What an update changes in the PG's statistics.
fn delta_of(outcome: &Outcome, loaded: &Loaded, cloned: bool, preserved: i64) -> Delta {
    let written = |op: &TxnOp| if let TxnOp::Write(_, _, data) = op { data.len() as u64 } else { 0 };
    Delta {
        objects: i64::from(outcome.stored()) - i64::from(loaded.stored) + i64::from(cloned),
        bytes: outcome.size as i64 - loaded.size as i64 + preserved,
        clones: i64::from(cloned),
        written: outcome.txn.iter().map(written).sum(),
        internal: false,
    }
}

/// What clients know as the version after an update, by what they knew of the PG and of the object.
fn user_version_after(outcome: &Outcome, kind: u8, (pg, object): (u64, u64)) -> u64 {
    let newest = pg.max(object);
    match outcome.copied {
        _ if kind == entry_kind::ERROR => pg,
        copied if outcome.user_modified => newest.max(copied.map_or(0, |(version, _)| version)) + 1,
        Some((version, _)) => version,
        None => newest,
    }
}

/// Writes down when an object was changed, and as what clients know it then.
fn stamp(outcome: &mut Outcome, version: EVersion, user_version: u64, mtime: Utime) {
    let info = &mut outcome.info;
    info.version = version;
    if outcome.user_modified || outcome.copied.is_some() {
        info.user_version = user_version;
    }
    match outcome.copied {
        Some((_, copied)) => info.mtime = copied,
        None if mtime != Utime::default() => info.mtime = mtime,
        None => {}
    }
}

/// What the log keeps of an operation's result: output only where it is small, as that of successful writes is.
fn logged(op: &OpResult) -> (i32, Vec<u8>) {
    let data = if op.data.len() > MAX_WRITE_OUTPUT { Vec::new() } else { op.data.to_vec() };
    (op.rval, data)
}

/// Why a client's request can't be stored.
fn errno_of(refusal: Refusal) -> i32 {
    match refusal {
        Refusal::NoSpace => ENOSPC,
        Refusal::TooLarge => EMSGSIZE,
        Refusal::NameTooLong => ENAMETOOLONG,
        Refusal::ObjectTooLarge => EFBIG,
    }
}
