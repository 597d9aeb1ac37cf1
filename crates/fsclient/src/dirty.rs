//! A file's buffered writes: data that the client has taken and the OSDs do not have yet.
//!
//! Extents never overlap. An extent is *waiting* until it is handed out to be written, then *flying*. A write
//! over a flying extent waits behind it, so that two writes of one byte are never under way at once and
//! arrive in their order.

use std::collections::BTreeMap;
use stdx::{Buf, BufMut, Bufs};

/// One contiguous piece handed out to be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flight {
    pub(crate) offset: u64,
    pub(crate) data: Bufs,
}

/// Buffered writes of one file.
#[derive(PartialEq, Debug, Default)]
pub(crate) struct Dirty {
    /// Not handed out yet, newest content, by offset; never overlapping.
    waiting: BTreeMap<u64, Bufs>,
    /// Handed out, by offset; never overlapping. A waiting extent over one is newer.
    flying: BTreeMap<u64, Bufs>,
    waiting_bytes: u64,
    flying_bytes: u64,
}

impl Dirty {
    /// Nothing buffered.
    pub(crate) const fn new() -> Self {
        Self { waiting: BTreeMap::new(), flying: BTreeMap::new(), waiting_bytes: 0, flying_bytes: 0 }
    }

    /// True if nothing is buffered.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.flying.is_empty()
    }

    /// Bytes waiting and flying.
    pub(crate) fn bytes(&self) -> u64 {
        self.waiting_bytes + self.flying_bytes
    }

    /// Bytes not handed out yet.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Buffers a write.
    pub(crate) fn write(&mut self, offset: u64, data: Bufs) {
        if data.is_empty() {
            return;
        }
        self.waiting_bytes -= cut(&mut self.waiting, offset, offset + data.len() as u64);
        self.waiting_bytes += data.len() as u64;
        // Small appends join the extent before them, so that a file written in pieces leaves in few writes.
        let before = self.waiting.range(..offset).next_back().map(|(at, d)| (*at, d.len() as u64));
        match before {
            Some((at, len)) if at + len == offset => {
                let extent = self.waiting.get_mut(&at).expect("just found");
                extent.append(data);
                if extent.parts().len() > 64 {
                    *extent = extent.to_buf().into();
                }
            }
            _ => {
                self.waiting.insert(offset, data);
            }
        }
    }

    /// Lays what is buffered over `base`, the file's content at `offset` as the OSDs have it.
    pub(crate) fn overlay(&self, offset: u64, base: Bufs) -> Bufs {
        let end = offset + base.len() as u64;
        let touches = |map: &BTreeMap<u64, Bufs>| overlapping(map, offset, end).next().is_some();
        if !touches(&self.waiting) && !touches(&self.flying) {
            return base;
        }
        let mut out = BufMut::zeroed(base.len());
        let bytes = out.as_mut_slice();
        copy_into(bytes, 0, &base);
        for map in [&self.flying, &self.waiting] {
            for (at, data) in overlapping(map, offset, end) {
                let (from, to) = (at.max(offset), (at + data.len() as u64).min(end));
                let piece = data.slice((from - at) as usize..(to - at) as usize);
                copy_into(bytes, (from - offset) as usize, &piece);
            }
        }
        Bufs::from(out.freeze())
    }

    /// True if the whole range is buffered, so that a read needs no OSD.
    pub(crate) fn covers(&self, offset: u64, end: u64) -> bool {
        let mut at = offset;
        while at < end {
            let reach = [&self.waiting, &self.flying]
                .into_iter()
                .filter_map(|map| map.range(..=at).next_back())
                .map(|(start, data)| start + data.len() as u64)
                .max();
            match reach {
                Some(reach) if reach > at => at = reach,
                _ => return false,
            }
        }
        true
    }

    /// True if bytes of the range are buffered.
    pub(crate) fn overlaps(&self, offset: u64, end: u64) -> bool {
        [&self.waiting, &self.flying].into_iter().any(|map| overlapping(map, offset, end).next().is_some())
    }

    /// The buffered parts of a range; they may overlap.
    pub(crate) fn ranges(&self, offset: u64, end: u64) -> Vec<(u64, u64)> {
        let maps = [&self.waiting, &self.flying].into_iter();
        let parts = maps.flat_map(|map| overlapping(map, offset, end));
        parts.map(|(at, data)| (at.max(offset), (at + data.len() as u64).min(end))).collect()
    }

    /// Hands out waiting bytes without a gap, at most `max`, that overlap nothing flying, and makes them
    /// flying.
    pub(crate) fn take_off(&mut self, max: u64, object_size: u64) -> Option<Flight> {
        let (offset, limit) = self.waiting.iter().find_map(|(at, data)| {
            // Not across an object's end, so that each flight is one OSD operation.
            let limit = (at + max).min((at / object_size + 1) * object_size);
            let end = (at + data.len() as u64).min(limit);
            let is_free = overlapping(&self.flying, *at, end).next().is_none();
            is_free.then_some((*at, limit))
        })?;
        // Neighbours join, up to the next bytes that are flying.
        let limit = self.flying.range(offset..limit).next().map_or(limit, |(at, _)| *at);
        let (mut data, mut end) = (Bufs::new(), offset);
        while end < limit
            && let Some(mut next) = self.waiting.remove(&end)
        {
            let len = next.len().min((limit - end) as usize);
            if next.len() > len {
                self.waiting.insert(end + len as u64, next.slice(len..next.len()));
                next = next.slice(0..len);
            }
            end += next.len() as u64;
            data.append(next);
        }
        self.flying.insert(offset, data.clone());
        self.waiting_bytes -= data.len() as u64;
        self.flying_bytes += data.len() as u64;
        Some(Flight { offset, data })
    }

    /// A flight has ended: its data are on the OSDs, or cannot get there.
    pub(crate) fn landed(&mut self, offset: u64) {
        let data = self.flying.remove(&offset).expect("a flight that took off");
        self.flying_bytes -= data.len() as u64;
    }

    /// A flight has come back: its data wait again. Nothing was written over them meanwhile.
    pub(crate) fn came_back(&mut self, offset: u64) {
        let data = self.flying.remove(&offset).expect("a flight that took off");
        self.flying_bytes -= data.len() as u64;
        self.waiting_bytes += data.len() as u64;
        let end = offset + data.len() as u64;
        assert!(overlapping(&self.waiting, offset, end).next().is_none(), "nothing waits behind the flight");
        self.waiting.insert(offset, data);
    }

    /// The flight at `offset`.
    pub(crate) fn flight(&self, offset: u64) -> Option<&Bufs> {
        self.flying.get(&offset)
    }

    /// Forgets everything from `size` on that is not in flight: the file was truncated.
    pub(crate) fn truncate(&mut self, size: u64) {
        self.waiting_bytes -= cut(&mut self.waiting, size, u64::MAX);
    }

    /// Forgets a range that is not in flight: a hole was punched there.
    pub(crate) fn punch(&mut self, offset: u64, end: u64) {
        self.waiting_bytes -= cut(&mut self.waiting, offset, end);
    }

    /// Forgets everything that is not in flight, after an error that cannot be repaired.
    pub(crate) fn discard(&mut self) {
        self.waiting.clear();
        self.waiting_bytes = 0;
    }

    /// True if anything is in flight.
    pub(crate) fn is_flying(&self) -> bool {
        !self.flying.is_empty()
    }

    /// The end of the last byte that is not in flight.
    pub(crate) fn waiting_end(&self) -> u64 {
        self.waiting.last_key_value().map_or(0, |(at, d)| at + d.len() as u64)
    }
}

fn overlapping(map: &BTreeMap<u64, Bufs>, start: u64, end: u64) -> impl Iterator<Item = (u64, &Bufs)> {
    let before = map.range(..start).next_back().filter(move |(at, d)| *at + d.len() as u64 > start);
    before.into_iter().chain(map.range(start..end.max(start))).map(|(at, d)| (*at, d))
}

/// Removes a range, splitting the extents at its ends; returns the number of bytes removed.
fn cut(map: &mut BTreeMap<u64, Bufs>, start: u64, end: u64) -> u64 {
    let mut removed = 0;
    let touched: Vec<u64> = overlapping(map, start, end).map(|(at, _)| at).collect();
    for at in touched {
        let data = map.remove(&at).expect("just found");
        let data_end = at + data.len() as u64;
        removed += data_end.min(end) - at.max(start);
        if at < start {
            map.insert(at, data.slice(0..(start - at) as usize));
        }
        if data_end > end {
            map.insert(end, data.slice((end - at) as usize..data.len()));
        }
    }
    removed
}

fn copy_into(bytes: &mut [u8], mut at: usize, data: &Bufs) {
    for part in data.parts() {
        let part: &Buf = part;
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Rng;

    /// The content at the OSDs and the expected content of the file, byte by byte.
    struct Model {
        osd: Vec<u8>,
        file: Vec<u8>,
        dirty: Dirty,
        flights: Vec<Flight>,
    }

    const SIZE: u64 = 3000;

    impl Model {
        fn step(&mut self, rng: &mut Rng) {
            match rng.below(6) {
                0..=2 => {
                    let at = rng.below(SIZE - 1);
                    let len = rng.range(1, (SIZE - at).min(300) + 1);
                    let data = Buf::pattern(rng.u64(), len as usize);
                    self.file[at as usize..(at + len) as usize].copy_from_slice(&data);
                    self.dirty.write(at, data.into());
                    let counted: u64 = self.dirty.waiting.values().map(|d| d.len() as u64).sum();
                    assert_eq!(self.dirty.waiting_bytes(), counted);
                    let flying: u64 = self.flights.iter().map(|f| f.data.len() as u64).sum();
                    assert_eq!(self.dirty.bytes(), counted + flying);
                }
                3 => self.flights.extend(self.dirty.take_off(200, 512)),
                4 if !self.flights.is_empty() => {
                    let i = rng.below(self.flights.len() as u64) as usize;
                    let flight = self.flights.swap_remove(i);
                    copy_into(&mut self.osd, flight.offset as usize, &flight.data);
                    self.dirty.landed(flight.offset);
                }
                _ => {
                    let at = rng.below(SIZE);
                    let end = rng.range(at, SIZE + 1);
                    let base = Bufs::from(self.osd[at as usize..end as usize].to_vec());
                    let expected = &self.file[at as usize..end as usize];
                    assert_eq!(self.dirty.overlay(at, base).to_vec(), expected);
                    if self.dirty.covers(at, end) {
                        let nothing = Bufs::from(vec![0; (end - at) as usize]);
                        assert_eq!(self.dirty.overlay(at, nothing).to_vec(), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn reads_see_the_newest_and_everything_arrives_in_order() {
        for seed in 0..200 {
            let mut rng = Rng::from_seed(seed);
            let zeros = vec![0; SIZE as usize];
            let mut m = Model { osd: zeros.clone(), file: zeros, dirty: Dirty::default(), flights: vec![] };
            for _ in 0..200 {
                m.step(&mut rng);
            }
            loop {
                m.flights.extend(std::iter::from_fn(|| m.dirty.take_off(200, 512)));
                let Some(flight) = m.flights.pop() else { break };
                assert!(flight.offset / 512 == (flight.offset + flight.data.len() as u64 - 1) / 512);
                copy_into(&mut m.osd, flight.offset as usize, &flight.data);
                m.dirty.landed(flight.offset);
            }
            assert!(m.dirty.is_empty());
            assert_eq!(m.osd, m.file, "seed {seed}");
        }
    }

    #[test]
    fn a_truncation_forgets_what_lies_beyond() {
        let mut dirty = Dirty::default();
        dirty.write(100, vec![1; 100].into());
        dirty.truncate(150);
        assert_eq!((dirty.waiting_end(), dirty.waiting_bytes()), (150, 50));
        dirty.punch(100, 120);
        assert_eq!(dirty.waiting_bytes(), 30);
        dirty.truncate(0);
        assert!(dirty.is_empty());
    }
}
