//! The map of blocks in the index: one bit for each block that holds data.
//!
//! Each entry covers [`SPACE_CHUNK`] blocks. A checkpoint updates the entries from the runs that its table
//! has taken and given up. Blocks of index pages are not in the map: opening learns them from the index
//! itself.

use crate::alloc::{Run, ZONE, zones};
use std::collections::VecDeque;

/// Blocks of an entry of the map.
pub(crate) const SPACE_CHUNK: u64 = 4096;
/// Bytes of an entry.
pub(crate) const CHUNK_BYTES: usize = SPACE_CHUNK as usize / 8;

/// A run of blocks within one entry that was taken or given up.
struct Change {
    chunk: u64,
    given: bool,
    run: Run,
}

/// Changes of the map, ordered by entry; within an entry, runs taken come before runs given up.
#[derive(Default)]
pub(crate) struct SpaceChanges(VecDeque<Change>);

impl SpaceChanges {
    /// The changes of a table. A run may be taken and given up in the same table.
    pub fn of(taken: &[Run], given: &[Run]) -> Self {
        let taken = taken.iter().map(|run| (false, *run));
        let given = given.iter().map(|run| (true, *run));
        let mut out: Vec<Change> = Vec::new();
        for (given, (first, count)) in taken.chain(given) {
            let mut at = first;
            while at < first + count {
                let chunk = at / SPACE_CHUNK;
                let end = ((chunk + 1) * SPACE_CHUNK).min(first + count);
                out.push(Change { chunk, given, run: (at, end - at) });
                at = end;
            }
        }
        out.sort_by_key(|c| (c.chunk, c.given));
        Self(out.into())
    }

    /// The next entry to be updated.
    pub fn next_chunk(&self) -> Option<u64> {
        self.0.front().map(|change| change.chunk)
    }

    /// Carries out all changes of the next entry on its bits.
    pub fn apply_next(&mut self, bits: &mut [u8]) {
        let Some(chunk) = self.next_chunk() else { return };
        while let Some(change) = self.0.pop_front_if(|c| c.chunk == chunk) {
            for (zone, mask) in zones(change.run) {
                let at = zone % (SPACE_CHUNK / ZONE) as usize * 8;
                let word = &mut bits[at..at + 8];
                let old = u64::from_le_bytes((&*word).try_into().expect("8 bytes"));
                let expected = if change.given { mask } else { 0 };
                assert_eq!(old & mask, expected, "blocks of {:?} are taken and given up in turn", change.run);
                word.copy_from_slice(&(old ^ mask).to_le_bytes());
            }
        }
    }
}

/// The blocks that entry `chunk` of a device of `blocks` blocks marks; `None` for an impossible entry.
pub(crate) fn marked_blocks(chunk: u64, bits: &[u8], blocks: u64) -> Option<impl Iterator<Item = u64>> {
    let possible = bits.len() == CHUNK_BYTES && chunk <= blocks / SPACE_CHUNK;
    let is_set = |block: &u64| bits[(*block / 8) as usize] >> (block % 8) & 1 != 0;
    possible.then(move || (0..SPACE_CHUNK).filter(is_set).map(move |block| chunk * SPACE_CHUNK + block))
}
