//! Single pages, cut from chunks.
//!
//! Most buffers of a daemon are a page or less: a client's small write, a block of the cache, the front of a
//! message. The allocator would have to find an aligned address each time; here the page freed last is used
//! next, while it is in the processor's caches. Pages are taken from the first chunk that has a free one, so
//! the last chunks become free as a whole and go back to the allocator. The gain in speed is small
//! ([performance.md](../../../docs/performance.md)).
#![expect(
    clippy::disallowed_types,
    reason = "who gets which page is not seen by anybody, and no lock is held beyond a line"
)]

use crate::BLOCK;
use bytes::BytesMut;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a chunk: 127 pages, wherever it starts.
const CHUNK: usize = 512 << 10;
const PAGES: usize = CHUNK / BLOCK - 1;
/// Chunks without used pages stay as long as there are no more free pages than this.
const KEPT: usize = 2 * PAGES;

/// 4 KiB at an aligned address; free for the next when it is dropped.
pub(crate) struct Page {
    bytes: BytesMut,
    chunk: usize,
}

impl Page {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // Freed only after the lock.
        let _surplus = pages().keep(self.chunk, bytes);
    }
}

/// A page that may contain anything that this process has held.
pub(crate) fn take() -> Page {
    pages().take()
}

struct Pages {
    /// The free pages of each chunk; `None` for a chunk that was freed.
    chunks: Vec<Option<Vec<BytesMut>>>,
    /// Chunks with some free, and places without a chunk.
    partly: BTreeSet<usize>,
    vacant: Vec<usize>,
    free: usize,
}

static ALL: Mutex<Pages> = Mutex::new(Pages::new());

fn pages() -> MutexGuard<'static, Pages> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pages {
    const fn new() -> Self {
        Self { chunks: Vec::new(), partly: BTreeSet::new(), vacant: Vec::new(), free: 0 }
    }

    fn take(&mut self) -> Page {
        let chunk = self.partly.first().copied().unwrap_or_else(|| self.grow());
        let free = self.chunks[chunk].as_mut().expect("a chunk with free pages");
        let bytes = free.pop().expect("a free page");
        if free.is_empty() {
            self.partly.remove(&chunk);
        }
        self.free -= 1;
        Page { bytes, chunk }
    }

    /// One chunk more; its number.
    fn grow(&mut self) -> usize {
        let mut rest = BytesMut::zeroed(CHUNK);
        let before = rest.as_ptr().align_offset(BLOCK);
        drop(rest.split_to(before));
        let free: Vec<_> = (0..PAGES).map(|_| rest.split_to(BLOCK)).collect();
        self.free += free.len();
        let chunk = self.vacant.pop().unwrap_or(self.chunks.len());
        if chunk == self.chunks.len() {
            self.chunks.push(None);
        }
        self.chunks[chunk] = Some(free);
        self.partly.insert(chunk);
        chunk
    }

    /// Frees a page. Returns all pages of its chunk if the chunk is not needed any more.
    fn keep(&mut self, chunk: usize, page: BytesMut) -> Vec<BytesMut> {
        let free = self.chunks[chunk].as_mut().expect("the chunk of a page");
        if free.is_empty() {
            self.partly.insert(chunk);
        }
        free.push(page);
        self.free += 1;
        if free.len() < PAGES || self.free <= KEPT {
            return Vec::new();
        }
        self.partly.remove(&chunk);
        self.vacant.push(chunk);
        self.free -= PAGES;
        self.chunks[chunk].take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drops a page of other pages than those of the process.
    fn give(pages: &mut Pages, mut page: Page) -> usize {
        let bytes = std::mem::take(&mut page.bytes);
        let surplus = pages.keep(page.chunk, bytes).len();
        std::mem::forget(page);
        surplus
    }

    #[test]
    fn pages_are_aligned_apart_and_whole() {
        let mut pages = Pages::new();
        let mut held: Vec<Page> = (0..3 * PAGES).map(|_| pages.take()).collect();
        for (i, page) in held.iter_mut().enumerate() {
            assert!(page.bytes().as_ptr().align_offset(BLOCK) == 0 && page.bytes().len() == BLOCK);
            page.bytes_mut().fill(i as u8);
        }
        for (i, page) in held.iter().enumerate() {
            assert!(page.bytes().iter().all(|b| *b == i as u8), "page {i} is another's too");
        }
        assert_eq!((pages.chunks.len(), pages.free), (3, 0));
        for page in held {
            give(&mut pages, page);
        }
    }

    #[test]
    fn a_page_given_back_is_the_next_and_the_first_chunks_are_used_first() {
        let mut pages = Pages::new();
        let mut held: Vec<Page> = (0..2 * PAGES + 1).map(|_| pages.take()).collect();
        assert_eq!((pages.chunks.len(), held[2 * PAGES].chunk), (3, 2));
        let first = held.remove(0);
        let address = first.bytes().as_ptr();
        give(&mut pages, first);
        let again = pages.take();
        assert_eq!(
            (again.chunk, again.bytes().as_ptr()),
            (0, address),
            "and not of the third, which has most free"
        );
        held.push(again);
        for page in held {
            give(&mut pages, page);
        }
    }

    #[test]
    fn what_is_free_beyond_what_is_kept_goes_back_by_chunks_and_places_are_used_again() {
        let mut pages = Pages::new();
        let held: Vec<Page> = (0..5 * PAGES).map(|_| pages.take()).collect();
        let surplus: usize = held.into_iter().map(|page| give(&mut pages, page)).sum();
        assert_eq!((surplus, pages.free), (3 * PAGES, 2 * PAGES));
        assert_eq!(pages.chunks.iter().filter(|c| c.is_some()).count(), 2);
        let held: Vec<Page> = (0..3 * PAGES).map(|_| pages.take()).collect();
        assert_eq!((pages.chunks.len(), pages.free), (5, 0));
        for page in held {
            give(&mut pages, page);
        }
    }
}
