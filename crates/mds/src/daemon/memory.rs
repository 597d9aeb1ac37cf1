//! A cache for which no limit is set takes memory that the host has to spare, and gives it back when others
//! need it.

use super::Mds;
use node::Memory;

/// The part of the host's memory that the cache takes at most, and its bound.
const MOST_OF_HOST: u64 = 16;
const MOST: u64 = 4 << 30;
/// The part of the host's memory that stays available.
const RESERVE: u64 = 8;
/// The part of what is to spare by which the cache may exceed its size within two seconds; and the part of
/// its size by which it shrinks in that time if nothing is.
const STEP: u64 = 8;

impl Mds {
    /// The host has told how much memory it has to spare.
    pub(super) fn follow_memory(&mut self) {
        let Some(memory) = self.load.memory.filter(|_| self.config.options.cache_grows) else { return };
        let cached = self.rank.as_ref().map_or(0, |rank| rank.stats().bytes);
        let spare = beyond(self.config.options.cache_bytes, cached, memory);
        self.config.options.spare_bytes = spare;
        if let Some(rank) = &mut self.rank {
            rank.set_spare_memory(spare);
        }
    }
}

/// Bytes that a cache of this size may take beyond its `least` limit.
fn beyond(least: u64, cached: u64, memory: Memory) -> u64 {
    let spare = memory.available.saturating_sub(memory.total / RESERVE);
    let limit = if spare > 0 { cached.saturating_add(spare / STEP) } else { cached - cached / STEP };
    let most = (memory.total / MOST_OF_HOST).min(MOST).max(least);
    limit.clamp(least, most) - least
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: u64 = 256 << 20;

    fn limit(cached: u64, total_gib: u64, available_gib: u64) -> u64 {
        let memory = Memory { total: total_gib << 30, available: available_gib << 30 };
        LEAST + beyond(LEAST, cached, memory)
    }

    #[test]
    fn the_limit_grows_into_spare_memory_up_to_a_part_of_the_host() {
        assert_eq!(limit(0, 64, 40), 4 << 30);
        assert_eq!(limit(0, 16, 10), 1 << 30);
        assert_eq!(limit(0, 64, 12), 512 << 20, "an eighth of four to spare");
        assert_eq!(limit(512 << 20, 64, 12), 1 << 30, "beyond what it has");
        assert_eq!(limit(0, 2, 2), LEAST, "a small host stays as it is");
        assert_eq!(limit(0, 1024, 1000), 4 << 30, "and a large one has no more than Ceph's");
    }

    #[test]
    fn it_shrinks_step_by_step_when_nothing_is_to_spare() {
        let mut cached = 4 << 30;
        for _ in 0..30 {
            let next = limit(cached, 64, 7);
            assert!(next < cached || next == LEAST);
            cached = next;
        }
        assert_eq!(cached, LEAST);
    }
}
