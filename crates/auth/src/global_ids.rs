//! Global ids: given from ranges that were committed before use, never twice (docs/design.md, decision 12).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SLOTS: usize = 8;
const LEN_BITS: u32 = 24;
const MAX_LEN: u64 = (1 << LEN_BITS) - 1;
const MAX_START: u64 = (1 << (64 - LEN_BITS)) - 1;

/// A pool that a monitor fills and its acceptors take from, without locks. Every range may be pushed only
/// once in the cluster's lifetime.
#[derive(Debug, Default)]
pub struct GlobalIds {
    /// Each word is an unused range: its first id in the upper 40 bits, its length in the lower 24; 0 is
    /// empty.
    slots: [AtomicU64; SLOTS],
}

impl GlobalIds {
    /// The id of monitors to one another before there are ids: it is no key for duplicate detection. Ranges
    /// start above.
    pub const MON: u64 = 1;
    /// The lowest id that a range may hold.
    pub const FIRST: u64 = 4096;

    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a committed range. `false` if all slots are full: push it again later, it was not taken. Panics
    /// on a range outside `FIRST..2^40` or longer than 2^24.
    pub fn push(&self, range: Range<u64>) -> bool {
        let len = range.end.saturating_sub(range.start);
        assert!(
            range.start >= Self::FIRST && range.end <= MAX_START && len <= MAX_LEN,
            "global ids {range:?}"
        );
        if len == 0 {
            return true;
        }
        let word = range.start << LEN_BITS | len;
        self.slots.iter().any(|slot| slot.compare_exchange(0, word, Relaxed, Relaxed).is_ok())
    }

    /// Takes an id; `None` if the pool is empty. Never blocks.
    pub fn take(&self) -> Option<u64> {
        let less_one = |word: u64| match word & MAX_LEN {
            0 => None,
            1 => Some(0),
            len => Some(((word >> LEN_BITS) + 1) << LEN_BITS | (len - 1)),
        };
        self.slots
            .iter()
            .find_map(|slot| slot.fetch_update(Relaxed, Relaxed, less_one).ok())
            .map(|w| w >> LEN_BITS)
    }

    /// Ids left; a monitor commits the next range when this is low.
    pub fn left(&self) -> u64 {
        self.slots.iter().map(|slot| slot.load(Relaxed) & MAX_LEN).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_every_id_once_and_then_none() {
        let ids = GlobalIds::new();
        assert_eq!(ids.take(), None);
        assert!(ids.push(5000..5003) && ids.push(6000..6001) && ids.push(7000..7000));
        assert_eq!(ids.left(), 4);
        let mut got: Vec<_> = std::iter::from_fn(|| ids.take()).collect();
        got.sort_unstable();
        assert_eq!(got, [5000, 5001, 5002, 6000]);
    }

    #[test]
    fn refuses_more_ranges_than_it_has_room_for() {
        let ids = GlobalIds::new();
        for i in 0..8 {
            assert!(ids.push(5000 + i * 10..5010 + i * 10));
        }
        assert!(!ids.push(9000..9001));
        assert_eq!(ids.left(), 80);
    }
}
