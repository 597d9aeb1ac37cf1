//! Which blocks of the device are free: one bit for each 4 KiB, in memory.
//!
//! 64 blocks are a zone (one word). A zone holds data or index pages, never both, so that a free pair of blocks for a
//! page is always found by count alone and data cannot fragment the index's space. Which zones are the index's is not
//! stored: it follows from where the pages are. A bit is set from the moment a block is promised to something until
//! nothing on the device refers to it any more; what of that is durable is the checkpoint's business.

use crate::page::PAGE_BLOCKS;
use std::collections::BTreeSet;

/// Blocks of a zone.
pub(crate) const ZONE: u64 = 64;
/// Pages that fit a zone.
pub(crate) const ZONE_PAGES: u64 = ZONE / PAGE_BLOCKS;
/// Words whose free blocks are counted together, to skip full parts quickly.
const CHUNK: usize = 64;
/// From so many blocks on, whole free zones are looked for first.
const LARGE: u64 = 16;

/// A run of blocks: first, count.
pub(crate) type Run = (u64, u64);

pub(crate) struct Alloc {
    words: Vec<u64>,
    index: Vec<bool>,
    chunk_free: Vec<u32>,
    free_data: u64,
    free_pages: u64,
    pages: u64,
    partial: BTreeSet<usize>,
    near: usize,
    far: usize,
    /// The block after the last large run.
    after_large: u64,
}

impl Alloc {
    /// All blocks of the device, those below `first` and from `end` on taken.
    pub fn new(first: u64, end: u64) -> Self {
        let zones = end.div_ceil(ZONE) as usize;
        let mut out = Self {
            words: vec![!0; zones],
            index: vec![false; zones],
            chunk_free: vec![0; zones.div_ceil(CHUNK)],
            free_data: 0,
            free_pages: 0,
            pages: 0,
            partial: BTreeSet::new(),
            near: 0,
            far: 0,
            after_large: 0,
        };
        for zone in first.div_ceil(ZONE) as usize..zones {
            let from = zone as u64 * ZONE;
            let mask = if end - from >= ZONE { !0 } else { (1 << (end - from)) - 1 };
            out.words[zone] = !mask;
            out.count(zone, mask.count_ones() as i64);
        }
        out
    }

    /// Bytes that this takes.
    pub fn memory(&self) -> usize {
        self.words.len() * 9 + self.chunk_free.len() * 4 + self.partial.len() * 16
    }

    /// Free blocks that data may take.
    pub fn free_data(&self) -> u64 {
        self.free_data
    }

    /// Free places for pages in zones of the index.
    pub fn free_pages(&self) -> u64 {
        self.free_pages
    }

    /// Places for pages, free or not, in zones of the index.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    fn count(&mut self, zone: usize, change: i64) {
        self.free_data = self.free_data.checked_add_signed(change).expect("counted");
        let chunk = &mut self.chunk_free[zone / CHUNK];
        *chunk = chunk.checked_add_signed(change as i32).expect("counted");
    }

    fn is_free(&self, block: u64) -> bool {
        let zone = (block / ZONE) as usize;
        zone < self.words.len() && !self.index[zone] && self.words[zone] >> (block % ZONE) & 1 == 0
    }

    /// Marks data that was found to be in use; false where it was taken already or is outside.
    pub fn mark(&mut self, run: Run) -> bool {
        let end = run.0.saturating_add(run.1);
        if end > self.words.len() as u64 * ZONE || !(run.0..end).all(|b| self.is_free(b)) {
            return false;
        }
        self.take(run);
        true
    }

    fn take(&mut self, run: Run) {
        for block in run.0..run.0 + run.1 {
            let zone = (block / ZONE) as usize;
            self.words[zone] |= 1 << (block % ZONE);
            self.count(zone, -1);
        }
    }

    /// Gives back blocks of data.
    pub fn free(&mut self, run: Run) {
        for block in run.0..run.0 + run.1 {
            let zone = (block / ZONE) as usize;
            let bit = 1 << (block % ZONE);
            assert!(self.words[zone] & bit != 0 && !self.index[zone], "block {block} freed twice");
            self.words[zone] &= !bit;
            self.count(zone, 1);
        }
    }

    /// How many blocks from `start` on are free, up to `max`.
    fn run_at(&self, start: u64, max: u64) -> u64 {
        (0..max).take_while(|i| self.is_free(start + i)).count() as u64
    }

    /// Takes up to `want` blocks in a row, at `goal` where that is free; fewer where the space is scattered.
    pub fn data(&mut self, want: u64, goal: Option<u64>) -> Option<Run> {
        assert!(want > 0, "nothing wanted");
        let start = goal
            .filter(|goal| self.is_free(*goal))
            .or_else(|| if want >= LARGE { self.large(want) } else { None })
            .or_else(|| self.any_free())?;
        let run = (start, self.run_at(start, want));
        if want >= LARGE {
            self.after_large = run.0 + run.1;
        }
        self.take(run);
        Some(run)
    }

    /// Where a large run goes: behind the last one, so that zones fill up one after another and whole ones are left for the index;
    /// else to a whole free zone.
    fn large(&mut self, want: u64) -> Option<u64> {
        if self.run_at(self.after_large, want) == want {
            return Some(self.after_large);
        }
        self.whole_zone()
    }

    /// The first free zone after the last one found so.
    fn whole_zone(&mut self) -> Option<u64> {
        let zone = self.find_zone(self.far, ZONE as u32, |word| word == 0)?;
        self.far = zone;
        Some(zone as u64 * ZONE)
    }

    fn any_free(&mut self) -> Option<u64> {
        let zone = self.find_zone(self.near, 1, |word| word != !0)?;
        self.near = zone;
        Some(zone as u64 * ZONE + u64::from(self.words[zone].trailing_ones()))
    }

    /// The first zone of data from `from` on, around the end, that `fits`; chunks with fewer than `least` free blocks
    /// are skipped.
    fn find_zone(&self, from: usize, least: u32, fits: impl Fn(u64) -> bool) -> Option<usize> {
        let n = self.words.len();
        let mut seen = 0;
        while seen < n {
            let zone = (from + seen) % n;
            if self.chunk_free[zone / CHUNK] < least {
                seen += (CHUNK - zone % CHUNK).min(n - zone);
            } else if !self.index[zone] && fits(self.words[zone]) {
                return Some(zone);
            } else {
                seen += 1;
            }
        }
        None
    }

    /// Makes sure that so many places for pages are free, taking free zones for the index; false where there are none.
    pub fn ensure_pages(&mut self, pages: u64) -> bool {
        while self.free_pages < pages {
            let Some(zone) = self.find_zone(0, ZONE as u32, |word| word == 0) else { return false };
            self.count(zone, -(ZONE as i64));
            self.index[zone] = true;
            self.partial.insert(zone);
            self.free_pages += ZONE_PAGES;
            self.pages += ZONE_PAGES;
        }
        true
    }

    /// Whether free zones for so many more pages could be found.
    pub fn could_hold_pages(&self, pages: u64) -> bool {
        let mut missing = pages.saturating_sub(self.free_pages);
        let mut zone = 0;
        while missing > 0 && zone < self.words.len() {
            if self.chunk_free[zone / CHUNK] < ZONE as u32 {
                zone += CHUNK - zone % CHUNK;
                continue;
            }
            if self.words[zone] == 0 && !self.index[zone] {
                missing = missing.saturating_sub(ZONE_PAGES);
            }
            zone += 1;
        }
        missing == 0
    }

    /// Gives free zones of the index back to data, as long as `keep` places for pages stay free.
    pub fn trim_pages(&mut self, keep: u64) {
        let empty: Vec<usize> = self.partial.iter().copied().filter(|z| self.words[*z] == 0).collect();
        for zone in empty {
            if self.free_pages < keep + ZONE_PAGES {
                return;
            }
            self.partial.remove(&zone);
            self.index[zone] = false;
            self.free_pages -= ZONE_PAGES;
            self.pages -= ZONE_PAGES;
            self.count(zone, ZONE as i64);
        }
    }

    /// Takes a place for a page.
    pub fn page(&mut self) -> Option<u64> {
        if !self.ensure_pages(1) {
            return None;
        }
        let zone = *self.partial.first().expect("a zone with a free place");
        let word = &mut self.words[zone];
        let at = u64::from(word.trailing_ones());
        assert!(at.is_multiple_of(PAGE_BLOCKS), "pages lie on even blocks");
        *word |= 0b11 << at;
        if *word == !0 {
            self.partial.remove(&zone);
        }
        self.free_pages -= 1;
        Some(zone as u64 * ZONE + at)
    }

    /// Marks a page that was found to be in use; false where its place is taken or can't be one.
    pub fn mark_page(&mut self, block: u64) -> bool {
        let zone = (block / ZONE) as usize;
        if !block.is_multiple_of(PAGE_BLOCKS) || zone >= self.words.len() {
            return false;
        }
        if !self.index[zone] {
            if self.words[zone] != 0 {
                return false;
            }
            self.count(zone, -(ZONE as i64));
            self.index[zone] = true;
            self.free_pages += ZONE_PAGES;
            self.pages += ZONE_PAGES;
        }
        let bits = 0b11 << (block % ZONE);
        if self.words[zone] & bits != 0 {
            return false;
        }
        self.words[zone] |= bits;
        self.free_pages -= 1;
        if self.words[zone] == !0 {
            self.partial.remove(&zone);
        } else {
            self.partial.insert(zone);
        }
        true
    }

    /// Gives back a page's place.
    pub fn free_page(&mut self, block: u64) {
        let zone = (block / ZONE) as usize;
        let bits = 0b11 << (block % ZONE);
        assert!(self.index[zone] && self.words[zone] & bits == bits, "page {block} freed twice");
        self.words[zone] &= !bits;
        self.partial.insert(zone);
        self.free_pages += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Rng;

    #[test]
    fn large_runs_fill_zones_one_after_another_and_leave_whole_ones() {
        let mut alloc = Alloc::new(0, 64 * 64);
        // Runs of a quarter of a zone, in half of the device.
        for _ in 0..128 {
            assert_eq!(alloc.data(16, None).expect("there is room").1, 16);
        }
        assert!(alloc.could_hold_pages(32 * ZONE_PAGES), "the other half is whole zones");
    }

    #[test]
    fn random_use_never_gives_a_block_twice_and_counts_right() {
        let mut rng = Rng::from_seed(3);
        let (first, end) = (130, 64 * 70 + 20);
        let mut alloc = Alloc::new(first, end);
        let all = alloc.free_data();
        assert_eq!(all, end - 192, "from the first whole zone");
        let (mut runs, mut pages): (Vec<Run>, Vec<u64>) = (vec![], vec![]);
        let mut owner = vec![0u8; end as usize];
        for _ in 0..20_000 {
            match rng.below(4) {
                0 => {
                    let goal = rng.chance(1, 2).then(|| rng.below(end + 100));
                    if let Some(run) = alloc.data(1 + rng.below(150), goal) {
                        (run.0..run.0 + run.1).for_each(|b| {
                            assert_eq!(std::mem::replace(&mut owner[b as usize], 1), 0);
                        });
                        runs.push(run);
                    } else {
                        assert_eq!(alloc.free_data(), 0, "refused only when full");
                    }
                }
                1 => {
                    if let Some(page) = alloc.page() {
                        (page..page + 2).for_each(|b| {
                            assert_eq!(std::mem::replace(&mut owner[b as usize], 2), 0);
                        });
                        pages.push(page);
                    }
                }
                2 if !runs.is_empty() => {
                    let run = runs.swap_remove(rng.below(runs.len() as u64) as usize);
                    (run.0..run.0 + run.1).for_each(|b| owner[b as usize] = 0);
                    alloc.free(run);
                }
                _ if !pages.is_empty() => {
                    let page = pages.swap_remove(rng.below(pages.len() as u64) as usize);
                    (page..page + 2).for_each(|b| owner[b as usize] = 0);
                    alloc.free_page(page);
                    if rng.chance(1, 3) {
                        alloc.trim_pages(rng.below(64));
                    }
                }
                _ => {}
            }
            let used: u64 = runs.iter().map(|r| r.1).sum();
            assert_eq!(alloc.free_data() + used + alloc.pages() * PAGE_BLOCKS, all);
            assert_eq!(alloc.free_pages() + pages.len() as u64, alloc.pages());
        }
    }

    #[test]
    fn marking_rebuilds_the_same_state() {
        let mut alloc = Alloc::new(64, 64 * 10);
        assert!(alloc.mark((70, 10)) && !alloc.mark((79, 1)) && !alloc.mark((0, 1)) && !alloc.mark((640, 1)));
        assert!(
            alloc.mark_page(128) && !alloc.mark_page(128) && !alloc.mark_page(131) && !alloc.mark_page(72)
        );
        assert!(!alloc.mark((130, 1)), "a zone of pages holds no data");
        assert!(alloc.could_hold_pages(31 + 32 * 7) && !alloc.could_hold_pages(32 * 8));
        assert!(alloc.ensure_pages(31 + 32 * 7) && !alloc.ensure_pages(32 * 8));
    }
}
