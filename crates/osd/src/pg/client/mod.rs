//! Client requests at the primary.
//!
//! Requests for one object run strictly in their order of arrival; each sees the effect of those before it at
//! once. A reply waits until everything that it observed, and all earlier log entries, are durable on every
//! member (docs/design.md, decision 5). Exception: deletions may overtake updates that wait for free space.
//!
//! Reading path: arrival and turn (here), [`load`], [`execute`], [`order`], [`answer`]. [`queues`] has the
//! requests.

mod answer;
mod execute;
mod load;
mod order;
pub mod queues;

use super::Pg;
use super::request::{ClientOp, Reply, Stage};
use crate::core::Core;
use crate::watch::Effect;
use maps::EVersion;
use msgs::OsdOpReply;
use node::ConnId;
use stdx::Bufs;
use store::ObjectKey;
use wire::EntityType;

/// True if a planted fault has repeated requests carried out again.
fn forgets_answers() -> bool {
    stdx::mutants::is_active("osd_forgets_what_it_answered")
}

impl Pg {
    /// Takes a request. `id` grows with the order of arrival.
    pub fn on_client_op(&mut self, core: &mut Core, id: u64, op: ClientOp) {
        let op = ClientOp { id, ..op };
        self.hear_of_watchers(core, &op);
        self.requests.insert(op);
        if !self.is_primary(core) {
            return self.begin_balanced(core, id);
        }
        match self.is_serving() {
            true => self.start(core, id),
            false => self.back_off(core),
        }
    }

    /// The PG serves (again): starts all requests in their order.
    pub fn kick_all(&mut self, core: &mut Core) {
        if !self.is_serving() {
            return self.back_off(core);
        }
        self.end_backoffs(core);
        for id in self.requests.unqueued() {
            self.start(core, id);
        }
    }

    /// Requests that wait for their turn look again if it has come.
    pub(super) fn kick_waiting(&mut self, core: &mut Core) {
        let keys: Vec<ObjectKey> = self.requests.objects().cloned().collect();
        keys.iter().for_each(|key| self.run_queue(core, key));
    }

    /// We are not primary: clients ask the one who is.
    pub fn drop_all_ops(&mut self, core: &mut Core) {
        // They do not know yet: clients fetch maps by themselves only after ten seconds without an answer.
        core.inform(self.requests.iter().filter_map(|op| op.conn));
        // A client that lets any member answer may believe that we still can.
        self.send_all_to_primary(core);
        self.end_backoffs(core);
        self.watches.clear();
        self.requests.clear();
    }

    /// A client's connection is gone: the client will ask again on another. Updates that are ordered go on,
    /// unanswered.
    pub fn on_client_gone(&mut self, core: &mut Core, conn: ConnId) {
        self.watches.disconnected(core.now().mono, conn);
        // Watchers of an object that it deletes are told all the same.
        let tells_watchers = |op: &ClientOp| {
            let ends = |effect: &Effect| matches!(effect, Effect::End { .. });
            op.stage == Stage::Replicating && op.effects.iter().any(ends)
        };
        for key in self.requests.drop_client(conn, tells_watchers) {
            self.run_queue(core, &key);
        }
    }

    /// Starts a request that waits and is in no queue. It may have been answered, or have started, by what
    /// was started before.
    fn start(&mut self, core: &mut Core, id: u64) {
        if let Some(op) = self.requests.take(id) {
            self.enqueue(core, op);
        }
    }

    /// A request waits for its turn; its turn may be now.
    pub(super) fn enqueue(&mut self, core: &mut Core, op: ClientOp) {
        if op.is_pg_op() {
            return self.start_list(core, op);
        }
        if op.from.0.ty == EntityType::OSD && !op.writes && !self.must_recover_first(&op.key, false) {
            // A read for a copy sees what is ordered, and waits for nothing that may wait for the copy.
            return self.load(core, op);
        }
        let (key, deletes) = (op.key.clone(), op.deletes());
        // A deletion may pass requests that wait.
        if self.requests.enqueue(op) == 1 || deletes {
            self.run_queue(core, &key);
        }
    }

    /// Starts the first request of an object's queue, if it can.
    pub fn run_queue(&mut self, core: &mut Core, key: &ObjectKey) {
        while let Some(op) = self.requests.take_first(key) {
            if op.stage != Stage::Waiting {
                return self.requests.put(op);
            }
            if op.writes {
                self.scrub_gives_way(core, key);
            }
            if let Some((version, reply)) = self.replay_reply(core, &op) {
                let may_be_passed = version > self.replication.sure_to();
                if may_be_passed && let Some(lacking) = self.lacking_state(key) {
                    self.requests.put(op);
                    if self.deletion_passes(core, key) {
                        continue;
                    }
                    return self.recover_first(core, &lacking);
                }
                self.requests.leave_queue(&op);
                // A deletion that has passed it is what all members have of it, once they have that.
                let passed =
                    if may_be_passed { self.replication.last_write(key) } else { EVersion::default() };
                self.answer_when_durable(core, op, version.max(passed), Box::new(reply));
                continue;
            }
            if self.must_recover_first(key, op.writes) && !self.may_delete_first(core, &op) {
                self.requests.put(op);
                self.recover_first(core, key);
                return self.back_off_unfound(core, key);
            }
            return self.load(core, op);
        }
        self.requests.close_queue(key);
        if !core.backoffs().is_empty() && !self.must_recover_first(key, false) {
            self.end_backoffs_of(core, key);
        }
    }

    /// The reply to a request that was carried out before, and the version that the reply must wait for.
    fn replay_reply(&self, core: &Core, op: &ClientOp) -> Option<(EVersion, Reply)> {
        if !op.writes || op.expired.is_some() || forgets_answers() {
            return None;
        }
        let (version, answer) = self.local.log().find(&op.reqid)?;
        let mut reply = OsdOpReply::to(&op.request, answer.result, core.epoch());
        for (result, (rval, data)) in reply.ops.iter_mut().zip(&answer.ops) {
            (result.rval, result.data) = (*rval, Bufs::from(data.clone()));
        }
        reply.set_version(version, answer.user_version);
        Some((version, reply))
    }

    /// Puts a request back that must wait for `key` to be complete, if that is so. Then it starts from
    /// scratch once it is.
    pub(super) fn unless_lacking(
        &mut self,
        core: &mut Core,
        mut op: ClientOp,
        key: &ObjectKey,
        writes: bool,
    ) -> Option<ClientOp> {
        if !self.must_recover_first(key, writes) {
            return Some(op);
        }
        op.wait_again(core.now().mono);
        self.requests.put(op);
        self.recover_first(core, key);
        None
    }
}
