//! Extents: the blocks of the device that hold an object's data.
//!
//! An extent says for up to 64 blocks in a row where they are and what their checksums are. It never crosses
//! a multiple of 64 blocks of the object, so that those of a range are found by one scan. What no extent
//! covers is a hole. Blocks that several extents refer to have their further references counted under `R`;
//! the extents carry a mark, which may be out of date in one direction: a marked extent may be the last.

use crate::key;
use crate::stop::{Stop, corrupt};
use crate::table::View;
use wire::{Reader, wire_structs};

wire_structs! {
    pub(crate) struct RefsValue[plain] {
        pub extra: Vec<(u8, u32)>,
    }
}

impl RefsValue {
    /// One reference more to a block of the zone.
    pub fn add(&mut self, block: u8) {
        match self.extra.binary_search_by_key(&block, |entry| entry.0) {
            Ok(at) => self.extra[at].1 += 1,
            Err(at) => self.extra.insert(at, (block, 1)),
        }
    }

    /// One reference less to a block of the zone; false if there was only one.
    pub fn remove(&mut self, block: u8) -> bool {
        let Ok(at) = self.extra.binary_search_by_key(&block, |entry| entry.0) else { return false };
        match &mut self.extra[at].1 {
            1 => drop(self.extra.remove(at)),
            more => *more -= 1,
        }
        true
    }
}

/// The most blocks of an extent; its first block is in the same window of so many as its last.
pub(crate) const WINDOW: u64 = 64;

/// Blocks of an object in a row on the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// First block of the object.
    pub block: u64,
    /// First block of the device.
    pub place: u64,
    /// True if other extents may refer to the same blocks.
    pub shared: bool,
    /// Raw crc32c of each block.
    pub crcs: Vec<u32>,
}

impl Extent {
    pub fn end(&self) -> u64 {
        self.block + self.crcs.len() as u64
    }

    /// As it is stored: place u64, shared u8, count u32, a u32 for each block.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(13 + self.crcs.len() * 4);
        out.extend_from_slice(&self.place.to_le_bytes());
        out.push(u8::from(self.shared));
        out.extend_from_slice(&(self.crcs.len() as u32).to_le_bytes());
        out.extend(self.crcs.iter().flat_map(|crc| crc.to_le_bytes()));
        out
    }

    /// The part of it within `from..to`, which must overlap.
    pub fn cut(&self, from: u64, to: u64) -> Self {
        let (from, to) = (from.max(self.block), to.min(self.end()));
        Self {
            block: from,
            place: self.place + (from - self.block),
            shared: self.shared,
            crcs: self.crcs[(from - self.block) as usize..(to - self.block) as usize].to_vec(),
        }
    }
}

/// The extents of object `id` that overlap the blocks `from..to`, in order.
pub(crate) fn extents(view: &View<'_>, id: u64, from: u64, to: u64) -> Result<Vec<Extent>, Stop> {
    find(view, id, from, to, |found| found.part(found.block, found.end()))
}

/// The parts of extents of object `id` that lie within the blocks `from..to`, in order.
pub(crate) fn parts(view: &View<'_>, id: u64, from: u64, to: u64) -> Result<Vec<Extent>, Stop> {
    find(view, id, from, to, |found| found.part(found.block.max(from), found.end().min(to)))
}

fn find(
    view: &View<'_>,
    id: u64,
    from: u64,
    to: u64,
    take: impl Fn(&Found<'_>) -> Extent,
) -> Result<Vec<Extent>, Stop> {
    let mut out = Vec::new();
    // Extents do not overlap: only the last one before can reach this far.
    let mut scan = view.scan_around(
        &key::extent(id, from - from % WINDOW),
        &key::extent(id, from),
        &key::extent(id, to),
    )?;
    while let Some((key, value)) = scan.next()? {
        let found = Found::parse(key, value).ok_or_else(|| corrupt(format!("extent of object id {id}")))?;
        // There may be some before the one that is wanted.
        if found.end() > from {
            out.push(take(&found));
        }
    }
    Ok(out)
}

/// The extent of an entry of the index.
pub(crate) fn decode_extent(key: &[u8], value: &[u8]) -> Option<Extent> {
    let found = Found::parse(key, value)?;
    Some(found.part(found.block, found.end()))
}

/// An extent in its stored form, see [`Extent::encode`].
struct Found<'a> {
    block: u64,
    place: u64,
    shared: bool,
    /// Four bytes each.
    crcs: &'a [u8],
}

impl<'a> Found<'a> {
    fn parse(key: &[u8], value: &'a [u8]) -> Option<Self> {
        let block = key::number(key, key::ATTR_NAME_AT)?;
        let (place, rest) = value.split_first_chunk::<8>()?;
        let (shared, rest) = rest.split_first()?;
        let (count, crcs) = rest.split_first_chunk::<4>()?;
        let count = u64::from(u32::from_le_bytes(*count));
        let sound = count > 0 && block % WINDOW + count <= WINDOW && crcs.len() as u64 == count * 4;
        let place = u64::from_le_bytes(*place);
        (sound && *shared <= 1).then_some(Self { block, place, shared: *shared == 1, crcs })
    }

    fn end(&self) -> u64 {
        self.block + self.crcs.len() as u64 / 4
    }

    /// The part within `from..to`, which must be inside.
    fn part(&self, from: u64, to: u64) -> Extent {
        let (skip, end) = ((from - self.block) as usize * 4, (to - self.block) as usize * 4);
        let crc = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
        Extent {
            block: from,
            place: self.place + (from - self.block),
            shared: self.shared,
            crcs: self.crcs[skip..end].chunks_exact(4).map(crc).collect(),
        }
    }
}

/// Further references of the blocks of a zone: which of 64, how many.
pub(crate) fn decode_refs(value: &[u8]) -> Result<Vec<(u8, u32)>, String> {
    let refs: RefsValue = Reader::new(value).get().map_err(|e| format!("block references: {e}"))?;
    Ok(refs.extra)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_comes_back_whole_and_in_parts_and_nonsense_does_not() {
        let extent = Extent { block: 67, place: 1 << 40, shared: true, crcs: (5..20).collect() };
        let (key, value) = (key::extent(9, extent.block), extent.encode());
        assert_eq!(decode_extent(&key, &value), Some(extent.clone()));
        let found = Found::parse(&key, &value).expect("an extent");
        assert_eq!(found.part(70, 72), extent.cut(70, 72));
        assert_eq!(decode_extent(&key::extent(9, 120), &value), None, "beyond its window");
        (0..value.len()).for_each(|cut| assert_eq!(decode_extent(&key, &value[..cut]), None, "{cut}"));
        assert_eq!(decode_extent(&key, &[&value[..], &[0]].concat()), None);
        let none = Extent { crcs: vec![], ..extent };
        assert_eq!(decode_extent(&key, &none.encode()), None);
    }
}
