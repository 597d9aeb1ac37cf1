//! A vector of numbers of two bits, as an object map is stored (Ceph's `BitVector<2>`).
//!
//! ```text
//!  0        4                  18                  18 + n
//! +--------+------------------+-------------------+--------+------------+-------+---------------+
//! | u32 14 | u8 1 u8 1 u32 8  | n bytes: 4 numbers | u32 len| u32 header | u32   | u32 of each   |
//! |        | u64 size         | each, first in the |        | crc        | count | 4 KiB of data |
//! |        |                  | highest bits       |        |            |       |               |
//! +--------+------------------+-------------------+--------+------------+-------+---------------+
//! ```
//! The footer, behind its length, is missing in what clients are sent.

use std::ops::Range;
use stdx::crc32c;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Numbers in a byte.
const PER_BYTE: u64 = 4;
/// Bytes that have a checksum.
pub(super) const BLOCK: u64 = 4096;
/// Bytes before the data.
pub(super) const HEADER: u64 = 18;

/// The vector.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct BitVector {
    size: u64,
    data: Vec<u8>,
}

fn get_at(data: &[u8], i: u64) -> u8 {
    let shift = 2 * (PER_BYTE - 1 - i % PER_BYTE);
    data[(i / PER_BYTE) as usize] >> shift & 3
}

fn set_at(data: &mut [u8], i: u64, value: u8) {
    let shift = 2 * (PER_BYTE - 1 - i % PER_BYTE);
    let byte = &mut data[(i / PER_BYTE) as usize];
    *byte = *byte & !(3 << shift) | (value & 3) << shift;
}

fn header(size: u64) -> Vec<u8> {
    let mut w = Writer::new();
    w.versioned(1, 1, |w| w.put(&size));
    w.into_vec()
}

fn checksums(data: &[u8]) -> impl Iterator<Item = u32> {
    data.chunks(BLOCK as usize).map(|block| crc32c::update(0, block))
}

/// The number of values, as a header says.
fn read_header<'a>(r: &mut Reader<'a>) -> Result<(&'a [u8], u64), DecodeError> {
    let header = r.blob()?;
    let size = Reader::new(header).versioned(1, |_, r| r.get())?;
    Ok((header, size))
}

impl BitVector {
    /// Values.
    pub(super) fn len(&self) -> u64 {
        self.size
    }

    /// One value, below the length.
    pub(super) fn get(&self, i: u64) -> u8 {
        assert!(i < self.size, "a value of the vector");
        get_at(&self.data, i)
    }

    /// Sets one value, below the length, of which two bits count.
    pub(super) fn set(&mut self, i: u64, value: u8) {
        assert!(i < self.size, "a value of the vector");
        set_at(&mut self.data, i, value);
    }

    /// Changes the length; new values are zero.
    pub(super) fn resize(&mut self, size: u64) {
        self.data.resize(size.div_ceil(PER_BYTE) as usize, 0);
        let old = std::mem::replace(&mut self.size, size);
        (old..size).take(PER_BYTE as usize).for_each(|i| self.set(i, 0));
    }

    /// The encoding with checksums, which is stored.
    pub(super) fn with_checksums(&self) -> Vec<u8> {
        let head = header(self.size);
        let crcs: Vec<u32> = checksums(&self.data).collect();
        let mut w = Writer::with_room(self.data.len() + 4 * crcs.len() + 64);
        w.blob(&head);
        w.raw(&self.data);
        w.sized(|w| {
            w.put(&crc32c::update(0, &head));
            w.put(&crcs);
        });
        w.into_vec()
    }
}

impl Encode for BitVector {
    /// Without checksums.
    fn encode(&self, w: &mut Writer) {
        w.blob(&header(self.size));
        w.raw(&self.data);
        w.blob(b"");
    }
}

impl Decode for BitVector {
    const MIN_SIZE: usize = 22;
    /// Checksums are compared if there are any.
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (header, size) = read_header(r)?;
        let data = r.take(usize::try_from(size.div_ceil(PER_BYTE)).unwrap_or(usize::MAX))?;
        let mut footer = r.sub()?;
        if !footer.is_empty() {
            let (crc, crcs): (u32, Vec<u32>) = footer.get()?;
            if crc != crc32c::update(0, header) || !crcs.iter().copied().eq(checksums(data)) {
                return Err(r.error("a wrong checksum"));
            }
        }
        Ok(Self { size, data: data.to_vec() })
    }
}

/// Where a stored vector has some of its values, in whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The first value of the first block.
    first: u64,
    /// Offset and bytes of the blocks.
    pub(super) data: (u64, u64),
    /// Offset and bytes of their checksums.
    pub(super) crcs: (u64, u64),
}

impl Place {
    /// The number of values that a stored header says there are.
    pub(super) fn read_len(header: &[u8]) -> Result<u64, DecodeError> {
        read_header(&mut Reader::new(header)).map(|(_, size)| size)
    }

    /// The place of a range, which is not empty, of a vector of `len` values.
    pub(super) fn of(range: &Range<u64>, len: u64) -> Self {
        assert!(range.start < range.end && range.end <= len, "a range of the vector");
        let bytes = len.div_ceil(PER_BYTE);
        let first_block = range.start / PER_BYTE / BLOCK;
        let end_block = (range.end - 1) / PER_BYTE / BLOCK + 1;
        let (from, to) = (first_block * BLOCK, (end_block * BLOCK).min(bytes));
        // Before the checksums are the footer's length, the header's checksum, and their count.
        let crcs = HEADER + bytes + 12 + 4 * first_block;
        Self {
            first: from * PER_BYTE,
            data: (HEADER + from, to - from),
            crcs: (crcs, 4 * (end_block - first_block)),
        }
    }

    /// True if these are the checksums of the blocks.
    pub(super) fn is_sound(&self, data: &[u8], crcs: &[u8]) -> bool {
        data.len() as u64 == self.data.1 && Self::crcs_of(data) == crcs
    }

    /// The checksums of blocks, as they are stored.
    pub(super) fn crcs_of(data: &[u8]) -> Vec<u8> {
        checksums(data).flat_map(u32::to_le_bytes).collect()
    }

    /// One value of the range, in its blocks.
    pub(super) fn get(&self, data: &[u8], i: u64) -> u8 {
        get_at(data, i - self.first)
    }

    /// Sets one value of the range, in its blocks.
    pub(super) fn set(&self, data: &mut [u8], i: u64, value: u8) {
        set_at(data, i - self.first, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(values: &[u8]) -> BitVector {
        let mut vector = BitVector::default();
        vector.resize(values.len() as u64);
        values.iter().enumerate().for_each(|(i, value)| vector.set(i as u64, *value));
        vector
    }

    #[test]
    fn the_first_value_is_in_the_highest_bits() {
        let stored = vector(&[1, 2, 3, 0, 2]).with_checksums();
        let mut wanted =
            vec![14, 0, 0, 0, 1, 1, 8, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0b0110_1100, 0b1000_0000];
        wanted.extend([12, 0, 0, 0]);
        wanted.extend(crc32c::update(0, &wanted[4..18]).to_le_bytes());
        wanted.extend([1, 0, 0, 0]);
        wanted.extend(crc32c::update(0, &[0b0110_1100, 0b1000_0000]).to_le_bytes());
        assert_eq!(stored, wanted);
        assert_eq!(Writer::encode(&vector(&[1, 2, 3, 0, 2])), [&wanted[..20], &[0; 4]].concat());
    }

    #[test]
    fn what_was_encoded_is_read_again_and_damage_is_found() {
        let vector = vector(&(0..50_000u32).map(|i| (i % 7 % 4) as u8).collect::<Vec<_>>());
        let stored = vector.with_checksums();
        assert_eq!(Reader::new(&stored).get::<BitVector>().ok(), Some(vector.clone()));
        assert_eq!(Reader::new(&Writer::encode(&vector)).get::<BitVector>().ok(), Some(vector));
        for at in [4, 11, 18, 5000, stored.len() - 1] {
            let mut damaged = stored.clone();
            damaged[at] ^= 1;
            assert!(Reader::new(&damaged).get::<BitVector>().is_err(), "byte {at}");
        }
        assert!(Reader::new(&stored[..stored.len() - 1]).get::<BitVector>().is_err());
        let mut huge = stored;
        huge[10..18].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Reader::new(&huge).get::<BitVector>().is_err());
    }

    #[test]
    fn values_beyond_the_old_length_are_zero() {
        let mut vector = vector(&[3; 7]);
        vector.resize(5);
        vector.resize(12);
        assert_eq!((0..12).map(|i| vector.get(i)).collect::<Vec<_>>(), [3, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn ranges_have_a_place_in_whole_blocks() {
        // 40,000 values are 10,000 bytes, that is three blocks.
        let place = Place::of(&(16_384..16_385), 40_000);
        assert_eq!((place.data, place.crcs), ((18 + 4096, 4096), (18 + 10_000 + 12 + 4, 4)));
        let place = Place::of(&(0..40_000), 40_000);
        assert_eq!((place.data, place.crcs), ((18, 10_000), (18 + 10_000 + 12, 12)));
        let place = Place::of(&(39_999..40_000), 40_000);
        assert_eq!((place.data, place.crcs), ((18 + 8192, 10_000 - 8192), (18 + 10_000 + 12 + 8, 4)));
    }
}
