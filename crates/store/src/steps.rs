//! What each step of a transaction does.

use crate::api::{ObjectKey, TxnOp};
use crate::extents::{Extent, decode_extent};
use crate::key::{self, Key};
use crate::logged::{Bulk, Step};
use crate::plan::{Cell, INLINE_DATA, Onode, Plan};
use crate::table::View;
use crate::tree::Stop;
use stdx::{BLOCK, Buf, Bufs};

const BLOCK_LEN: u64 = BLOCK as u64;
/// Larger objects are removed bit by bit.
const LARGE_OBJECT: u64 = 32 << 20;
/// Omaps of more bytes are cloned bit by bit.
const LARGE_OMAP: u64 = 64 << 10;

/// A large omap that is being copied before the transaction that clones it is applied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Staged {
    /// The original, and the copy; 0 before it is begun.
    pub source: u64,
    pub copy: u64,
    /// Where to go on.
    pub from: Option<Key>,
    pub done: bool,
}

impl<'a> Plan<'a> {
    pub(crate) fn step(&mut self, step: &'a Step) -> Result<(), Stop> {
        match step {
            Step::Bulk(bulk) => self.write_bulk(bulk),
            Step::Op(op) => self.op(op),
        }
    }

    fn op(&mut self, op: &'a TxnOp) -> Result<(), Stop> {
        match op {
            TxnOp::Touch(key) => self.make(key).map(drop),
            TxnOp::Write(key, offset, data) => self.write_data(key, *offset, data),
            TxnOp::Zero(key, offset, len) => self.zero(key, *offset, *len),
            TxnOp::Truncate(key, size) => self.truncate(key, *size),
            TxnOp::Remove(key) => self.remove(key),
            TxnOp::Clone(from, to) => self.clone_object(from, to),
            TxnOp::CloneRange(from, to, source, len, destination) => {
                self.clone_range(from, to, *source, *len, *destination)
            }
            TxnOp::Rename(from, to) => self.rename(from, to),
            TxnOp::SetAttr(key, name, value) => {
                let onode = self.make(key)?;
                self.replace_cell(key::attr(onode.id, name), value).map(drop)
            }
            TxnOp::RemoveAttr(key, name) => match self.onode(key)? {
                Some(onode) => self.remove_cell(key::attr(onode.id, name)).map(drop),
                None => Ok(()),
            },
            TxnOp::OmapSet(key, entries) => self.omap_set(key, entries),
            TxnOp::OmapRemove(key, keys) => self.omap_remove(key, keys),
            TxnOp::OmapRemoveRange(key, from, to) => self.omap_remove_range(key, from, to),
            TxnOp::OmapClear(key) => {
                let mut onode = self.make(key)?;
                self.forget_omap(&mut onode);
                self.put_onode(key, &onode);
                self.remove_cell(key::header(onode.id)).map(drop)
            }
            TxnOp::OmapSetHeader(key, header) => {
                let onode = self.make(key)?;
                let cell = key::header(onode.id);
                if header.is_empty() {
                    return self.remove_cell(cell).map(drop);
                }
                self.replace_cell(cell, header).map(drop)
            }
        }
    }

    fn extend(&mut self, object: &'a ObjectKey, onode: &mut Onode, end: u64) {
        if end > onode.size {
            self.set_size(object, onode, end);
        }
    }

    fn write_data(&mut self, object: &'a ObjectKey, offset: u64, data: &Bufs) -> Result<(), Stop> {
        let mut onode = self.make(object)?;
        if data.is_empty() {
            return Ok(());
        }
        let end = offset + data.len() as u64;
        if (onode.inline || onode.size == 0) && end.max(onode.size) <= INLINE_DATA {
            let mut bytes = self.inline(&onode)?;
            bytes.resize(bytes.len().max(end as usize), 0);
            bytes[offset as usize..end as usize].copy_from_slice(&data.to_buf());
            self.put(key::inline(onode.id), [&[0], &bytes[..]].concat());
            onode.inline = true;
            let size = onode.size.max(end);
            self.set_size(object, &mut onode, size);
            return Ok(());
        }
        self.spill(object, &mut onode)?;
        self.write(onode.id, offset, &data.to_buf(), false)?;
        self.extend(object, &mut onode, end);
        Ok(())
    }

    /// The data of an object that is kept in the index; what is missing of its size is zeros.
    fn inline(&self, onode: &Onode) -> Result<Vec<u8>, Stop> {
        inline_data(&self.view(), onode)
    }

    /// Moves data from the index to a block.
    fn spill(&mut self, object: &'a ObjectKey, onode: &mut Onode) -> Result<(), Stop> {
        if onode.inline {
            let bytes = self.inline(onode)?;
            self.delete(key::inline(onode.id));
            onode.inline = false;
            self.put_onode(object, onode);
            self.write(onode.id, 0, &bytes.into(), false)?;
        }
        Ok(())
    }

    fn write_bulk(&mut self, bulk: &'a Bulk) -> Result<(), Stop> {
        let mut onode = self.make(&bulk.key)?;
        self.spill(&bulk.key, &mut onode)?;
        let (mut block, mut crcs) = (bulk.block, &bulk.crcs[..]);
        self.unmap(onode.id, block, block + crcs.len() as u64)?;
        for (place, len) in &bulk.runs {
            let (here, rest) = crcs.split_at(*len as usize);
            let extent = Extent { block, place: *place, shared: false, crcs: here.to_vec() };
            self.map(onode.id, &extent)?;
            self.done.adopted.push((*place, *len));
            block += len;
            crcs = rest;
        }
        self.extend(&bulk.key, &mut onode, block * BLOCK_LEN);
        Ok(())
    }

    /// Makes bytes zero that are mapped, within one block.
    fn zero_part(&mut self, id: u64, from: u64, to: u64) -> Result<(), Stop> {
        let block = from / BLOCK_LEN;
        if from < to && !self.extents(id, block, block + 1)?.is_empty() {
            self.write(id, from, &Buf::zeros((to - from) as usize), false)?;
        }
        Ok(())
    }

    /// Makes `from..to` read as zeros.
    fn zero_range(&mut self, id: u64, from: u64, to: u64) -> Result<(), Stop> {
        let (first, end) = (from.div_ceil(BLOCK_LEN), to / BLOCK_LEN);
        if first > end {
            return self.zero_part(id, from, to);
        }
        self.zero_part(id, from, first * BLOCK_LEN)?;
        self.zero_part(id, end * BLOCK_LEN, to)?;
        self.unmap(id, first, end)
    }

    fn zero(&mut self, object: &'a ObjectKey, offset: u64, len: u64) -> Result<(), Stop> {
        let mut onode = self.make(object)?;
        if len == 0 {
            return Ok(());
        }
        self.spill(object, &mut onode)?;
        // Beyond the end there is nothing but holes and zeros.
        self.zero_range(onode.id, offset, (offset + len).min(onode.size.max(offset)))?;
        self.extend(object, &mut onode, offset + len);
        Ok(())
    }

    fn truncate(&mut self, object: &'a ObjectKey, size: u64) -> Result<(), Stop> {
        let mut onode = self.make(object)?;
        if onode.inline && size <= INLINE_DATA {
            let mut bytes = self.inline(&onode)?;
            bytes.truncate(size as usize);
            onode.inline = !bytes.is_empty();
            let cell = [&[0], &bytes[..]].concat();
            self.done.changes.insert(key::inline(onode.id), onode.inline.then_some(cell));
        } else if onode.inline {
            self.spill(object, &mut onode)?;
        } else if size < onode.size {
            let end = onode.size.div_ceil(BLOCK_LEN);
            // What is behind the size in the last block stays zero, so that extending needs no write.
            self.zero_range(onode.id, size, end * BLOCK_LEN)?;
        }
        self.set_size(object, &mut onode, size);
        Ok(())
    }

    fn remove(&mut self, object: &'a ObjectKey) -> Result<(), Stop> {
        let Some(mut onode) = self.onode(object)? else { return Ok(()) };
        if onode.size > LARGE_OBJECT {
            // Its parts are removed bit by bit later.
            self.put(key::garbage(onode.id), Vec::new());
            self.done.garbage = true;
        } else {
            self.unmap(onode.id, 0, u64::MAX / BLOCK_LEN)?;
            for (key, value) in self.all(&key::part(onode.id))? {
                self.drop_cell(&value)?;
                self.delete(key);
            }
        }
        self.forget_omap(&mut onode);
        self.done.stats.objects -= 1;
        self.done.stats.data -= onode.size;
        self.delete_onode(object);
        Ok(())
    }

    /// Parts with the omap at once; its entries are removed bit by bit later.
    fn forget_omap(&mut self, onode: &mut Onode) {
        if onode.omap != 0 {
            self.put(key::garbage(onode.omap), Vec::new());
            self.done.garbage = true;
            self.done.stats.omap -= onode.omap_bytes;
            (onode.omap, onode.omap_count, onode.omap_bytes) = (0, 0, 0);
        }
    }

    fn rename(&mut self, from: &'a ObjectKey, to: &'a ObjectKey) -> Result<(), Stop> {
        let Some(onode) = self.onode(from)? else { return Ok(()) };
        if from != to {
            self.remove(to)?;
            self.delete_onode(from);
            self.put_onode(to, &onode);
        }
        Ok(())
    }

    fn clone_object(&mut self, from: &'a ObjectKey, to: &'a ObjectKey) -> Result<(), Stop> {
        let Some(source) = self.onode(from)? else { return Ok(()) };
        if from == to {
            return Ok(());
        }
        self.remove(to)?;
        let mut copy = Onode { id: self.new_id(), omap: 0, ..source.clone() };
        for extent in self.share(source.id, 0, source.size.div_ceil(BLOCK_LEN))? {
            self.map(copy.id, &extent)?;
        }
        let mut cells = self.all(&key::attr(source.id, b""))?;
        cells.extend(self.all(&key::inline(source.id))?);
        cells.extend(self.all(&key::header(source.id))?);
        let mut moved: Vec<_> = cells.into_iter().map(|(k, v)| (key::rebased(&k, copy.id), v)).collect();
        if let Some(staged) = self.take_staged(source.omap) {
            copy.omap = staged;
            self.follow(source.omap, staged)?;
        } else if source.omap != 0 {
            copy.omap = self.new_id();
            let entries = self.all(&key::prefixed(b'M', source.omap))?;
            moved.extend(entries.into_iter().map(|(k, v)| (key::rebased(&k, copy.omap), v)));
        }
        for (key, value) in moved {
            self.copy_cell(key, value)?;
        }
        self.put_onode(to, &copy);
        self.done.stats.objects += 1;
        self.done.stats.data += copy.size;
        self.done.stats.omap += copy.omap_bytes;
        Ok(())
    }

    fn clone_range(
        &mut self,
        from: &'a ObjectKey,
        to: &'a ObjectKey,
        source: u64,
        len: u64,
        destination: u64,
    ) -> Result<(), Stop> {
        let mut onode = self.make(to)?;
        if len == 0 {
            return Ok(());
        }
        self.spill(to, &mut onode)?;
        let mut origin = self.onode(from)?.unwrap_or_default();
        self.spill(from, &mut origin)?;
        let (id, size) = (origin.id, origin.size);
        let there = size.saturating_sub(source).min(len);
        // The bytes before and after the whole blocks are copied, the blocks shared; all are taken before any changes.
        let aligned = source % BLOCK_LEN == destination % BLOCK_LEN;
        let (first, end) = (source.div_ceil(BLOCK_LEN), (source + there) / BLOCK_LEN);
        let (first, end) = if aligned && first < end { (first, end) } else { (0, 0) };
        let (head_end, tail) =
            if end == 0 { (source + there, source + there) } else { (first * BLOCK_LEN, end * BLOCK_LEN) };
        let head = self.read(id, source, head_end - source)?;
        let tail_bytes = self.read(id, tail, source + there - tail)?;
        let at = |offset: u64| offset - source + destination;
        if end > 0 {
            let shared = self.share(id, first, end)?;
            self.unmap(onode.id, at(first * BLOCK_LEN) / BLOCK_LEN, at(end * BLOCK_LEN) / BLOCK_LEN)?;
            for extent in shared {
                let block = at(extent.block * BLOCK_LEN) / BLOCK_LEN;
                self.map(onode.id, &Extent { block, ..extent })?;
            }
        }
        self.write(onode.id, destination, &head.bytes.into(), head.damaged)?;
        self.write(onode.id, at(tail), &tail_bytes.bytes.into(), tail_bytes.damaged)?;
        let (zeros, stop) = (destination + there, destination + len);
        self.zero_range(onode.id, zeros, stop.min(onode.size.max(zeros)))?;
        self.extend(to, &mut onode, stop);
        Ok(())
    }

    fn omap_set(&mut self, object: &'a ObjectKey, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Stop> {
        let mut onode = self.make(object)?;
        if onode.omap == 0 {
            onode.omap = self.new_id();
        }
        for (name, value) in entries {
            if let Some(len) = self.replace_cell(key::omap(onode.omap, name), value)? {
                self.count_omap(&mut onode, -1, name.len() as u64 + len);
            }
            self.count_omap(&mut onode, 1, (name.len() + value.len()) as u64);
        }
        self.put_onode(object, &onode);
        Ok(())
    }

    fn count_omap(&mut self, onode: &mut Onode, entries: i64, bytes: u64) {
        let change = bytes as i64 * entries;
        onode.omap_count = onode.omap_count.wrapping_add_signed(entries);
        onode.omap_bytes = onode.omap_bytes.wrapping_add_signed(change);
        self.done.stats.omap = self.done.stats.omap.wrapping_add_signed(change);
        self.done.stats.largest_omap = self.done.stats.largest_omap.max(onode.omap_bytes);
    }

    fn omap_remove(&mut self, object: &'a ObjectKey, keys: &[Vec<u8>]) -> Result<(), Stop> {
        let Some(mut onode) = self.onode(object)?.filter(|o| o.omap != 0) else { return Ok(()) };
        for name in keys {
            if let Some(len) = self.remove_cell(key::omap(onode.omap, name))? {
                self.count_omap(&mut onode, -1, name.len() as u64 + len);
            }
        }
        self.put_onode(object, &onode);
        Ok(())
    }

    fn omap_remove_range(&mut self, object: &'a ObjectKey, from: &[u8], to: &[u8]) -> Result<(), Stop> {
        let Some(mut onode) = self.onode(object)?.filter(|o| o.omap != 0) else { return Ok(()) };
        let mut gone = Vec::new();
        {
            let mut scan = self.scan(&key::omap(onode.omap, from), &key::omap(onode.omap, to));
            while let Some(entry) = scan.next()? {
                gone.push((Key::from(entry.0), entry.1.to_vec()));
            }
        }
        for (key, value) in gone {
            let len = self.drop_cell(&value)?;
            self.count_omap(&mut onode, -1, (key.len() - key::OMAP_KEY_AT) as u64 + len);
            self.delete(key);
        }
        self.put_onode(object, &onode);
        Ok(())
    }

    /// Removes some entries of objects and omaps that were parted with; false where there are no more.
    pub(crate) fn collect_garbage(&mut self, entries: usize) -> Result<bool, Stop> {
        let first = self.scan(&Key::of([b"G"]), &Key::of([b"H"])).next()?.map(|(name, _)| Key::from(name));
        let Some(name) = first else { return Ok(false) };
        let id = key::number(&name, 1).ok_or_else(|| crate::tree::corrupt("name of something removed"))?;
        let (of_omap, of_object) = (key::prefixed(b'M', id), key::part(id));
        let mut gone = self.some(&of_omap, &of_omap, entries)?;
        gone.extend(self.some(&of_object, &of_object, entries - gone.len())?);
        if gone.len() < entries {
            self.delete(name);
        }
        for (key, value) in gone {
            match decode_extent(&key, &value).filter(|_| key::is_extent(&key)) {
                Some(extent) => self.unmap(id, extent.block, extent.end())?,
                None => drop(self.drop_cell(&value)?),
            }
            self.delete(key);
        }
        Ok(true)
    }

    /// At most `max` entries whose keys begin with `prefix`, from `from` on.
    fn some(&self, prefix: &Key, from: &Key, max: usize) -> Result<Vec<(Key, Vec<u8>)>, Stop> {
        let mut scan = self.scan(from, &key::end_of(prefix));
        let mut out = Vec::new();
        while out.len() < max
            && let Some(entry) = scan.next()?
        {
            out.push((entry.0.into(), entry.1.to_vec()));
        }
        Ok(out)
    }

    /// Copies the next entries of a large omap for a clone to come; true when all are copied. The copy is garbage until
    /// the clone takes it, so that nothing is left of it where the store ends before.
    pub(crate) fn stage(&mut self, staged: &mut Staged, entries: usize) -> Result<(), Stop> {
        if staged.copy == 0 {
            staged.copy = self.new_id();
            self.put(key::garbage(staged.copy), Vec::new());
            self.done.garbage = true;
        }
        let prefix = key::prefixed(b'M', staged.source);
        let found = self.some(&prefix, staged.from.as_ref().unwrap_or(&prefix), entries)?;
        staged.done = found.len() < entries;
        if let Some((last, _)) = found.last() {
            staged.from = Some(key::after(last));
        }
        for (key, value) in found {
            self.copy_cell(key::rebased(&key, staged.copy), value)?;
        }
        Ok(())
    }

    /// The omap of an object of which a clone should be made bit by bit.
    pub(crate) fn large_omap(&mut self, object: &'a ObjectKey) -> Result<Option<u64>, Stop> {
        Ok(self.onode(object)?.filter(|o| o.omap_bytes > LARGE_OMAP).map(|o| o.omap))
    }

    /// A copy of this omap that was made for a clone and not taken yet.
    fn take_staged(&mut self, source: u64) -> Option<u64> {
        let free = |copy: u64| !matches!(self.done.changes.get(&key::garbage(copy)), Some(None));
        let copy = self.base.staged.iter().find(|s| s.source == source && s.done && free(s.copy))?.copy;
        self.delete(key::garbage(copy));
        Some(copy)
    }

    /// Repeats on a copy what this transaction has done to the original since it was copied.
    fn follow(&mut self, source: u64, copy: u64) -> Result<(), Stop> {
        let prefix = key::prefixed(b'M', source);
        let since: Vec<_> = self.done.changes.range(&prefix..&key::end_of(&prefix)).collect();
        let since: Vec<(Key, Option<Vec<u8>>)> =
            since.into_iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        for (key, value) in since {
            let key = key::rebased(&key, copy);
            self.remove_cell(key.clone())?;
            if let Some(value) = value {
                self.copy_cell(key, value)?;
            }
        }
        Ok(())
    }

    /// Puts a copy of a cell under another key.
    fn copy_cell(&mut self, key: Key, cell: Vec<u8>) -> Result<(), Stop> {
        match Cell::parse(&cell)? {
            Cell::Inline(_) => self.put(key, cell),
            blob => {
                let value = blob.load(&self.view())?;
                self.put_cell(key, &value);
            }
        }
        Ok(())
    }
}

/// The data of an object that is kept in the index; what is missing of its size is zeros.
pub(crate) fn inline_data(view: &View<'_>, onode: &Onode) -> Result<Vec<u8>, Stop> {
    if !onode.inline {
        return Ok(Vec::new());
    }
    match view.get(&key::inline(onode.id))? {
        Some(cell) => Cell::parse(&cell)?.load(view),
        None => Err(crate::tree::corrupt(format!("data of object id {}", onode.id))),
    }
}
