//! Reads: first everything about the object that the index says, in one go and of one state, then the data.

use crate::api::{
    ObjectKey, ObjectView, OmapRange, Read, ReadClass, ReadId, ReadReply, StoreError, StoreOut,
};
use crate::extents::{block_crc, parts};
use crate::io::{Io, expect_len};
use crate::key;
use crate::logged::Logged;
use crate::plan::{Cell, Onode, decode};
use crate::steps::inline_data;
use crate::store::{Core, Store};
use crate::table::View;
use crate::tree::{Stop, corrupt};
use stdx::{BLOCK, Buf, Bufs};

const BLOCK_LEN: u64 = BLOCK as u64;

/// Leaves that a list asks for before it needs them, at most.
const AHEAD: usize = 32;
/// A leaf holds about so many names.
const NAMES_OF_PAGE: usize = 64;

/// Blocks that a read which is not a client's has of the device in one go: who comes after it waits for no more.
const PIECE: usize = 64;

/// A read in progress.
pub(crate) struct Job {
    read: Read,
    class: ReadClass,
    /// It sees the first so many transactions of this life.
    mark: u64,
    stage: Stage,
    /// How often it had to wait for a page.
    stops: usize,
    /// The names that a list has found so far. Nothing that it must not see is applied before it is complete.
    listed: Vec<ObjectKey>,
}

enum Stage {
    /// Reading the index; waiting for a page at this block.
    Index(Option<u64>),
    /// Reading data: the rest of the answer, and how many parts are missing.
    Data(Box<Data>, usize),
}

struct Data {
    view: ObjectView,
    ranges: Vec<Vec<Piece>>,
    parts: Vec<Part>,
    /// The most blocks of a part.
    most: usize,
    error: Option<StoreError>,
}

/// A piece of a range of data.
enum Piece {
    Zeros(u64),
    Memory(Buf),
    /// Bytes of a part.
    Part(usize, std::ops::Range<usize>),
}

/// Blocks to be read from the device in one go.
struct Part {
    place: u64,
    /// First block of the object, for messages.
    block: u64,
    crcs: Vec<u32>,
    bytes: Option<Buf>,
}

/// What the index gave.
enum Outcome {
    Done(ReadReply),
    Data(Box<Data>),
}

impl Job {
    pub fn new(read: Read, class: ReadClass, mark: u64) -> Self {
        Self { read, class, mark, stage: Stage::Index(None), stops: 0, listed: Vec::new() }
    }

    /// How often it had to wait for a page of the index, if it still looks there.
    pub fn stops(&self) -> usize {
        if matches!(self.stage, Stage::Index(_)) { self.stops } else { 0 }
    }

    /// Whether something that it waited for has come.
    fn is_due(&self, io: &Io) -> bool {
        match &self.stage {
            Stage::Data(_, missing) => *missing == 0,
            Stage::Index(page) => !page.is_some_and(|block| io.is_loading(block)),
        }
    }

    pub fn object(&self) -> Option<&ObjectKey> {
        match &self.read {
            Read::Object { key, .. } | Read::Extents { key, .. } => Some(key),
            Read::List { .. } => None,
        }
    }

    /// Whether it must look into the index before transaction `number` of this life is applied: a read sees what was
    /// submitted before it and nothing later.
    pub fn is_before(&self, number: u64, txn: &Logged) -> bool {
        matches!(self.stage, Stage::Index(_))
            && self.mark <= number
            && self.object().is_none_or(|object| txn.steps.iter().any(|step| step.touches(object)))
    }

    /// A part was read; gives its place and content where it is sound.
    pub fn part_ended(&mut self, i: usize, result: Result<Buf, StoreError>) -> Option<(u64, &Buf)> {
        let Self { read: Read::Object { key, .. }, stage: Stage::Data(data, missing), .. } = self else {
            unreachable!("only reads of objects have parts");
        };
        *missing -= 1;
        let part = &mut data.parts[i];
        let what = || format!("{}, data at byte {}", key::describe(key), part.block * BLOCK_LEN);
        let checked = result.and_then(|buf| expect_len(buf, part.crcs.len() * BLOCK, what)).and_then(|buf| {
            let bad = buf.block_crcs().zip(&part.crcs).position(|((is, _), should)| is != *should);
            match bad {
                None => Ok(buf),
                Some(bad) => Err(damaged(key, part.block + bad as u64)),
            }
        });
        match checked {
            Ok(buf) => Some((part.place, &*part.bytes.insert(buf))),
            Err(error) => {
                data.error.get_or_insert(error);
                None
            }
        }
    }
}

fn damaged(object: &ObjectKey, block: u64) -> StoreError {
    let text =
        format!("{}, data at byte {}: checksum does not match", key::describe(object), block * BLOCK_LEN);
    StoreError::Corrupt(text)
}

impl Data {
    fn finish(self) -> Result<ReadReply, StoreError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut view = self.view;
        for pieces in self.ranges {
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

impl Store {
    /// Carries on all reads that can be.
    pub(crate) fn run_reads(&mut self, out: &mut Vec<StoreOut>) -> bool {
        let due = self.reads.iter().filter(|(_, job)| job.is_due(&self.io));
        let ids: Vec<_> = due.map(|(id, _)| *id).collect();
        let mut progress = false;
        for id in ids {
            let job = &self.reads[&id];
            match &job.stage {
                Stage::Data(_, 0) => {
                    let Stage::Data(data, _) = self.reads.remove(&id).expect("looked at").stage else {
                        unreachable!("just matched");
                    };
                    out.push(StoreOut::Read(id, data.finish()));
                }
                // Another read of this round may have asked for the page.
                Stage::Index(waits) if !waits.is_some_and(|block| self.io.is_loading(block)) => {
                    if self.commit.is_pending(job.mark, job.object()) {
                        continue;
                    }
                    let job = self.reads.get_mut(&id).expect("looked at");
                    let class = job.class;
                    match self.core.look_up(&job.read, class, &mut job.listed) {
                        Ok(Outcome::Done(reply)) => {
                            self.reads.remove(&id);
                            out.push(StoreOut::Read(id, Ok(reply)));
                        }
                        Ok(Outcome::Data(data)) => {
                            let clients = self.commit.has_unlogged();
                            for (i, part) in data.parts.iter().enumerate() {
                                let count = part.crcs.len() as u32;
                                self.io.read_part((id, i, class), part.place, count, clients, out);
                            }
                            let missing = data.parts.len();
                            self.reads.get_mut(&id).expect("looked at").stage = Stage::Data(data, missing);
                        }
                        Err(stop) => {
                            let block = if let Stop::Page(ptr, _) = &stop { Some(ptr.block) } else { None };
                            let job = self.reads.get_mut(&id).expect("looked at");
                            job.stage = Stage::Index(block);
                            job.stops += 1;
                            // Damage is the answer to this read; others may not need that page.
                            if let Err(error) = self.wait_for(stop, out) {
                                self.reads.remove(&id);
                                out.push(StoreOut::Read(id, Err(error)));
                            } else {
                                self.read_ahead(id, out);
                            }
                        }
                    }
                }
                _ => continue,
            }
            progress = true;
        }
        progress
    }
}

impl Store {
    /// Asks for the leaves that a list will come to next.
    fn read_ahead(&mut self, id: ReadId, out: &mut Vec<StoreOut>) {
        let Some(Job { read: Read::List { from, max, .. }, listed, .. }) = self.reads.get(&id) else {
            return;
        };
        let pages = (max.saturating_sub(listed.len()) / NAMES_OF_PAGE).min(AHEAD);
        let at = key::object(listed.last().unwrap_or(from));
        let Core { tree, cache, .. } = &self.core;
        let next = tree.leaves_after(cache, &at, pages);
        for ptr in next {
            // What can't be read is said when it is needed.
            let _ = self.io.load(ptr, 0, out);
        }
    }
}

impl Core {
    fn look_up(&self, read: &Read, class: ReadClass, listed: &mut Vec<ObjectKey>) -> Result<Outcome, Stop> {
        let view = self.view();
        match read {
            Read::List { from, to, max } => {
                list(&view, from, to, *max, listed)?;
                Ok(Outcome::Done(ReadReply::List(std::mem::take(listed))))
            }
            Read::Extents { key, offset, len } => {
                let extents = match onode(&view, key)? {
                    None => None,
                    Some(onode) => Some(written(&view, &onode, *offset, *len)?),
                };
                Ok(Outcome::Done(ReadReply::Extents(extents)))
            }
            Read::Object { key, attrs, data, omap_header, omap_keys, omap_range } => {
                let Some(onode) = onode(&view, key)? else {
                    return Ok(Outcome::Done(ReadReply::Object(None)));
                };
                let mut found = ObjectView { size: onode.size, ..ObjectView::default() };
                if *attrs {
                    let prefix = key::attr(onode.id, b"");
                    let mut scan = view.scan(&prefix, &key::end_of(&prefix));
                    while let Some((key, cell)) = scan.next()? {
                        found
                            .attrs
                            .push((key[key::ATTR_NAME_AT..].to_vec(), Cell::parse(cell)?.load(&view)?));
                    }
                }
                if *omap_header && let Some(cell) = view.get(&key::header(onode.id))? {
                    found.omap_header = Cell::parse(&cell)?.load(&view)?;
                }
                if onode.omap != 0 {
                    omap(&view, &onode, omap_keys, omap_range.as_ref(), &mut found)?;
                }
                self.data(key, &onode, class, data, found)
            }
        }
    }

    /// Finds where ranges of data are.
    fn data(
        &self,
        object: &ObjectKey,
        onode: &Onode,
        class: ReadClass,
        ranges: &[(u64, u64)],
        view: ObjectView,
    ) -> Result<Outcome, Stop> {
        let most = if class == ReadClass::Client { usize::MAX } else { PIECE };
        let mut data = Box::new(Data { view, ranges: Vec::new(), parts: Vec::new(), most, error: None });
        let inline = if onode.inline && !ranges.is_empty() {
            Buf::from(inline_data(&self.view(), onode)?)
        } else {
            Buf::empty()
        };
        for (offset, len) in ranges {
            let end = offset.saturating_add(*len).min(onode.size);
            let mut at = *offset.min(&end);
            let mut pieces = Vec::new();
            let inline_end = end.min(inline.len() as u64);
            if at < inline_end {
                pieces.push(Piece::Memory(inline.slice(at as usize..inline_end as usize)));
                at = inline_end;
            }
            for extent in parts(&self.view(), onode.id, at / BLOCK_LEN, end.div_ceil(BLOCK_LEN))? {
                for (i, crc) in extent.crcs.iter().enumerate() {
                    let block = extent.block + i as u64;
                    let (from, to) = ((block * BLOCK_LEN).max(at), ((block + 1) * BLOCK_LEN).min(end));
                    if from >= to {
                        break;
                    }
                    if from > at {
                        pieces.push(Piece::Zeros(from - at));
                    }
                    let range = (from - block * BLOCK_LEN) as usize..(to - block * BLOCK_LEN) as usize;
                    let place = extent.place + i as u64;
                    match self.unwritten(place) {
                        Some(content) if block_crc(&content) == *crc => {
                            pieces.push(Piece::Memory(content.slice(range)))
                        }
                        Some(_) => drop(data.error.get_or_insert(damaged(object, block))),
                        None => match self.blocks.get(place, *crc).filter(|_| class != ReadClass::Scrub) {
                            Some(content) => pieces.push(Piece::Memory(content.slice(range))),
                            None => data.add(&mut pieces, place, block, *crc, range),
                        },
                    }
                    at = to;
                }
            }
            if end > at {
                pieces.push(Piece::Zeros(end - at));
            }
            data.ranges.push(pieces);
        }
        if data.error.is_some() {
            data.parts.clear();
        }
        if data.parts.is_empty() {
            return data.finish().map(Outcome::Done).map_err(Stop::Error);
        }
        Ok(Outcome::Data(data))
    }

    /// The content of a block that is not on the device yet.
    fn unwritten(&self, place: u64) -> Option<Buf> {
        let frozen = || self.frozen.as_ref().and_then(|f| f.unwritten.get(&place));
        self.active.unwritten.get(&place).or_else(frozen).cloned().or_else(|| self.writing.get(place))
    }
}

impl Data {
    /// Adds bytes of a block of the device, to the last part where they follow it.
    fn add(
        &mut self,
        pieces: &mut Vec<Piece>,
        place: u64,
        block: u64,
        crc: u32,
        range: std::ops::Range<usize>,
    ) {
        if let (Some(Piece::Part(_, bytes)), Some(part)) = (pieces.last_mut(), self.parts.last_mut()) {
            // A piece that is a part is the last part: pieces and parts are added in order.
            let len = part.crcs.len();
            if len < self.most
                && part.place + len as u64 == place
                && bytes.end == len * BLOCK
                && range.start == 0
            {
                part.crcs.push(crc);
                bytes.end += range.end;
                return;
            }
        }
        self.parts.push(Part { place, block, crcs: vec![crc], bytes: None });
        pieces.push(Piece::Part(self.parts.len() - 1, range));
    }
}

pub(crate) fn onode(view: &View<'_>, object: &ObjectKey) -> Result<Option<Onode>, Stop> {
    match view.get(&key::object(object))? {
        None => Ok(None),
        Some(bytes) => decode(&bytes, || key::describe(object)).map(Some),
    }
}

/// Goes on with a list.
fn list(
    view: &View<'_>,
    from: &ObjectKey,
    to: &ObjectKey,
    max: usize,
    out: &mut Vec<ObjectKey>,
) -> Result<(), Stop> {
    let from = match out.last() {
        // The next possible key.
        Some(last) => key::after(&key::object(last)),
        None => key::object(from),
    };
    let mut scan = view.scan(&from, &key::object(to));
    while out.len() < max
        && let Some((key, _)) = scan.next()?
    {
        out.push(key::parse_object(key).ok_or_else(|| corrupt("the name of an object in the index"))?);
    }
    Ok(())
}

/// The parts of a range that are not holes, in bytes.
fn written(view: &View<'_>, onode: &Onode, offset: u64, len: u64) -> Result<Vec<(u64, u64)>, Stop> {
    let end = offset.saturating_add(len).min(onode.size);
    let mut out: Vec<(u64, u64)> = Vec::new();
    if offset >= end {
        return Ok(out);
    }
    if onode.inline {
        let end = end.min(inline_data(view, onode)?.len() as u64);
        out.extend((offset < end).then(|| (offset, end - offset)));
        return Ok(out);
    }
    for extent in parts(view, onode.id, offset / BLOCK_LEN, end.div_ceil(BLOCK_LEN))? {
        let (from, to) = ((extent.block * BLOCK_LEN).max(offset), (extent.end() * BLOCK_LEN).min(end));
        match out.last_mut() {
            Some((at, len)) if *at + *len == from => *len += to - from,
            _ => out.push((from, to - from)),
        }
    }
    Ok(out)
}

fn omap(
    view: &View<'_>,
    onode: &Onode,
    keys: &[Vec<u8>],
    range: Option<&OmapRange>,
    found: &mut ObjectView,
) -> Result<(), Stop> {
    let mut keys: Vec<&Vec<u8>> = keys.iter().collect();
    keys.sort();
    keys.dedup();
    for name in keys {
        if let Some(cell) = view.get(&key::omap(onode.omap, name))? {
            found.omap_values.push((name.clone(), Cell::parse(&cell)?.load(view)?));
        }
    }
    let Some(range) = range else { return Ok(()) };
    let prefix = key::omap(onode.omap, &range.prefix);
    let mut from = prefix.clone();
    if let Some(after) = &range.after {
        // The next possible key.
        from = from.max(key::after(&key::omap(onode.omap, after)));
    }
    let mut scan = view.scan(&from, &key::end_of(&prefix));
    let mut bytes = 0;
    while let Some((key, cell)) = scan.next()? {
        let cell = Cell::parse(cell)?;
        let name = key[key::OMAP_KEY_AT..].to_vec();
        bytes += name.len() + cell.len() as usize;
        let full = !found.omap_entries.is_empty() && bytes > range.max_bytes;
        if full || found.omap_entries.len() >= range.max {
            found.omap_more = true;
            return Ok(());
        }
        found.omap_entries.push((name, cell.load(view)?));
    }
    Ok(())
}
