//! Data that goes ahead of its update, so that no member has to hold all of it in memory at once.
//!
//! The primary sends what an update writes, if that is much, in parts before the update, on the same
//! connection. A member writes each part at once to an object of that update's own, which needs nothing but
//! its disk and is not the PG's: nobody reads, lists or compares it. The update takes the blocks over from
//! there and removes it, in one transaction with everything else; it is durable after all parts, because
//! transactions are in the order in which they were submitted. What no update came for goes with the round of
//! peering, or at the next start.

mod steps;

use crate::pack::{Packed, pack};
use maps::EVersion;
use stdx::{BLOCK, Bufs};
use store::{ObjectKey, Transaction, TxnOp};

/// Members of this feature level take data ahead of updates.
const AHEAD_FEATURE_LEVEL: u32 = peer::level::AHEAD;
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
pub(in crate::pg) struct Sent {
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
