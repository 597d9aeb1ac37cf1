//! A member that is not primary: tells what it has, takes what the primary has found, makes updates durable.

use super::Pg;
use super::info::Info;
use super::local::Update;
use super::log::{Entry, Missing, PgLog};
use super::member::Member;
use super::meta::MetaChange;
use super::peering::{Activation, LogReply};
use super::state::State;
use crate::completion::CommitFor;
use crate::core::Core;
use crate::pack::unpack;
use maps::{EVersion, Epoch};
use node::{ConnId, Level, Msg};
use store::{Refusal, Transaction, TxnOp};
use wire::{DecodeError, Errno, Reader, Writer};

impl Pg {
    /// True if a message belongs to our present interval.
    pub fn is_current(&self, interval: Epoch) -> bool {
        interval == self.members.interval()
    }

    /// Reports our copy to a new primary, which may not know of it.
    pub fn notify_primary(&self, core: &mut Core) {
        let Some(primary) = self.primary() else { return };
        let knows = self.local.is_stored() || self.local.info().history.epoch_created != Epoch(0);
        if knows && primary != self.us(core) {
            let body = notify(self, core, primary.shard, self.members.interval());
            core.send_osd(primary.osd, 0, peer::Body::from(body));
        }
    }

    /// Answers the primary's question.
    pub fn on_query(&mut self, core: &mut Core, conn: ConnId, tid: u64, msg: &peer::PgQuery) {
        if msg.head.interval < self.members.interval() {
            return; // of an earlier primary, who will learn
        }
        if !msg.want_log {
            let body = notify(self, core, msg.head.from, msg.head.interval);
            core.send(conn, tid, peer::Body::from(body));
            return;
        }
        let reply = LogReply {
            info: self.local.info().clone(),
            tail: self.local.log().tail(),
            dups: self.local.log().dups().cloned().collect(),
        };
        let entries: Vec<Entry> = self.local.log().entries().collect();
        let body = peer::PgLog {
            head: msg.head.answer(core.epoch()),
            activate: false,
            info: Writer::encode(&reply),
            log: Writer::encode(&entries),
            missing: Writer::encode(self.local.missing()),
        };
        // Log entries must be durable here before others take them: if they were lost, all would search for
        // their objects in vain.
        let reply = Msg::new(tid, peer::Body::from(body));
        core.submit_own(Transaction::default(), CommitFor::Send { conn, msg: Box::new(reply) });
    }

    /// The primary's decision: our log and missing objects become what it says.
    pub fn on_activate(&mut self, core: &mut Core, conn: ConnId, tid: u64, msg: &peer::PgLog) {
        let current = self.is_current(msg.head.interval) && tid > self.round.activation();
        if !current || !matches!(self.state, State::Stray | State::ReplicaActive) {
            return;
        }
        if let Err(error) = self.take_activation(core, conn, tid, msg) {
            core.event(Level::Warn, "activation_refused", format!("pg {}: {error}", self.id));
        }
    }

    fn take_activation(
        &mut self,
        core: &mut Core,
        conn: ConnId,
        tid: u64,
        msg: &peer::PgLog,
    ) -> Result<(), DecodeError> {
        let mut r = Reader::new(&msg.info);
        let activation: Activation = r.get()?;
        let entries: Vec<Entry> = Reader::new(&msg.log).get()?;
        let ordered =
            entries.iter().try_fold(activation.since, |last, e| (e.version > last).then_some(e.version));
        if ordered.is_none() || !activation.backfill && activation.since < self.local.log().tail() {
            return Err(r.error("log entries that do not follow ours"));
        }
        let (mut change, mut ops) = (MetaChange::default(), Vec::new());
        if activation.backfill {
            let head = activation.info.last_update;
            let log = PgLog::new(activation.since, entries, activation.dups).known_to(head);
            self.local.replace_log(log, Missing::new(), &mut change);
        } else {
            let head = activation.info.last_update;
            self.local.merge_log(activation.since, entries, head, &mut change, &mut ops);
        }
        self.replication.learn_sure(activation.info.sure_to);
        self.local.follow(&activation.info, self.replication.sure_to(), &mut change);
        self.members.learn_past(&activation.past);
        self.members.trim_past(self.local.info().history.last_epoch_clean);
        change.members(&self.members);
        self.set_state(core, State::ReplicaActive);
        self.recovery_reset(core);
        self.drop_ahead(core);
        self.send_all_to_primary(core);
        self.round.join(tid);
        self.leases.forget_primary();
        let body = peer::PgInfo {
            head: self.head(core, msg.head.from),
            activate: true,
            info: Writer::encode(self.local.info()),
        };
        let reply = Msg::new(tid, peer::Body::from(body));
        self.submit(core, ops, change, CommitFor::Send { conn, msg: Box::new(reply) });
        Ok(())
    }

    /// The primary tells what all members know by now.
    pub fn on_primary_info(&mut self, core: &mut Core, tid: u64, msg: &peer::PgInfo) {
        let Ok(info) = Reader::new(&msg.info).get::<Info>() else { return };
        if !self.is_current(msg.head.interval) || self.state != State::ReplicaActive {
            return;
        }
        // It says so only while it is active.
        if tid == self.round.activation() {
            self.leases.note_primary_serves();
        }
        if self.local.learn_history(&info.history) {
            self.members.trim_past(self.local.info().history.last_epoch_clean);
            self.save(core);
        }
    }

    /// An update from the primary: log entry and objects together.
    pub fn on_rep_op(&mut self, core: &mut Core, conn: ConnId, tid: u64, msg: &peer::RepOp) {
        if !self.is_current(msg.head.interval)
            || self.state != State::ReplicaActive
            || tid != self.round.activation()
        {
            return;
        }
        if msg.version.version > self.local.info().last_update.version + 1 {
            // An update before it was lost with its connection; the primary has seen that too and peers
            // again.
            return self.gap_seen(core, msg.version);
        }
        if let Err(error) = self.take_rep_op(core, conn, tid, msg) {
            core.event(Level::Error, "update_refused", format!("pg {} {}: {error}", self.id, msg.version));
        }
    }

    pub(super) fn gap_seen(&self, core: &mut Core, version: EVersion) {
        let text = format!("pg {} {version}: after {}", self.id, self.local.info().last_update);
        core.event(Level::Info, "update_gap_seen", text);
    }

    fn take_rep_op(
        &mut self,
        core: &mut Core,
        conn: ConnId,
        tid: u64,
        msg: &peer::RepOp,
    ) -> Result<(), DecodeError> {
        let mut r = Reader::new(&msg.log);
        let update: Update = r.get()?;
        let (mut txn, bytes_ahead) = unpack(&msg.transaction, &msg.data)?;
        let (version, last) = (update.entry.version, self.local.info().last_update);
        if version.version != last.version + 1 || version < last {
            return Err(r.error(format!("follows {last}")));
        }
        let Some((end_of_ahead, had_room)) = self.take_ahead(version, bytes_ahead) else {
            if !self.has_begun_ahead(version) {
                // It came before what this follows, over a newer connection; the primary has seen that too
                // and peers again.
                self.gap_seen(core, version);
                return Ok(());
            }
            return Err(r.error(format!("{bytes_ahead} bytes went ahead of it and are not here")));
        };
        let mut change = MetaChange::default();
        let lacks = !had_room
            || self.lacks_base(&update.entry)
            || self.would_refuse(core, &txn, msg.log.len()) == Some(Refusal::NoSpace);
        let sure_to = self.replication.sure_to();
        if lacks {
            let removed = update.entry.changes().into_iter().filter(|c| c.removed);
            txn.ops = removed.map(|c| TxnOp::Remove(c.key)).collect();
            self.local.append_refused(update, sure_to, &mut change);
        } else {
            self.local.append(update, sure_to, self.state, &mut change);
        }
        core.count("updates", 1);
        core.perf().update_came(&msg.data);
        txn.ops.extend(end_of_ahead);
        self.replication.learn_sure(msg.committed_to);
        self.local.trim(self.replication.sure_to(), core.log_keep(), &mut change);
        let reply = peer::RepOpReply {
            head: msg.head.answer(msg.head.interval),
            version,
            result: if lacks { Errno::ENOSPC.to_result_code() } else { 0 },
            last_complete: version,
        };
        let reply = Msg::new(tid, peer::Body::from(reply));
        self.submit(core, txn.ops, change, CommitFor::Send { conn, msg: Box::new(reply) });
        Ok(())
    }

    /// True if our copy may be removed, because the primary of this interval says so and we are no member.
    pub fn is_useless(&self, core: &Core, from: Member, interval: Epoch) -> bool {
        let us = self.us(core);
        self.is_current(interval)
            && self.state == State::Stray
            && !self.takes_part(us)
            && self.primary() == Some(from)
    }

    /// The copy is about to be removed: from now on it counts for nothing. Should we become a member before
    /// it is gone, it is compared object by object like any that is too old.
    pub fn give_up(&mut self, core: &mut Core) {
        let mut change = MetaChange::default();
        self.local.give_up(&mut change);
        self.submit(core, Vec::new(), change, CommitFor::Nothing);
    }

    /// Our copy has been compared with the primary's to the end.
    pub fn on_backfill_done(&mut self, core: &mut Core, conn: ConnId, tid: u64, reply: peer::PgScanReply) {
        let mut change = MetaChange::default();
        self.local.completed(&mut change);
        let reply = Msg::new(tid, peer::Body::from(reply));
        self.submit(core, Vec::<TxnOp>::new(), change, CommitFor::Send { conn, msg: Box::new(reply) });
    }
}

/// What an OSD says of its copy to whoever has `shard`, or that it has none.
fn notify(pg: &Pg, core: &Core, shard: i8, interval: Epoch) -> peer::PgNotify {
    let head = peer::PgHead { interval, ..pg.head(core, shard) };
    peer::PgNotify { head, exists: pg.local.is_stored(), info: Writer::encode(&pg.notice(core)) }
}
