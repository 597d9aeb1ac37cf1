//! The data phase of a read: blocks of the device that the index names are read and verified.

use crate::api::{ObjectKey, ObjectView, ReadClass, ReadId, ReadReply, StoreError, StoreOut};
use crate::core::Core;
use crate::crc::block_crc;
use crate::extents::{Extent, parts};
use crate::io::{Io, expect_len};
use crate::key;
use crate::onode::{Onode, inline_data};
use crate::stop::Stop;
use std::ops::Range;
use stdx::{BLOCK, Buf, Bufs};

const BLOCK_LEN: u64 = BLOCK as u64;

/// The most blocks that one disk read of a class other than the clients' takes, so that others wait no
/// longer.
const PIECE_BLOCKS: usize = 64;

/// A reply whose data is being put together.
pub(super) struct DataRead {
    object: ObjectView,
    /// The pieces of each range asked for.
    ranges: Vec<Vec<Piece>>,
    parts: Vec<Part>,
    /// Parts that have not come yet.
    missing: usize,
    /// The most blocks of a part.
    most: usize,
    error: Option<StoreError>,
}

/// A piece of a range of data.
enum Piece {
    Zeros(u64),
    Memory(Buf),
    /// Bytes of a part.
    Part(usize, Range<usize>),
}

/// Blocks that are read from the device at once.
struct Part {
    place: u64,
    /// First block of the object, for messages.
    block: u64,
    crcs: Vec<u32>,
    /// The host's memory may answer.
    cached: bool,
    bytes: Option<Buf>,
}

/// The end of the reading of a part.
pub(super) enum Ended<'a> {
    /// It is sound: its place and content.
    Sound(u64, &'a Buf),
    /// It could not be read, or is damaged.
    Failed,
    /// What the host kept is unsound: the device was asked.
    Again,
}

impl DataRead {
    /// Finds the blocks of `ranges` of an object.
    pub fn new(
        core: &Core,
        (key, onode): (&ObjectKey, &Onode),
        class: ReadClass,
        ranges: &[(u64, u64)],
    ) -> Result<Self, Stop> {
        let most = if class == ReadClass::Client { usize::MAX } else { PIECE_BLOCKS };
        let (parts, error) = (Vec::new(), None);
        let object = ObjectView::default();
        let mut data = Self { object, ranges: Vec::new(), parts, missing: 0, most, error };
        let has_inline = onode.inline && !ranges.is_empty();
        let inline = if has_inline { Buf::from(inline_data(&core.view(), onode)?) } else { Buf::empty() };
        for (offset, len) in ranges {
            let end = offset.saturating_add(*len).min(onode.size);
            data.add_range(core, (key, onode), class, &inline, *offset.min(&end)..end)?;
        }
        if data.error.is_some() {
            data.parts.clear();
        }
        data.missing = data.parts.len();
        Ok(data)
    }

    /// With the rest of the reply.
    pub fn with(self, object: ObjectView) -> Self {
        Self { object, ..self }
    }

    fn add_range(
        &mut self,
        core: &Core,
        (key, onode): (&ObjectKey, &Onode),
        class: ReadClass,
        inline: &Buf,
        Range { start: mut at, end }: Range<u64>,
    ) -> Result<(), Stop> {
        let mut pieces = Vec::new();
        let inline_end = end.min(inline.len() as u64);
        if at < inline_end {
            pieces.push(Piece::Memory(inline.slice(at as usize..inline_end as usize)));
            at = inline_end;
        }
        for extent in parts(&core.view(), onode.id, at / BLOCK_LEN, end.div_ceil(BLOCK_LEN))? {
            for i in 0..extent.crcs.len() as u64 {
                let start = (extent.block + i) * BLOCK_LEN;
                let (from, to) = (start.max(at), (start + BLOCK_LEN).min(end));
                if from >= to {
                    break;
                }
                if from > at {
                    pieces.push(Piece::Zeros(from - at));
                }
                let bytes = (from - start) as usize..(to - start) as usize;
                self.add_block(core, key, class, (&extent, i), bytes, &mut pieces);
                at = to;
            }
        }
        if end > at {
            pieces.push(Piece::Zeros(end - at));
        }
        self.ranges.push(pieces);
        Ok(())
    }

    /// Adds bytes of block number `i` of an extent: from memory if they are there, else from the device.
    fn add_block(
        &mut self,
        core: &Core,
        key: &ObjectKey,
        class: ReadClass,
        (extent, i): (&Extent, u64),
        bytes: Range<usize>,
        pieces: &mut Vec<Piece>,
    ) {
        let (place, block, crc) = (extent.place + i, extent.block + i, extent.crcs[i as usize]);
        if let Some(content) = core.unwritten(place) {
            if block_crc(&content) == crc {
                pieces.push(Piece::Memory(content.slice(bytes)));
            } else {
                self.error.get_or_insert_with(|| damaged(key, block));
            }
            return;
        }
        match core.cached_block(place, crc).filter(|_| class != ReadClass::Scrub) {
            Some(content) => pieces.push(Piece::Memory(content.slice(bytes))),
            None => self.add_part(pieces, place, block, crc, bytes),
        }
    }

    /// Adds bytes of a block of the device, to the last part if they follow it there.
    fn add_part(&mut self, pieces: &mut Vec<Piece>, place: u64, block: u64, crc: u32, range: Range<usize>) {
        if let (Some(Piece::Part(_, bytes)), Some(part)) = (pieces.last_mut(), self.parts.last_mut()) {
            // A piece that is a part is the last part: pieces and parts are added in order.
            let len = part.crcs.len();
            let follows = part.place + len as u64 == place && bytes.end == len * BLOCK && range.start == 0;
            if follows && len < self.most {
                part.crcs.push(crc);
                bytes.end += range.end;
                return;
            }
        }
        self.parts.push(Part { place, block, crcs: vec![crc], cached: false, bytes: None });
        pieces.push(Piece::Part(self.parts.len() - 1, range));
    }

    /// Starts reading the parts; `clients` is true if a client waits for something else.
    pub fn begin(
        &mut self,
        id: ReadId,
        class: ReadClass,
        clients: bool,
        io: &mut Io,
        out: &mut Vec<StoreOut>,
    ) {
        // A large read is not less so where what it reads is in many places.
        let blocks = self.parts.iter().map(|part| part.crcs.len()).sum();
        let cached = io.is_cached(class, blocks);
        for (i, part) in self.parts.iter_mut().enumerate() {
            part.cached = cached;
            let count = part.crcs.len() as u32;
            io.read_part((id, i, class), (part.place, count, cached), clients, out);
        }
    }

    /// A part was read.
    pub fn part_ended(
        &mut self,
        key: &ObjectKey,
        (id, i, class): (ReadId, usize, ReadClass),
        result: Result<Buf, StoreError>,
        io: &mut Io,
        out: &mut Vec<StoreOut>,
    ) -> Ended<'_> {
        let part = &mut self.parts[i];
        let what = || format!("{}, data at byte {}", key::describe(key), part.block * BLOCK_LEN);
        let checked = result.and_then(|buf| expect_len(buf, part.crcs.len() * BLOCK, what)).and_then(|buf| {
            let bad = buf.block_crcs().zip(&part.crcs).position(|((is, _), should)| is != *should);
            bad.map_or(Ok(buf), |bad| Err(damaged(key, part.block + bad as u64)))
        });
        if checked.is_err() && std::mem::take(&mut part.cached) {
            io.read_part((id, i, class), (part.place, part.crcs.len() as u32, false), false, out);
            return Ended::Again;
        }
        self.missing -= 1;
        match checked {
            Ok(buf) => Ended::Sound(part.place, part.bytes.insert(buf)),
            Err(error) => {
                self.error.get_or_insert(error);
                Ended::Failed
            }
        }
    }

    /// True if all parts have come.
    pub fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// The reply, once it is complete.
    pub fn take_reply(&mut self) -> Result<ReadReply, StoreError> {
        assert!(self.is_complete(), "{} parts are missing", self.missing);
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut view = std::mem::take(&mut self.object);
        for pieces in std::mem::take(&mut self.ranges) {
            let mut data = Bufs::new();
            for piece in pieces {
                data.push(match piece {
                    Piece::Zeros(len) => Buf::zeros(len as usize),
                    Piece::Memory(buf) => buf,
                    Piece::Part(i, range) => self.parts[i].bytes.as_ref().expect("read").slice(range),
                });
            }
            view.data.push(data);
        }
        Ok(ReadReply::Object(Some(view)))
    }
}

fn damaged(object: &ObjectKey, block: u64) -> StoreError {
    let at = block * BLOCK_LEN;
    StoreError::Corrupt(format!("{}, data at byte {at}: checksum does not match", key::describe(object)))
}
