//! Discards: free space goes back to the device, in whole zones that have not changed for some checkpoints.
//!
//! Neither a valid superblock nor a log record refers to a block that the allocator calls free: it may be
//! overwritten at once, so it may be discarded as well. But a discard under way would race with a write, so
//! its zones are lent, and cannot be allocated until it has ended.
//!
//! Work is bounded: one discard at a time, after each checkpoint at most [`MAX_ZONES`], found by looking at
//! [`MAX_SCAN`] zones at most. Zones that are overwritten again soon are never discarded
//! (`Config::discard_after`): a discard costs the host more than the write that would have replaced it. When
//! the store is opened, all free zones count as just changed, because nothing says which of them were
//! discarded before.

use crate::alloc::ZONE;
use crate::api::StoreOut;
use crate::core::Core;
use crate::io::{Io, Purpose};
use crate::logged::Cost;
use std::ops::Range;
use stdx::BLOCK;

/// The most zones of one discard: 64 MiB.
const MAX_DISCARD: usize = 256;
/// The most zones discarded after a checkpoint: 1 GiB.
const MAX_ZONES: usize = 4096;
/// The most zones examined after a checkpoint: 16 GiB.
const MAX_SCAN: usize = 65_536;

/// The discard under way, and where to go on.
#[derive(Default)]
pub(crate) struct Trim {
    lent: Range<usize>,
    next: usize,
    /// Zones that may still be discarded, and examined, before the next checkpoint.
    zones: usize,
    scan: usize,
    /// Checkpoints that these budgets are for.
    checkpoints: u64,
}

impl Trim {
    /// Begins the next discard if zones have been free for `old` checkpoints. It leaves the space that
    /// admitted transactions may need.
    pub fn step(&mut self, old: u8, admitted: Cost, core: &mut Core, io: &mut Io, out: &mut Vec<StoreOut>) {
        if self.checkpoints != core.checkpoints() {
            self.checkpoints = core.checkpoints();
            (self.zones, self.scan) = (MAX_ZONES, MAX_SCAN);
        }
        if self.lent.is_empty() && self.zones > 0 {
            self.plant_early_discard(core, io, out);
        }
        while self.lent.is_empty() && self.zones > 0 && self.scan > 0 {
            let from = self.next;
            let most = MAX_DISCARD.min(self.zones).min(core.spare_zones(admitted));
            if most == 0 {
                return;
            }
            match core.long_free(from..from + self.scan, most, old) {
                Ok(zones) => {
                    self.scan = self.scan.saturating_sub(zones.end - from);
                    self.zones -= zones.len();
                    self.next = zones.end;
                    core.lend(zones.clone());
                    let bytes = ZONE * BLOCK as u64;
                    let (offset, len) = (zones.start as u64 * bytes, zones.len() as u64 * bytes);
                    self.lent = zones;
                    io.discard(Purpose::Discard, offset, len, out);
                }
                Err(end) if end < from + self.scan => {
                    // The end of the device: go around once at most.
                    self.scan = (self.scan - (end.max(from) - from)).min(from);
                    self.next = 0;
                }
                Err(end) => (self.next, self.scan) = (end, 0),
            }
        }
    }

    /// The discard has ended; if it failed, no harm is done.
    pub fn ended(&mut self, core: &mut Core) {
        core.discarded(std::mem::take(&mut self.lent));
    }

    /// A fault that tests must catch: discards blocks to which the index on the device still refers.
    fn plant_early_discard(&mut self, core: &Core, io: &mut Io, out: &mut Vec<StoreOut>) {
        if stdx::mutants::is_active("store_discards_what_may_be_needed")
            && let Some((first, count)) = core.first_given()
        {
            self.zones = 0;
            let block = BLOCK as u64;
            io.discard(Purpose::Discard, first * block, count * block, out);
        }
    }
}
