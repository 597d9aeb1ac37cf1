//! The memory of buffers: rows of aligned pages, of which single pages and very large rows are reused.
//!
//! Single pages are cut from chunks ([`crate::pages`]).
//!
//! A fresh row of 4 MiB costs a page fault for each of its pages, and as much again to give it back, several
//! times the cost of copying into it. So free rows are kept for reuse, for a second or two; the more rows are
//! in use, the fewer are kept.
#![expect(
    clippy::disallowed_types,
    reason = "who gets which row is not seen by anybody, and no lock is held beyond a line"
)]

use crate::BLOCK;
use crate::pages::{self, Page as Single};
use std::sync::{Mutex, MutexGuard, PoisonError};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// Rows of fewer pages are not kept: the allocator does as well.
const KEPT_FROM: usize = 16;
/// The most pages kept in a process, 16 MiB.
const KEPT: usize = (16 << 20) / BLOCK;
/// The most pages kept and in use together, 32 MiB; beyond that none is kept.
const ALL: usize = (64 << 20) / BLOCK;

#[derive(Clone, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(4096))]
struct Page([u8; BLOCK]);

/// Bytes of one kind or the other.
pub(crate) enum Memory {
    /// At a 4 KiB-aligned address.
    Row(Row),
    /// A single page.
    Single(Single),
    /// Memory of the global allocator.
    Plain(Vec<u8>),
}

/// Whole pages, which return to the kept ones when they are dropped.
pub(crate) struct Row(Vec<Page>);

impl Memory {
    /// At least `len` zeros, aligned.
    pub fn zeroed(len: usize) -> Self {
        if len <= BLOCK {
            let mut single = pages::take();
            single.bytes_mut().fill(0);
            return Self::Single(single);
        }
        Self::Row(Row::zeroed(len.div_ceil(BLOCK)))
    }

    /// At least `len` bytes, aligned, which may contain anything that this process has held.
    pub fn uncleared(len: usize) -> Self {
        let mut memory = if len <= BLOCK {
            Self::Single(pages::take())
        } else {
            let pages = len.div_ceil(BLOCK);
            let kept = spare().take(pages);
            Self::Row(kept.unwrap_or_else(|| Row::zeroed(pages)))
        };
        if cfg!(debug_assertions) {
            // In debug builds reads before the first write are found, and are the same each time.
            memory.bytes_mut().fill(0xa5);
        }
        memory
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Row(row) => row.0.as_bytes(),
            Self::Single(page) => page.bytes(),
            Self::Plain(bytes) => bytes,
        }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Row(row) => row.0.as_mut_bytes(),
            Self::Single(page) => page.bytes_mut(),
            Self::Plain(bytes) => bytes,
        }
    }
}

impl Row {
    fn zeroed(pages: usize) -> Self {
        if pages >= KEPT_FROM {
            spare().used += pages;
        }
        Self(Page::new_vec_zeroed(pages).expect("memory for a buffer"))
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if self.0.len() >= KEPT_FROM {
            let row = std::mem::take(&mut self.0);
            // Freed only after the lock.
            let _surplus = spare().keep(row);
        }
    }
}

/// Frees rows that were kept before the last call and not used since. To be called periodically.
pub fn release_unused() {
    // Freed only after the lock.
    let _unused = spare().release();
}

/// Free rows, the longest unused first.
struct Spare {
    rows: Vec<Vec<Page>>,
    pages: usize,
    /// Pages of rows in use that may be kept.
    used: usize,
    /// Number of the first rows that were there already at the last release.
    old: usize,
}

static SPARE: Mutex<Spare> = Mutex::new(Spare { rows: Vec::new(), pages: 0, used: 0, old: 0 });

fn spare() -> MutexGuard<'static, Spare> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spare {
    /// A row of at least this many pages and not many more, the most recently used one.
    fn take(&mut self, pages: usize) -> Option<Row> {
        if pages < KEPT_FROM {
            return None;
        }
        let fits = |row: &Vec<Page>| (pages..=pages + pages / 8).contains(&row.len());
        let at = self.rows.iter().rposition(fits)?;
        let row = self.remove(at);
        self.used += row.len();
        Some(Row(row))
    }

    fn remove(&mut self, at: usize) -> Vec<Page> {
        let row = self.rows.remove(at);
        self.pages -= row.len();
        self.old -= usize::from(at < self.old);
        row
    }

    fn release(&mut self) -> Vec<Vec<Page>> {
        let unused: Vec<_> = self.rows.drain(..self.old).collect();
        self.pages -= unused.iter().map(Vec::len).sum::<usize>();
        self.old = self.rows.len();
        unused
    }

    /// Keeps a row that was in use. Returns the rows that are too many now.
    fn keep(&mut self, row: Vec<Page>) -> Vec<Vec<Page>> {
        self.used -= row.len();
        self.pages += row.len();
        self.rows.push(row);
        let mut surplus = Vec::new();
        let most = KEPT.min(ALL.saturating_sub(self.used));
        while self.pages > most {
            surplus.push(self.remove(0));
        }
        surplus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The free rows of a process that has this many pages in large rows.
    fn spare(used: usize) -> Spare {
        Spare { rows: Vec::new(), pages: 0, used, old: 0 }
    }

    fn row(pages: usize) -> Vec<Page> {
        Page::new_vec_zeroed(pages).expect("memory")
    }

    /// The length of a taken row, as its drop would see it outside a test.
    fn len_of(row: Option<Row>) -> Option<usize> {
        row.map(|mut row| std::mem::take(&mut row.0).len())
    }

    #[test]
    fn a_row_is_kept_for_one_of_its_size_and_no_more_than_the_budget_stays() {
        let mut spare = spare(512 + 6 * 1000);
        assert!(spare.keep(row(512)).is_empty());
        assert!(spare.take(400).is_none(), "too much of it would lie idle");
        assert!(spare.take(513).is_none());
        assert_eq!(len_of(spare.take(500)), Some(512));
        assert_eq!((spare.pages, spare.used), (0, 512 + 6 * 1000));
        let surplus: usize = (0..6).flat_map(|_| spare.keep(row(1000))).map(|r| r.len()).sum();
        assert_eq!((surplus, spare.pages, spare.used), (2000, 4000, 512));
    }

    #[test]
    fn the_more_are_in_use_the_fewer_are_kept() {
        let mut spare = spare(ALL + 2 * 2000);
        assert_eq!(spare.keep(row(2000)).len(), 1, "more are in use than all may be");
        assert_eq!(spare.keep(row(2000)).len(), 1);
        assert_eq!(spare.keep(row(2000)).len(), 0);
        assert_eq!((spare.pages, spare.used), (2000, ALL - 2000));
        assert!(!Memory::uncleared(KEPT * BLOCK * 2).bytes().is_empty(), "one alone may be larger");
    }

    #[test]
    fn what_is_not_used_between_two_looks_is_given_back() {
        let mut spare = spare(600);
        spare.keep(row(100));
        spare.keep(row(200));
        assert!(spare.release().is_empty());
        let used = len_of(spare.take(200));
        spare.keep(row(300));
        assert_eq!(spare.release().iter().map(Vec::len).collect::<Vec<_>>(), [100]);
        assert_eq!((spare.pages, used), (300, Some(200)));
        assert_eq!(spare.release().len(), 1);
        assert_eq!((spare.pages, spare.rows.len()), (0, 0));
    }

    #[test]
    fn memory_is_aligned_and_zeroed_where_it_says_so() {
        for len in [0, 1, BLOCK, BLOCK + 1, 100 * BLOCK] {
            let mut dirty = Memory::uncleared(len);
            dirty.bytes_mut().fill(7);
            drop(dirty);
            let zeroed = Memory::zeroed(len);
            assert!(zeroed.bytes().len() >= len && zeroed.bytes().iter().all(|b| *b == 0));
            assert!(zeroed.bytes().as_ptr().cast::<Page>().is_aligned());
        }
    }
}
