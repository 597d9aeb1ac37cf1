//! A read or a hole in progress: the pieces of a file range at the OSDs.

use crate::dirty::Dirty;
use crate::inode::{Inode, Truncation};
use msgs::Extent;
use stdx::Bufs;
use striper::{Piece, Striper};
use wire::Errno;

/// A file range that OSDs read or zero piece by piece.
#[derive(Debug)]
pub(crate) struct Transfer {
    pieces: Vec<Piece>,
    results: Vec<Option<Bufs>>,
    len: u64,
    error: Option<Errno>,
    /// An object does not exist.
    has_hole: bool,
    /// The buffered bytes when the read began: they may arrive at the OSDs, and leave the buffer, meanwhile.
    buffered: Snapshot,
}

impl Transfer {
    /// A range of the file, with the object and extent of each piece.
    pub(crate) fn new(
        inode: &Inode,
        striper: &Striper,
        offset: u64,
        len: u64,
    ) -> (Self, Vec<(String, Extent)>) {
        let pieces = striper.pieces(offset, len);
        let truncation = inode.attrs().truncation();
        let objects = pieces.iter().map(|p| {
            let oid = striper::object_name(inode.key().ino(), p.object_no);
            (oid, extent(truncation, striper, p.object_no, p.offset, p.len))
        });
        let objects = objects.collect();
        let results = vec![None; pieces.len()];
        (Self { pieces, results, len, error: None, has_hole: false, buffered: Snapshot::default() }, objects)
    }

    /// The same, as a read of the range at `offset`: what is buffered now is laid over the OSDs' content.
    #[must_use]
    pub(crate) fn over_buffered(self, dirty: &Dirty, offset: u64) -> Self {
        Self { buffered: Snapshot::new(dirty, offset, self.len), ..self }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.results.iter().all(Option::is_some)
    }

    /// Takes the result of a piece. An object that does not exist is a hole.
    pub(crate) fn piece_done(&mut self, piece: usize, result: Result<Bufs, Errno>) {
        match result {
            Err(Errno::ENOENT) => self.has_hole = true,
            Err(errno) => self.error = Some(errno),
            Ok(_) => {}
        }
        self.results[piece] = Some(result.unwrap_or_default());
    }

    /// True if an object does not exist.
    pub(crate) fn has_hole(&self) -> bool {
        self.has_hole
    }

    pub(crate) fn error(&self) -> Option<Errno> {
        self.error
    }

    /// The content of the range, under what was buffered when the transfer began.
    pub(crate) fn assemble(&self) -> Bufs {
        let reads: Vec<Bufs> = self.results.iter().flatten().cloned().collect();
        self.buffered.lay_over(striper::assemble(&self.pieces, &reads, self.len))
    }
}

/// A range of object `object_no`, with the file's last truncation as it concerns that object.
pub(crate) fn extent(
    truncation: Truncation,
    striper: &Striper,
    object_no: u64,
    off: u64,
    len: u64,
) -> Extent {
    let size = truncation.size;
    let truncate_size = if size == u64::MAX { size } else { striper.object_len(object_no, size) };
    Extent { off, len, truncate_size, truncate_seq: truncation.seq }
}

/// The bytes of a range that were buffered at one moment.
#[derive(Debug, Default)]
struct Snapshot {
    /// For each byte of the range, true if it was buffered. Empty if none was.
    is_buffered: Vec<bool>,
    bytes: Vec<u8>,
}

impl Snapshot {
    fn new(dirty: &Dirty, offset: u64, len: u64) -> Self {
        if dirty.is_empty() {
            return Self::default();
        }
        let n = len as usize;
        let over_zeros = dirty.overlay(offset, Bufs::from(stdx::Buf::zeros(n))).to_vec();
        let over_ones = dirty.overlay(offset, Bufs::from(vec![0xff; n])).to_vec();
        // A byte is buffered exactly if both backgrounds give the same.
        let is_buffered = over_zeros.iter().zip(&over_ones).map(|(a, b)| a == b).collect();
        Self { is_buffered, bytes: over_zeros }
    }

    fn lay_over(&self, data: Bufs) -> Bufs {
        if self.is_buffered.is_empty() {
            return data;
        }
        let mut bytes = data.to_vec();
        for (i, byte) in bytes.iter_mut().enumerate() {
            if self.is_buffered[i] {
                *byte = self.bytes[i];
            }
        }
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::FileLayout;

    #[test]
    fn requests_name_the_objects_part_of_a_truncation() {
        let layout = FileLayout {
            stripe_unit: 4 << 20,
            stripe_count: 1,
            object_size: 4 << 20,
            ..FileLayout::default()
        };
        let striper = Striper::new(&layout).expect("a valid layout");
        let part =
            |seq, size, object_no| extent(Truncation { seq, size }, &striper, object_no, 0, 1).truncate_size;
        assert_eq!([0, 49, 50, 51].map(|n| part(2, (200 << 20) + 5, n)), [4 << 20, 4 << 20, 5, 0]);
        assert_eq!(part(1, u64::MAX, 3), u64::MAX, "no truncation stays no truncation");
    }
}
