//! Effects on cells: values of xattrs, omap entries and headers.

use super::Plan;
use crate::key::{self, Key};
use crate::olds::Old;
use crate::onode::{BLOB_CHUNK, Cell, INLINE_MAX};
use crate::stop::Stop;

impl Plan<'_> {
    /// Puts a value under `key`, which holds none.
    pub(super) fn put_cell(&mut self, key: Key, value: &[u8]) {
        if value.len() <= INLINE_MAX {
            self.put(key, [&[0], value].concat());
            return;
        }
        let id = self.new_id();
        for (i, chunk) in value.chunks(BLOB_CHUNK).enumerate() {
            self.put(key::blob(id, i as u32), chunk.to_vec());
        }
        let len = value.len() as u32;
        self.put(key, [&[1][..], &id.to_le_bytes(), &len.to_le_bytes()].concat());
    }

    /// Forgets what a cell holds beside itself; gives the length of the value.
    pub(super) fn drop_cell(&mut self, bytes: &[u8]) -> Result<u64, Stop> {
        let cell = Cell::parse(bytes)?;
        self.drop_blob(cell.blob(), cell.len());
        Ok(cell.len())
    }

    fn drop_blob(&mut self, blob: Option<u64>, len: u64) {
        if let Some(id) = blob {
            for chunk in 0..(len as usize).div_ceil(BLOB_CHUNK) {
                self.delete(key::blob(id, chunk as u32));
            }
        }
    }

    /// Removes a cell where there is one; gives the length of its value.
    pub(super) fn remove_cell(&mut self, key: Key) -> Result<Option<u64>, Stop> {
        let len = self.vacate(&key)?;
        if len.is_some() {
            self.delete(key);
        }
        Ok(len)
    }

    /// Puts a value under `key`; gives the length of the one that was there.
    pub(super) fn replace_cell(&mut self, key: Key, value: &[u8]) -> Result<Option<u64>, Stop> {
        let len = self.vacate(&key)?;
        self.put_cell(key, value);
        Ok(len)
    }

    /// Forgets what a cell holds beside itself, where there is one, which is then to be put or deleted; gives
    /// the length of its value.
    fn vacate(&mut self, key: &Key) -> Result<Option<u64>, Stop> {
        let old = match self.done.changes.get(key) {
            Some(changed) => changed.as_deref().map(Old::parse).transpose()?,
            None => match self.base.scratch.olds.get(key) {
                Some(known) => known,
                None => self.base.view.with(key, |old| old.map(Old::parse).transpose())??,
            },
        };
        let Some(Old { blob, len }) = old else { return Ok(None) };
        self.drop_blob(blob, len);
        Ok(Some(len))
    }
}
