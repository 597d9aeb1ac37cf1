//! Which blocks of the device are free: one bit for each 4 KiB, in memory.
//!
//! 64 blocks are a zone (one word). Data and index pages keep to different zones as long as there is a
//! choice, so that large runs stay whole; but any block can hold either, and a page is any two blocks. So
//! whether something fits is a matter of counting free blocks: no pattern of deletes can make free space
//! useless. Places are looked for before an edge that moves on as more is used, so that a sparse file takes
//! of its host about twice what is stored in it. A bit is set from the moment a block is promised to
//! something until nothing on the device refers to it any more; what of that is durable is the checkpoint's
//! business.

use crate::ages::Ages;
use crate::page::Place;
use std::collections::BTreeSet;
use std::ops::Range;

/// Blocks of a zone.
pub(crate) const ZONE: u64 = 64;
/// Words whose free blocks are counted together, to skip full parts quickly.
const CHUNK: usize = 64;
/// Runs of at least this many blocks go to zones that are not fragmented.
const LARGE: u64 = 16;

/// Zones by which the edge moves: 256 MiB.
const EDGE_STEP_ZONES: usize = 1024;

/// A run of blocks: first, count.
pub(crate) type Run = (u64, u64);

pub(crate) struct Alloc {
    words: Vec<u64>,
    /// Zones that hold pages; data goes there last.
    index: Vec<bool>,
    chunk_free: Vec<u32>,
    free: u64,
    /// Blocks that are being discarded.
    lent: u64,
    pages: u64,
    /// Zones of the index with room for a page in a row.
    partial: BTreeSet<usize>,
    /// Zones from here on are used only once those before are full.
    edge: usize,
    near: usize,
    far: usize,
    scattered: usize,
    /// The block after the last large run.
    after_large: u64,
    /// The checkpoint at which each zone last changed.
    ages: Ages,
    /// The allocations that still succeed; for tests of a failure's consequences.
    fails_after: Option<u64>,
}

impl Alloc {
    /// All blocks of the device, those below `first` and from `end` on taken.
    pub fn new(first: u64, end: u64) -> Self {
        let zones = end.div_ceil(ZONE) as usize;
        let mut out = Self {
            words: vec![!0; zones],
            index: vec![false; zones],
            chunk_free: vec![0; zones.div_ceil(CHUNK)],
            free: 0,
            lent: 0,
            pages: 0,
            partial: BTreeSet::new(),
            edge: EDGE_STEP_ZONES.min(zones),
            near: 0,
            far: 0,
            scattered: 0,
            after_large: 0,
            ages: Ages::new(zones),
            fails_after: None,
        };
        for zone in first.div_ceil(ZONE) as usize..zones {
            let from = zone as u64 * ZONE;
            let mask = if end - from >= ZONE { !0 } else { (1 << (end - from)) - 1 };
            out.words[zone] = !mask;
            out.count(zone, mask.count_ones() as i64);
        }
        out
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.words.len() * 10 + self.chunk_free.len() * 4 + self.partial.len() * 16
    }

    /// Free blocks.
    pub fn free_blocks(&self) -> u64 {
        self.free
    }

    /// Blocks that are being discarded.
    pub fn lent_blocks(&self) -> u64 {
        self.lent
    }

    /// Counts a checkpoint: what has not changed is older by one.
    pub fn tick(&mut self) {
        self.ages.tick();
    }

    /// Pages that have a place.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Lets the allocation after the next `count` fail as if there were no room.
    pub fn fail_after(&mut self, count: u64) {
        self.fails_after = Some(count);
    }

    fn may_succeed(&mut self) -> bool {
        match &mut self.fails_after {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }

    fn count(&mut self, zone: usize, change: i64) {
        self.free = self.free.checked_add_signed(change).expect("counted");
        let chunk = &mut self.chunk_free[zone / CHUNK];
        *chunk = chunk.checked_add_signed(change as i32).expect("counted");
    }

    /// True if a block is free; also used to compare with what is reachable.
    pub fn is_free(&self, block: u64) -> bool {
        let zone = (block / ZONE) as usize;
        zone < self.words.len() && self.words[zone] >> (block % ZONE) & 1 == 0
    }

    /// Marks data that was found to be in use; false if it was taken already or is outside.
    pub fn mark(&mut self, run: Run) -> bool {
        let end = run.0.saturating_add(run.1);
        if end > self.words.len() as u64 * ZONE || self.run_at(run.0, run.1) < run.1 {
            return false;
        }
        self.take(run);
        true
    }

    fn take(&mut self, run: Run) {
        for (zone, mask) in zones(run) {
            self.words[zone] |= mask;
            self.count(zone, -i64::from(mask.count_ones()));
            self.note(zone);
            self.ages.changed(zone);
            self.edge = self.edge.max(zone + 1);
        }
    }

    /// Moves the edge to where less than half of what lies before it is in use.
    fn stretch(&mut self) {
        let used = self.words.len() - (self.free / ZONE) as usize;
        self.edge = self.edge.max((2 * used + EDGE_STEP_ZONES).min(self.words.len()));
    }

    /// Frees blocks of data.
    pub fn free(&mut self, run: Run) {
        for (zone, mask) in zones(run) {
            assert_eq!(self.words[zone] & mask, mask, "blocks of {run:?} freed twice");
            self.words[zone] &= !mask;
            self.count(zone, i64::from(mask.count_ones()));
            self.note(zone);
            self.ages.changed(zone);
        }
    }

    /// Brings up to date what is known of a zone of the index; an empty one is anybody's again.
    fn note(&mut self, zone: usize) {
        if !self.index[zone] {
            return;
        }
        self.index[zone] = self.words[zone] != 0;
        if self.index[zone] && free_pairs(self.words[zone]) != 0 {
            self.partial.insert(zone);
        } else {
            self.partial.remove(&zone);
        }
    }

    /// Free zones in a row, the first in `among`, at most `max`, that have been free for so many checkpoints
    /// and may still take space of the host; or else how far was looked.
    pub fn long_free(&self, among: Range<usize>, max: usize, checkpoints: u8) -> Result<Range<usize>, usize> {
        let to = among.end.min(self.words.len());
        let fits = |zone: &usize| self.words[*zone] == 0 && self.ages.is_old(*zone, checkpoints);
        let mut zone = among.start;
        while zone < to {
            if self.chunk_free[zone / CHUNK] < ZONE as u32 {
                zone += CHUNK - zone % CHUNK;
            } else if fits(&zone) {
                let end = (zone..self.words.len()).take(max).take_while(fits).last().expect("the first fits");
                return Ok(zone..end + 1);
            } else {
                zone += 1;
            }
        }
        Err(to)
    }

    /// Takes free zones out of circulation while they are being discarded.
    pub fn lend(&mut self, zones: Range<usize>) {
        self.lent += zones.len() as u64 * ZONE;
        for zone in zones {
            assert_eq!(self.words[zone], 0, "zone {zone} is not free");
            self.words[zone] = !0;
            self.count(zone, -(ZONE as i64));
        }
    }

    /// Puts discarded zones back into circulation.
    pub fn discarded(&mut self, zones: Range<usize>) {
        self.lent -= zones.len() as u64 * ZONE;
        for zone in zones {
            self.words[zone] = 0;
            self.count(zone, ZONE as i64);
            self.ages.discarded(zone);
        }
    }

    /// The number of free blocks from `start` on, up to `max`.
    fn run_at(&self, start: u64, max: u64) -> u64 {
        let end = start.saturating_add(max).min(self.words.len() as u64 * ZONE);
        let taken = |(zone, mask): &(usize, u64)| self.words[*zone] & mask != 0;
        let first = zones((start, end.saturating_sub(start))).find(taken);
        let stop = first.map_or(end, |(zone, mask)| {
            zone as u64 * ZONE + u64::from((self.words[zone] & mask).trailing_zeros())
        });
        stop.saturating_sub(start)
    }

    /// Takes up to `want` blocks in a row, at `goal` where that is free; fewer where the space is scattered.
    pub fn data(&mut self, want: u64, goal: Option<u64>) -> Option<Run> {
        assert!(want > 0, "nothing wanted");
        if !self.may_succeed() {
            return None;
        }
        self.stretch();
        let fits = |goal: &u64| self.is_free(*goal) && !self.index[(*goal / ZONE) as usize];
        let start = goal
            .filter(fits)
            .or_else(|| if want >= LARGE { self.large(want) } else { None })
            .or_else(|| self.any_free())?;
        let run = (start, self.run_at(start, want));
        if want >= LARGE {
            self.after_large = run.0 + run.1;
        }
        self.take(run);
        Some(run)
    }

    /// Chooses the place of a large run: behind the last one, so that zones fill up in turn; else a whole
    /// free zone; else to the longest row of free blocks of some zone that has a long one.
    fn large(&mut self, want: u64) -> Option<u64> {
        let before_edge = self.after_large + want <= self.edge as u64 * ZONE;
        if before_edge && self.run_at(self.after_large, want) == want {
            return Some(self.after_large);
        }
        if let Some(zone) = self.find_zone(self.far, ZONE as u32, |word| word == 0) {
            self.far = zone;
            return Some(zone as u64 * ZONE);
        }
        let zone =
            self.find_zone(self.scattered, LARGE as u32, |word| longest_row(word).1 >= LARGE as u32)?;
        self.scattered = zone;
        Some(zone as u64 * ZONE + u64::from(longest_row(self.words[zone]).0))
    }

    /// A free block, in a zone of the index only where there is no other.
    fn any_free(&mut self) -> Option<u64> {
        let zone = match self.find_zone(self.near, 1, |word| word != !0) {
            Some(zone) => zone,
            None => self.find(self.near, 1, |_, _, word| word != !0)?,
        };
        self.near = zone;
        Some(zone as u64 * ZONE + u64::from(self.words[zone].trailing_ones()))
    }

    /// The first zone of data from `from` on, around the edge, that `fits`; chunks with fewer than `least`
    /// free blocks are skipped.
    fn find_zone(&mut self, from: usize, least: u32, fits: impl Fn(u64) -> bool) -> Option<usize> {
        self.find(from, least, |alloc, zone, word| !alloc.index[zone] && fits(word))
    }

    /// The same of any zone; beyond the edge where there is none before it.
    fn find(&mut self, from: usize, least: u32, fits: impl Fn(&Self, usize, u64) -> bool) -> Option<usize> {
        let around = self.find_between(from, self.edge, least, &fits);
        let mut found = around.or_else(|| self.find_between(0, from, least, &fits));
        while found.is_none() && self.edge < self.words.len() {
            let before = self.edge;
            self.edge = (before + EDGE_STEP_ZONES).min(self.words.len());
            found = self.find_between(before, self.edge, least, &fits);
        }
        found
    }

    fn find_between(
        &self,
        from: usize,
        to: usize,
        least: u32,
        fits: &impl Fn(&Self, usize, u64) -> bool,
    ) -> Option<usize> {
        let mut zone = from;
        while zone < to {
            if self.chunk_free[zone / CHUNK] < least {
                zone += CHUNK - zone % CHUNK;
            } else if fits(self, zone, self.words[zone]) {
                return Some(zone);
            } else {
                zone += 1;
            }
        }
        None
    }

    /// Takes two blocks for a page: side by side in a zone of the index, else in a whole free zone, else
    /// anywhere.
    pub fn page(&mut self) -> Option<Place> {
        if self.free < 2 || !self.may_succeed() {
            return None;
        }
        self.stretch();
        let zone = match self.partial.first() {
            Some(zone) => Some(*zone),
            None => self.find_zone(0, ZONE as u32, |word| word == 0),
        };
        let zone = zone.or_else(|| self.find(self.scattered, 2, |_, _, word| free_pairs(word) != 0));
        let place = match zone {
            Some(zone) => {
                let first = zone as u64 * ZONE + u64::from(free_pairs(self.words[zone]).trailing_zeros());
                self.take((first, 2));
                Place { first, second: first + 1 }
            }
            None => {
                let first = self.any_free()?;
                self.take((first, 1));
                let second = self.any_free().expect("two were free");
                self.take((second, 1));
                Place { first, second }
            }
        };
        self.has_page(place);
        Some(place)
    }

    fn has_page(&mut self, place: Place) {
        self.pages += 1;
        for block in place.blocks() {
            let zone = (block / ZONE) as usize;
            // A zone with much data stays one of data.
            if self.words[zone].count_ones() <= 2 || place.is_row() && self.partial.contains(&zone) {
                self.index[zone] = true;
            }
            self.note(zone);
        }
    }

    /// Marks a page that was found to be in use; false if its place is taken or can't be one.
    pub fn mark_page(&mut self, place: Place) -> bool {
        let [first, second] = place.blocks();
        if first == second || !self.is_free(first) || !self.is_free(second) {
            return false;
        }
        self.take((first, 1));
        self.take((second, 1));
        // While opening pages are marked before data.
        self.index[(first / ZONE) as usize] |= place.is_row();
        self.has_page(place);
        true
    }

    /// Frees a page's blocks.
    pub fn free_page(&mut self, place: Place) {
        self.pages -= 1;
        place.blocks().into_iter().for_each(|block| self.free((block, 1)));
    }
}

/// Cuts a run at multiples of a zone: which zone, first block, end.
pub(crate) fn by_zone(run: Run) -> impl Iterator<Item = (u64, u64, u64)> {
    let end = run.0 + run.1;
    (run.0 / ZONE..end.div_ceil(ZONE))
        .map(move |zone| (zone, run.0.max(zone * ZONE), end.min((zone + 1) * ZONE)))
}

/// The same with the blocks as bits of the zone's word.
pub(crate) fn zones(run: Run) -> impl Iterator<Item = (usize, u64)> {
    by_zone(run).map(|(zone, from, to)| {
        let below = |block: u64| if block == (zone + 1) * ZONE { !0 } else { (1u64 << (block % ZONE)) - 1 };
        (zone as usize, below(to) & !below(from))
    })
}

/// Pairs of free blocks whose first is even, as bits of the first.
fn free_pairs(word: u64) -> u64 {
    !word & (!word >> 1) & 0x5555_5555_5555_5555
}

/// The longest row of free blocks of a zone: first, count.
fn longest_row(word: u64) -> (u32, u32) {
    let (mut free, mut at, mut best) = (!word, 0, (0, 0));
    while free != 0 {
        let skip = free.trailing_zeros();
        (free, at) = (free >> skip, at + skip);
        let row = free.trailing_ones();
        if row > best.1 {
            best = (at, row);
        }
        (free, at) = (if row == 64 { 0 } else { free >> row }, at + row);
    }
    best
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
        assert_eq!(alloc.words.iter().filter(|w| **w == 0).count(), 32, "the other half is whole zones");
    }

    #[test]
    fn the_longest_row_is_found() {
        assert_eq!(longest_row(0), (0, 64));
        assert_eq!(longest_row(!0), (0, 0));
        assert_eq!(longest_row(!0b0111_0110), (4, 3));
        assert_eq!(longest_row(!(0xff << 56 | 0b11)), (56, 8));
    }

    #[test]
    fn a_page_finds_room_wherever_two_blocks_are_free() {
        let mut alloc = Alloc::new(0, 64 * 4);
        while alloc.data(1, None).is_some() {}
        for block in [5, 77, 130, 131, 201] {
            alloc.free((block, 1));
        }
        let first = alloc.page().expect("a pair");
        assert_eq!((first.first, first.second), (130, 131));
        let second = alloc.page().expect("two blocks");
        assert!(
            !second.is_row() && [5, 77, 201].contains(&second.first) && [5, 77, 201].contains(&second.second)
        );
        assert_eq!((alloc.page(), alloc.free_blocks(), alloc.pages()), (None, 1, 2));
        alloc.free_page(second);
        let again = alloc.page();
        assert!(again.is_some(), "its blocks are free again");
    }

    #[test]
    fn random_use_never_gives_a_block_twice_and_counts_right() {
        let mut rng = Rng::from_seed(3);
        let (first, end) = (130, 64 * 70 + 20);
        let mut alloc = Alloc::new(first, end);
        let all = alloc.free_blocks();
        assert_eq!(all, end - 192, "from the first whole zone");
        let (mut runs, mut pages): (Vec<Run>, Vec<Place>) = (vec![], vec![]);
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
                        assert_eq!(alloc.free_blocks(), 0, "refused only when full");
                    }
                }
                1 => match alloc.page() {
                    Some(page) => {
                        for block in page.blocks() {
                            assert_eq!(std::mem::replace(&mut owner[block as usize], 2), 0);
                        }
                        pages.push(page);
                    }
                    None => assert!(alloc.free_blocks() < 2, "refused only when full"),
                },
                2 if !runs.is_empty() => {
                    let run = runs.swap_remove(rng.below(runs.len() as u64) as usize);
                    (run.0..run.0 + run.1).for_each(|b| owner[b as usize] = 0);
                    alloc.free(run);
                }
                _ if !pages.is_empty() => {
                    let page = pages.swap_remove(rng.below(pages.len() as u64) as usize);
                    page.blocks().into_iter().for_each(|b| owner[b as usize] = 0);
                    alloc.free_page(page);
                }
                _ => {}
            }
            let used: u64 = runs.iter().map(|r| r.1).sum();
            assert_eq!(alloc.free_blocks() + used + 2 * pages.len() as u64, all);
            assert_eq!(alloc.pages(), pages.len() as u64);
        }
    }

    #[test]
    fn what_is_used_stays_within_twice_its_size_of_the_beginning() {
        let mut rng = Rng::from_seed(5);
        let zones = 64 * EDGE_STEP_ZONES;
        let mut alloc = Alloc::new(0, zones as u64 * ZONE);
        // 1 GiB live, written over 20 times, in runs of many sizes.
        let (live, mut runs, mut used) = (1 << 18, std::collections::VecDeque::new(), 0);
        for _ in 0..20 * live / 128 {
            let run = alloc.data(1 + rng.below(256), None).expect("there is room");
            used += run.1;
            runs.push_back(run);
            while used > live {
                let at = rng.below(runs.len() as u64) as usize;
                let run = runs.swap_remove_back(at).expect("one of them");
                used -= run.1;
                alloc.free(run);
            }
        }
        let last = alloc.words.iter().rposition(|word| *word != 0).expect("in use");
        assert!(last < (2 * live / ZONE) as usize + 2 * EDGE_STEP_ZONES, "zone {last} of {zones}");
        while alloc.data(64, None).is_some() {}
        assert_eq!(alloc.free_blocks(), 0, "all of it can be used");
    }

    #[test]
    fn marking_rebuilds_the_same_state() {
        let mut alloc = Alloc::new(64, 64 * 10);
        let row = |first| Place { first, second: first + 1 };
        assert!(alloc.mark((70, 10)) && !alloc.mark((79, 1)) && !alloc.mark((0, 1)) && !alloc.mark((640, 1)));
        assert!(alloc.mark_page(row(128)) && !alloc.mark_page(row(128)) && !alloc.mark_page(row(79)));
        assert!(alloc.mark_page(Place { first: 300, second: 80 }) && !alloc.mark((80, 1)));
        assert!(!alloc.mark_page(Place { first: 301, second: 301 }), "one block is no page");
        assert!(alloc.mark((130, 1)), "any block can hold data");
        assert_eq!((alloc.free_blocks(), alloc.pages()), (64 * 9 - 10 - 4 - 1, 2));
    }
}
