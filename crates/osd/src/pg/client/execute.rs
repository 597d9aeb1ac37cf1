//! A request is executed once everything that it needs is loaded.

use crate::core::CopyFor;
use crate::core::Core;
use crate::ops::{Caller, Loads, Outcome, execute};
use crate::pg::Pg;
use crate::pg::request::{ClientOp, Stage};
use msgs::{OsdOpReply, osd_flag};
use node::Level;
use wire::Errno;

/// True if a planted fault has reads answered without the members' promises.
fn reads_without_lease() -> bool {
    stdx::mutants::is_active("osd_reads_without_lease")
}

impl Pg {
    /// All is loaded: executes the request.
    pub fn finish(&mut self, core: &mut Core, mut op: ClientOp) {
        if let Some(since) = op.balanced {
            return self.finish_balanced(core, op, since);
        }
        if op.target != op.key && !op.loaded.stored && !op.damaged {
            // The head says that there is a clone.
            op.damaged = true;
            core.event(Level::Error, "clone_not_here", format!("pg {} {:?}", self.id, op.target));
        }
        if op.damaged {
            return self.fail(core, op);
        }
        let Some(op) = self.unless_compared(core, op) else { return };
        let Some(op) = self.unless_sources_lack(core, op) else { return };
        if op.trim.is_some() {
            return self.trim_loaded(core, op);
        }
        let returned = |watcher| self.watches.has_returned(core.now().mono, &op.key, watcher);
        if op.expired.is_some_and(returned) {
            return self.drop_expiry(core, op);
        }
        let op = self.note_watches(core, op);
        let Some((op, outcome)) = self.outcome(core, op) else { return };
        self.take_outcome(core, op, outcome);
    }

    /// Puts a request back if its object must be recovered first after all: a comparison has begun while the
    /// request was loading, and must not miss what the request changes.
    fn unless_compared(&mut self, core: &mut Core, mut op: ClientOp) -> Option<ClientOp> {
        let states = [&op.key, &op.target];
        let lacking = states.into_iter().find(|key| self.must_recover_first(key, op.writes)).cloned();
        let Some(lacking) = lacking.filter(|_| !self.may_delete_first(core, &op)) else { return Some(op) };
        op.wait_again(core.now().mono);
        match self.requests.is_queued(&op) {
            true => self.requests.put(op),
            false => self.enqueue(core, op),
        }
        self.recover_first(core, &lacking);
        None
    }

    /// A loaded head tells of the object's watches.
    fn note_watches(&mut self, core: &mut Core, op: ClientOp) -> ClientOp {
        if op.target != op.key {
            return op;
        }
        self.watches.found(core.now().mono, &op.key, &op.loaded.watches);
        if !op.loaded.watches.values().any(|watch| core.map().is_blocklisted(&watch.addr)) {
            return op;
        }
        let id = op.id;
        self.requests.put(op);
        self.end_blocklisted(core);
        self.requests.take(id).expect("the ends of watches wait behind it")
    }

    /// Orders an update, and answers anything else.
    fn take_outcome(&mut self, core: &mut Core, mut op: ClientOp, mut outcome: Outcome) {
        let ordered = outcome.modified || op.writes && outcome.result < 0;
        if op.expired.is_some() && !ordered {
            return self.drop_expiry(core, op);
        }
        if !ordered && !self.has_lease(core) && !reads_without_lease() {
            op.enter(Stage::NeedsLease, core.now().mono);
            core.count("reads_waiting_for_lease", 1);
            return self.requests.put(op);
        }
        let key = op.key.clone();
        self.requests.leave_queue(&op);
        op.effects = std::mem::take(&mut outcome.effects);
        if ordered {
            self.order(core, op, outcome);
        } else {
            let seen = self.replication.last_write(&key);
            let reply = self.reply_of(core, &op, &outcome);
            self.count_read(&reply);
            self.answer_when_durable(core, op, seen, Box::new(reply));
        }
        self.run_queue(core, &key);
    }

    /// Executes a request. `None` if its course has shown that more is to be loaded: then it is put back.
    pub(in crate::pg) fn outcome(&mut self, core: &mut Core, op: ClientOp) -> Option<(ClientOp, Outcome)> {
        let caller = Caller {
            who: op.from.0,
            addr: op.from.1,
            expired: op.expired.is_some(),
            now: core.now().wall,
            version: self.next_version(core),
            notify_id: core.notify_ids(op.request.ops.len()),
            watches: &self.watches,
        };
        let old_context = op.writes
            && op.request.flags & osd_flag::ORDERSNAP != 0
            && self.snap_context(core, &op.request).seq < op.loaded.info.snapset.seq;
        if old_context {
            let refused = Outcome::refused(&op.request, &op.loaded, Errno::EOLDSNAPC);
            return Some((op, refused));
        }
        let mut outcome = execute(&op.request, &op.target, &op.loaded, &core.options().limits, caller);
        if !outcome.needs.is_empty() {
            let needs = std::mem::take(&mut outcome.needs);
            let loads = Loads::called(needs, &op.target, &core.options().limits);
            self.load_more(core, op, loads);
            return None;
        }
        if !outcome.copies.is_empty() {
            let (pgid, id, attempt) = (self.id, op.id, op.attempt);
            let wanted = outcome.copies.into_iter();
            for (at, source) in wanted {
                core.want_copy(CopyFor { pgid, op: id, attempt, at }, source);
            }
            self.requests.put(op);
            return None;
        }
        Some((op, outcome))
    }

    /// Loaded data is damaged: if another copy may have it, that is tried first.
    fn fail(&mut self, core: &mut Core, op: ClientOp) {
        let Some(op) = self.unless_checked_first(core, op) else { return };
        let (key, reply) =
            (op.key.clone(), OsdOpReply::to(&op.request, Errno::EIO.to_result_code(), core.epoch()));
        self.answer(core, op, reply);
        self.run_queue(core, &key);
    }

    /// A promise came: requests that waited for one go on.
    pub fn on_lease(&mut self, core: &mut Core) {
        let waiting = self.requests.ids(|op| op.stage == Stage::NeedsLease);
        if waiting.is_empty() || !self.has_lease(core) {
            return;
        }
        for id in waiting {
            let Some(mut op) = self.requests.take(id) else { continue };
            op.enter(Stage::Loading, core.now().mono);
            if op.is_pg_op() { self.start_list(core, op) } else { self.finish(core, op) }
        }
    }
}
