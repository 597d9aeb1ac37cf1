//! Opening: find the superblock, walk the index above its leaves to learn where its pages are, load the map of blocks,
//! read the log, apply what the index does not contain.
//!
//! The log is read twice, piece by piece: first to find its end and where large writes are, whose places nothing else may
//! take; then to apply it. Neither holds more of it than a piece and a record. What is after its end is read too, because a
//! later record there means that the end is none. A store that was closed in order has no log to read.

use crate::alloc::Alloc;
use crate::api::{StoreError, StoreOut};
use crate::checkpoint::SPACE_CHUNK;
use crate::config::MkfsInfo;
use crate::io::{Io, Purpose};
use crate::key::{self, Key};
use crate::logged::Step;
use crate::page::Ptr;
use crate::ring::{Look, Record, Ring};
use crate::store::{State, Store};
use crate::superblock::{COPIES, Found, Super};
use crate::tree::{Stop, corrupt};
use std::collections::BTreeMap;
use stdx::{BLOCK, Buf};

/// The log is read in pieces of so many bytes.
const LOG_PIECE: u64 = 1 << 20;
/// A table may be as large as this part of the device.
const TABLE_SHARE: usize = 64;
/// Pages asked for at once while walking the index.
const WALK: usize = 16;

enum Phase {
    /// What an earlier process wrote must be durable before it is believed.
    Flush,
    Superblocks,
    /// Making the log of a new store blank, from this byte on.
    Blank(u64),
    /// Writing (even) and flushing (odd) the superblocks of a new store.
    Make(usize),
    /// Writing (even) and flushing (odd) the superblocks of a store whose device has grown.
    Grow(usize),
    /// Pages above the leaves yet to be looked at, with their levels.
    Walk(Vec<(Ptr, u8)>),
    /// The map of blocks, from this key on.
    Space(Key),
    /// Looking for the end of the log.
    Scan(LogReader),
    /// Data that the last log record refers to.
    Verify(LogReader),
    /// Looking at what follows the end.
    Tail(LogReader),
    Replay(LogReader),
}

/// Goes through the log.
struct LogReader {
    /// Where the next record is expected, and its number.
    pos: u64,
    seq: u64,
    /// What the ring holds from `pos` on, as far as it was read.
    bytes: Vec<u8>,
    /// The last record found; later, where its large writes lack their data, until it is known whether it was ever durable.
    last: Option<Record>,
}

impl LogReader {
    fn new(ring: &Ring) -> Self {
        let (pos, seq) = ring.next();
        Self { pos, seq, bytes: Vec::new(), last: None }
    }

    /// The next record; `More` where it was not read yet.
    fn next(&mut self, ring: &Ring) -> Look {
        let look = ring.look(&self.bytes, self.pos, self.seq);
        if let Look::Record(record) = &look {
            self.skip(record.len);
            self.seq += 1;
        }
        look
    }

    fn skip(&mut self, len: u64) {
        self.bytes.drain(..len as usize);
        self.pos += len;
    }
}

pub(crate) struct Opening {
    mkfs: Option<MkfsInfo>,
    phase: Phase,
    /// Operations under way.
    pending: usize,
    /// What was read, by the number given.
    read: BTreeMap<usize, Buf>,
    /// The number of the first record that is not in the log.
    log_end: u64,
    /// The store is new.
    made: bool,
}

impl Opening {
    pub fn begin(mkfs: Option<MkfsInfo>, io: &mut Io, out: &mut Vec<StoreOut>) -> Self {
        io.flush(Purpose::Open(0), out);
        Self { mkfs, phase: Phase::Flush, pending: 1, read: BTreeMap::new(), log_end: 0, made: false }
    }

    pub fn ended(&mut self, part: usize, result: Result<Buf, StoreError>) -> Result<(), StoreError> {
        let is_data = matches!(self.phase, Phase::Verify(_));
        let bytes = result.or_else(|error| if is_data { Ok(Buf::default()) } else { Err(error) })?;
        self.pending -= 1;
        self.read.insert(part, bytes);
        Ok(())
    }

    fn ask(&mut self, offset: u64, len: u64, io: &mut Io, out: &mut Vec<StoreOut>) {
        io.read(Purpose::Open(self.pending), offset, len as usize, out);
        self.pending += 1;
    }

    fn take(&mut self) -> Vec<Buf> {
        std::mem::take(&mut self.read).into_values().collect()
    }
}

impl Store {
    /// One step of opening; whether there was progress.
    pub(crate) fn step_open(&mut self, out: &mut Vec<StoreOut>) -> Result<bool, StoreError> {
        let State::Opening(mut opening) = std::mem::replace(&mut self.state, State::New) else {
            unreachable!("only while opening");
        };
        let progress = if opening.pending > 0 { Ok(false) } else { self.advance_open(&mut opening, out) };
        if matches!(self.state, State::New) {
            self.state = State::Opening(opening);
        }
        match progress {
            Ok(progress) => Ok(progress),
            Err(stop) => self.wait_for(stop, out).map(|()| false),
        }
    }

    fn advance_open(&mut self, opening: &mut Opening, out: &mut Vec<StoreOut>) -> Result<bool, Stop> {
        match &mut opening.phase {
            Phase::Flush => {
                opening.take();
                for offset in COPIES {
                    opening.ask(offset, BLOCK as u64, &mut self.io, out);
                }
                opening.phase = Phase::Superblocks;
            }
            Phase::Superblocks => self.find_super(opening)?,
            Phase::Blank(_) => self.make_blank(opening, out),
            Phase::Make(step) => match *step {
                0..4 => {
                    // The second copy first: where the first one is valid, the store is complete.
                    match *step {
                        0 | 2 => {
                            let offset = COPIES[1 - *step / 2];
                            self.io.write(Purpose::Open(0), offset, self.sup.encode_block(), out);
                        }
                        _ => self.io.flush(Purpose::Open(0), out),
                    }
                    *step += 1;
                    opening.pending += 1;
                }
                _ => {
                    opening.made = true;
                    self.use_super(opening)?;
                }
            },
            Phase::Grow(_) => self.grow(opening, out)?,
            Phase::Walk(todo) => match todo.pop() {
                None => opening.phase = Phase::Space(Key::of([b"F"])),
                Some((ptr, level)) => {
                    if let Err(stop) = self.walk(ptr, level, todo) {
                        todo.push((ptr, level));
                        for (ptr, level) in todo.iter().rev().take(WALK) {
                            if self.core.cache.get(*ptr).is_none() {
                                self.io.load(*ptr, *level, out)?;
                            }
                        }
                        return Err(stop);
                    }
                }
            },
            Phase::Space(from) => {
                if self.load_space(from)? {
                    if self.sup.clean || opening.made {
                        self.begin_log();
                        self.state = State::Open;
                        out.push(StoreOut::Opened);
                    } else {
                        opening.phase = Phase::Scan(LogReader::new(&self.ring()));
                    }
                }
            }
            Phase::Scan(_) | Phase::Verify(_) | Phase::Tail(_) => self.scan_log(opening, out)?,
            Phase::Replay(_) => return self.step_replay(opening, out),
        }
        Ok(true)
    }

    /// Overwrites what of the log's place is not zeros, piece by piece.
    fn make_blank(&mut self, opening: &mut Opening, out: &mut Vec<StoreOut>) {
        let Phase::Blank(from) = opening.phase else { unreachable!("only while making a store") };
        let left = self.sup.log_bytes - from;
        let place = self.sup.log_offset() + from;
        match opening.take().first() {
            Some(bytes) => {
                if bytes.iter().any(|b| *b != 0) {
                    self.io.write(Purpose::Open(0), place, Buf::zeros(bytes.len()), out);
                    opening.pending += 1;
                }
                opening.phase = Phase::Blank(from + bytes.len() as u64);
            }
            None if left > 0 => opening.ask(place, LOG_PIECE.min(left), &mut self.io, out),
            None => opening.phase = Phase::Make(0),
        }
    }

    /// Says on the device that it is larger, step by step.
    fn grow(&mut self, opening: &mut Opening, out: &mut Vec<StoreOut>) -> Result<(), Stop> {
        let Phase::Grow(step) = &mut opening.phase else { unreachable!("only while growing") };
        match *step {
            0 | 2 => self.io.write(Purpose::Open(0), COPIES[*step / 2], self.sup.encode_block(), out),
            1 | 3 => self.io.flush(Purpose::Open(0), out),
            _ => {
                self.sup_behind = false;
                return self.use_super(opening);
            }
        }
        *step += 1;
        opening.pending += 1;
        Ok(())
    }

    fn find_super(&mut self, opening: &mut Opening) -> Result<(), Stop> {
        let found: Vec<Found> = opening.take().iter().map(|block| Super::parse(block)).collect();
        let size = self.io.disk().size;
        let newest = found
            .iter()
            .filter_map(|f| if let Found::Valid(sup) = f { Some(sup) } else { None })
            .max_by_key(|sup| sup.generation);
        let not = |what: String| Err(Stop::Error(StoreError::NotAStore(what)));
        if let Some(sup) = newest {
            if sup.blocks * BLOCK as u64 > size {
                return not(format!("the store has {} bytes, the device {size}", sup.blocks * BLOCK as u64));
            }
            self.sup = (**sup).clone();
            let same = |f: &Found| matches!(f, Found::Valid(s) if s.generation == self.sup.generation);
            self.sup_behind = !found.iter().all(same);
            if self.sup.blocks < size / BLOCK as u64 {
                // Before anything may lie in the new space both copies say that there is some.
                self.sup.blocks = size / BLOCK as u64;
                self.sup.generation += 1;
                opening.phase = Phase::Grow(0);
                return Ok(());
            }
            return self.use_super(opening);
        }
        if let Some(Found::Other(what)) = found.iter().find(|f| matches!(f, Found::Other(_))) {
            return not(what.clone());
        }
        let Some(info) = opening.mkfs.take() else { return not("the device is blank".to_owned()) };
        match Super::make(&info, size, self.config.log_bytes, &mut self.rng) {
            Ok(sup) => self.sup = sup,
            Err(what) => return not(what),
        }
        opening.phase = Phase::Blank(0);
        Ok(())
    }

    fn use_super(&mut self, opening: &mut Opening) -> Result<(), Stop> {
        opening.take();
        self.core.tree = self.sup.tree();
        self.core.stats = self.sup.stats();
        self.core.next_id = self.sup.next_id;
        self.core.applied = self.sup.applied;
        // What a checkpoint may need is kept free: on a small device let that be little.
        let share = self.sup.blocks as usize * BLOCK / TABLE_SHARE;
        self.config.table_bytes = self.config.table_bytes.min(share);
        self.core.alloc = Alloc::new(self.sup.first_block(), self.sup.blocks);
        let mut todo = Vec::new();
        if let Some(root) = self.core.tree.root {
            self.mark_page(root)?;
            if self.core.tree.levels > 1 {
                todo.push((root, self.core.tree.levels - 1));
            }
        }
        opening.phase = Phase::Walk(todo);
        Ok(())
    }

    fn mark_page(&mut self, ptr: Ptr) -> Result<(), Stop> {
        if self.core.alloc.mark_page(ptr.place()) {
            return Ok(());
        }
        Err(corrupt(format!("index page at block {}: two claim its place", ptr.block)))
    }

    /// Marks the children of a page.
    fn walk(&mut self, ptr: Ptr, level: u8, todo: &mut Vec<(Ptr, u8)>) -> Result<(), Stop> {
        let page = self.core.cache.get(ptr).ok_or(Stop::Page(ptr, level))?;
        for i in 0..page.count() {
            self.mark_page(page.child(i))?;
            if level > 1 {
                todo.push((page.child(i), level - 1));
            }
        }
        self.core.cache.trim();
        Ok(())
    }

    /// Loads one entry of the map of blocks; true when there are no more.
    fn load_space(&mut self, from: &mut Key) -> Result<bool, Stop> {
        let next = self
            .core
            .view()
            .scan(from, &Key::of([b"G"]))
            .next()?
            .map(|(key, bits)| (key.to_vec(), bits.to_vec()));
        let Some((key, bits)) = next else { return Ok(true) };
        let bad = || corrupt("an entry of the map of blocks");
        let chunk = key::number(&key, 1).ok_or_else(bad)?;
        if bits.len() as u64 * 8 != SPACE_CHUNK || chunk > self.sup.blocks / SPACE_CHUNK {
            return Err(bad());
        }
        for block in (0..SPACE_CHUNK).filter(|b| bits[(*b / 8) as usize] >> (b % 8) & 1 != 0) {
            if !self.core.alloc.mark((chunk * SPACE_CHUNK + block, 1)) {
                return Err(corrupt(format!("block {} is in use twice", chunk * SPACE_CHUNK + block)));
            }
        }
        *from = key::after(&key);
        self.core.cache.trim();
        Ok(false)
    }

    fn begin_log(&mut self) {
        let nonce = self.rng.u64();
        self.commit.begin(self.ring().marked(nonce), self.sup.applied);
    }

    fn ring(&self) -> Ring {
        let sup = &self.sup;
        Ring::new(sup.log_offset(), sup.log_bytes, sup.salt, sup.log_pos, sup.log_seq)
    }

    /// Asks for more of the log behind what a reader holds; an error where there can't be more.
    fn read_more(
        &mut self,
        opening: &mut Opening,
        reader: &mut LogReader,
        out: &mut Vec<StoreOut>,
    ) -> Result<(), Stop> {
        let from = reader.pos + reader.bytes.len() as u64;
        let left = (self.sup.log_pos + self.sup.log_bytes).saturating_sub(from);
        if left == 0 {
            return Err(corrupt(format!("log record {}: longer than the log", reader.seq)));
        }
        let (place, until_turn) = self.ring().place(from);
        opening.ask(place, LOG_PIECE.min(left).min(until_turn), &mut self.io, out);
        Ok(())
    }

    /// Finds the end of the log, and the places of large writes up to there.
    fn scan_log(&mut self, opening: &mut Opening, out: &mut Vec<StoreOut>) -> Result<(), Stop> {
        let read = opening.take();
        match std::mem::replace(&mut opening.phase, Phase::Flush) {
            Phase::Scan(mut reader) => {
                read.iter().for_each(|piece| reader.bytes.extend_from_slice(piece));
                match reader.next(&self.ring()) {
                    Look::More if self.is_all_read(&reader) && reader.bytes.is_empty() => {
                        self.verify_last(opening, reader, out)?;
                    }
                    Look::More => {
                        self.read_more(opening, &mut reader, out)?;
                        opening.phase = Phase::Scan(reader);
                    }
                    Look::Record(record) => {
                        if let Some(before) = reader.last.replace(record) {
                            self.mark_bulk(&before)?;
                        }
                        opening.phase = Phase::Scan(reader);
                    }
                    Look::End => self.verify_last(opening, reader, out)?,
                    Look::Rotten => {
                        return Err(corrupt(format!("log record {}: a sector of it", reader.seq)));
                    }
                }
            }
            Phase::Verify(mut reader) => {
                let is_there = |last: &Record| {
                    let was_durable = last.seq < self.sup.log_durable;
                    let believed = stdx::mutants::is_active("store_believes_large_writes");
                    self.has_its_data(last, &read) || was_durable || believed
                };
                if let Some(last) = reader.last.take_if(|last| is_there(last)) {
                    self.mark_bulk(&last)?;
                }
                opening.phase = Phase::Tail(reader);
            }
            Phase::Tail(mut reader) => {
                read.iter().for_each(|piece| reader.bytes.extend_from_slice(piece));
                if let Some(last) = &reader.last
                    && self.ring().later(&reader.bytes, last.seq).is_some()
                {
                    // It was durable, since what follows had begun: its data has decayed, which reads of it will say.
                    self.mark_bulk(last)?;
                    reader.last = None;
                }
                if let Some(later) = self.ring().later(&reader.bytes, reader.seq) {
                    let text = format!("log record {}: it is damaged, record {later} exists", reader.seq);
                    return Err(corrupt(text));
                }
                reader.skip(reader.bytes.len() as u64);
                if self.is_all_read(&reader) {
                    if let Some(last) = reader.last.take() {
                        // Its flush had not ended: nobody was told of it.
                        reader.seq = last.seq;
                    }
                    if reader.seq < self.sup.log_durable {
                        let text = format!("log record {}: it was durable and is not there", reader.seq);
                        return Err(corrupt(text));
                    }
                    let replay = LogReader::new(&self.ring());
                    self.begin_log();
                    opening.log_end = reader.seq;
                    opening.phase = Phase::Replay(replay);
                } else {
                    self.read_more(opening, &mut reader, out)?;
                    opening.phase = Phase::Tail(reader);
                }
            }
            _ => unreachable!("only phases of the log"),
        }
        Ok(())
    }

    fn is_all_read(&self, reader: &LogReader) -> bool {
        reader.pos + reader.bytes.len() as u64 >= self.sup.log_pos + self.sup.log_bytes
    }

    /// Asks for the data of large writes of the last record, which alone may lack it.
    fn verify_last(
        &mut self,
        opening: &mut Opening,
        reader: LogReader,
        out: &mut Vec<StoreOut>,
    ) -> Result<(), Stop> {
        for (first, count, _) in reader.last.as_ref().map(|r| self.bulk(r)).unwrap_or_default() {
            let end = first.checked_add(count).is_some_and(|end| end <= self.sup.blocks);
            if !end || count == 0 {
                return Err(corrupt("a large write outside the device in the log"));
            }
            opening.ask(first * BLOCK as u64, count * BLOCK as u64, &mut self.io, out);
        }
        opening.phase = Phase::Verify(reader);
        Ok(())
    }

    /// Whether nothing says that the data of large writes is not there. What can't be read may be: somebody may have been told so,
    /// and reads of it will say that it is damaged.
    fn has_its_data(&self, record: &Record, read: &[Buf]) -> bool {
        let expected = self.bulk(record);
        expected.len() == read.len()
            && expected.iter().zip(read).all(|((_, _, crcs), bytes)| {
                let is_there = bytes.len() == crcs.len() * BLOCK
                    && bytes.block_crcs().zip(crcs).all(|((is, _), crc)| is == *crc);
                is_there || bytes.is_empty()
            })
    }

    fn mark_bulk(&mut self, record: &Record) -> Result<(), Stop> {
        for (first, count, _) in self.bulk(record) {
            if !self.core.alloc.mark((first, count)) {
                return Err(corrupt(format!("log record {}: its place is taken", record.seq)));
            }
        }
        Ok(())
    }

    /// Applies what is in the log; checkpoints bound what is held of a long one.
    fn step_replay(&mut self, opening: &mut Opening, out: &mut Vec<StoreOut>) -> Result<bool, Stop> {
        self.release(usize::MAX);
        let mut progress = self.step_checkpoint(out)?;
        let crowded = self.checkpoint.is_some() && self.core.active.memory() > self.config.table_bytes;
        if !crowded && !self.commit.is_applied() {
            progress |= self.apply_next(out)?;
        }
        if crowded || progress || !self.commit.is_applied() {
            return Ok(progress);
        }
        self.replay(opening, out)?;
        Ok(true)
    }

    /// Reads the next record to be applied; opens the store where there is none.
    fn replay(&mut self, opening: &mut Opening, out: &mut Vec<StoreOut>) -> Result<(), Stop> {
        let read = opening.take();
        let Phase::Replay(mut reader) = std::mem::replace(&mut opening.phase, Phase::Flush) else {
            unreachable!("only while replaying");
        };
        read.iter().for_each(|piece| reader.bytes.extend_from_slice(piece));
        if reader.seq == opening.log_end {
            self.state = State::Open;
            out.push(StoreOut::Opened);
            return Ok(());
        }
        match reader.next(&self.ring()) {
            Look::More => self.read_more(opening, &mut reader, out)?,
            Look::Record(record) => {
                self.commit.found(&record, self.sup.applied);
                self.commit.replay(record.txns.into_iter().filter(|t| t.seq > self.sup.applied));
            }
            Look::End | Look::Rotten => {
                return Err(corrupt(format!("log record {}: it changed while it was read", reader.seq)));
            }
        }
        opening.phase = Phase::Replay(reader);
        Ok(())
    }

    /// The places and checksums of large writes in a record that the index does not contain.
    fn bulk(&self, record: &Record) -> Vec<(u64, u64, Vec<u32>)> {
        let mut out = Vec::new();
        for txn in record.txns.iter().filter(|t| t.seq > self.sup.applied) {
            for step in &txn.steps {
                let Step::Bulk(bulk) = step else { continue };
                let mut crcs = &bulk.crcs[..];
                for (first, count) in &bulk.runs {
                    let (here, rest) = crcs.split_at(*count as usize);
                    out.push((*first, *count, here.to_vec()));
                    crcs = rest;
                }
            }
        }
        out
    }
}
