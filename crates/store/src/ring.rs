//! The log: a ring of records, each a group of transactions made durable by one write and one flush.
//!
//! A record takes whole blocks of 4096 bytes, and each sector of 512 bytes says for itself which record it
//! belongs to:
//!
//! ```text
//! sector:  0                 488   496     504     508   512
//!          | content         | seq | nonce | index | crc |
//! record:  the contents of its sectors one after another:
//!          0      4         8       12            16         24
//!          |magic | payload | count | payload crc | position | payload, zeros to the end
//! ```
//! The crc of a sector begins with the store's salt; the nonce is drawn in each incarnation, so that sectors
//! of a torn record are never completed by those of the record that takes its number after. Only one record
//! is on its way to the device at a time. So where record n + 1 exists, n was durable; only the last one may
//! be torn or lack the data that it refers to, and was then never acknowledged. A torn record has sectors
//! that were not written: these are still what they were before, that is zeros or sectors of older records. A
//! sector that is neither has rotted, so damage to the last record is told from a tear.

use crate::logged::Logged;
use crate::superblock::Super;
use std::collections::VecDeque;
use stdx::{BLOCK, Buf, BufMut, crc32c};
use wire::Reader;

const HEADER: usize = 24;
const MAGIC: u32 = 0x474f_4c4e; // "NLOG"
const BLOCK_LEN: u64 = BLOCK as u64;
/// The unit that a power loss leaves old or new, at least.
const SECTOR: usize = 512;
/// Bytes of a sector that belong to the record.
const CONTENT: usize = SECTOR - 24;

/// The offset of a sector's checksum.
const CRC: usize = SECTOR - 4;

/// The bytes that a record with this payload takes of the ring.
pub(crate) fn record_len(payload: u64) -> u64 {
    ((HEADER as u64 + payload).div_ceil(CONTENT as u64) * SECTOR as u64).next_multiple_of(BLOCK_LEN)
}

/// A record that is still needed.
struct Kept {
    pos: u64,
    seq: u64,
    /// Its last transaction.
    last: u64,
}

/// The ring of log records. Positions only grow; the offset is the position modulo the length.
pub(crate) struct Ring {
    offset: u64,
    len: u64,
    salt: u64,
    /// Marks the records of this incarnation.
    nonce: u64,
    /// The first position that may be needed.
    head: u64,
    /// The position and number of the next record.
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
        Self { offset, len, salt, nonce: 0, head, end: head, next_seq, reserved: 0, kept: VecDeque::new() }
    }

    /// The log of a store, empty from its head on.
    pub fn of(sup: &Super) -> Self {
        Self::new(sup.log_offset(), sup.log_bytes, sup.salt, sup.log_pos, sup.log_seq)
    }

    /// The same ring with a mark for the records of this incarnation.
    pub fn marked(self, nonce: u64) -> Self {
        Self { nonce, ..self }
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
        let crc = txns.iter().fold(!0, |crc, txn| crc32c::update(crc, txn));
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&MAGIC.to_le_bytes());
        header[4..8].copy_from_slice(&(payload as u32).to_le_bytes());
        header[8..12].copy_from_slice(&(txns.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&crc.to_le_bytes());
        header[16..24].copy_from_slice(&self.end.to_le_bytes());
        let mut record = BufMut::uncleared(len as usize);
        let mut content = std::iter::once(&header[..]).chain(txns.iter().map(|txn| &txn[..]));
        let mut rest: &[u8] = &[];
        for (i, sector) in record.as_mut_slice().chunks_mut(SECTOR).enumerate() {
            let mut at = 0;
            while at < CONTENT {
                if rest.is_empty() {
                    let Some(next) = content.next() else { break };
                    rest = next;
                }
                let (part, left) = rest.split_at(rest.len().min(CONTENT - at));
                sector[at..at + part.len()].copy_from_slice(part);
                (at, rest) = (at + part.len(), left);
            }
            sector[at..CONTENT].fill(0);
            sector[CONTENT..CONTENT + 8].copy_from_slice(&self.next_seq.to_le_bytes());
            sector[CONTENT + 8..CONTENT + 16].copy_from_slice(&self.nonce.to_le_bytes());
            sector[CONTENT + 16..CONTENT + 20].copy_from_slice(&(i as u32).to_le_bytes());
            let crc = self.sector_crc(sector);
            sector[CRC..].copy_from_slice(&crc.to_le_bytes());
        }
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

    /// Position and number of the first record that is needed when the index contains transactions up to
    /// `applied`.
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

    fn sector_crc(&self, sector: &[u8]) -> u32 {
        crc32c::update(crc32c::update(!0, &self.salt.to_le_bytes()), &sector[..CRC])
    }

    fn sector(&self, sector: &[u8]) -> Sector {
        let number = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().expect("8 bytes"));
        let tail = number(CONTENT + 16);
        if self.sector_crc(sector) == (tail >> 32) as u32 {
            Sector::Of(Stamp { seq: number(CONTENT), nonce: number(CONTENT + 8), index: tail as u32 })
        } else if sector.iter().all(|b| *b == 0) {
            Sector::Blank
        } else {
            Sector::Rotten
        }
    }

    /// Classifies record number `seq` at `pos`; `bytes` is the content of the ring from there on.
    pub fn look(&self, bytes: &[u8], pos: u64, seq: u64) -> Look {
        let Some(first) = bytes.get(..BLOCK) else { return Look::More };
        let nonce = match self.sector(&first[..SECTOR]) {
            Sector::Of(stamp) if stamp.seq == seq && stamp.index == 0 => stamp.nonce,
            Sector::Of(_) | Sector::Blank => return Look::End,
            // What was here before this record may rot without harm.
            Sector::Rotten => {
                let begun = |s: &[u8]| matches!(self.sector(s), Sector::Of(s) if s.seq == seq);
                return if first.chunks(SECTOR).any(begun) { Look::Rotten } else { Look::End };
            }
        };
        let Some(Header { payload, count, crc, pos: at }) = Header::parse(first) else { return Look::Rotten };
        let len = record_len(u64::from(payload));
        if at != pos || len > self.len {
            return Look::Rotten;
        }
        let Some(bytes) = bytes.get(..len as usize) else { return Look::More };
        let mut content = Vec::with_capacity(bytes.len());
        let mut torn = false;
        for (i, sector) in bytes.chunks(SECTOR).enumerate() {
            match self.sector(sector) {
                Sector::Of(stamp) if stamp == (Stamp { seq, nonce, index: i as u32 }) => {}
                Sector::Of(_) | Sector::Blank => torn = true,
                Sector::Rotten => return Look::Rotten,
            }
            content.extend_from_slice(&sector[..CONTENT]);
        }
        let payload = &content[HEADER..HEADER + payload as usize];
        torn |= crc32c::update(!0, payload) != crc;
        if torn && !accepts_torn_records() {
            return Look::End;
        }
        let mut r = Reader::new(payload);
        match (0..count).map(|_| r.get::<Logged>()).collect::<Result<Vec<_>, _>>() {
            Ok(txns) if r.finish().is_ok() => Look::Record(Record { pos, seq, len, txns }),
            _ => Look::Rotten,
        }
    }

    /// The number of a record after `seq` of which there is a sector in `bytes`. Such a record exists only if
    /// `seq` was durable once.
    pub fn later(&self, bytes: &[u8], seq: u64) -> Option<u64> {
        bytes.chunks_exact(SECTOR).find_map(|sector| match self.sector(sector) {
            Sector::Of(stamp) if stamp.seq > seq => Some(stamp.seq),
            _ => None,
        })
    }

    /// The byte of the device at `pos`, and how many bytes follow it before the ring begins again.
    pub fn place(&self, pos: u64) -> (u64, u64) {
        (self.offset + pos % self.len, self.len - pos % self.len)
    }

    /// Position and number of the next record.
    pub fn next(&self) -> (u64, u64) {
        (self.end, self.next_seq)
    }
}

fn accepts_torn_records() -> bool {
    stdx::mutants::is_active("store_accepts_torn_records")
}

struct Header {
    payload: u32,
    count: u32,
    crc: u32,
    pos: u64,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader::new(bytes);
        if r.get::<u32>().ok()? != MAGIC {
            return None;
        }
        let (payload, count, crc) = (r.get().ok()?, r.get().ok()?, r.get().ok()?);
        Some(Self { payload, count, crc, pos: r.get().ok()? })
    }
}

/// The record that a sector belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    seq: u64,
    nonce: u64,
    index: u32,
}

/// The state of a sector of the ring.
enum Sector {
    /// A part of a record.
    Of(Stamp),
    /// Zeros.
    Blank,
    /// Nothing that was ever written.
    Rotten,
}

/// The state of a record on the device.
pub(crate) enum Look {
    /// More bytes must be read.
    More,
    Record(Record),
    /// It was never written whole.
    End,
    /// It was written and is damaged.
    Rotten,
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

    /// The numbers of the transactions found, and how the log ends.
    fn scan(ring: &Ring, content: &[u8]) -> (Vec<u64>, Look) {
        let turned = [&content[ring.place(ring.head).0 as usize..], content].concat();
        let (mut pos, mut seq, mut out) = (ring.head, ring.next_seq, Vec::new());
        loop {
            let at = (pos - ring.head) as usize;
            match ring.look(&turned[at..content.len()], pos, seq) {
                Look::Record(record) => {
                    out.extend(record.txns.iter().map(|t| t.seq));
                    pos += record.len;
                    seq += 1;
                }
                end => return (out, end),
            }
        }
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
        assert!(matches!(scan(&again, &content), (seqs, Look::End) if seqs == [1, 2, 3, 4]));
        assert_eq!(ring.head_after(2), (8 * BLOCK_LEN, 43));
        let mut torn = content.clone();
        torn[BLOCK + 512..BLOCK + 1024].fill(0);
        assert!(matches!(scan(&again, &torn), (seqs, Look::End) if seqs == [1, 2, 3]));
        assert_eq!(again.later(&torn, 44), None);
        let mut behind = content.clone();
        behind[2 * BLOCK] ^= 1;
        assert!(matches!(scan(&again, &behind), (seqs, Look::End) if seqs.len() == 4), "nothing was there");
        for at in [BLOCK, BLOCK + 600, 2 * BLOCK - 1] {
            let mut rotten = content.clone();
            rotten[at] ^= 1;
            assert!(matches!(scan(&again, &rotten), (seqs, Look::Rotten) if seqs == [1, 2, 3]), "byte {at}");
        }
        let mut gone = content.clone();
        gone[..BLOCK].fill(0);
        assert!(matches!(scan(&again, &gone), (seqs, Look::End) if seqs == [1, 2]));
        assert_eq!(again.later(&gone, 43), Some(44), "so record 43 was durable");
        let other = Ring::new(0, len, 98, 6 * BLOCK_LEN, 41);
        assert!(matches!(scan(&other, &content), (seqs, Look::End) if seqs.is_empty()), "another store's");
    }

    #[test]
    fn sectors_of_a_torn_attempt_are_not_taken_for_those_of_the_next() {
        let len = 8 * BLOCK_LEN;
        let mut content = vec![0; len as usize];
        // The same record twice, so that only the mark differs.
        let long = || vec![Writer::encode(&Logged { seq: 1, steps: vec![] }), vec![1; 6000]];
        for (life, kept) in [(1, BLOCK..2 * BLOCK), (2, 0..BLOCK)] {
            let mut ring = Ring::new(0, len, 7, 0, 1).marked(life);
            let txns = long();
            assert!(txns.iter().all(|t| ring.reserve(t.len() as u64)));
            let (_, bytes) = ring.append(&txns, 1).remove(0);
            content[kept.clone()].copy_from_slice(&bytes[kept]);
        }
        let ring = Ring::new(0, len, 7, 0, 1);
        assert!(matches!(ring.look(&content, 0, 1), Look::End));
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
