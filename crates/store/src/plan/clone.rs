//! Effects of clones. They share blocks of data; xattrs and omap entries are copied.

use super::{Plan, Staged};
use crate::api::ObjectKey;
use crate::extents::Extent;
use crate::key::{self, Key};
use crate::onode::{Cell, Onode};
use crate::stop::Stop;
use stdx::BLOCK;

const BLOCK_LEN: u64 = BLOCK as u64;
/// Larger omaps are copied bit by bit before the clone, in bytes.
const LARGE_OMAP: u64 = 64 << 10;

impl<'a> Plan<'a> {
    pub(super) fn clone_object(&mut self, from: &'a ObjectKey, to: &'a ObjectKey) -> Result<(), Stop> {
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

    pub(super) fn clone_range(
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
        // The bytes before and after the whole blocks are copied, the blocks shared; all are taken before any
        // changes.
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

    /// Copies the next entries of a large omap for a clone to come; true when all are copied. The copy is
    /// garbage until the clone takes it, so that nothing is left of it where the store ends before.
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
        let copy =
            self.base.scratch.staged.iter().find(|s| s.source == source && s.done && free(s.copy))?.copy;
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
