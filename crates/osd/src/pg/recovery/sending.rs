//! The steps of a transfer: reading parts and sending them, receiving parts and acknowledging them.

use super::transfer::{Destination, OMAP_BYTES, OMAP_ENTRIES, PartAttributes, Sender, write_part};
use crate::completion::{CommitFor, ReadFor};
use crate::core::Core;
use crate::object::{INFO_ATTR, ObjectInfo, at_snap, hobject_of};
use crate::pg::Pg;
use crate::pg::member::{Asker, Member};
use crate::pg::meta::{MetaChange, index_clone};
use crate::qos::Charge;
use maps::{EVersion, SnapId};
use node::{ConnId, Level, Msg};
use stdx::Bufs;
use store::{ObjectKey, OmapRange, Read, ReadReply, Refusal, StoreError, Transaction, TxnOp};
use wire::{Errno, Reader, Writer};

impl Pg {
    /// Sends an object to a member; `None` for the version: that it does not exist.
    pub fn push(&mut self, core: &mut Core, to: Member, key: ObjectKey, version: EVersion, deleted: bool) {
        let tid = core.next_round();
        let mut sender = Sender {
            to: Destination::Member(to),
            tid,
            key,
            version,
            offset: 0,
            omap_after: None,
            first: true,
            last_sent: deleted,
            charged: Charge::default(),
        };
        core.begin_transfer();
        core.perf().transfer_began();
        if deleted {
            core.charge_removal();
            let body = self.push_message(core, &sender, PartAttributes::default(), Bufs::new(), (true, true));
            core.send_osd(to.osd, tid, peer::Body::from(peer::Push { deleted: true, ..body }));
        } else {
            sender.charged = core.charge_object();
            self.read_part(core, &sender);
        }
        self.recovery.sends.insert(tid, sender);
    }

    /// The primary asks for an object.
    pub fn on_pull(&mut self, core: &mut Core, conn: ConnId, tid: u64, msg: &peer::Pull) {
        if !self.is_current(msg.head.interval) {
            return;
        }
        let sender = Sender {
            to: Destination::Asker(Asker { conn, tid, shard: msg.head.from }),
            tid,
            key: self.key_of(&msg.object),
            version: msg.version,
            offset: 0,
            omap_after: None,
            first: true,
            last_sent: false,
            charged: Charge::default(),
        };
        core.begin_transfer();
        self.read_part(core, &sender);
        self.recovery.sends.insert(tid, sender);
    }

    fn read_part(&self, core: &mut Core, s: &Sender) {
        let omap = OmapRange {
            after: s.omap_after.clone(),
            prefix: Vec::new(),
            max: OMAP_ENTRIES,
            max_bytes: OMAP_BYTES,
        };
        let read = Read::Object {
            key: s.key.clone(),
            attrs: true,
            data: vec![(s.offset, core.options().recovery_chunk)],
            omap_header: s.first,
            omap_keys: Vec::new(),
            omap_range: Some(omap),
        };
        core.read(read, ReadFor::Part { pgid: self.id, tid: s.tid });
    }

    /// A part was read.
    pub fn on_part_read(&mut self, core: &mut Core, tid: u64, result: Result<ReadReply, StoreError>) {
        let Some(mut sender) = self.recovery.sends.remove(&tid) else { return };
        let view = match result {
            Ok(ReadReply::Object(view)) => view,
            Ok(_) => None,
            Err(error) => {
                core.event(
                    Level::Error,
                    "object_unreadable",
                    format!("pg {} {:?}: {error}", self.id, sender.key),
                );
                if let Destination::Member(member) = sender.to {
                    return self.unreadable_here(core, member, sender.key);
                }
                return self.refuse_part(core, &sender, Errno::EIO);
            }
        };
        let info = view.as_ref().and_then(|v| v.attrs.iter().find(|(n, _)| n == INFO_ATTR));
        let info = info.and_then(|(_, value)| ObjectInfo::parse(value));
        let (Some(view), true) = (view, info.is_some_and(|i| i.version == sender.version)) else {
            return self.refuse_part(core, &sender, Errno::ENOENT);
        };
        let (attributes, data, last) = sender.part_of(view);
        if matches!(sender.to, Destination::Member(_)) {
            attributes.pay(core, sender.first.then_some(&mut sender.charged));
        }
        let mut body = self.push_message(core, &sender, attributes, data.clone(), (sender.first, last));
        core.perf().pushed(&data);
        body.offset = sender.offset;
        sender.offset += data.len() as u64;
        (sender.first, sender.last_sent) = (false, last);
        match sender.to {
            Destination::Member(member) => core.send_osd(member.osd, tid, peer::Body::from(body)),
            Destination::Asker(asker) => {
                core.send(asker.conn, tid, peer::Body::from(body));
                if last {
                    // The asker has no use for an answer to its own question.
                    core.recovery_ended(1);
                    return;
                }
            }
        }
        self.recovery.sends.insert(tid, sender);
    }

    fn push_message(
        &self,
        core: &Core,
        s: &Sender,
        attributes: PartAttributes,
        data: Bufs,
        (first, last): (bool, bool),
    ) -> peer::Push {
        peer::Push {
            head: self.head(core, s.to.shard()),
            object: hobject_of(&s.key),
            version: s.version,
            offset: 0,
            first,
            last,
            deleted: false,
            attributes: Writer::encode(&attributes),
            data,
        }
    }

    /// We do not have the object at that version.
    fn refuse_part(&mut self, core: &mut Core, s: &Sender, errno: Errno) {
        core.recovery_ended(1);
        match s.to {
            Destination::Asker(Asker { conn, .. }) => {
                let reply = peer::PushReply {
                    head: self.head(core, s.to.shard()),
                    object: hobject_of(&s.key),
                    next_offset: 0,
                    result: errno.to_result_code(),
                };
                core.send(conn, s.tid, peer::Body::from(reply));
            }
            Destination::Member(member) => {
                // Our own copy is not what we believed: peering finds out who has it.
                let text = format!("pg {} {:?}@{} for osd.{member}", self.id, s.key, s.version);
                core.event(Level::Error, "pushed_object_not_here", text);
                self.round.repeer(core.now().mono + core.options().reconnect_delay);
            }
        }
    }

    /// A part that we sent is durable there, or what we asked for is not there.
    pub fn on_push_reply(&mut self, core: &mut Core, from: Member, tid: u64, msg: &peer::PushReply) {
        if !self.is_current(msg.head.interval) {
            return;
        }
        if msg.result < 0 && !self.recovery.sends.contains_key(&tid) {
            return self.on_pull_refused(core, from, tid);
        }
        let Some(sender) = self.recovery.sends.remove(&tid) else { return };
        if msg.result < 0 {
            return match sender.to {
                Destination::Member(member) => self.on_sent_without_room(core, member, &sender.key),
                Destination::Asker(_) => core.recovery_ended(1),
            };
        }
        if !sender.last_sent {
            self.read_part(core, &sender);
            self.recovery.sends.insert(tid, sender);
            return;
        }
        core.recovery_ended(1);
        if let Destination::Member(member) = sender.to {
            self.stats.data_recovered(sender.offset);
            self.on_pushed(core, member, sender.key);
        }
    }

    /// Takes a part: from the primary, or from whom we as primary asked.
    pub fn on_push(&mut self, core: &mut Core, conn: ConnId, tid: u64, msg: &peer::Push) {
        let key = self.key_of(&msg.object);
        let pulled = self.recovery.pulls.get(&key).is_some_and(|p| p.tid == tid);
        // A part that was sent before the last activation may come late on an old connection; newer ones have
        // higher numbers.
        let from_primary = self.round.activation() != 0 && tid > self.round.activation();
        if !self.is_current(msg.head.interval) || !pulled && !from_primary {
            return;
        }
        if !pulled && !msg.deleted && msg.version > self.local.info().last_update {
            // The update that left it so was lost with its connection; the primary has seen that too and
            // peers again.
            return self.gap_seen(core, msg.version);
        }
        let Ok(attributes) = Reader::new(&msg.attributes).get::<PartAttributes>() else {
            core.event(Level::Warn, "push_undecodable", format!("pg {} {:?}", self.id, msg.object));
            return;
        };
        let mut ops = Vec::new();
        if pulled && let Some(pulling) = self.recovery.pulls.get_mut(&key) {
            self.stats.data_recovered(msg.data.len() as u64);
            attributes.pay(core, msg.first.then_some(&mut pulling.charged));
        }
        if msg.first {
            ops.extend(self.index_part(core, &key, &attributes));
        }
        write_part(&key, msg, attributes, &mut ops);
        let txn = Transaction { ops };
        if !msg.deleted && self.would_refuse(core, &txn, 0) == Some(Refusal::NoSpace) {
            return self.refuse_push(core, conn, tid, msg, pulled);
        }
        let ops = txn.ops;
        let mut change = MetaChange::default();
        let lacked = msg.last && self.local.arrived(&key, self.state, &mut change);
        if msg.last && !lacked && !pulled && !self.local.info().incomplete {
            // We had it, and it was damaged.
            core.object_repaired();
        }
        if msg.last && pulled {
            let then = CommitFor::Pulled { pgid: self.id, round: self.round.number(), key: Box::new(key) };
            return self.submit(core, ops, change, then);
        }
        let reply = peer::PushReply {
            head: msg.head.answer(core.epoch()),
            object: msg.object.clone(),
            next_offset: msg.offset + msg.data.len() as u64,
            result: 0,
        };
        let reply = Msg::new(tid, peer::Body::from(reply));
        self.submit(core, ops, change, CommitFor::Send { conn, msg: Box::new(reply) });
    }
}

impl Pg {
    /// A clone comes: enters it into the index, before it is whole, because the index may have too much but
    /// never too little. So with the clones of a head, which may take the place of one that was trimmed under
    /// updates that nobody else has.
    fn index_part(&self, core: &Core, key: &ObjectKey, part: &PartAttributes) -> Vec<TxnOp> {
        let info = part.attrs.iter().find(|(name, _)| name == INFO_ATTR);
        let Some(info) = info.and_then(|(_, value)| ObjectInfo::parse(value)) else { return Vec::new() };
        if stdx::mutants::is_active("osd_indexes_no_recovered_clone") {
            return Vec::new();
        }
        let of_head = info.snapset.clones.into_iter().map(|c| (at_snap(key, c.id.0), c.snaps));
        let all = of_head.chain([(key.clone(), info.snaps)]).map(|(clone, mut snaps)| {
            snaps.retain(|snap: &SnapId| !core.is_purged(self.id.pgid.pool, *snap));
            (clone, snaps)
        });
        let shown = all.filter(|(_, snaps)| !snaps.is_empty());
        shown.map(|(clone, snaps)| index_clone(&clone, &snaps)).collect()
    }
}
