//! An update gets its version and its place in the log.

use crate::core::Core;
use crate::object::at_snap;
use crate::ops::{Loaded, MAX_WRITE_OUTPUT, Outcome, Preserved, info_op};
use crate::pg::Pg;
use crate::pg::info::Delta;
use crate::pg::log::{Answer, CloneChange, Entry, entry_kind};
use crate::pg::meta::index_clone;
use crate::pg::request::{ClientOp, Stage};
use maps::{EVersion, ReqId};
use msgs::OpResult;
use store::{Refusal, TxnOp};
use wire::{EntityId, EntityType, Errno, Utime};

impl Pg {
    /// Gives a request that changes something, or that failed and must fail again when repeated, its place in
    /// the log.
    pub(super) fn order(&mut self, core: &mut Core, mut op: ClientOp, mut outcome: Outcome) {
        let version = self.next_version(core);
        let mut reply = self.reply_of(core, &op, &outcome);
        let context = self.snap_context(core, &op.request);
        if op.expired.is_some() {
            // Nobody repeats it; its place in the log is its own.
            op.reqid = ReqId {
                name: EntityId::new(EntityType::OSD, core.id().0.into()),
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
        let user_version = user_version_after(
            &outcome,
            kind,
            (self.local.info().last_user_version, loaded.info.user_version),
        );
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
        let Some(mut op) = self.unless_out_of_space(core, op, &delta, &outcome.txn) else { return };
        op.enter(Stage::Replicating, core.now().mono);
        match self.replicate(core, entry, outcome.txn, delta, &op, Box::new(reply)) {
            Ok(()) => self.requests.put(op),
            Err((refusal, mut reply)) => {
                op.effects.clear();
                reply.result = errno_of(refusal).to_result_code();
                self.answer(core, op, *reply);
            }
        }
    }
}

/// Changes of an update in the PG's statistics.
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

/// User version after an update, given that of the PG and of the object before.
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

/// The part of an operation's result that the log keeps: output only if it is small, like that of successful
/// writes.
fn logged(op: &OpResult) -> (i32, Vec<u8>) {
    let data = if op.data.len() > MAX_WRITE_OUTPUT { Vec::new() } else { op.data.to_vec() };
    (op.rval, data)
}

/// Errno of a refused update, for the client.
fn errno_of(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::NoSpace => Errno::ENOSPC,
        Refusal::TooLarge => Errno::EMSGSIZE,
        Refusal::NameTooLong => Errno::ENAMETOOLONG,
        Refusal::ObjectTooLarge => Errno::EFBIG,
    }
}
