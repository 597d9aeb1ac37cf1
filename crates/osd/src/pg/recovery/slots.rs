//! How a PG gets its slots for recovery and gives them back, as primary and as a member.

use crate::core::Core;
use crate::pg::Pg;
use crate::pg::member::{Asker, Member};
use crate::pg::state::State;
use node::ConnId;
use peer::reserve_op;

/// Urgency as in Ceph: PGs that cannot serve, then those with too few copies, then those whose copies are
/// elsewhere.
const INACTIVE: u8 = 3;
const DEGRADED: u8 = 2;
const MISPLACED: u8 = 1;

impl Pg {
    /// True if the PG holds its slots. Requests slots if there is work, and returns them if there is none.
    pub(in crate::pg) fn has_slots(&mut self, core: &mut Core) -> bool {
        if !self.has_work(core) {
            self.give_slots_back(core);
            return false;
        }
        if self.reservations.begin() {
            core.reserve_own(self.id, self.urgency());
        }
        self.reservations.is_held()
    }

    /// True if work is in progress or possible.
    fn has_work(&self, core: &Core) -> bool {
        let to_fill = |(member, _): (Member, _)| {
            let may_fill = self.backfill.is_filling(member) && self.may_fill(core, member);
            may_fill && !core.is_out_of_space(member.osd)
        };
        !self.recovery.pulls.is_empty()
            || !self.recovery.pushes.is_empty()
            || self.next_to_recover(core).is_some()
            || self.local.missing().is_empty() && self.members_copies().any(to_fill)
    }

    fn urgency(&self) -> u8 {
        match self.full_members() {
            _ if !self.is_serving() => INACTIVE,
            full if full < self.members.size() || self.members.acting() == self.members.up() => DEGRADED,
            _ => MISPLACED,
        }
    }

    /// True if there are copies enough, some of them elsewhere than they should be.
    pub(in crate::pg) fn is_only_misplaced(&self) -> bool {
        self.urgency() == MISPLACED
    }

    /// Members that lack something and have room, by their number.
    fn members_to_fill(&self, core: &Core) -> Vec<Member> {
        let lacking = self.members_copies().filter(|(member, copy)| {
            let lacks = self.backfill.is_filling(*member) || !copy.missing().is_empty();
            lacks && !core.is_out_of_space(member.osd)
        });
        lacking.map(|(member, _)| member).collect()
    }

    /// One of our own slots is ours.
    pub fn on_own_slot(&mut self, core: &mut Core) {
        if !self.reservations.awaits_own() || !self.state.is_active() {
            core.release_own(self.id);
            return;
        }
        self.ask_next_member(core);
    }

    fn ask_next_member(&mut self, core: &mut Core) {
        let to_fill = self.members_to_fill(core);
        let next = self.reservations.advance(&to_fill);
        self.changed(core);
        let Some(member) = next else { return self.recover(core) };
        let fills = self.backfill.is_filling(member);
        self.send_reserve(core, member, if fills { reserve_op::FILL } else { reserve_op::RECOVER });
    }

    fn send_reserve(&self, core: &mut Core, member: Member, op: u8) {
        let body = self.reserve_message(core, member.shard, op);
        core.send_osd(member.osd, self.round.number(), peer::Body::from(body));
    }

    fn reserve_message(&self, core: &Core, shard: i8, op: u8) -> peer::PgReserve {
        peer::PgReserve { head: self.head(core, shard), op, urgency: self.urgency() }
    }

    /// Gives all slots back.
    fn give_slots_back(&mut self, core: &mut Core) {
        let Some(members) = self.reservations.end() else { return };
        for member in members {
            self.send_reserve(core, member, reserve_op::RELEASE);
        }
        core.release_own(self.id);
        self.changed(core);
    }

    /// Forgets them, ours and those that we gave: another round begins, in which all do.
    pub(in crate::pg) fn forget_slots(&mut self, core: &mut Core) {
        self.reservations.forget();
        core.release_own(self.id);
        core.release_filled(self.id);
    }

    /// A primary asks for a slot or gives it back, or a member answers.
    pub fn on_reserve(
        &mut self,
        core: &mut Core,
        (conn, from): (ConnId, Member),
        tid: u64,
        msg: &peer::PgReserve,
    ) {
        if !self.is_current(msg.head.interval) {
            return;
        }
        let asks = self.state == State::ReplicaActive && tid == self.round.activation();
        let answers = self.is_primary(core) && tid == self.round.number();
        match msg.op {
            reserve_op::FILL if asks && core.is_backfill_full() => {
                let body = self.reserve_message(core, from.shard, reserve_op::TOOFULL);
                core.send(conn, tid, peer::Body::from(body));
            }
            reserve_op::FILL | reserve_op::RECOVER if asks => {
                self.reservations.ask(Asker { conn, tid, shard: from.shard });
                core.reserve_filled(self.id, msg.urgency);
            }
            reserve_op::RELEASE if asks => {
                self.reservations.release();
                core.release_filled(self.id);
            }
            reserve_op::GRANT if answers => self.on_member_slot(core, from),
            reserve_op::TOOFULL if answers => {
                core.out_of_space(from.osd);
                self.give_slots_back(core);
                self.recover(core);
            }
            _ => {}
        }
    }

    /// Grants one of our backfill slots to the PG: its primary is told.
    pub fn on_filled_slot(&mut self, core: &mut Core) {
        let wanted = self.reservations.asker().filter(|asker| asker.tid == self.round.activation());
        let Some(Asker { conn, tid, shard }) = wanted.filter(|_| self.state == State::ReplicaActive) else {
            core.release_filled(self.id);
            return;
        };
        let body = self.reserve_message(core, shard, reserve_op::GRANT);
        core.send(conn, tid, peer::Body::from(body));
    }

    /// Handles the end of a connection on which one of our slots may have been requested. A release on it may
    /// be lost; the primary knows, and starts over if it still needs the slot.
    pub fn on_reserver_gone(&mut self, core: &mut Core, conn: ConnId) {
        if self.reservations.asker().is_some_and(|asker| asker.conn == conn) {
            self.reservations.release();
            core.release_filled(self.id);
        }
    }

    fn on_member_slot(&mut self, core: &mut Core, from: Member) {
        if self.reservations.awaits(from) {
            self.ask_next_member(core);
        }
    }

    /// True if the PG holds its slots.
    pub fn holds_slots(&self) -> bool {
        self.reservations.is_held()
    }
}
