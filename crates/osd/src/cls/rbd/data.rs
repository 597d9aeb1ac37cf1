//! Data objects of images: what a clone copies from its parent, and zeros.

use crate::cls::class::{MethodResult, done, fail};
use crate::cls::object::Object;
use crate::cls::stored::{Input, must_exist};
use std::collections::BTreeMap;
use stdx::Bufs;
use wire::Errno;

/// Writes the parent's data, unless the object exists.
pub(super) fn copyup(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    if !o.exists() {
        o.write(0, o.input_data(0..bytes.len()))?;
    }
    done()
}

/// Writes the parent's data, of which there are only some ranges, unless the object exists.
pub(super) fn sparse_copyup(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (ranges, data): (BTreeMap<u64, u64>, _) = (input.get()?, input.get_range()?);
    if o.exists() {
        return done();
    }
    if ranges.is_empty() {
        o.create(true)?;
        return done();
    }
    let data = o.input_data(data);
    let mut at: usize = 0;
    for (off, len) in ranges {
        let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len));
        let end = end.filter(|end| *end <= data.len()).ok_or(Errno::EINVAL)?;
        o.write(off, data.slice(at..end))?;
        at = end;
    }
    done()
}

/// What is asserted of a writer's newest snapshot, compared with the object's.
mod relation {
    pub const NEWER: u8 = 0;
    pub const NOT_NEWER: u8 = 1;
}

/// ERANGE unless a write under this snapshot does, or does not, preserve the object's state first.
pub(super) fn assert_snapc_seq(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (seq, relation): (u64, u8) = (input.get()?, input.get()?);
    let is_newer = o.newest_snap()?.is_none_or(|newest| seq > newest.0);
    match (relation, is_newer) {
        (relation::NEWER, true) | (relation::NOT_NEWER, false) => done(),
        (relation::NEWER | relation::NOT_NEWER, _) => fail(Errno::ERANGE),
        _ => fail(Errno::EOPNOTSUPP),
    }
}

/// The most runs that an object is taken apart into, each of which is a write: enough for 128 MiB in blocks
/// of 4 KiB.
const MAX_RUNS: usize = 16_384;

/// Runs of bytes, as (offset, length), that are left if every block of zeros is taken out. EINVAL if the
/// block is so small that there are too many.
fn runs(data: &[u8], block: usize) -> Result<Vec<(usize, usize)>, Errno> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (i, bytes) in data.chunks(block).enumerate().filter(|(_, bytes)| bytes.iter().any(|b| *b != 0)) {
        let (off, count) = (i * block, runs.len());
        match runs.last_mut() {
            Some((from, len)) if *from + *len == off => *len += bytes.len(),
            _ if count == MAX_RUNS => return Err(Errno::EINVAL),
            _ => runs.push((off, bytes.len())),
        }
    }
    Ok(runs)
}

/// Makes holes of blocks that are zero, and removes an object of zeros if the client wants that.
pub(super) fn sparsify(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (block, remove_empty): (u64, bool) = (input.get()?, input.get()?);
    let block = usize::try_from(block).ok().filter(|block| *block > 0).ok_or(Errno::EINVAL)?;
    must_exist(o)?;
    let size = o.size()?;
    let data = if size == 0 { Bufs::new() } else { o.read(0, size)? };
    let flat = data.to_buf();
    let runs = runs(&flat, block)?;
    if runs.is_empty() && remove_empty {
        o.remove()?;
        return done();
    }
    if runs == [(0, flat.len())] || flat.is_empty() {
        return done();
    }
    o.truncate(0)?;
    for (off, len) in runs {
        o.write(off as u64, data.slice(off..off + len))?;
    }
    done()
}
