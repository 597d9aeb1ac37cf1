//! Reads that another member than the primary answers, where a client lets it (BALANCE_READS,
//! LOCALIZE_READS).
//!
//! It shows what the primary would, or says EAGAIN, with which the client goes to the primary:
//! - It serves while all other members' promises hold, as the primary does: whoever begins a new interval
//!   waits until they are over.
//! - The primary has said that it is active in this round. Before, the one of an earlier interval may still
//!   show older content.
//! - What is shown is known to have been durable on all members: of the object nothing is logged behind
//!   `sure_to`, so nobody can take it back.
//! - No acknowledged update is missing: all are durable on all members, here too; and the object is complete
//!   here.

use super::Pg;
use super::request::ClientOp;
use super::state::State;
use crate::core::Core;
use crate::ops::may_write;
use maps::EVersion;
use msgs::{Op, OsdOp, OsdOpReply, osd_flag};
use store::ObjectKey;
use wire::Errno;

/// True if a client lets any member answer. Never true for a write: an executed write is recognized by its
/// tid, and the client sends it under another one after EAGAIN.
pub fn may_be_balanced(request: &OsdOp) -> bool {
    request.flags & (osd_flag::BALANCE_READS | osd_flag::LOCALIZE_READS) != 0 && !may_write(request)
}

/// True if a request concerns state that only the primary has: connections of watchers, and the content of
/// the PG.
fn is_for_primary(request: &OsdOp) -> bool {
    let primarys = |op: &Op| {
        let watches =
            matches!(op, Op::Watch { .. } | Op::Notify { .. } | Op::NotifyAck { .. } | Op::ListWatchers);
        watches || op.code().is_pg_op() || op.code().writes()
    };
    request.flags & osd_flag::RWORDERED != 0 || request.ops.iter().any(|sub| primarys(&sub.op))
}

impl Pg {
    /// A client's request at a member that is not primary.
    pub(super) fn begin_balanced(&mut self, core: &mut Core, id: u64) {
        let head = self.local.log().head();
        let Some(mut op) = self.requests.take(id) else { return };
        op.balanced = Some(head);
        if op.writes || is_for_primary(&op.request) || !self.shows(core, &op.key) {
            return self.send_to_primary(core, op);
        }
        self.load(core, op);
    }

    /// All is loaded. What was read at different times is one state only where no update of the object has
    /// come meanwhile.
    pub(super) fn finish_balanced(&mut self, core: &mut Core, op: ClientOp, since: EVersion) {
        let (key, target) = (op.key.clone(), op.target.clone());
        let same = !self.local.log().has_since(since, &key);
        let lost = op.damaged || target != key && !op.loaded.stored;
        if lost || !same || !self.shows(core, &key) || self.local.lacks(&target) {
            return self.send_to_primary(core, op);
        }
        let Some((op, outcome)) = self.outcome(core, op) else { return };
        if outcome.modified || !outcome.effects.is_empty() {
            return self.send_to_primary(core, op);
        }
        core.count("balanced_reads", 1);
        let reply = self.reply_of(core, &op, &outcome);
        self.answer(core, op, reply);
    }

    /// True if an object may be shown here although we are not primary.
    pub(super) fn shows(&self, core: &Core, head: &ObjectKey) -> bool {
        let sure_to = self.replication.sure_to();
        let sure = self.local.log().tail() <= sure_to && !self.local.log().has_since(sure_to, head);
        self.state == State::ReplicaActive
            && !self.members.is_premerge()
            && self.leases.primary_serves()
            && self.has_lease(core)
            && !self.local.info().incomplete
            && !self.local.lacks(head)
            && (sure || stdx::mutants::is_active("osd_balances_what_is_not_sure"))
    }

    /// The client asks the primary instead.
    pub(super) fn send_to_primary(&mut self, core: &mut Core, op: ClientOp) {
        let reply = OsdOpReply::to(&op.request, Errno::EAGAIN.to_result_code(), core.epoch());
        core.count("balanced_reads_refused", 1);
        self.answer(core, op, reply);
    }

    /// Sends requests that any member may answer to the primary, because our state of the PG is about to
    /// change.
    pub(super) fn send_all_to_primary(&mut self, core: &mut Core) {
        for id in self.requests.ids(|op| op.balanced.is_some() || may_be_balanced(&op.request)) {
            if let Some(op) = self.requests.take(id) {
                self.send_to_primary(core, op);
            }
        }
    }
}
