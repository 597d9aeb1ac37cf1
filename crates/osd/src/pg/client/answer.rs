//! Replies: made, held until what they tell is durable, and sent.

use crate::core::Core;
use crate::ops::Outcome;
use crate::pg::Pg;
use crate::pg::request::{ClientOp, Reply, Stage};
use crate::pg::watching::tell;
use maps::EVersion;
use msgs::{OsdOpReply, osd_flag};
use stdx::Bufs;

/// True if a planted fault has replies tell of updates that are not durable.
fn shows_too_early() -> bool {
    stdx::mutants::is_active("osd_shows_what_is_not_durable")
}

impl Pg {
    pub(super) fn count_read(&mut self, reply: &Reply) {
        self.local.count_read(reply.ops.iter().map(|o| o.data.len() as u64).sum());
    }

    pub(in crate::pg) fn reply_of(&self, core: &Core, op: &ClientOp, outcome: &Outcome) -> Reply {
        let request = &op.request;
        let mut reply = OsdOpReply::to(request, outcome.result, core.epoch());
        reply.ops.clone_from(&outcome.ops);
        if outcome.modified && request.flags & osd_flag::RETURNVEC == 0 {
            // The output of a write might not be reproducible after a failure, unless the client wants
            // little.
            reply.result = 0;
            reply.ops.iter_mut().for_each(|op| op.data = Bufs::new());
        }
        if outcome.exists {
            reply.set_version(outcome.info.version, outcome.info.user_version);
        } else {
            reply.set_version(self.local.info().last_update, self.local.info().last_user_version);
        }
        reply
    }

    /// Answers once `version` is durable on all members.
    pub(in crate::pg) fn answer_when_durable(
        &mut self,
        core: &mut Core,
        op: ClientOp,
        version: EVersion,
        reply: Box<Reply>,
    ) {
        if version <= self.replication.committed_to() || shows_too_early() {
            return self.answer(core, op, *reply);
        }
        self.requests.await_durability(op, version, reply, core.now().mono);
        self.answer_deletions(core);
    }

    /// More is durable than before: answers requests that waited for it.
    pub(in crate::pg) fn answer_waiting(&mut self, core: &mut Core) {
        for (id, reply) in self.requests.durable_to(self.replication.committed_to()) {
            self.answer_by_id(core, id, *reply);
        }
    }

    /// Answers a request by its number. Nobody is answered if its client has gone meanwhile.
    pub(in crate::pg) fn answer_by_id(&mut self, core: &mut Core, id: u64, reply: Reply) {
        if let Some(op) = self.requests.take(id) {
            self.answer(core, op, reply);
        }
    }

    /// Answers a request.
    pub fn answer(&mut self, core: &mut Core, mut op: ClientOp, reply: Reply) {
        self.requests.end(&op);
        if op.trim.is_some() {
            return self.trim_done(core, &op, reply.result);
        }
        let now = core.now();
        if op.expired.is_none() {
            let took = now.mono.since(op.received);
            core.perf().answered(&op.request, op.writes, &reply.ops, took);
        }
        core.request_answered(now.mono.since(op.received), || op.describe(self.id, now));
        if op.stage == Stage::Replicating {
            core.client_wrote(op.waits.in_stage(core.now().mono));
        }
        let (before, after) = self.carry_out_effects(core, &mut op, reply.result >= 0);
        tell(core, before);
        if let Some(tid) = op.ours {
            core.answer_own(tid, reply);
        } else if let Some(conn) = op.conn {
            core.count("ops", 1);
            core.answer(conn, op.tid, reply, op.hold);
        }
        tell(core, after);
    }
}
