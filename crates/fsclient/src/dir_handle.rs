//! An open directory: the stream of its entries, as far as it was fetched.

use crate::inode::ListingRight;
use crate::key::InodeKey;
use msgs::{ReaddirReply, readdir_flag};

/// The two entries that no MDS sends, `.` and `..`.
pub(crate) const DOTS: u64 = 2;

/// An entry of the stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamEntry {
    pub(crate) key: InodeKey,
    pub(crate) mode: u32,
    pub(crate) name: Vec<u8>,
}

/// An open directory. Entry `n` of the stream, counted from 0 with `.` and `..`, is followed by offset `n +
/// 1`. A chunk is kept until the reader is past it.
#[derive(Debug)]
pub(crate) struct DirHandle {
    key: InodeKey,
    /// Stream number of `chunk[0]`.
    first: u64,
    chunk: Vec<StreamEntry>,
    /// The fragment that is fetched next, and the last name of it that was fetched.
    frag: u32,
    last_name: Vec<u8>,
    /// No more chunks follow.
    at_end: bool,
    /// The right to the directory's names when the first chunk came: unchanged at the end, all names are
    /// known.
    began: Option<ListingRight>,
}

impl DirHandle {
    pub(crate) fn new(key: InodeKey) -> Self {
        Self {
            key,
            first: DOTS,
            chunk: Vec::new(),
            frag: 0,
            last_name: Vec::new(),
            at_end: false,
            began: None,
        }
    }

    pub(crate) fn key(&self) -> InodeKey {
        self.key
    }

    /// The position at which the next chunk begins: a fragment and a name in it.
    pub(crate) fn position(&self) -> (u32, &[u8]) {
        (self.frag, &self.last_name)
    }

    /// True if nothing was fetched yet.
    pub(crate) fn is_at_start(&self) -> bool {
        let is_fetched = self.at_end || !self.chunk.is_empty() || self.first > DOTS;
        !is_fetched && self.position() == (0, &[])
    }

    /// Takes all entries at once.
    pub(crate) fn take_all(&mut self, entries: Vec<StreamEntry>) {
        self.chunk = entries;
        self.at_end = true;
    }

    /// Has the listing not believed to be complete at its end.
    pub(crate) fn distrust(&mut self) {
        self.began = None;
    }

    /// Takes a chunk that arrived while the directory's names rested on `right`. Returns true if the
    /// directory's names are all known now.
    pub(crate) fn take_chunk(
        &mut self,
        listing: &ReaddirReply,
        chunk: Vec<StreamEntry>,
        right: Option<ListingRight>,
    ) -> bool {
        // An empty first fragment is a part of the stream, too.
        if self.chunk.is_empty() && self.first == DOTS && self.frag == 0 {
            self.began = right;
        }
        self.first += self.chunk.len() as u64;
        self.chunk = chunk;
        let frag_done = listing.flags & readdir_flag::FRAG_END != 0 || listing.entries.is_empty();
        match (frag_done, next_frag(listing.dir.frag)) {
            (false, _) => {
                self.frag = listing.dir.frag;
                self.last_name = listing.entries.last().map(|e| e.name.clone()).unwrap_or_default();
            }
            (true, Some(next)) => (self.frag, self.last_name) = (next, Vec::new()),
            (true, None) => self.at_end = true,
        }
        self.at_end && right.is_some() && right == self.began
    }

    /// Moves the stream to a reader's offset. Returns the offset behind the last entry that is here, or
    /// `None` if a chunk must be fetched first.
    pub(crate) fn seek(&mut self, offset: u64) -> Option<u64> {
        if offset < self.first && (offset >= DOTS || self.first > DOTS) {
            // Rewound: the stream starts over.
            *self = Self::new(self.key);
        }
        let end = self.first + self.chunk.len() as u64;
        (offset < end || self.at_end).then_some(end)
    }

    /// Entry `n`, which is no dot entry.
    pub(crate) fn entry(&self, n: u64) -> &StreamEntry {
        &self.chunk[(n - self.first) as usize]
    }
}

/// The fragment after `frag` in order of hashes; `None` after the last. A fragment is (bits << 24 | first
/// hash).
fn next_frag(frag: u32) -> Option<u32> {
    let (bits, value) = (frag >> 24, frag & 0xff_ffff);
    let size = 1u64 << 24u32.saturating_sub(bits);
    let next = u64::from(value) + size;
    (next < 1 << 24).then_some(bits << 24 | next as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_follow_each_other_to_the_last() {
        assert_eq!(next_frag(0), None, "the whole directory is one fragment");
        let quarters: Vec<u32> = std::iter::successors(Some(2 << 24), |f| next_frag(*f)).collect();
        assert_eq!(quarters, [2 << 24, 2 << 24 | 0x40_0000, 2 << 24 | 0x80_0000, 2 << 24 | 0xc0_0000]);
    }
}
