//! READ, SPARSE_READ, MAPEXT, STAT, CMPEXT, CHECKSUM.

use super::exec::Exec;
use super::result::{OpOutput, OpStop, done, output};
use crate::ops::xxhash;
use msgs::Extent;
use std::collections::BTreeMap;
use stdx::{Bufs, crc32c};
use wire::{Errno, Reader, Writer};

/// Numbers of CHECKSUM's algorithms.
const XXHASH32: u8 = 0;
const XXHASH64: u8 = 1;
const CRC32C: u8 = 2;

impl Exec<'_> {
    /// The size that a read sees, including a truncation that the client knows and that has not arrived here.
    fn visible_size(&self, e: &Extent) -> u64 {
        let (seq, size) = e.truncation();
        if seq > self.info.truncate_seq { self.size.min(size) } else { self.size }
    }

    /// The range of `e` that exists, as (offset, length).
    fn clip(&self, e: &Extent) -> (u64, u64) {
        let size = self.visible_size(e);
        let left = size.saturating_sub(e.off);
        (e.off, if e.len == 0 { left } else { e.len.min(left) })
    }

    /// The data loaded for operation `i`, at most `len` bytes; shorter if the object was.
    fn loaded_data(&self, i: usize, len: u64) -> Bufs {
        let data = self.loaded.data.get(&i).cloned().unwrap_or_default();
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(data.len());
        data.slice(0..len)
    }

    pub(super) fn read(&mut self, i: usize, e: &Extent) -> Result<OpOutput, Errno> {
        let (_, len) = self.clip(e);
        Ok(OpOutput::of(self.loaded_data(i, len)))
    }

    /// The written extents within the range. Unlike in READ, a length of 0 means none, as in Ceph.
    fn extents(&self, i: usize, e: &Extent) -> BTreeMap<u64, u64> {
        if e.len == 0 {
            return BTreeMap::new();
        }
        let (from, len) = self.clip(e);
        let to = from + len;
        let stored = self.loaded.extents.get(&i).map_or(&[][..], Vec::as_slice);
        let cut = stored.iter().map(|(off, len)| ((*off).max(from), (off + len).min(to)));
        cut.filter(|(a, b)| a < b).map(|(a, b)| (a, b - a)).collect()
    }

    pub(super) fn sparse_read(&mut self, i: usize, e: &Extent) -> Result<OpOutput, Errno> {
        let extents = self.extents(i, e);
        let data = self.loaded_data(i, self.clip(e).1);
        let mut payload = Bufs::new();
        for (off, len) in &extents {
            let at = (off - e.off) as usize;
            payload.append(data.slice(at.min(data.len())..(at + *len as usize).min(data.len())));
        }
        let mut head = Writer::new();
        head.put(&extents);
        head.count(payload.len());
        let mut out = Bufs::from(head.into_vec());
        out.append(payload);
        Ok(OpOutput::of(out))
    }

    pub(super) fn map_ext(&mut self, i: usize, e: &Extent) -> Result<OpOutput, Errno> {
        output(&self.extents(i, e))
    }

    pub(super) fn stat(&mut self) -> Result<OpOutput, Errno> {
        self.must_exist()?;
        output(&(self.size, self.info.mtime))
    }

    pub(super) fn cmp_ext(&mut self, i: usize, e: &Extent, data: &Bufs) -> Result<OpOutput, OpStop> {
        if e.len != data.len() as u64 {
            return Err(Errno::EINVAL.into());
        }
        let have = self.loaded_data(i, self.clip(e).1).to_buf();
        let want = data.to_buf();
        // Bytes beyond the object's end compare as zeros.
        let differs = |at: &usize| want[*at] != have.get(*at).copied().unwrap_or(0);
        match (0..want.len()).find(differs) {
            Some(at) => Err(OpStop::Differs { at: i32::try_from(at).map_err(|_| Errno::EINVAL)? }),
            None => Ok(done()?),
        }
    }

    pub(super) fn checksum(
        &mut self,
        i: usize,
        (off, len): (u64, u64),
        chunk: u32,
        kind: u8,
        init: &Bufs,
    ) -> Result<OpOutput, Errno> {
        let (_, len) = self.clip(&Extent::new(off, len));
        let data = self.loaded_data(i, len).to_buf();
        let chunk = if chunk == 0 { data.len() } else { chunk as usize };
        if chunk > 0 && !data.len().is_multiple_of(chunk) {
            return Err(Errno::EINVAL);
        }
        let seed = init.to_buf();
        let mut seed = Reader::new(&seed);
        let mut w = Writer::new();
        let chunks = || data.chunks(chunk.max(1));
        w.count(chunks().len());
        match kind {
            CRC32C => {
                let seed = seed.get::<u32>().map_err(|_| Errno::EINVAL)?;
                chunks().for_each(|c| w.put(&crc32c::update(seed, c)));
            }
            XXHASH32 => {
                let seed = seed.get::<u32>().map_err(|_| Errno::EINVAL)?;
                chunks().for_each(|c| w.put(&xxhash::xxh32(seed, c)));
            }
            XXHASH64 => {
                let seed = seed.get::<u64>().map_err(|_| Errno::EINVAL)?;
                chunks().for_each(|c| w.put(&xxhash::xxh64(seed, c)));
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(OpOutput::of(w.into_vec()))
    }
}
