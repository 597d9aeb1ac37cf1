//! Transactions on the way to replicas: the steps without their payload, and the payload as buffers that are
//! shared with the local transaction and the socket (docs/design.md, decision 1).

use stdx::{Buf, Bufs};
use store::{Transaction, TxnOp};
use wire::{DecodeError, Reader, Writer};

/// Initial buffer size, enough for most packed steps.
const ROOM: usize = 512;

/// A packed transaction.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// The encoded steps.
    pub steps: Buf,
    /// The payload of the steps.
    pub payload: Bufs,
}

/// Splits a transaction into its encoded steps and its payload.
pub fn pack(txn: &Transaction) -> Packed {
    pack_with_ahead(txn, 0)
}

/// Packs a transaction of which `ahead` bytes were sent in advance. Receivers without that feature refuse it.
pub fn pack_with_ahead(txn: &Transaction, ahead: u64) -> Packed {
    let mut payload = Bufs::new();
    let mut w = Writer::with_room(ROOM);
    match ahead {
        0 => w.put(&1u8),
        _ => w.put(&(2u8, ahead)),
    }
    w.count(txn.ops.len());
    for op in &txn.ops {
        let TxnOp::Write(key, offset, data) = op else {
            w.put(&0u64);
            w.put(op);
            continue;
        };
        w.put(&(data.len() as u64));
        w.put(&TxnOp::Write(key.clone(), *offset, Bufs::new()));
        payload.append(data.clone());
    }
    Packed { steps: w.into_vec().into(), payload }
}

/// The inverse of [`pack_with_ahead`].
pub fn unpack(steps: &[u8], payload: &Bufs) -> Result<(Transaction, u64), DecodeError> {
    let mut r = Reader::new(steps);
    let ahead = match r.get::<u8>()? {
        1 => 0,
        2 => r.get()?,
        version => return Err(r.error(format!("a packed transaction of version {version}"))),
    };
    let n = r.count(9)?;
    let mut at = 0usize;
    let mut ops = Vec::with_capacity(n.min(64));
    for _ in 0..n {
        let len = r.get::<u64>()?;
        let op = match r.get()? {
            TxnOp::Write(key, offset, _) => {
                let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len));
                let end =
                    end.filter(|end| *end <= payload.len()).ok_or_else(|| r.error("payload is cut off"))?;
                let data = payload.slice(at..end);
                at = end;
                TxnOp::Write(key, offset, data)
            }
            other => other,
        };
        ops.push(op);
    }
    if at != payload.len() {
        return Err(r.error(format!("{} bytes of payload too many", payload.len() - at)));
    }
    Ok((Transaction { ops }, ahead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Rng;
    use wire::Sample;

    #[test]
    fn a_transaction_survives_and_cuts_do_not_panic() {
        let mut rng = Rng::from_seed(8);
        for _ in 0..200 {
            let txn = Transaction::sample(&mut rng);
            let ahead = rng.below(3) * (64 << 20);
            let Packed { steps, payload } = pack_with_ahead(&txn, ahead);
            assert_eq!(unpack(&steps, &payload).expect("own packing"), (txn, ahead));
            if !steps.is_empty() {
                let cut = rng.below(steps.len() as u64) as usize;
                assert!(unpack(&steps[..cut], &payload).is_err());
            }
        }
    }
}
