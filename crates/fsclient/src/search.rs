//! A search for data or a hole in a file: the extents of some of its objects.

use crate::dirty::Dirty;
use msgs::op::input;
use std::collections::BTreeMap;
use stdx::Bufs;
use striper::{Piece, Striper};
use wire::Errno;

/// Objects that OSDs are asked for at a time.
const AT_ONCE: u64 = 64;
/// What is buffered fills blocks of so many bytes when it arrives at the OSDs, as ours keep it. It is told of
/// in blocks before that too: programs find out a file system's blocks by such questions.
const BLOCK: u64 = 4096;
/// A value of `whence`: data are looked for.
pub(crate) const SEEK_DATA: u32 = 3;
/// A value of `whence`: a hole is looked for.
pub(crate) const SEEK_HOLE: u32 = 4;

/// A search: some objects of a file, of which the OSDs tell the extents.
#[derive(Debug)]
pub(crate) struct Search {
    /// The range of the file that is looked at.
    start: u64,
    end: u64,
    /// The blocks of it that are buffered: they may arrive at the OSDs, and leave the buffer, meanwhile.
    buffered: Vec<(u64, u64)>,
    pieces: Vec<Piece>,
    results: Vec<Option<Result<Bufs, Errno>>>,
    /// Objects that were looked at before.
    looked: u64,
}

impl Search {
    pub(crate) fn new(striper: &Striper, dirty: &Dirty, (start, size): (u64, u64), looked: u64) -> Self {
        let end = size.min(start.saturating_add(reach(striper, start)));
        let pieces = striper.pieces(start, end - start);
        let results = vec![None; pieces.len()];
        let block = BLOCK.min(striper.stripe_unit());
        let of_dirty =
            |(from, to): (u64, u64)| ((from - from % block).max(start), to.next_multiple_of(block).min(end));
        let buffered = dirty.ranges(start - start % block, end).into_iter().map(of_dirty).collect();
        Self { start, end, buffered, pieces, results, looked }
    }

    /// The objects to ask for, and their ranges.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The end of the range that is looked at.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Objects that were looked at when this is done.
    pub(crate) fn looked(&self) -> u64 {
        self.looked + self.pieces.len() as u64
    }

    pub(crate) fn is_done(&self) -> bool {
        self.results.iter().all(Option::is_some)
    }

    /// True if this client was evicted meanwhile.
    pub(crate) fn is_refused(&self) -> bool {
        self.results.iter().flatten().any(|result| result.as_ref().err() == Some(&Errno::EBLOCKLISTED))
    }

    /// Takes the extents of an object.
    pub(crate) fn piece_done(&mut self, piece: usize, result: Result<Bufs, Errno>) {
        self.results[piece] = Some(result);
    }

    /// The data in the range: joined ranges of the file, in order.
    fn data(&self) -> Result<Vec<(u64, u64)>, Errno> {
        let mut ranges = self.buffered.clone();
        for (piece, result) in self.pieces.iter().zip(&self.results) {
            let whole = || BTreeMap::from([(piece.offset, piece.len)]);
            let extents: BTreeMap<u64, u64> = match result {
                // Its OSDs can't tell: all of it counts as data.
                Some(Err(Errno::EOPNOTSUPP)) | None => whole(),
                Some(Err(Errno::ENOENT)) => BTreeMap::new(),
                Some(Err(errno)) => return Err(*errno),
                Some(Ok(data)) => input::read(data).map_err(|_| Errno::EIO)?,
            };
            for (offset, len) in extents {
                let end = offset.saturating_add(len).min(piece.offset + piece.len);
                self.put_extent(&mut ranges, piece, offset.max(piece.offset), end);
            }
        }
        Ok(joined(ranges))
    }

    /// Adds the range of an object as the ranges of the file that it holds.
    fn put_extent(&self, ranges: &mut Vec<(u64, u64)>, piece: &Piece, from: u64, to: u64) {
        let mut at_object = piece.offset;
        for (at, len) in &piece.parts {
            let (begin, end) = (from.max(at_object), to.min(at_object + len));
            if begin < end {
                let at = self.start + at + (begin - at_object);
                ranges.push((at, at + (end - begin)));
            }
            at_object += len;
        }
    }

    /// The place that is looked for, if it is in the range.
    pub(crate) fn found(&self, whence: u32) -> Result<Option<u64>, Errno> {
        let data = self.data()?;
        if whence == SEEK_DATA {
            return Ok(data.first().map(|(start, _)| *start));
        }
        Ok(match data.first() {
            Some((start, end)) if *start == self.start => Some(*end).filter(|end| *end < self.end),
            _ => Some(self.start),
        })
    }
}

/// Bytes from `start` on that few objects hold.
fn reach(striper: &Striper, start: u64) -> u64 {
    let (object, set) = (striper.object_size(), striper.set_size());
    if set / object > AT_ONCE {
        return AT_ONCE * striper.stripe_unit() - start % striper.stripe_unit();
    }
    let sets = (AT_ONCE / (set / object)).max(1);
    sets * set - start % set
}

/// The same ranges in order, without overlaps and neighbours.
fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match out.last_mut() {
            Some((_, last)) if *last >= start => *last = end.max(*last),
            _ => out.push((start, end)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::FileLayout;
    use stdx::Rng;

    /// The answer by a map of a file's bytes.
    fn by_bytes(bytes: &[bool], start: u64, whence: u32) -> Option<u64> {
        let wanted = whence == SEEK_DATA;
        (start..bytes.len() as u64).find(|at| bytes[*at as usize] == wanted)
    }

    #[test]
    fn a_search_finds_what_a_map_of_all_bytes_has() {
        let layouts = [(1, 4, 1), (1, 2, 3), (2, 6, 2), (4, 4, 100)];
        for seed in 0..400 {
            let mut rng = Rng::from_seed(seed);
            let (stripe_unit, object_size, stripe_count) = layouts[rng.below(4) as usize];
            let layout = FileLayout { stripe_unit, stripe_count, object_size, ..FileLayout::default() };
            let striper = Striper::new(&layout).expect("a valid layout");
            let size = rng.range(1, 600);
            let mut bytes = vec![false; size as usize];
            let mut dirty = Dirty::default();
            let mut objects: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
            for _ in 0..rng.below(6) {
                let (from, len) = (rng.below(size), rng.range(1, 40));
                for at in from..(from + len).min(size) {
                    bytes[at as usize] = true;
                    let (object, offset) = striper.locate(at);
                    objects.entry(object).or_default().insert(offset, 1);
                }
                let at = rng.below(size);
                if rng.chance(1, 3) {
                    dirty.write(at, Bufs::from(vec![1]));
                    // In whole blocks, which are as small as the stripe units here.
                    let (unit, from) = (u64::from(stripe_unit), at - at % u64::from(stripe_unit));
                    bytes[from as usize..(from + unit).min(size) as usize].fill(true);
                }
            }
            for whence in [SEEK_DATA, SEEK_HOLE] {
                let start = rng.below(size);
                let (mut at, mut found) = (start, None);
                while at < size && found.is_none() {
                    let mut search = Search::new(&striper, &dirty, (at, size), 0);
                    assert!(search.pieces.len() as u64 <= AT_ONCE && search.end > at);
                    for (n, piece) in search.pieces.clone().iter().enumerate() {
                        let have = objects.get(&piece.object_no).map(input::write).ok_or(Errno::ENOENT);
                        search.piece_done(n, have);
                    }
                    assert!(search.is_done());
                    found = search.found(whence).expect("no error");
                    at = search.end;
                }
                assert_eq!(found, by_bytes(&bytes, start, whence), "seed {seed}, {whence} from {start}");
            }
        }
    }

    #[test]
    fn extents_of_a_broken_osd_are_cut() {
        let layout = FileLayout::new(1);
        let striper = Striper::new(&layout).expect("valid");
        let mut search = Search::new(&striper, &Dirty::default(), (10, 100), 0);
        let extents = BTreeMap::from([(0_u64, 5_u64), (50, u64::MAX), (200, 7)]);
        search.piece_done(0, Ok(input::write(&extents)));
        assert_eq!(search.data(), Ok(vec![(50, 100)]));
        search.piece_done(0, Ok(Bufs::from(vec![1, 2, 3])));
        assert_eq!(search.data(), Err(Errno::EIO));
        search.piece_done(0, Err(Errno::EOPNOTSUPP));
        assert_eq!(search.data(), Ok(vec![(10, 100)]));
    }
}
