//! Effects on the data of an object: mapping, sharing and overwriting blocks.

use super::Plan;
use crate::alloc::{Run, ZONE, by_zone};
use crate::crc::{block_crc, poisoned};
use crate::extents::{Extent, RefsValue, WINDOW, extents};
use crate::key;
use crate::onode::decode;
use crate::stop::Stop;
use stdx::{BLOCK, Buf};
use wire::Writer;

/// Bytes of an object.
pub(super) struct Bytes {
    pub bytes: Vec<u8>,
    /// True if a block of them does not match its checksum.
    pub damaged: bool,
}

impl Plan<'_> {
    pub(super) fn extents(&self, id: u64, from: u64, to: u64) -> Result<Vec<Extent>, Stop> {
        extents(&self.view(), id, from, to)
    }

    fn put_extent(&mut self, id: u64, extent: Extent) {
        self.put(key::extent(id, extent.block), extent.encode());
    }

    /// Makes `from..to` a hole.
    pub(super) fn unmap(&mut self, id: u64, from: u64, to: u64) -> Result<(), Stop> {
        if from >= to {
            return Ok(());
        }
        let extents = self.extents(id, from, to)?;
        self.unmap_of(id, from, to, extents)
    }

    /// The same where the extents of the range, or more, are known.
    fn unmap_of(&mut self, id: u64, from: u64, to: u64, extents: Vec<Extent>) -> Result<(), Stop> {
        for extent in extents.into_iter().filter(|e| e.block < to && e.end() > from) {
            self.delete(key::extent(id, extent.block));
            if extent.block < from {
                self.put_extent(id, extent.cut(0, from));
            }
            if extent.end() > to {
                self.put_extent(id, extent.cut(to, u64::MAX));
            }
            let gone = extent.cut(from, to);
            self.release((gone.place, gone.crcs.len() as u64), extent.shared)?;
        }
        Ok(())
    }

    /// Says where the blocks from `block` on are, which must be a hole.
    pub(super) fn map(&mut self, id: u64, extent: &Extent) -> Result<(), Stop> {
        let left = match extent.block.checked_sub(1) {
            // Shared ones are not joined.
            _ if extent.shared => None,
            Some(before) => self.extents(id, before, extent.block)?.pop(),
            None => None,
        };
        self.map_beside(id, extent, left.as_ref());
        Ok(())
    }

    /// The same where it is known which extent ends there.
    fn map_beside(&mut self, id: u64, extent: &Extent, left: Option<&Extent>) {
        let mut at = extent.block;
        while at < extent.end() {
            let end = (at - at % WINDOW + WINDOW).min(extent.end());
            let mut part = extent.cut(at, end);
            if !at.is_multiple_of(WINDOW)
                && let Some(left) = left
                && !left.shared
                && !part.shared
                && left.end() == at
                && left.place + left.crcs.len() as u64 == part.place
            {
                part = Extent { crcs: [&left.crcs[..], &part.crcs].concat(), ..*left };
            }
            self.put_extent(id, part);
            at = end;
        }
    }

    /// One reference to these blocks less.
    fn release(&mut self, run: Run, shared: bool) -> Result<(), Stop> {
        if !shared {
            self.give(run);
            return Ok(());
        }
        for (chunk, from, to) in by_zone(run) {
            let mut refs = self.refs(chunk)?;
            for block in from..to {
                if !refs.remove((block % ZONE) as u8) {
                    self.give((block, 1));
                }
            }
            self.put_refs(chunk, &refs);
        }
        Ok(())
    }

    fn give(&mut self, run: Run) {
        for block in run.0..run.0 + run.1 {
            self.done.blocks.remove(&block);
        }
        self.done.given.push(run);
    }

    /// Marks the extents within `from..to` as shared, counts one more reference for each block there, and
    /// gives the parts within.
    pub(super) fn share(&mut self, id: u64, from: u64, to: u64) -> Result<Vec<Extent>, Stop> {
        let mut out = Vec::new();
        let mut runs = Vec::new();
        for mut extent in self.extents(id, from, to)? {
            let marked = std::mem::replace(&mut extent.shared, true);
            if !marked {
                self.put_extent(id, extent.clone());
            }
            let part = extent.cut(from, to);
            runs.extend(by_zone((part.place, part.crcs.len() as u64)));
            out.push(part);
        }
        // An object that was written in small pieces has many extents in each of few zones.
        runs.sort_unstable();
        for runs in runs.chunk_by(|a, b| a.0 == b.0) {
            let mut refs = self.refs(runs[0].0)?;
            for block in runs.iter().flat_map(|(_, from, to)| *from..*to) {
                refs.add((block % ZONE) as u8);
            }
            self.put_refs(runs[0].0, &refs);
        }
        Ok(out)
    }

    fn refs(&self, chunk: u64) -> Result<RefsValue, Stop> {
        let value = self.get(&key::refs(chunk))?;
        value.map_or_else(
            || Ok(RefsValue::default()),
            |bytes| decode(&bytes, || "block references".to_owned()),
        )
    }

    fn put_refs(&mut self, chunk: u64, refs: &RefsValue) {
        if refs.extra.is_empty() {
            self.delete(key::refs(chunk));
        } else {
            self.put(key::refs(chunk), Writer::encode(refs));
        }
    }

    /// The content of a block of the device.
    fn content(&self, place: u64) -> Result<Buf, Stop> {
        let frozen = self.base.frozen.map(|f| &f.unwritten);
        let found = [
            Some(&self.done.blocks),
            Some(&self.base.active.unwritten),
            frozen,
            Some(&self.base.scratch.fetched),
        ]
        .into_iter()
        .flatten()
        .find_map(|blocks| blocks.get(&place));
        found.cloned().or_else(|| self.base.writing.get(place)).ok_or(Stop::Blocks(place, 1))
    }

    /// `len` bytes from `offset` on; holes and what is beyond the end are zeros.
    pub(super) fn read(&self, id: u64, offset: u64, len: u64) -> Result<Bytes, Stop> {
        let mut out = Bytes { bytes: vec![0; len as usize], damaged: false };
        let block_len = BLOCK as u64;
        if len == 0 {
            return Ok(out);
        }
        let (from, to) = (offset / block_len, (offset + len).div_ceil(block_len));
        let extents = self.extents(id, from, to)?;
        self.want_all(&extents, from, to)?;
        for extent in extents {
            for block in extent.block.max(from)..extent.end().min(to) {
                let i = block - extent.block;
                let content = self.content(extent.place + i)?;
                out.damaged |= block_crc(&content) != extent.crcs[i as usize];
                let start = (block * block_len).max(offset);
                let end = ((block + 1) * block_len).min(offset + len);
                out.bytes[(start - offset) as usize..(end - offset) as usize].copy_from_slice(
                    &content[(start - block * block_len) as usize..(end - block * block_len) as usize],
                );
            }
        }
        Ok(out)
    }

    /// Stops for the first run of blocks that are not in memory, so that it is read at once.
    fn want_all(&self, extents: &[Extent], from: u64, to: u64) -> Result<(), Stop> {
        for extent in extents {
            let part = extent.cut(from, to);
            let end = part.place + part.crcs.len() as u64;
            let missing = |block: &u64| matches!(self.content(*block), Err(Stop::Blocks(..)));
            if let Some(first) = (part.place..end).find(missing) {
                return Err(Stop::Blocks(first, (first..end).take_while(missing).count() as u64));
            }
        }
        Ok(())
    }

    /// Overwrites bytes: blocks that are only in memory in place, others by new blocks.
    pub(super) fn write(&mut self, id: u64, offset: u64, bytes: &Buf, damaged: bool) -> Result<(), Stop> {
        let block_len = BLOCK as u64;
        if bytes.is_empty() {
            return Ok(());
        }
        let end = offset + bytes.len() as u64;
        let (first, last) = (offset / block_len, end.div_ceil(block_len));
        // One look at the index, with the block before.
        let mut known = self.extents(id, first.saturating_sub(1), last)?;
        let mut fresh: Vec<(u64, Buf, u32)> = Vec::new();
        let mut changed = false;
        for block in first..last {
            let start = block * block_len;
            let (from, to) = (offset.max(start), end.min(start + block_len));
            let new = bytes.slice((from - offset) as usize..(to - offset) as usize);
            let (content, damaged) = if new.len() == BLOCK {
                (new.settled(), damaged)
            } else {
                let mut old = self.read(id, start, block_len)?;
                old.bytes[(from - start) as usize..(to - start) as usize].copy_from_slice(&new);
                (Buf::copy_from(&old.bytes), damaged || old.damaged)
            };
            let crc = block_crc(&content);
            let crc = if damaged { poisoned(crc) } else { crc };
            if self.write_in_place(&mut known, block, &content, crc) {
                changed = true;
            } else {
                fresh.push((block, content, crc));
            }
        }
        if changed {
            let within = known.iter().filter(|e| e.end() > first);
            within.cloned().for_each(|extent| self.put_extent(id, extent));
        }
        let mut known = Some(known);
        while !fresh.is_empty() {
            let rows = fresh.windows(2).take_while(|w| w[0].0 + 1 == w[1].0).count() + 1;
            let (first, end) = (fresh[0].0, fresh[rows - 1].0 + 1);
            let known = match known.take() {
                Some(known) => known,
                None => self.extents(id, first.saturating_sub(1), end)?,
            };
            self.write_fresh(id, fresh.drain(..rows).collect(), known)?;
        }
        Ok(())
    }

    /// Replaces the content of a block that is only in memory, and its checksum in its extent.
    fn write_in_place(&mut self, known: &mut [Extent], block: u64, content: &Buf, crc: u32) -> bool {
        let Some(extent) = known.iter_mut().find(|e| e.block <= block && block < e.end()) else {
            return false;
        };
        let i = block - extent.block;
        let place = extent.place + i;
        let in_memory =
            self.done.blocks.contains_key(&place) || self.base.active.unwritten.contains_key(&place);
        if extent.shared || !in_memory {
            return false;
        }
        extent.crcs[i as usize] = crc;
        self.done.blocks.insert(place, content.clone());
        true
    }

    /// Gives a row of blocks new places, beside the block before them where that is free. `known` are the
    /// extents there and that of the block before.
    fn write_fresh(&mut self, id: u64, row: Vec<(u64, Buf, u32)>, known: Vec<Extent>) -> Result<(), Stop> {
        let (first, count) = (row[0].0, row.len() as u64);
        let before = known.iter().find(|e| e.block < first && e.end() >= first);
        let mut left = before.map(|e| e.cut(0, first));
        self.unmap_of(id, first, first + count, known)?;
        let mut goal = left.as_ref().map(|e| e.place + e.crcs.len() as u64);
        let mut row = row.into_iter().peekable();
        while let Some(block) = row.peek().map(|r| r.0) {
            let (place, len) = self.take(first + count - block, goal)?;
            goal = Some(place + len);
            let mut extent = Extent { block, place, shared: false, crcs: Vec::new() };
            for (i, (_, content, crc)) in row.by_ref().take(len as usize).enumerate() {
                self.done.blocks.insert(place + i as u64, content);
                extent.crcs.push(crc);
            }
            self.map_beside(id, &extent, left.take().as_ref());
        }
        Ok(())
    }
}
