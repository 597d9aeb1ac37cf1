//! Giving free space back to the device: discards of whole zones that nothing has touched for some checkpoints.
//!
//! What is free in the allocator is what neither a valid superblock nor a log record refers to, for it may be overwritten at
//! once; so it may be discarded as well. But a discard that is under way would race with a write, so its zones are lent, and
//! belong to nobody until it has ended.
//!
//! Work is bounded: one discard at a time, after each checkpoint at most [`BUDGET`] zones of it, found by looking at
//! [`LOOKED_AT`] zones at most. Zones that are overwritten again soon are never discarded ([`Config::discard_after`]): a
//! discard costs the host more than the write that would have replaced it. What is free when
//! the store is opened counts as touched then, since nobody knows whether it was discarded before.

#[allow(unused_imports, reason = "for the documentation")]
use crate::Config;
use crate::alloc::ZONE;
use crate::api::StoreOut;
use crate::io::Purpose;
use crate::page::PAGE_BLOCKS;
use crate::store::Store;
use std::ops::Range;
use stdx::BLOCK;

/// The most zones of a discard: 64 MiB.
const MOST: usize = 256;
/// Zones that are discarded after a checkpoint, at most: 1 GiB.
const BUDGET: usize = 4096;
/// Zones that are looked at after a checkpoint, at most: 16 GiB.
const LOOKED_AT: usize = 65_536;

/// Since when each zone is as it is: the number of a checkpoint, modulo 255, from 1 on; 0 where it is free and was
/// discarded. After 255 checkpoints an old zone may look young again, which does no harm.
pub(crate) struct Ages {
    since: Vec<u8>,
    now: u8,
}

impl Ages {
    pub fn new(zones: usize) -> Self {
        Self { since: vec![1; zones], now: 1 }
    }

    /// Blocks of a zone were taken or freed.
    pub fn changed(&mut self, zone: usize) {
        self.since[zone] = self.now;
    }

    pub fn discarded(&mut self, zone: usize) {
        self.since[zone] = 0;
    }

    /// Whether nothing has changed for so many checkpoints, and there is something to discard.
    pub fn is_old(&self, zone: usize, checkpoints: u8) -> bool {
        let since = self.since[zone];
        since != 0 && (u16::from(self.now) + 255 - u16::from(since)) % 255 >= u16::from(checkpoints)
    }

    fn tick(&mut self) {
        self.now = self.now % 255 + 1;
    }
}

/// What is being discarded, and where to go on.
#[derive(Default)]
pub(crate) struct Trim {
    lent: Range<usize>,
    next: usize,
    /// Zones that may still be discarded, and looked at, before the next checkpoint.
    budget: usize,
    look: usize,
}

impl Trim {
    /// Blocks that are being discarded.
    pub fn lent_blocks(&self) -> u64 {
        self.lent.len() as u64 * ZONE
    }
}

impl Store {
    /// A checkpoint has ended: what is free is older by one.
    pub(crate) fn checkpoint_ended(&mut self) {
        self.core.alloc.ages.tick();
        (self.trim.budget, self.trim.look) = (BUDGET, LOOKED_AT);
    }

    /// Begins the next discard, if there is something to give back and nothing else needs it.
    pub(crate) fn step_trim(&mut self, out: &mut Vec<StoreOut>) {
        let Some(old) = self.config.discard_after else { return };
        self.plant_early_discard(out);
        while self.trim.lent.is_empty() && self.trim.budget > 0 && self.trim.look > 0 {
            let from = self.trim.next;
            let most = MOST.min(self.trim.budget).min(self.spare_zones());
            if most == 0 {
                return;
            }
            match self.core.alloc.long_free(from..from + self.trim.look, most, old) {
                Ok(zones) => {
                    self.trim.look = self.trim.look.saturating_sub(zones.end - from);
                    self.trim.budget -= zones.len();
                    self.trim.next = zones.end;
                    self.core.alloc.lend(zones.clone());
                    let bytes = ZONE * BLOCK as u64;
                    let (offset, len) = (zones.start as u64 * bytes, zones.len() as u64 * bytes);
                    self.trim.lent = zones;
                    self.io.discard(Purpose::Discard, offset, len, out);
                }
                Err(end) if end < from + self.trim.look => {
                    // The end of the device: once around at most.
                    self.trim.look = (self.trim.look - (end.max(from) - from)).min(from);
                    self.trim.next = 0;
                }
                Err(end) => (self.trim.next, self.trim.look) = (end, 0),
            }
        }
    }

    pub(crate) fn discard_ended(&mut self) {
        self.core.alloc.discarded(std::mem::take(&mut self.trim.lent));
    }

    /// Zones that no transaction which was admitted can need meanwhile, nor the checkpoint; half of them.
    fn spare_zones(&self) -> usize {
        let admitted = self.commit.admitted();
        let needed = admitted.blocks + self.needed_pages(admitted.index, 0) * PAGE_BLOCKS;
        (self.core.alloc.free_blocks().saturating_sub(needed) / ZONE / 2) as usize
    }

    /// A fault that tests must catch: discards what the index on the device still refers to.
    fn plant_early_discard(&mut self, out: &mut Vec<StoreOut>) {
        if stdx::mutants::is_active("store_discards_what_may_be_needed")
            && self.trim.budget > 0
            && self.trim.lent.is_empty()
            && let Some((first, count)) = self.core.active.given.first().copied()
        {
            self.trim.budget = 0;
            let block = BLOCK as u64;
            self.io.discard(Purpose::Discard, first * block, count * block, out);
        }
    }
}
