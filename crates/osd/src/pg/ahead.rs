//! Data that goes ahead of its update, so that no member has to hold all of it in memory at once.
//!
//! The primary sends what an update writes, if that is much, in parts before the update, on the same
//! connection. A member writes each part at once to an object of that update's own, which needs nothing but
//! its disk and is not the PG's: nobody reads, lists or compares it. The update takes the blocks over from
//! there and removes it, in one transaction with everything else; it is durable after all parts, because
//! transactions are in the order in which they were submitted. What no update came for goes with the round of
//! peering, or at the next start.

use super::Pg;
use super::meta::ahead_key;
use super::state::State;
use crate::completion::CommitFor;
use crate::core::Core;
use crate::pack::{Packed, pack, pack_with_ahead};
use crate::pg::member::Member;
use maps::EVersion;
use node::Level;
use stdx::{BLOCK, Bufs};
use store::{ObjectKey, Refusal, Transaction, TxnOp};

/// Members of this feature level take data ahead of updates.
const AHEAD_FEATURE_LEVEL: u32 = 3;
/// Smaller payloads travel with the update: stores put them into their log, which bounds them.
const MIN_AHEAD_BYTES: usize = 64 << 10;

/// Of a member: what has come for the next update.
#[derive(Debug)]
pub struct Ahead {
    version: EVersion,
    /// The object that holds the parts.
    object: ObjectKey,
    bytes: u64,
    /// There was none for a part, and what was there is gone.
    no_room: bool,
}

/// Messages for a member about one update.
pub(super) struct Sent {
    /// Steps and payload of the update itself.
    pub with: Packed,
    /// Payload that is sent in advance.
    ahead: Bufs,
}

impl Sent {
    /// All at once.
    pub fn whole(txn: &Transaction) -> Self {
        Self { with: pack(txn), ahead: Bufs::new() }
    }
}

/// A transaction that writes more than `most` bytes, without those that go ahead; members find them in
/// `object`.
fn in_parts(txn: &Transaction, object: &ObjectKey, most: u64, least: usize) -> Option<(Transaction, Bufs)> {
    let bytes = |op: &TxnOp| if let TxnOp::Write(_, _, data) = op { data.len() as u64 } else { 0 };
    if txn.ops.iter().map(bytes).sum::<u64>() <= most {
        return None;
    }
    let (mut ops, mut ahead) = (Vec::with_capacity(txn.ops.len() + 2), Bufs::new());
    for op in &txn.ops {
        match op {
            TxnOp::Write(key, offset, data) => part(key, *offset, data, least, object, &mut ops, &mut ahead),
            op => ops.push(op.clone()),
        }
    }
    (!ahead.is_empty()).then_some((Transaction { ops }, ahead))
}

/// A write whose whole blocks go ahead if they have `least` bytes. They lie there as they will in the object,
/// in blocks of their own, so that nothing is copied.
fn part(
    key: &ObjectKey,
    offset: u64,
    data: &Bufs,
    least: usize,
    source: &ObjectKey,
    ops: &mut Vec<TxnOp>,
    ahead: &mut Bufs,
) {
    let before = (offset.next_multiple_of(BLOCK as u64) - offset) as usize;
    let blocks = data.len().saturating_sub(before) / BLOCK * BLOCK;
    if blocks < least.max(1) {
        return ops.push(TxnOp::Write(key.clone(), offset, data.clone()));
    }
    let write = |from: usize, to: usize| {
        (from < to).then(|| TxnOp::Write(key.clone(), offset + from as u64, data.slice(from..to)))
    };
    ops.extend(write(0, before));
    let (at, len) = (ahead.len() as u64, blocks as u64);
    ops.push(TxnOp::CloneRange(source.clone(), key.clone(), at, len, offset + before as u64));
    ahead.append(data.slice(before..before + blocks));
    ops.extend(write(before + blocks, data.len()));
}

impl Pg {
    /// The messages for members that accept pre-shipped data; `None` if all of it travels with the update.
    pub(super) fn in_parts(
        &self,
        core: &Core,
        version: EVersion,
        txn: &Transaction,
        log: usize,
    ) -> Option<Sent> {
        let options = &core.options();
        let (object, least) = (
            ahead_key(self.id, self.round.number(), version),
            MIN_AHEAD_BYTES.min(options.update_part as usize),
        );
        let (txn, ahead) = in_parts(txn, &object, options.update_whole, least)?;
        // It has more steps than the whole one, which may only just fit into a store's log.
        let too_large = self.would_refuse(core, &txn, log) == Some(Refusal::TooLarge);
        (!too_large).then(|| Sent { with: pack_with_ahead(&txn, ahead.len() as u64), ahead })
    }

    /// True if a member has said in this round that it accepts pre-shipped data.
    pub(super) fn takes_parts(&self, member: Member) -> bool {
        self.round.copy(member).is_some_and(|copy| copy.feature_level() >= AHEAD_FEATURE_LEVEL)
    }

    /// Sends what goes before an update.
    pub(super) fn send_ahead(&self, core: &mut Core, member: Member, version: EVersion, sent: &Sent) {
        let step = (core.options().update_part as usize / BLOCK * BLOCK).max(BLOCK);
        for from in (0..sent.ahead.len()).step_by(step) {
            let body = peer::RepData {
                head: self.head(core, member.shard),
                version,
                offset: from as u64,
                data: sent.ahead.slice(from..sent.ahead.len().min(from + step)),
            };
            core.send_osd(member.osd, self.round.number(), peer::Body::from(body));
        }
    }

    /// A part from the primary, of the update that is to come next.
    pub fn on_rep_data(&mut self, core: &mut Core, tid: u64, msg: &peer::RepData) {
        let follows = msg.version.version == self.info.last_update.version + 1;
        let current = self.is_current(msg.head.interval) && tid == self.round.activation();
        if !current || !follows || self.state != State::ReplicaActive {
            return;
        }
        let mut ops = Vec::new();
        if msg.offset == 0 {
            self.drop_ahead(core);
            let object = ahead_key(self.id, tid, msg.version);
            ops.push(TxnOp::Remove(object.clone()));
            self.ahead = Some(Ahead { version: msg.version, object, bytes: 0, no_room: false });
        }
        let Some(ahead) = self.ahead.as_ref().filter(|a| a.version == msg.version && a.bytes == msg.offset)
        else {
            return;
        };
        let (object, mut no_room) = (ahead.object.clone(), ahead.no_room);
        if !no_room && (msg.offset == 0 || !stdx::mutants::is_active("osd_loses_parts")) {
            ops.push(TxnOp::Write(object.clone(), msg.offset, msg.data.clone()));
            let mut txn = Transaction { ops };
            if let Some(refusal) = self.would_refuse(core, &txn, 0) {
                no_room = true;
                txn.ops = vec![TxnOp::Remove(object)];
                let text = format!("pg {} {}: {refusal:?}", self.id, msg.version);
                core.event(Level::Info, "part_without_room", text);
            }
            core.submit_own(txn, CommitFor::Nothing);
        }
        if let Some(ahead) = &mut self.ahead {
            (ahead.bytes, ahead.no_room) = (ahead.bytes + msg.data.len() as u64, no_room);
        }
    }

    /// Takes over the parts received for an update that needs `bytes` bytes: the step that removes their
    /// object, if there is one, and whether there was space. `None` if parts are lacking.
    pub(super) fn take_ahead(&mut self, version: EVersion, bytes: u64) -> Option<(Option<TxnOp>, bool)> {
        if bytes == 0 {
            return Some((self.ahead.take().map(|ahead| TxnOp::Remove(ahead.object)), true));
        }
        let ahead = self.ahead.take_if(|a| a.version == version && a.bytes == bytes)?;
        Some((Some(TxnOp::Remove(ahead.object)), !ahead.no_room))
    }

    /// True if some parts of this update are here.
    pub(super) fn has_begun_ahead(&self, version: EVersion) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.version == version)
    }

    /// The update of what has come will not come.
    pub fn drop_ahead(&mut self, core: &mut Core) {
        if let Some(ahead) = self.ahead.take() {
            let ops = vec![TxnOp::Remove(ahead.object)];
            core.submit_own(Transaction { ops }, CommitFor::Nothing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(len: usize) -> Bufs {
        stdx::Buf::pattern(5, len).into()
    }

    /// Content of an object after these steps.
    fn outcome(ops: &[TxnOp], ahead: &Bufs) -> Vec<u8> {
        let mut object = Vec::new();
        for op in ops {
            let (at, bytes) = match op {
                TxnOp::Write(_, at, data) => (*at as usize, data.to_vec()),
                TxnOp::CloneRange(_, _, from, len, to) => {
                    assert_eq!((from % BLOCK as u64, to % BLOCK as u64), (0, 0), "shared, not copied");
                    (*to as usize, ahead.slice(*from as usize..(from + len) as usize).to_vec())
                }
                other => panic!("{other:?}"),
            };
            object.resize(object.len().max(at + bytes.len()), 0);
            object[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        object
    }

    #[test]
    fn whole_blocks_go_ahead_and_the_rest_with_the_update() {
        let mut rng = stdx::Rng::from_seed(3);
        let (object, source) = (ObjectKey::private(-3, "o"), ObjectKey::private(-3, "s"));
        for _ in 0..200 {
            let (mut ops, mut ahead, mut whole) = (Vec::new(), Bufs::new(), Vec::new());
            for _ in 0..rng.range(1, 4) {
                let (offset, len) = (rng.below(20_000), rng.below(30_000) as usize);
                whole.push(TxnOp::Write(object.clone(), offset, data(len)));
                part(&object, offset, &data(len), 2 * BLOCK, &source, &mut ops, &mut ahead);
            }
            assert_eq!(ahead.len() % BLOCK, 0);
            assert_eq!(outcome(&ops, &ahead), outcome(&whole, &Bufs::new()));
        }
    }

    #[test]
    fn only_what_has_much_data_is_parted() {
        let (object, source) = (ObjectKey::private(-3, "o"), ObjectKey::private(-3, "s"));
        let txn = |lens: &[usize]| {
            let write = |len: &usize| TxnOp::Write(object.clone(), 100, data(*len));
            Transaction { ops: lens.iter().map(write).collect() }
        };
        let parted = |lens: &[usize]| in_parts(&txn(lens), &source, 64 << 10, 8 << 10);
        assert!(parted(&[64 << 10]).is_none());
        assert!(parted(&[4 << 10; 20]).is_none(), "nothing of it would go ahead");
        let (with, ahead) = parted(&[40 << 10, 40 << 10, 5]).expect("together it is much");
        assert_eq!(ahead.len(), 2 * (36 << 10));
        assert_eq!(pack(&with).payload.len(), 2 * (4 << 10) + 5);
    }
}
