//! The log: a ring of records, each a group of transactions made durable by one write and one flush.
//!
//! ```text
//! 0      4          8      16     24          32       36           40      44   64
//! |magic |header crc| salt | seq  | position  | length | payload crc| count | 0  | payload, zeros to a multiple of 4096
//! ```
//! Only one record is on its way to the device at a time. So where record n + 1 exists, n was durable; only the last
//! one may be torn or lack the data that it refers to, and it was then never acknowledged.

use crate::api::StoreError;
use crate::logged::Logged;
use std::collections::VecDeque;
use stdx::{BLOCK, Buf, BufMut, crc32c};
use wire::Reader;

const HEADER: usize = 64;
const MAGIC: u32 = 0x474f_4c4e; // "NLOG"
const BLOCK_LEN: u64 = BLOCK as u64;

/// What a record with so much payload takes of the ring.
pub(crate) fn record_len(payload: u64) -> u64 {
    (HEADER as u64 + payload).next_multiple_of(BLOCK_LEN)
}

/// A record that is still needed.
struct Kept {
    pos: u64,
    seq: u64,
    /// Its last transaction.
    last: u64,
}

/// Where records are. Positions count up for ever; the place is the position modulo the length.
pub(crate) struct Ring {
    offset: u64,
    len: u64,
    salt: u64,
    /// The first position that may be needed.
    head: u64,
    /// Where the next record goes, and its number.
    end: u64,
    next_seq: u64,
    /// Promised to admitted transactions.
    reserved: u64,
    kept: VecDeque<Kept>,
}

/// A record found on the device.
pub(crate) struct Record {
    pub pos: u64,
    pub seq: u64,
    pub len: u64,
    pub txns: Vec<Logged>,
}

impl Ring {
    pub fn new(offset: u64, len: u64, salt: u64, head: u64, next_seq: u64) -> Self {
        Self { offset, len, salt, head, end: head, next_seq, reserved: 0, kept: VecDeque::new() }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of records that may be needed.
    pub fn used(&self) -> u64 {
        self.end - self.head
    }

    /// Promises room for a transaction of `payload` bytes, as if it were alone in its record.
    pub fn reserve(&mut self, payload: u64) -> bool {
        let fits = self.used() + self.reserved + record_len(payload) <= self.len;
        if fits {
            self.reserved += record_len(payload);
        }
        fits
    }

    /// Replaces a promise by what is needed, which is not more.
    pub fn settle_reservation(&mut self, promised: u64, needed: u64) {
        assert!(needed <= promised, "{needed} bytes, {promised} were promised");
        self.reserved -= record_len(promised) - record_len(needed);
    }

    /// The next record, and the parts of the device where it goes (two where it reaches around the end).
    pub fn append(&mut self, txns: &[Vec<u8>], last: u64) -> Vec<(u64, Buf)> {
        let payload: usize = txns.iter().map(Vec::len).sum();
        self.reserved -= txns.iter().map(|t| record_len(t.len() as u64)).sum::<u64>();
        let len = record_len(payload as u64);
        let mut record = BufMut::zeroed(len as usize);
        let bytes = record.as_mut_slice();
        let mut at = HEADER;
        for txn in txns {
            bytes[at..at + txn.len()].copy_from_slice(txn);
            at += txn.len();
        }
        let payload_crc = crc32c::update(!0, &bytes[HEADER..at]);
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.salt.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.next_seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.end.to_le_bytes());
        bytes[32..36].copy_from_slice(&(payload as u32).to_le_bytes());
        bytes[36..40].copy_from_slice(&payload_crc.to_le_bytes());
        bytes[40..44].copy_from_slice(&(txns.len() as u32).to_le_bytes());
        let crc = crc32c::update(!0, &bytes[..HEADER]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        let record = record.freeze();
        let place = self.end % self.len;
        let first = len.min(self.len - place);
        let mut out = vec![(self.offset + place, record.slice(0..first as usize))];
        if first < len {
            out.push((self.offset, record.slice(first as usize..len as usize)));
        }
        self.keep(len, last);
        out
    }

    fn keep(&mut self, len: u64, last: u64) {
        self.kept.push_back(Kept { pos: self.end, seq: self.next_seq, last });
        self.end += len;
        self.next_seq += 1;
    }

    /// Takes a record that was found when opening.
    pub fn found(&mut self, record: &Record) {
        assert_eq!((record.pos, record.seq), (self.end, self.next_seq), "records follow one another");
        self.keep(record.len, record.txns.last().map_or(0, |t| t.seq));
    }

    /// Position and number of the first record that is needed when the index contains transactions up to `applied`.
    pub fn head_after(&self, applied: u64) -> (u64, u64) {
        self.kept.iter().find(|k| k.last > applied).map_or((self.end, self.next_seq), |k| (k.pos, k.seq))
    }

    /// Frees what lies before `head`.
    pub fn advance(&mut self, head: u64) {
        self.head = head;
        while self.kept.front().is_some_and(|k| k.pos < head) {
            self.kept.pop_front();
        }
    }

    /// The valid record at `pos` with number `seq`, of the ring's whole content.
    fn read(&self, content: &[u8], pos: u64, seq: u64) -> Option<Record> {
        let header = self.header(content, (pos % self.len) as usize)?;
        if header.pos != pos || header.seq != seq {
            return None;
        }
        let len = record_len(u64::from(header.payload));
        if len > self.len {
            return None;
        }
        let place = (pos % self.len) as usize;
        let start = place + HEADER;
        let first = (header.payload as usize).min(content.len() - start);
        let whole = [&content[start..start + first], &content[..header.payload as usize - first]].concat();
        if crc32c::update(!0, &whole) != header.payload_crc
            && !stdx::mutants::is_active("store_accepts_torn_records")
        {
            return None;
        }
        let mut r = Reader::new(&whole);
        let txns = (0..header.count).map(|_| r.get::<Logged>()).collect::<Result<Vec<_>, _>>().ok()?;
        r.finish().ok()?;
        Some(Record { pos, seq, len, txns })
    }

    fn header(&self, content: &[u8], place: usize) -> Option<Header> {
        if content[place..place + 4] != MAGIC.to_le_bytes() {
            return None;
        }
        let mut bytes = content[place..place + HEADER].to_vec();
        let mut r = Reader::new(&content[place..place + HEADER]);
        let (_, crc) = (r.get::<u32>().ok()?, r.get::<u32>().ok()?);
        bytes[4..8].fill(0);
        if crc32c::update(!0, &bytes) != crc || r.get::<u64>().ok()? != self.salt {
            return None;
        }
        Some(Header {
            seq: r.get().ok()?,
            pos: r.get().ok()?,
            payload: r.get().ok()?,
            payload_crc: r.get().ok()?,
            count: r.get().ok()?,
        })
    }

    /// All records from the head on, of the ring's whole content.
    pub fn scan(&self, content: &[u8]) -> Result<Vec<Record>, StoreError> {
        let (mut pos, mut seq, mut out) = (self.head, self.next_seq, Vec::new());
        while let Some(record) = self.read(content, pos, seq) {
            pos += record.len;
            seq += 1;
            out.push(record);
        }
        // A later record exists only if this one was durable once.
        for place in (0..content.len()).step_by(BLOCK) {
            let later =
                self.header(content, place).filter(|h| h.seq >= seq && h.pos % self.len == place as u64);
            if let Some(later) = later.filter(|h| h.pos != pos) {
                return Err(StoreError::Corrupt(format!(
                    "log record {seq} is damaged, record {} exists",
                    later.seq
                )));
            }
        }
        Ok(out)
    }
}

struct Header {
    seq: u64,
    pos: u64,
    payload: u32,
    payload_crc: u32,
    count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Writer;

    fn write(content: &mut [u8], parts: Vec<(u64, Buf)>) {
        for (at, bytes) in parts {
            content[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
        }
    }

    fn txn(seq: u64) -> Vec<u8> {
        Writer::encode(&Logged { seq, steps: Vec::new() })
    }

    #[test]
    fn records_come_back_around_the_end_until_the_torn_one() {
        let len = 8 * BLOCK_LEN;
        let mut content = vec![0; len as usize];
        let mut ring = Ring::new(0, len, 99, 6 * BLOCK_LEN, 41);
        for seq in 1..=4 {
            let bytes = txn(seq);
            assert!(ring.reserve(bytes.len() as u64));
            write(&mut content, ring.append(&[bytes], seq));
        }
        let again = Ring::new(0, len, 99, 6 * BLOCK_LEN, 41);
        let seqs = |content: &[u8]| -> Vec<u64> {
            again.scan(content).expect("sound").iter().map(|r| r.txns[0].seq).collect()
        };
        assert_eq!(seqs(&content), [1, 2, 3, 4]);
        assert_eq!(ring.head_after(2), (8 * BLOCK_LEN, 43));
        let mut torn = content.clone();
        torn[BLOCK + HEADER] ^= 1;
        assert_eq!(seqs(&torn), [1, 2, 3]);
        let mut rotten = content.clone();
        rotten[HEADER] ^= 1;
        let error = again.scan(&rotten).err().expect("a later record exists");
        assert!(error.to_string().contains("log record 43"), "{error}");
        assert_eq!(
            Ring::new(0, len, 98, 6 * BLOCK_LEN, 41).scan(&content).expect("another store's").len(),
            0
        );
    }

    #[test]
    fn room_is_promised_before_it_is_used() {
        let mut ring = Ring::new(0, 4 * BLOCK_LEN, 1, 0, 1);
        assert!((0..4).all(|_| ring.reserve(10)) && !ring.reserve(10));
        ring.append(&[vec![0; 10], vec![0; 10], vec![0; 10]], 3);
        assert_eq!(ring.used(), BLOCK_LEN, "three in one record");
        assert!((0..2).all(|_| ring.reserve(10)) && !ring.reserve(10), "one was still promised");
        ring.advance(BLOCK_LEN);
        assert_eq!(ring.used(), 0);
        assert!(ring.reserve(10));
    }
}
