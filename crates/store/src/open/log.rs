//! Reading the log: once to find its end and the large writes whose places nothing else may take, once to
//! apply it.
//!
//! Neither pass holds more of it than a piece and a record. The scan also reads what follows the end: a part
//! of a later record there means that the log does not end here.

use super::port::{LOG_PIECE, Port, Turn};
use crate::core::Core;
use crate::logged::Step;
use crate::ring::{Look, Record, Ring};
use crate::stop::{Stop, corrupt};
use crate::superblock::Super;
use stdx::{BLOCK, Buf};

/// Goes through the log.
struct LogReader {
    ring: Ring,
    /// The position where the log ends at the latest.
    limit: u64,
    /// Position and number of the next record.
    pos: u64,
    seq: u64,
    /// The ring's content from `pos` on, as far as it was read.
    bytes: Vec<u8>,
}

impl LogReader {
    fn new(sup: &Super) -> Self {
        let ring = Ring::of(sup);
        let (pos, seq) = ring.next();
        Self { ring, limit: sup.log_pos + sup.log_bytes, pos, seq, bytes: Vec::new() }
    }

    /// Adds pieces that were read.
    fn extend(&mut self, read: &[Buf]) {
        read.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
    }

    /// The next record, or `More` if it was not read yet.
    fn next(&mut self) -> Look {
        let look = self.ring.look(&self.bytes, self.pos, self.seq);
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

    fn is_all_read(&self) -> bool {
        self.pos + self.bytes.len() as u64 >= self.limit
    }

    /// Reads more of the log; fails if there can't be more.
    fn read_more(&self, port: &mut Port<'_>) -> Result<(), Stop> {
        let from = self.pos + self.bytes.len() as u64;
        let left = self.limit.saturating_sub(from);
        if left == 0 {
            return Err(corrupt(format!("log record {}: longer than the log", self.seq)));
        }
        let (place, until_turn) = self.ring.place(from);
        port.read(place, LOG_PIECE.min(left).min(until_turn));
        Ok(())
    }
}

enum Stage {
    /// Looking for the end.
    Find,
    /// Reading the data of the last record's large writes, which alone may lack it.
    Verify,
    /// Looking at what follows the end.
    Tail,
}

/// Finds the end of the log, and marks the places of large writes up to there.
pub(super) struct LogScan {
    reader: LogReader,
    stage: Stage,
    /// The last record found. After `Verify`: only if it lacks data and is not known to have been durable.
    last: Option<Record>,
}

impl LogScan {
    pub fn new(sup: &Super) -> Self {
        Self { reader: LogReader::new(sup), stage: Stage::Find, last: None }
    }

    /// True if unreadable blocks do not end opening: the data of large writes may be damaged.
    pub fn tolerates_errors(&self) -> bool {
        matches!(self.stage, Stage::Verify)
    }

    /// One step; the number of the first record that is not in the log, once that is known.
    pub fn step(
        &mut self,
        read: &[Buf],
        core: &mut Core,
        sup: &Super,
        port: &mut Port<'_>,
    ) -> Result<Option<u64>, Stop> {
        match self.stage {
            Stage::Find => self.find(read, core, sup, port).map(|()| None),
            Stage::Verify => self.verify(read, core, sup).map(|()| None),
            Stage::Tail => self.tail(read, core, sup, port),
        }
    }

    fn find(&mut self, read: &[Buf], core: &mut Core, sup: &Super, port: &mut Port<'_>) -> Result<(), Stop> {
        self.reader.extend(read);
        match self.reader.next() {
            Look::More if !(self.reader.is_all_read() && self.reader.bytes.is_empty()) => {
                self.reader.read_more(port)
            }
            Look::More | Look::End => self.read_last_data(sup, port),
            Look::Record(record) => match self.last.replace(record) {
                Some(before) => mark_bulk(&before, core, sup),
                None => Ok(()),
            },
            Look::Rotten => Err(corrupt(format!("log record {}: a damaged sector", self.reader.seq))),
        }
    }

    /// Reads the data of large writes of the last record.
    fn read_last_data(&mut self, sup: &Super, port: &mut Port<'_>) -> Result<(), Stop> {
        for (first, count, _) in self.last.as_ref().map(|last| bulk(last, sup)).unwrap_or_default() {
            let inside = first.checked_add(count).is_some_and(|end| end <= sup.blocks);
            if !inside || count == 0 {
                return Err(corrupt("a large write outside the device in the log"));
            }
            port.read(first * BLOCK as u64, count * BLOCK as u64);
        }
        self.stage = Stage::Verify;
        Ok(())
    }

    fn verify(&mut self, read: &[Buf], core: &mut Core, sup: &Super) -> Result<(), Stop> {
        let is_there = |last: &Record| {
            has_its_data(last, read, sup) || last.seq < sup.log_durable || believes_large_writes()
        };
        if let Some(last) = self.last.take_if(|last| is_there(last)) {
            mark_bulk(&last, core, sup)?;
        }
        self.stage = Stage::Tail;
        Ok(())
    }

    fn tail(
        &mut self,
        read: &[Buf],
        core: &mut Core,
        sup: &Super,
        port: &mut Port<'_>,
    ) -> Result<Option<u64>, Stop> {
        let Self { reader, last, .. } = self;
        reader.extend(read);
        if let Some(record) = last.take_if(|last| reader.ring.later(&reader.bytes, last.seq).is_some()) {
            // It was durable, since the next record had begun. Its data has decayed; reads of it report that.
            mark_bulk(&record, core, sup)?;
        }
        if let Some(later) = reader.ring.later(&reader.bytes, reader.seq) {
            let seq = reader.seq;
            return Err(corrupt(format!("log record {seq}: it is damaged, record {later} exists")));
        }
        reader.skip(reader.bytes.len() as u64);
        if !reader.is_all_read() {
            return reader.read_more(port).map(|()| None);
        }
        // A last record that lacks data was never acknowledged: its flush had not ended.
        let end = last.take().map_or(reader.seq, |last| last.seq);
        if end < sup.log_durable {
            return Err(corrupt(format!("log record {end}: it was durable and is not there")));
        }
        Ok(Some(end))
    }
}

/// Gives the records of the log one after another.
pub(super) struct Replay {
    reader: LogReader,
    /// The first record that is not in the log.
    end: u64,
}

impl Replay {
    pub fn new(sup: &Super, end: u64) -> Self {
        Self { reader: LogReader::new(sup), end }
    }

    pub fn step(&mut self, read: &[Buf], port: &mut Port<'_>) -> Result<Turn, Stop> {
        self.reader.extend(read);
        let seq = self.reader.seq;
        if seq == self.end {
            return Ok(Turn::Open(None));
        }
        match self.reader.next() {
            Look::More => self.reader.read_more(port).map(|()| Turn::Progress),
            Look::Record(record) => Ok(Turn::Record(record)),
            Look::End | Look::Rotten => {
                Err(corrupt(format!("log record {seq}: it changed while it was read")))
            }
        }
    }
}

/// Large writes of a record that the index does not contain: first block, count, checksums.
fn bulk(record: &Record, sup: &Super) -> Vec<(u64, u64, Vec<u32>)> {
    let mut out = Vec::new();
    for step in record.txns.iter().filter(|t| t.seq > sup.applied).flat_map(|txn| &txn.steps) {
        let Step::Bulk(bulk) = step else { continue };
        let mut crcs = &bulk.crcs[..];
        for (first, count) in &bulk.runs {
            let (here, rest) = crcs.split_at(*count as usize);
            out.push((*first, *count, here.to_vec()));
            crcs = rest;
        }
    }
    out
}

/// True if nothing says that data of large writes is missing. Unreadable data may be there: the transaction
/// may have been acknowledged, and reads of the data will report the damage.
fn has_its_data(record: &Record, read: &[Buf], sup: &Super) -> bool {
    let expected = bulk(record, sup);
    expected.len() == read.len()
        && expected.iter().zip(read).all(|((_, _, crcs), bytes)| {
            let is_there = bytes.len() == crcs.len() * BLOCK
                && bytes.block_crcs().zip(crcs).all(|((is, _), crc)| is == *crc);
            is_there || bytes.is_empty()
        })
}

fn believes_large_writes() -> bool {
    stdx::mutants::is_active("store_believes_large_writes")
}

fn mark_bulk(record: &Record, core: &mut Core, sup: &Super) -> Result<(), Stop> {
    for (first, count, _) in bulk(record, sup) {
        if !core.mark_run((first, count)) {
            return Err(corrupt(format!("log record {}: its place is taken", record.seq)));
        }
    }
    Ok(())
}
