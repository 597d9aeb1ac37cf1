//! One object's part of a file range, and how buffers are cut for it and put together again.

use stdx::{Buf, Bufs};

/// A contiguous range of one object that serves a file range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Number of the object.
    pub object_no: u64,
    /// First byte in the object.
    pub offset: u64,
    /// Bytes in the object.
    pub len: u64,
    /// Places of those bytes in the file range, in the object's order: (offset in the range, bytes).
    pub parts: Vec<(u64, u64)>,
}

impl Piece {
    pub(crate) fn new(object_no: u64, offset: u64, at: u64, len: u64) -> Self {
        Self { object_no, offset, len, parts: vec![(at, len)] }
    }

    pub(crate) fn extend(&mut self, object_offset: u64, at: u64, len: u64) {
        assert_eq!(object_offset, self.offset + self.len, "an object's units follow each other");
        self.len += len;
        match self.parts.last_mut() {
            Some((last_at, last_len)) if *last_at + *last_len == at => *last_len += len,
            _ => self.parts.push((at, len)),
        }
    }

    /// The bytes to write to the object, out of those of the whole range; copies nothing.
    pub fn gather(&self, range: &Bufs) -> Bufs {
        let mut out = Bufs::new();
        for &(at, len) in &self.parts {
            out.append(range.slice(at as usize..(at + len) as usize));
        }
        out
    }
}

/// Assembles a file range of `len` bytes from the reads of its pieces. Bytes that a read did not return,
/// because the object is absent or shorter, are zeros. Copies nothing.
pub fn assemble(pieces: &[Piece], reads: &[Bufs], len: u64) -> Bufs {
    assert_eq!(pieces.len(), reads.len(), "one read for each piece");
    let mut parts: Vec<(u64, Bufs)> = Vec::new();
    for (piece, read) in pieces.iter().zip(reads) {
        let mut at_object = 0;
        for &(at, part_len) in &piece.parts {
            let have = (read.len() as u64).saturating_sub(at_object).min(part_len);
            let mut bytes = read.slice(
                at_object.min(read.len() as u64) as usize..(at_object + have).min(read.len() as u64) as usize,
            );
            if have < part_len {
                bytes.push(Buf::zeros((part_len - have) as usize));
            }
            parts.push((at, bytes));
            at_object += part_len;
        }
    }
    parts.sort_by_key(|(at, _)| *at);
    let mut out = Bufs::new();
    for (at, bytes) in parts {
        assert_eq!(at, out.len() as u64, "pieces cover the range without gap");
        out.append(bytes);
    }
    assert_eq!(out.len() as u64, len, "pieces cover the range");
    out
}
