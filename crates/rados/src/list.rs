//! Listing of a pool, PG by PG, in the order of bit-reversed hashes. The cursor is a position among all
//! objects, so PGs may split and merge during the listing without an object being lost or listed twice.

use crate::Request;
use crate::target::Target;
use maps::{HObject, ObjectLocator};
use msgs::op::input::{self, ListEntry, PgNlsReply};
use msgs::{Op, OsdOpReply, SubOp, osd_flag};
use wire::{Errno, Utime};

/// One step of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    /// Objects; may be none though more follow.
    pub entries: Vec<ListEntry>,
    /// The next cursor; `None` at the end of the pool.
    pub next: Option<HObject>,
}

/// The cursor before all objects of a pool.
pub fn cursor_start(pool: i64) -> HObject {
    HObject { pool, ..HObject::default() }
}

/// The request for what follows `cursor` in its PG.
pub(crate) fn request(pool: i64, namespace: &[u8], cursor: &HObject, max: u64) -> Request {
    // An empty cursor means the beginning of a PG too, but only if the PG has not split since.
    let op = Op::PgNls { max, start_epoch: 0, data: input::write(cursor) };
    Request {
        locator: ObjectLocator::new(pool, namespace),
        oid: Vec::new(),
        ops: vec![SubOp::from(op)],
        snapid: maps::SnapId::HEAD,
        snapc: crate::SnapContext::default(),
        flags: osd_flag::READ | osd_flag::ONDISK | osd_flag::KNOWN_REDIR | osd_flag::IGNORE_OVERLAY,
        mtime: Utime::default(),
    }
}

/// The first position of the next PG; `None` after the last one. `seed` of `pg_num` is the PG that has ended.
pub(crate) fn behind_pg(pool: i64, seed: u32, pg_num: u32) -> Option<HObject> {
    let bits = split_bits(seed, pg_num);
    let first = seed.reverse_bits();
    let last = first | u32::MAX.checked_shr(bits).unwrap_or(0);
    let next = last.checked_add(1)?;
    Some(HObject { hash: next.reverse_bits(), ..cursor_start(pool) })
}

/// The number of low bits of a hash that select this PG.
fn split_bits(seed: u32, pg_num: u32) -> u32 {
    let (low, n) = (u64::from(seed), u64::from(pg_num.max(1)));
    let bits = n.ilog2();
    // PGs below the remainder, and their halves above, are already split one level further.
    if low % (1 << bits) < n % (1 << bits) { bits + 1 } else { bits }
}

/// Reads the answer of an OSD that served the PG of `target`.
pub(crate) fn parse(pool: i64, target: &Target, reply: &OsdOpReply) -> Result<Box<Listing>, Errno> {
    const BAD_ANSWER: Errno = Errno::EIO;
    let result = Errno::check(reply.result)?;
    let data = &reply.ops.first().ok_or(BAD_ANSWER)?.data;
    let PgNlsReply { handle, entries } = input::read(data).map_err(|_| BAD_ANSWER)?;
    // 1 means that the PG has ended. The handle is then the start of the next PG in the OSD's map, which may
    // be newer than ours: if the PG has split, that may be the present position. After the last PG it is the
    // end of everything, so we check with our own map.
    let behind = behind_pg(pool, target.spg.pgid.seed, target.pg_num);
    let usable =
        !handle.max && handle.pool == pool && handle.bitwise_key() >= u64::from(target.hash.reverse_bits());
    let next = match (result, usable) {
        (_, true) => Some(handle),
        (0, false) => return Err(BAD_ANSWER),
        _ => behind,
    };
    Ok(Box::new(Listing { entries, next }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{stable_mod, stable_mod_mask};

    #[test]
    fn walking_from_pg_to_pg_meets_each_once_in_order_of_reversed_hash() {
        for pg_num in 1..70 {
            let mut seen = Vec::new();
            let mut cursor = Some(cursor_start(5));
            let mut last = None;
            while let Some(at) = cursor {
                let reversed = at.hash.reverse_bits();
                assert!(last.is_none_or(|l| l < reversed), "forward");
                last = Some(reversed);
                let seed = stable_mod(at.hash, pg_num, stable_mod_mask(pg_num));
                seen.push(seed);
                // The first hash after the cursor's PG is in another PG, the one before it is still in this
                // one.
                cursor = behind_pg(5, seed, pg_num);
                if let Some(next) = &cursor {
                    let before = (next.hash.reverse_bits() - 1).reverse_bits();
                    assert_eq!(stable_mod(before, pg_num, stable_mod_mask(pg_num)), seed);
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..pg_num).collect::<Vec<_>>());
        }
    }
}
