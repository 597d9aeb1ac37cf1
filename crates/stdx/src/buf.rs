//! Bulk data: reference-counted, sliceable memory, aligned to 4 KiB, that carries a raw (seed 0) crc32c for
//! each 4 KiB block (docs/design.md, decision 1). The same `Buf` goes from the socket to replicas, disk and
//! socket; checksums of frames are combined from those of its blocks and never recomputed after a copy.

use crate::BLOCK;
use crate::memory::Memory;
use crate::reserve::Reservation;
use crate::{Rng, crc32c};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// Immutable shared bytes. Cloning and slicing copy nothing.
#[derive(Clone)]
pub struct Buf {
    memory: Arc<Held>,
    start: usize,
    len: usize,
    /// Budget reserved for the memory.
    reservation: Option<Arc<Reservation>>,
}

/// Unique memory on its way to become a [`Buf`].
pub struct BufMut(Held, Option<Arc<Reservation>>);

struct Held {
    memory: Memory,
    /// Bytes of it that are used.
    len: usize,
    /// Raw crc32c of each whole or last partial block; made when first asked for.
    crcs: OnceLock<Box<[u32]>>,
}

impl Held {
    fn new(memory: Memory, len: usize) -> Self {
        Self { memory, len, crcs: OnceLock::new() }
    }

    fn used(&self) -> &[u8] {
        &self.memory.bytes()[..self.len]
    }
}

impl BufMut {
    /// `len` zero bytes at a 4 KiB-aligned address.
    pub fn zeroed(len: usize) -> Self {
        Self(Held::new(Memory::zeroed(len), len), None)
    }

    /// `len` bytes at a 4 KiB-aligned address, to be written completely before they are read: they may
    /// contain anything that this process has held.
    pub fn uncleared(len: usize) -> Self {
        Self(Held::new(Memory::uncleared(len), len), None)
    }

    /// A copy of `parts`, one after another, of `len` bytes in all, at a 4 KiB-aligned address.
    pub fn concat<'a>(parts: impl Iterator<Item = &'a [u8]>, len: usize) -> Self {
        let mut out = Self::uncleared(len);
        let mut rest = out.as_mut_slice();
        for part in parts {
            let (here, left) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = left;
        }
        assert!(rest.is_empty(), "the parts are {len} bytes in all");
        out
    }

    /// Ties `reservation` to this memory and all slices of it, until another owner accounts for the memory
    /// ([`Buf::settled`]).
    pub fn set_reservation(&mut self, reservation: Reservation) {
        self.1 = Some(Arc::new(reservation));
    }

    /// It takes the place of `buf`, and its memory is held as that of `buf` was.
    pub fn hold_like(&mut self, buf: &Buf) {
        self.1 = self.1.take().or_else(|| buf.reservation.clone());
    }

    /// The bytes, to fill.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let Held { memory, len, .. } = &mut self.0;
        &mut memory.bytes_mut()[..*len]
    }

    /// Shortens it to `len` bytes, which must not be more than it has.
    pub fn truncate(&mut self, len: usize) {
        assert!(len <= self.0.len, "truncate {} bytes to {len}", self.0.len);
        self.0.len = len;
    }

    /// Makes it immutable.
    pub fn freeze(self) -> Buf {
        let len = self.0.len;
        Buf { memory: Arc::new(self.0), start: 0, len, reservation: self.1 }
    }
}

impl Buf {
    /// No bytes.
    pub fn empty() -> Self {
        Self::from(Vec::new())
    }

    /// An aligned copy of `bytes`.
    pub fn copy_from(bytes: &[u8]) -> Self {
        BufMut::concat(std::iter::once(bytes), bytes.len()).freeze()
    }

    /// `len` zero bytes.
    pub fn zeros(len: usize) -> Self {
        BufMut::zeroed(len).freeze()
    }

    /// `len` bytes of the stream of `seed`; for tests and benchmarks.
    pub fn pattern(seed: u64, len: usize) -> Self {
        let mut buf = BufMut::zeroed(len);
        Rng::from_seed(seed).fill(buf.as_mut_slice());
        buf.freeze()
    }

    /// A slice that shares the memory. Panics if the range is out of bounds.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "slice {range:?} of {} bytes", self.len);
        let (start, len) = (self.start + range.start, range.end - range.start);
        Self { memory: self.memory.clone(), start, len, reservation: self.reservation.clone() }
    }

    /// The same bytes, with `reservation` instead of their present one until they are dropped.
    pub fn held(self, reservation: Arc<Reservation>) -> Self {
        Self { reservation: Some(reservation), ..self }
    }

    /// The same bytes for an owner that keeps them and counts them in its own budget: aligned, in no more
    /// memory than they need, and without a reservation. Copies only if they are not so already.
    pub fn settled(&self) -> Self {
        if self.start == 0 && self.len == self.memory.len && self.is_aligned() {
            return Self { memory: self.memory.clone(), start: 0, len: self.len, reservation: None };
        }
        Self::copy_from(self)
    }

    /// True if the first byte is at a 4 KiB-aligned address, as direct I/O needs.
    pub fn is_aligned(&self) -> bool {
        (self.as_ptr() as usize).is_multiple_of(BLOCK)
    }

    /// The crc32c register over the bytes, from `seed`, combined from the block checksums if the slice covers
    /// whole blocks.
    pub fn crc32c(&self, seed: u32) -> u32 {
        if self.start == 0 && self.len == self.memory.len || self.covers_whole_blocks() {
            return self.block_crcs().fold(seed, |crc, (block, len)| crc32c::append(crc, block, len as u64));
        }
        crc32c::update(seed, self)
    }

    /// True if each of its 4 KiB blocks is a block of the underlying memory.
    fn covers_whole_blocks(&self) -> bool {
        let end = self.start + self.len;
        self.start.is_multiple_of(BLOCK) && (end.is_multiple_of(BLOCK) || end == self.memory.len)
    }

    /// Raw crc32c (seed 0) and length in bytes of each 4 KiB block of the buffer, the last one may be short.
    pub fn block_crcs(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        let shared = self.covers_whole_blocks().then(|| self.all_crcs());
        let first = self.start / BLOCK;
        self.chunks(BLOCK).enumerate().map(move |(i, chunk)| match shared {
            Some(crcs) => (crcs[first + i], chunk.len()),
            None => (crc32c::update(0, chunk), chunk.len()),
        })
    }

    fn all_crcs(&self) -> &[u32] {
        self.memory
            .crcs
            .get_or_init(|| self.memory.used().chunks(BLOCK).map(|c| crc32c::update(0, c)).collect())
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory.used()[self.start..self.start + self.len]
    }
}

impl From<Vec<u8>> for Buf {
    /// Takes the bytes without a copy; they are not aligned.
    fn from(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        Self { memory: Arc::new(Held::new(Memory::Plain(bytes), len)), start: 0, len, reservation: None }
    }
}

impl Default for Buf {
    fn default() -> Self {
        Self::empty()
    }
}

impl PartialEq for Buf {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
impl Eq for Buf {}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes, crc {:08x})", self.len, self.crc32c(0))
    }
}

impl fmt::Debug for BufMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufMut({} bytes)", self.0.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Budget;

    #[test]
    fn is_aligned_and_slices_without_copying() {
        let buf = Buf::pattern(1, 3 * BLOCK + 17);
        assert!(buf.is_aligned());
        let part = buf.slice(BLOCK..2 * BLOCK + 5);
        assert_eq!(&*part, &buf[BLOCK..2 * BLOCK + 5]);
        assert!(part.is_aligned());
        assert_eq!(part.as_ptr() as usize, buf.as_ptr() as usize + BLOCK);
    }

    #[test]
    fn crc_of_any_slice_equals_the_plain_one() {
        let buf = Buf::pattern(2, 5 * BLOCK + 100);
        let mut rng = Rng::from_seed(3);
        let mut cuts = vec![(0, buf.len()), (BLOCK, buf.len()), (BLOCK, 3 * BLOCK), (0, 0)];
        for _ in 0..200 {
            let a = rng.below(buf.len() as u64) as usize;
            cuts.push((a, a + rng.below((buf.len() - a + 1) as u64) as usize));
        }
        for (a, b) in cuts {
            let part = buf.slice(a..b);
            for seed in [0, !0] {
                assert_eq!(part.crc32c(seed), crc32c::update(seed, &part), "{a}..{b}");
            }
            let blocks: Vec<_> = part.chunks(BLOCK).map(|c| (crc32c::update(0, c), c.len())).collect();
            assert_eq!(part.block_crcs().collect::<Vec<_>>(), blocks);
        }
    }

    #[test]
    fn a_reservation_lives_as_long_as_the_last_slice() {
        let budget = Budget::new(1 << 20);
        let mut made = BufMut::zeroed(8192);
        made.set_reservation(budget.reserve(8192).expect("fits"));
        let part = made.freeze().slice(1..2);
        assert_eq!(budget.used(), 8192);
        drop(part);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn who_settles_bytes_shares_them_where_they_are_alone_and_answers_for_them() {
        let budget = Budget::new(1 << 20);
        let mut made = BufMut::concat(std::iter::once(&[7; BLOCK][..]), BLOCK);
        made.set_reservation(budget.reserve(4096).expect("fits"));
        let given = made.freeze();
        let kept = given.settled();
        assert_eq!(kept.as_ptr(), given.as_ptr());
        drop(given);
        assert_eq!((budget.used(), &kept[..]), (0, &[7; BLOCK][..]));
        let large = Buf::pattern(3, 4 * BLOCK);
        for part in
            [large.slice(BLOCK..2 * BLOCK), large.slice(5..BLOCK + 5), Buf::from(large[..BLOCK].to_vec())]
        {
            let kept = part.settled();
            assert!(kept.is_aligned() && kept == part && kept.as_ptr() != part.as_ptr());
        }
    }
}
