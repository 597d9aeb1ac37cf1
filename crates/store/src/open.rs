//! Opening: find the superblock, walk the index above its leaves to learn where its pages are, load the map of blocks,
//! read the log, apply what the index does not contain.

use crate::alloc::Alloc;
use crate::api::{StoreError, StoreOut};
use crate::checkpoint::SPACE_CHUNK;
use crate::config::MkfsInfo;
use crate::io::{Io, Purpose};
use crate::key::{self, Key};
use crate::logged::{Logged, Step};
use crate::page::Ptr;
use crate::ring::{Record, Ring};
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
    /// Writing (even) and flushing (odd) the superblocks of a new store.
    Make(usize),
    /// Pages above the leaves yet to be looked at, with their levels.
    Walk(Vec<(Ptr, u8)>),
    /// The map of blocks, from this key on.
    Space(Key),
    Log,
    /// Data that the last log record refers to.
    Verify(Vec<Record>),
    Replay,
}

pub(crate) struct Opening {
    mkfs: Option<MkfsInfo>,
    phase: Phase,
    /// Operations under way.
    pending: usize,
    /// What was read, by the number given.
    read: BTreeMap<usize, Buf>,
}

impl Opening {
    pub fn begin(mkfs: Option<MkfsInfo>, io: &mut Io, out: &mut Vec<StoreOut>) -> Self {
        io.flush(Purpose::Open(0), out);
        Self { mkfs, phase: Phase::Flush, pending: 1, read: BTreeMap::new() }
    }

    pub fn ended(&mut self, part: usize, bytes: Buf) {
        self.pending -= 1;
        self.read.insert(part, bytes);
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
                _ => self.use_super(opening)?,
            },
            Phase::Walk(todo) => match todo.pop() {
                None => opening.phase = Phase::Space(b"F".to_vec()),
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
                    opening.take();
                    let offset = self.sup.log_offset();
                    for at in (0..self.sup.log_bytes).step_by(LOG_PIECE as usize) {
                        let len = LOG_PIECE.min(self.sup.log_bytes - at);
                        opening.ask(offset + at, len, &mut self.io, out);
                    }
                    opening.phase = Phase::Log;
                }
            }
            Phase::Log => self.read_log(opening, out)?,
            Phase::Verify(records) => {
                let records = std::mem::take(records);
                self.verify(opening, records)?;
            }
            Phase::Replay => {
                let progress = self.apply_next(out)?;
                if self.commit.is_applied() {
                    self.state = State::Open;
                    self.claim_pages();
                    out.push(StoreOut::Opened);
                }
                return Ok(progress || self.is_open());
            }
        }
        Ok(true)
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
        opening.phase = Phase::Make(0);
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
        if self.core.alloc.mark_page(ptr.block) {
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
        let Some((key, bits)) = self.core.view().scan(from, b"G").next()? else { return Ok(true) };
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
        from.clone_from(&key);
        from.push(0);
        self.core.cache.trim();
        Ok(false)
    }

    fn ring(&self) -> Ring {
        let sup = &self.sup;
        Ring::new(sup.log_offset(), sup.log_bytes, sup.salt, sup.log_pos, sup.log_seq)
    }

    fn read_log(&mut self, opening: &mut Opening, out: &mut Vec<StoreOut>) -> Result<(), Stop> {
        let pieces = opening.take();
        let mut content = Vec::with_capacity(self.sup.log_bytes as usize);
        // Each piece is freed as it is copied.
        pieces.into_iter().for_each(|piece| content.extend_from_slice(&piece));
        if content.len() as u64 != self.sup.log_bytes {
            return Err(corrupt("the log is cut off"));
        }
        let records = self.ring().scan(&content).map_err(Stop::Error)?;
        // Only the last record may lack its data.
        for (first, count, _) in records.last().map(|r| self.bulk(r)).unwrap_or_default() {
            let end = first.checked_add(count).is_some_and(|end| end <= self.sup.blocks);
            if !end || count == 0 {
                return Err(corrupt("a large write outside the device in the log"));
            }
            opening.ask(first * BLOCK as u64, count * BLOCK as u64, &mut self.io, out);
        }
        opening.phase = Phase::Verify(records);
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

    fn verify(&mut self, opening: &mut Opening, mut records: Vec<Record>) -> Result<(), Stop> {
        let read = opening.take();
        let expected = records.last().map(|r| self.bulk(r)).unwrap_or_default();
        let whole = expected.len() == read.len()
            && expected.iter().zip(&read).all(|((_, _, crcs), bytes)| {
                bytes.len() == crcs.len() * BLOCK
                    && bytes.block_crcs().zip(crcs).all(|((is, _), crc)| is == *crc)
            });
        if !whole && !stdx::mutants::is_active("store_believes_large_writes") {
            // Its flush had not ended: nobody was told of it.
            records.pop();
        }
        let mut ring = self.ring();
        let mut replay: Vec<Logged> = Vec::new();
        for record in records {
            for (first, count, _) in self.bulk(&record) {
                if !self.core.alloc.mark((first, count)) {
                    return Err(corrupt(format!("log record {}: its place is taken", record.seq)));
                }
            }
            ring.found(&record);
            replay.extend(record.txns.into_iter().filter(|t| t.seq > self.sup.applied));
        }
        self.commit.begin(ring, self.sup.applied, replay);
        opening.phase = Phase::Replay;
        Ok(())
    }
}
