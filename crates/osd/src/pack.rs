//! Transactions on the way to replicas: the steps without their payload, and the payload as buffers that are shared with
//! the local transaction and the socket (DESIGN, decision 1).

use stdx::Bufs;
use store::{Transaction, TxnOp};
use wire::{DecodeError, Reader, Writer};

/// Most packed steps fit.
const ROOM: usize = 512;

/// Splits a transaction into its encoded steps and its payload.
pub fn pack(txn: &Transaction) -> (Vec<u8>, Bufs) {
    let mut payload = Bufs::new();
    let mut w = Writer::with_room(ROOM);
    w.put(&1u8);
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
    (w.into_vec(), payload)
}

/// The inverse of [`pack`].
pub fn unpack(steps: &[u8], payload: &Bufs) -> Result<Transaction, DecodeError> {
    let mut r = Reader::new(steps);
    let version: u8 = r.get()?;
    if version != 1 {
        return Err(r.error(format!("a packed transaction of version {version}")));
    }
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
    Ok(Transaction { ops })
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
            let (steps, payload) = pack(&txn);
            assert_eq!(unpack(&steps, &payload).expect("own packing"), txn);
            if !steps.is_empty() {
                let cut = rng.below(steps.len() as u64) as usize;
                assert!(unpack(&steps[..cut], &payload).is_err());
            }
        }
    }
}
