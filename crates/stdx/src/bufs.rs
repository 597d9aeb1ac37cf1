//! Several [`Buf`]s read as one: a message's payload, a read's result, what a transaction writes.

use crate::{Buf, BufMut, Reservation};
use std::sync::Arc;

/// An ordered list of buffers. Appending and slicing copy no payload.
#[derive(Clone, Default, Debug)]
pub struct Bufs {
    parts: Vec<Buf>,
    len: usize,
}

impl Bufs {
    /// No bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Total length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The parts, none of them empty.
    pub fn parts(&self) -> &[Buf] {
        &self.parts
    }

    /// Appends one buffer.
    pub fn push(&mut self, buf: Buf) {
        if !buf.is_empty() {
            self.len += buf.len();
            self.parts.push(buf);
        }
    }

    /// Appends all parts of `other`.
    pub fn append(&mut self, other: Self) {
        self.len += other.len;
        self.parts.extend(other.parts);
    }

    /// A slice that shares the memory. Panics if the range is out of bounds.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "slice {range:?} of {} bytes", self.len);
        let mut out = Self::new();
        let mut at = 0;
        for part in &self.parts {
            let (from, to) = (range.start.max(at), range.end.min(at + part.len()));
            if from < to {
                out.push(part.slice(from - at..to - at));
            }
            at += part.len();
        }
        out
    }

    /// The same bytes, with `reservation` instead of their present one until all of them are dropped.
    pub fn held(self, reservation: &Arc<Reservation>) -> Self {
        let parts = self.parts.into_iter().map(|part| part.held(reservation.clone()));
        Self { parts: parts.collect(), len: self.len }
    }

    /// The same bytes without reservations, see [`Buf::settled`].
    pub fn settled(&self) -> Self {
        Self { parts: self.parts.iter().map(Buf::settled).collect(), len: self.len }
    }

    /// One buffer with all bytes; copies only if there are several parts.
    pub fn to_buf(&self) -> Buf {
        match &self.parts[..] {
            [] => Buf::empty(),
            [one] => one.clone(),
            many => BufMut::concat(many.iter().map(|part| &part[..]), self.len).freeze(),
        }
    }

    /// One buffer with all bytes at a 4 KiB-aligned address; copies if they are elsewhere.
    pub fn to_aligned(&self) -> Buf {
        match &self.parts[..] {
            [one] if one.is_aligned() => one.clone(),
            parts => BufMut::concat(parts.iter().map(|part| &part[..]), self.len).freeze(),
        }
    }

    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len);
        self.parts.iter().for_each(|p| out.extend_from_slice(p));
        out
    }

    /// The crc32c register over all bytes, from `seed`.
    pub fn crc32c(&self, seed: u32) -> u32 {
        self.parts.iter().fold(seed, |crc, part| part.crc32c(crc))
    }
}

impl From<Buf> for Bufs {
    fn from(buf: Buf) -> Self {
        let mut out = Self::new();
        out.push(buf);
        out
    }
}

impl From<Vec<u8>> for Bufs {
    fn from(bytes: Vec<u8>) -> Self {
        Buf::from(bytes).into()
    }
}

impl PartialEq for Bufs {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.to_buf() == other.to_buf()
    }
}
impl Eq for Bufs {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_across_parts_and_keeps_the_crc() {
        let whole = Buf::pattern(9, 10_000);
        let mut bufs = Bufs::new();
        for (a, b) in [(0, 4096), (4096, 4096), (4096, 5000), (5000, 10_000)] {
            bufs.push(whole.slice(a..b));
        }
        assert_eq!(bufs.parts().len(), 3, "empty parts are dropped");
        assert_eq!(bufs.to_buf(), whole);
        assert_eq!(bufs.crc32c(!0), crate::crc32c::update(!0, &whole));
        assert_eq!(bufs.slice(4000..5001).to_vec(), &whole[4000..5001]);
        assert_eq!(bufs.slice(4096..4096).parts().len(), 0);
    }

    #[test]
    fn bytes_are_copied_to_an_aligned_address_unless_they_are_at_one() {
        let whole = Buf::pattern(9, 10_000);
        let at = |from: usize| Bufs::from(whole.slice(from..10_000)).to_aligned();
        assert_eq!(at(4096).as_ptr(), whole[4096..].as_ptr());
        assert!(at(9).is_aligned() && at(9)[..] == whole[9..]);
        let mut two = Bufs::from(whole.slice(0..4096));
        two.push(whole.slice(5000..6000));
        assert_eq!(two.to_aligned().to_vec(), two.to_vec());
        assert!(Bufs::new().to_aligned().is_empty());
    }

    #[test]
    fn what_is_held_for_bytes_ends_with_the_last_of_them() {
        let budget = crate::Budget::new(100);
        let mut bufs = Bufs::from(vec![1; 10]);
        bufs.push(Buf::from(vec![2; 10]));
        let kept = bufs.clone();
        let hold = Arc::new(budget.reserve(20).expect("fits"));
        let held = bufs.held(&hold);
        drop(hold);
        let part = held.slice(15..16);
        drop(held);
        assert_eq!(budget.used(), 20);
        drop(part);
        assert_eq!((budget.used(), kept.len()), (0, 20));
    }
}
