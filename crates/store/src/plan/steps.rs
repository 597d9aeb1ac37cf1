//! Effects of each step of a transaction.

use super::Plan;
use crate::api::{ObjectKey, TxnOp};
use crate::extents::Extent;
use crate::key;
use crate::logged::{Bulk, Step};
use crate::onode::{INLINE_DATA, Onode, inline_data};
use crate::stop::Stop;
use stdx::{BLOCK, Buf, Bufs};

const BLOCK_LEN: u64 = BLOCK as u64;
/// Larger objects are removed bit by bit.
const LARGE_OBJECT: u64 = 32 << 20;

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

    pub(super) fn extend(&mut self, object: &'a ObjectKey, onode: &mut Onode, end: u64) {
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
            let mut bytes = inline_data(&self.view(), &onode)?;
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

    /// Moves data from the index to a block.
    pub(super) fn spill(&mut self, object: &'a ObjectKey, onode: &mut Onode) -> Result<(), Stop> {
        if onode.inline {
            let bytes = inline_data(&self.view(), onode)?;
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
    pub(super) fn zero_range(&mut self, id: u64, from: u64, to: u64) -> Result<(), Stop> {
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
            let mut bytes = inline_data(&self.view(), &onode)?;
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

    pub(super) fn remove(&mut self, object: &'a ObjectKey) -> Result<(), Stop> {
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

    fn rename(&mut self, from: &'a ObjectKey, to: &'a ObjectKey) -> Result<(), Stop> {
        let Some(onode) = self.onode(from)? else { return Ok(()) };
        if from != to {
            self.remove(to)?;
            self.delete_onode(from);
            self.put_onode(to, &onode);
        }
        Ok(())
    }
}
