//! Pages of the index tree: 8 KiB of sorted keys and values, never changed once written. A page's checksum
//! lies in the pointer to it, so that a stale or misplaced page is noticed like a damaged one.
//!
//! ```text
//! 0        4      5   6        8            16            24      32          32+2n
//! | magic  |level | 0 | n      | own block  | generation  | 0     | n x u16   | entries
//! ```
//! An entry is the length of its key, that of its value (u16 each), the key and the value.
//! Level 0 holds the index's entries; above, a value is a pointer to the page whose keys are all at least the
//! key.

use std::ops::Range;
use stdx::{Buf, BufMut, crc32c};

pub(crate) const PAGE: usize = 8192;
/// Blocks that a page takes.
pub(crate) const PAGE_BLOCKS: u64 = 2;
/// Bytes of a pointer as it is stored.
const PTR: usize = 20;
const HEADER: usize = 32;
const MAGIC: u32 = 0x4750_534e; // "NSPG"

/// The two blocks of a page, which are rarely apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    pub first: u64,
    pub second: u64,
}

impl Place {
    pub fn blocks(self) -> [u64; 2] {
        [self.first, self.second]
    }

    /// True if they are side by side.
    pub fn is_row(self) -> bool {
        self.first + 1 == self.second
    }
}

/// The address of a page and its expected checksum. The first block identifies a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ptr {
    pub block: u64,
    pub second: u64,
    pub crc: u32,
}

impl Ptr {
    pub fn to_bytes(self) -> Vec<u8> {
        [&self.block.to_le_bytes()[..], &self.second.to_le_bytes(), &self.crc.to_le_bytes()].concat()
    }

    pub fn place(self) -> Place {
        Place { first: self.block, second: self.second }
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (block, rest) = bytes.split_first_chunk::<8>()?;
        let (second, crc) = rest.split_first_chunk::<8>()?;
        let (block, second) = (u64::from_le_bytes(*block), u64::from_le_bytes(*second));
        Some(Self { block, second, crc: u32::from_le_bytes(crc.try_into().ok()?) })
    }
}

/// A checked page.
#[derive(Clone)]
pub(crate) struct Page {
    bytes: Buf,
    count: usize,
    crc: u32,
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

impl Page {
    /// Takes what was read from `ptr`, of a page that must be of `level`. All later access relies on these
    /// checks.
    pub fn parse(bytes: Buf, ptr: Ptr, level: u8) -> Result<Self, String> {
        let bad = |what: &str| Err(format!("index page at block {}: {what}", ptr.block));
        if bytes.len() != PAGE {
            return bad("cut off");
        }
        // Over the bytes as they are: combining the sums of its blocks takes longer.
        if crc32c::update(0, &bytes) != ptr.crc {
            return bad("checksum does not match");
        }
        Self::check(bytes, ptr, level)
    }

    /// The same for a page whose checksum is known to be right.
    fn check(bytes: Buf, ptr: Ptr, level: u8) -> Result<Self, String> {
        let bad = |what: &str| Err(format!("index page at block {}: {what}", ptr.block));
        let own = u64::from_le_bytes(bytes[8..16].try_into().expect("8 bytes"));
        if bytes[..4] != MAGIC.to_le_bytes() || own != ptr.block || bytes[4] != level {
            return bad("not the page that belongs here");
        }
        let count = u16_at(&bytes, 6);
        let mut at = HEADER + 2 * count;
        let mut last: Option<&[u8]> = None;
        for i in 0..count {
            if at + 4 > PAGE || u16_at(&bytes, HEADER + 2 * i) != at {
                return bad("entries overlap");
            }
            let (key_len, value_len) = (u16_at(&bytes, at), u16_at(&bytes, at + 2));
            let end = at + 4 + key_len + value_len;
            if end > PAGE || level > 0 && value_len != PTR {
                return bad("an entry of a wrong length");
            }
            let key = &bytes[at + 4..at + 4 + key_len];
            if last.is_some_and(|last| last >= key) {
                return bad("keys out of order");
            }
            last = Some(key);
            at = end;
        }
        Ok(Self { bytes, count, crc: ptr.crc })
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn crc(&self) -> u32 {
        self.crc
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.end_of(self.count)
    }

    /// The offset at which the first `n` entries end and the next one begins.
    fn end_of(&self, n: usize) -> usize {
        if n < self.count {
            return u16_at(&self.bytes, HEADER + 2 * n);
        }
        let Some(last) = n.checked_sub(1) else { return HEADER };
        let at = u16_at(&self.bytes, HEADER + 2 * last);
        at + 4 + u16_at(&self.bytes, at) + u16_at(&self.bytes, at + 2)
    }

    /// The bytes that these entries would take of another page.
    pub fn size_of(&self, entries: &Range<usize>) -> usize {
        2 * entries.len() + self.end_of(entries.end) - self.end_of(entries.start)
    }

    /// The number of these entries, from the first, that fit `room` bytes of another page.
    pub fn fit(&self, entries: &Range<usize>, room: usize) -> usize {
        let (mut low, mut high) = (0, entries.len());
        while low < high {
            let middle = (low + high).div_ceil(2);
            if self.size_of(&(entries.start..entries.start + middle)) <= room {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    /// Key and value number `i`.
    pub fn entry(&self, i: usize) -> (&[u8], &[u8]) {
        assert!(i < self.count, "entry {i} of {}", self.count);
        let at = u16_at(&self.bytes, HEADER + 2 * i);
        let (key_len, value_len) = (u16_at(&self.bytes, at), u16_at(&self.bytes, at + 2));
        let key = at + 4;
        (&self.bytes[key..key + key_len], &self.bytes[key + key_len..key + key_len + value_len])
    }

    /// The number of entries with keys less than `key`.
    pub fn search(&self, key: &[u8]) -> usize {
        let bytes: &[u8] = &self.bytes;
        let key_of = |i: usize| {
            let at = u16_at(bytes, HEADER + 2 * i);
            &bytes[at + 4..at + 4 + u16_at(bytes, at)]
        };
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            if key_of(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let i = self.search(key);
        (i < self.count && self.entry(i).0 == key).then(|| self.entry(i).1)
    }

    /// Which child holds `key`. Keys below the first child's belong to the first.
    pub fn child_index(&self, key: &[u8]) -> usize {
        let i = self.search(key);
        if i < self.count && self.entry(i).0 == key { i } else { i.saturating_sub(1) }
    }

    /// Pointer number `i` of a page above level 0.
    pub fn child(&self, i: usize) -> Ptr {
        Ptr::from_bytes(self.entry(i).1).expect("checked when parsed")
    }
}

/// The bytes that an entry takes of a page.
pub(crate) fn entry_size(key: &[u8], value: &[u8]) -> usize {
    2 + 4 + key.len() + value.len()
}

/// The bytes that entries may take of a page in all.
pub(crate) const CAPACITY: usize = PAGE - HEADER;

/// A component of a page under construction, in order.
pub(crate) enum Piece<'a> {
    Entry(&'a [u8], &'a [u8]),
    /// Entries as they are on another page; at least one.
    Run(&'a Page, Range<usize>),
}

impl<'a> Piece<'a> {
    fn count(&self) -> usize {
        match self {
            Self::Entry(..) => 1,
            Self::Run(_, entries) => entries.len(),
        }
    }

    pub fn first_key(&self) -> &'a [u8] {
        match self {
            Self::Entry(key, _) => key,
            Self::Run(page, entries) => page.entry(entries.start).0,
        }
    }

    pub fn last_key(&self) -> &'a [u8] {
        match self {
            Self::Entry(key, _) => key,
            Self::Run(page, entries) => page.entry(entries.end - 1).0,
        }
    }
}

/// Makes a page of sorted entries that fit, and the pointer to it.
pub(crate) fn build<'a>(
    level: u8,
    place: Place,
    generation: u64,
    pieces: impl Iterator<Item = Piece<'a>> + Clone,
) -> (Ptr, Page) {
    let mut page = BufMut::zeroed(PAGE);
    let bytes = page.as_mut_slice();
    let count = pieces.clone().map(|piece| piece.count()).sum();
    bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[4] = level;
    bytes[6..8].copy_from_slice(&(count as u16).to_le_bytes());
    bytes[8..16].copy_from_slice(&place.first.to_le_bytes());
    bytes[16..24].copy_from_slice(&generation.to_le_bytes());
    let (mut slot, mut at) = (HEADER, HEADER + 2 * count);
    for piece in pieces {
        match piece {
            Piece::Entry(key, value) => {
                bytes[slot..slot + 2].copy_from_slice(&(at as u16).to_le_bytes());
                slot += 2;
                bytes[at..at + 2].copy_from_slice(&(key.len() as u16).to_le_bytes());
                bytes[at + 2..at + 4].copy_from_slice(&(value.len() as u16).to_le_bytes());
                bytes[at + 4..at + 4 + key.len()].copy_from_slice(key);
                at += 4 + key.len();
                bytes[at..at + value.len()].copy_from_slice(value);
                at += value.len();
            }
            Piece::Run(from, entries) => {
                let taken = from.end_of(entries.start)..from.end_of(entries.end);
                for i in entries {
                    let moved = (u16_at(&from.bytes, HEADER + 2 * i) - taken.start + at) as u16;
                    bytes[slot..slot + 2].copy_from_slice(&moved.to_le_bytes());
                    slot += 2;
                }
                bytes[at..at + taken.len()].copy_from_slice(&from.bytes[taken.clone()]);
                at += taken.len();
            }
        }
    }
    let bytes = page.freeze();
    let ptr = Ptr { block: place.first, second: place.second, crc: crc32c::update(0, &bytes) };
    debug_assert_eq!(Page::check(bytes.clone(), ptr, level).err(), None, "a page just built");
    (ptr, Page { bytes, count, crc: ptr.crc })
}

impl Page {
    /// The content to write.
    pub fn bytes(&self) -> &Buf {
        &self.bytes
    }

    /// The same, block by block.
    pub fn halves(&self) -> [Buf; 2] {
        [self.bytes.slice(0..PAGE / 2), self.bytes.slice(PAGE / 2..PAGE)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Ptr, Page) {
        let entries: Vec<(Vec<u8>, Vec<u8>)> =
            (0..100u8).map(|i| (vec![b'k', i * 2], vec![i; usize::from(i)])).collect();
        build(0, Place { first: 42, second: 43 }, 7, entries.iter().map(|(k, v)| Piece::Entry(k, v)))
    }

    #[test]
    fn runs_of_entries_are_taken_as_they_are() {
        let (_, page) = sample();
        let place = Place { first: 9, second: 10 };
        let pieces =
            [Piece::Run(&page, 0..20), Piece::Entry(b"k\x29", b"between"), Piece::Run(&page, 21..100)];
        let size: usize =
            page.size_of(&(0..20)) + entry_size(b"k\x29", b"between") + page.size_of(&(21..100));
        let (ptr, joined) = build(
            0,
            place,
            8,
            pieces.iter().map(|p| match p {
                Piece::Entry(k, v) => Piece::Entry(k, v),
                Piece::Run(page, entries) => Piece::Run(page, entries.clone()),
            }),
        );
        let joined = Page::parse(joined.bytes().clone(), ptr, 0).expect("sound");
        assert_eq!((joined.count(), joined.used()), (100, PAGE - CAPACITY + size));
        for i in 0..100 {
            match i {
                20 => assert_eq!(joined.entry(i), (&b"k\x29"[..], &b"between"[..])),
                _ => assert_eq!(joined.entry(i), page.entry(i)),
            }
        }
        assert_eq!((pieces[0].first_key(), pieces[2].last_key()), (page.entry(0).0, page.entry(99).0));
    }

    #[test]
    fn as_many_entries_fit_as_their_bytes_allow() {
        let (_, page) = sample();
        for (entries, room) in [(0..100, 0), (0..100, 700), (5..40, 333), (5..40, 8000), (98..100, 105)] {
            let fit = page.fit(&entries, room);
            let size = |n: usize| -> usize {
                (entries.start..entries.start + n).map(|i| entry_size(page.entry(i).0, page.entry(i).1)).sum()
            };
            assert!(
                size(fit) <= room && (fit == entries.len() || size(fit + 1) > room),
                "{entries:?}, {room}"
            );
        }
    }

    #[test]
    fn finds_what_was_put() {
        let (_, page) = sample();
        assert_eq!(page.count(), 100);
        assert_eq!(page.get(&[b'k', 20]), Some(&[10; 10][..]));
        assert_eq!(page.get(&[b'k', 21]), None);
        assert_eq!((page.search(b""), page.search(b"z"), page.search(&[b'k', 21])), (0, 100, 11));
        assert_eq!(
            (page.child_index(b""), page.child_index(&[b'k', 21]), page.child_index(b"z")),
            (0, 10, 99)
        );
        let sizes: usize = (0..100).map(|i| entry_size(page.entry(i).0, page.entry(i).1)).sum();
        assert_eq!(page.used(), PAGE - CAPACITY + sizes);
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let (ptr, page) = sample();
        for at in 0..PAGE {
            let mut bytes = page.bytes().to_vec();
            bytes[at] ^= 0x10;
            assert!(Page::parse(Buf::from(bytes), ptr, 0).is_err(), "byte {at}");
        }
        assert!(Page::parse(page.bytes().clone(), ptr, 1).is_err(), "another level");
        assert!(Page::parse(page.bytes().clone(), Ptr { block: 43, ..ptr }, 0).is_err(), "another place");
    }

    #[test]
    fn nonsense_under_a_right_checksum_is_refused() {
        let mut rng = stdx::Rng::from_seed(5);
        let (_, page) = sample();
        for _ in 0..2000 {
            let mut bytes = page.bytes().to_vec();
            for _ in 0..3 {
                let at = rng.below(400) as usize;
                bytes[at] = rng.u32() as u8;
            }
            let ptr = Ptr { block: 42, second: 43, crc: crc32c::update(0, &bytes) };
            if let Ok(page) = Page::parse(Buf::from(bytes), ptr, 0) {
                assert!((0..page.count()).all(|i| page.entry(i).0.len() < PAGE));
            }
        }
    }
}
