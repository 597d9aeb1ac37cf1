//! ENOSPC handling: updates and objects for which a store has no space.
//!
//! The map's full ratio stops clients long before a store is full, but it may come too late, and disks differ
//! in size. Nothing may stop or be lost then. A member without space for an update logs it and counts its
//! objects as missing, so that later updates, above all those that free space, proceed. The objects are sent
//! when there is space, and only then is the update durable on all members and answered. Recovery waits and
//! tries again; deletions need not wait for it.

use super::Pg;
use super::info::Delta;
use super::log::{Entry, Missing};
use super::meta::{MetaChange, temp_key};
use super::request::ClientOp;
use super::state::State;
use crate::completion::CommitFor;
use crate::core::Core;
use crate::pg::member::Member;
use maps::{EVersion, pool_flags};
use msgs::{OsdOpReply, osd_flag};
use node::{ConnId, Level, Msg};
use store::{ObjectKey, Refusal, Transaction, TxnOp};
use wire::{EntityType, Errno};

/// Bytes that an update adds to the PG's knowledge, beside the update itself.
const RECORDS: usize = 4096;

/// Decision about a client's request.
enum Room {
    /// It is carried out.
    Enough,
    /// The client should have waited; it asks again when the map says that there is room.
    Drop,
    /// Fail with this error.
    Refuse(Errno),
}

/// True if the store is so full that nothing may grow: the map says full earlier, but may come too late
/// (`osd_failsafe_full_ratio` of Ceph's OSDs, 0.97).
fn is_failsafe_full(core: &Core) -> bool {
    let usage = core.usage();
    usage.available < usage.total / 100 * 3
}

/// Decides if a client may let the PG grow. Only growth is refused: data, objects, and omap if the store
/// itself is nearly full. Clients hold writes themselves while the map says full, unless they ask to try.
fn room_for(core: &Core, pool: i64, op: &ClientOp, delta: &Delta, txn: &[TxnOp]) -> Room {
    let grows = delta.bytes > 0 || delta.objects > 0;
    let with_omap = grows || txn.iter().any(|op| matches!(op, TxnOp::OmapSet(..)));
    let flags = op.request.flags;
    if !with_omap || op.conn.is_none() || flags & osd_flag::FULL_FORCE != 0 {
        return Room::Enough;
    }
    let map = core.map();
    let quota = map.pools.get(&pool).is_some_and(|p| p.has_flag(pool_flags::FULL_QUOTA));
    if grows && (quota || map.is_full(pool)) && op.from.0.ty != EntityType::MDS {
        return match flags & osd_flag::FULL_TRY {
            0 => Room::Drop,
            _ => Room::Refuse(if quota { Errno::EDQUOT } else { Errno::ENOSPC }),
        };
    }
    if is_failsafe_full(core) { Room::Refuse(Errno::ENOSPC) } else { Room::Enough }
}

impl Pg {
    /// Answers or drops a request that there is no space for; gives it back if there is.
    pub(super) fn unless_out_of_space(
        &mut self,
        core: &mut Core,
        mut op: ClientOp,
        delta: &Delta,
        txn: &[TxnOp],
    ) -> Option<ClientOp> {
        match room_for(core, self.id.pgid.pool, &op, delta, txn) {
            Room::Enough => return Some(op),
            Room::Drop => {
                self.requests.end(&op);
                core.count("requests_dropped", 1);
            }
            Room::Refuse(errno) => {
                op.effects.clear();
                let reply = OsdOpReply::to(&op.request, errno.to_result_code(), core.epoch());
                self.answer(core, op, reply);
            }
        }
        None
    }

    /// The reason why our store would refuse an update. The log entry and the PG's other records must fit
    /// too; one page exceeds what they need.
    pub(super) fn would_refuse(&self, core: &Core, txn: &Transaction, update: usize) -> Option<Refusal> {
        let removes = |op: &TxnOp| {
            matches!(
                op,
                TxnOp::Remove(_) | TxnOp::OmapRemove(..) | TxnOp::OmapRemoveRange(..) | TxnOp::OmapClear(_)
            )
        };
        let brings = |op: &TxnOp| matches!(op, TxnOp::Write(..) | TxnOp::Clone(..) | TxnOp::CloneRange(..));
        let frees = txn.ops.iter().any(removes) && !txn.ops.iter().any(brings);
        // Space withheld from clients: maps and the OSD's own records must still be written when nothing else
        // is. An OSD that was away takes some hundred maps at once, each with a block of its own.
        let own = if frees { 0 } else { (core.usage().total / 256).clamp(4 << 20, 16 << 20) };
        core.would_refuse(txn, RECORDS + update, own)
    }

    /// True if an update changes an object that is not here: an earlier update had no space, and the primary
    /// did not know yet.
    pub(super) fn lacks_base(&self, entry: &Entry) -> bool {
        let changes = entry.changes();
        let lacks = |key: &ObjectKey| self.local.lacks(key);
        changes.iter().any(|c| !c.removed) && (lacks(&entry.object) || changes.iter().any(|c| lacks(&c.key)))
    }

    /// Forgets updates for which there was no room, if nobody else may have them.
    pub(super) fn forget_refused(&mut self, core: &mut Core) {
        let mut change = MetaChange::default();
        let Some((first, last)) = self.local.forget_refused(&mut change) else { return };
        let text = format!("pg {}: {first} to {last}", self.id);
        core.event(Level::Info, "updates_without_room_forgotten", text);
        self.submit(core, Vec::new(), change, CommitFor::Nothing);
    }

    /// True if a request that deletes an object need not wait until all members have it: a member that lacks
    /// it has no space for it, and it is not in transit.
    pub(super) fn may_delete_first(&self, core: &Core, op: &ClientOp) -> bool {
        let compared =
            self.scrub.holds(&op.key, true) && !stdx::mutants::is_active("osd_deletes_what_it_compares");
        if !op.deletes() || self.lacks(&op.key) || compared {
            return false;
        }
        let mut members = self.members_copies();
        members.all(|(member, copy)| {
            let on_its_way = || self.recovery.is_pushing(member, &op.key);
            let compared = self.backfill.holds(member, &op.key);
            !compared && (!copy.lacks(&op.key) || core.is_out_of_space(member.osd) && !on_its_way())
        })
    }

    /// Objects that waiting clients delete, and that we neither have nor have space for. Empty while there is
    /// a deletion that we can execute: it comes first, and may free space.
    pub(super) fn deletes_without_room(&self, core: &Core) -> Vec<&ObjectKey> {
        if !core.is_out_of_space(core.id()) {
            return Vec::new();
        }
        let mut lacking = Vec::new();
        for key in self.requests.objects().filter(|key| self.next_in_turn(key).is_some_and(ClientOp::deletes))
        {
            if !self.local.lacks(key) {
                return Vec::new();
            }
            lacking.push(key);
        }
        lacking
    }

    /// The request for an object that whoever has the object would have to carry out next: what is only to be
    /// answered again has its place in the log, and whoever has the object can let it be read, unless nobody
    /// may see it yet.
    fn next_in_turn(&self, key: &ObjectKey) -> Option<&ClientOp> {
        let unsure =
            |missing: &Missing| missing.get(key).is_some_and(|need| *need > self.replication.sure_to());
        let unsure =
            unsure(self.local.missing()) || self.members_copies().any(|(_, copy)| unsure(copy.missing()));
        let in_turn = |op: &&ClientOp| if op.writes { !self.is_repeat(op) } else { unsure };
        self.requests.queue(key).find(in_turn)
    }

    /// True if a request was ordered before, and only needs its answer.
    fn is_repeat(&self, op: &ClientOp) -> bool {
        op.writes && self.local.log().find(&op.reqid).is_some()
    }

    /// Lets a deletion overtake repeated requests for its object. Those have their place in the log before it
    /// and wait until all members have the object, for which there may be no space without the deletion.
    /// Returns true if such a deletion can be executed.
    pub(super) fn deletion_passes(&mut self, core: &Core, key: &ObjectKey) -> bool {
        let next = self.requests.queue(key).enumerate().find(|(_, op)| !self.is_repeat(op));
        let passing = next.filter(|(_, op)| self.may_delete_first(core, op)).map(|(at, _)| at);
        let Some(at) = passing else { return false };
        self.requests.move_first(key, at);
        true
    }

    /// Handles a member's report that it logged an update without space for its objects. They are sent as
    /// soon as there is space; until then the update is not durable there and nobody is answered. Updates
    /// that free space proceed.
    pub(super) fn on_no_room(&mut self, core: &mut Core, member: Member, version: EVersion) {
        let Some(head) = self.replication.object_of(version) else { return };
        // Later updates of the object are lacking there too, or have removed it again.
        let since = self.local.log().entries().filter(|e| e.version >= version && e.object == head);
        let Some(lacking) = self.round.update_refused(member, since) else { return };
        self.replication.lacks(member, version, lacking);
        core.event(
            Level::Info,
            "update_without_room",
            format!("pg {} {version}: osd.{member} is full", self.id),
        );
        if self.state == State::Clean {
            self.set_state(core, State::Active);
        }
        self.changed(core);
        core.out_of_space(member.osd);
        self.lacking_arrived(core, member, &head);
        self.scrub_compare(core);
    }

    /// An object has arrived at a member, or is no longer needed there: refused updates of it may be durable
    /// now.
    pub fn lacking_arrived(&mut self, core: &mut Core, member: Member, object: &ObjectKey) {
        for version in self.replication.arrived(member, object, |key| self.round.is_missing(member, key)) {
            self.durable_at(core, member, version);
        }
    }

    /// A member, or this OSD, had no space for an object in transit: it is sent again after a while.
    pub fn on_sent_without_room(&mut self, core: &mut Core, member: Member, key: &ObjectKey) {
        core.recovery_ended(1);
        core.out_of_space(member.osd);
        core.event(
            Level::Info,
            "recovery_without_room",
            format!("pg {} {key:?}: osd.{member} is full", self.id),
        );
        self.recovery.end_push(member, key);
        self.backfill.refused(member, key);
        self.backfill_go_on(core, member);
        self.changed(core);
        // Deletions need not wait for it any more, and others may have their turn.
        self.kick_waiting(core);
        self.recover(core);
    }

    /// We have no room for an object that we asked for.
    pub fn on_pulled_without_room(&mut self, core: &mut Core, key: &ObjectKey, need: EVersion) {
        let us = self.us(core);
        self.on_sent_without_room(core, us, key);
        self.follow_acting(core);
        if self.state == State::SelfBackfill {
            self.self_backfill_again(key, need);
        }
    }

    /// There may be space again, here or at a member: whatever waits for it continues.
    pub fn on_room(&mut self, core: &mut Core) {
        if self.state == State::SelfBackfill {
            return self.self_backfill_fetch(core);
        }
        if !self.state.is_active() || !self.is_primary(core) {
            return;
        }
        // Requests that wait for such an object ask for it again.
        self.kick_waiting(core);
        self.recover(core);
    }

    /// True if a member, or this OSD, lacks objects and has no space for them: for recovery, and for
    /// backfill.
    pub fn waits_for_room(&self, core: &Core) -> (bool, bool) {
        let full = |osd| core.is_out_of_space(osd);
        let members = || self.members_copies().filter(|(member, _)| full(member.osd));
        let recovery = !self.local.missing().is_empty() && full(core.id())
            || members().any(|(_, copy)| !copy.missing().is_empty());
        (recovery, members().any(|(member, _)| self.backfill.is_filling(member)))
    }

    /// Refuses a part for lack of space. Parts received before are dropped.
    pub(super) fn refuse_push(
        &mut self,
        core: &mut Core,
        conn: ConnId,
        tid: u64,
        msg: &peer::Push,
        pulled: bool,
    ) {
        let key = self.key_of(&msg.object);
        let reply = peer::PushReply {
            head: msg.head.answer(core.epoch()),
            object: msg.object.clone(),
            next_offset: msg.offset,
            result: Errno::ENOSPC.to_result_code(),
        };
        if pulled {
            core.send(conn, tid, peer::Body::from(reply.clone()));
            if let Some(need) = self.recovery.end_pull(&key) {
                self.on_pulled_without_room(core, &key, need);
            }
        }
        let reply = Msg::new(tid, peer::Body::from(reply));
        let then = if pulled { CommitFor::Nothing } else { CommitFor::Send { conn, msg: Box::new(reply) } };
        self.submit(core, vec![TxnOp::Remove(temp_key(&key))], MetaChange::default(), then);
    }
}
