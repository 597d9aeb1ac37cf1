//! The map of an image's data objects (`rbd_object_map.ID`, and one for each snapshot): two bits for each say
//! if it exists, and if it has changed since the last snapshot (Ceph's `OBJECT_EXISTS` and the like).

use super::bit_vector::{BitVector, HEADER, Place};
use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{Input, must_exist};
use wire::{Errno, Reader};

/// States of a data object. The others are 0, it does not exist, and 2, it may.
mod state {
    pub const EXISTS: u8 = 1;
    /// It exists, and is as it was at the last snapshot.
    pub const EXISTS_CLEAN: u8 = 3;
}

/// The most data objects that an image with a map may have.
const MAX_OBJECTS: u64 = 256_000_000;

/// The stored map. ENOENT if there is none, EINVAL if it is damaged.
fn load(o: &mut Object<'_, '_>) -> Result<BitVector, MethodStop> {
    must_exist(o)?;
    let size = o.size()?;
    if size == 0 {
        return fail(Errno::ENOENT);
    }
    let stored = o.read(0, size)?.to_buf();
    Reader::new(&stored).get().map_err(|_| Errno::EINVAL.into())
}

fn save(o: &mut Object<'_, '_>, map: &BitVector) -> MethodResult {
    o.write_full(map.with_checksums())?;
    done()
}

pub(super) fn object_map_load(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&load(o)?)
}

pub(super) fn object_map_save(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let map: BitVector = Input::new(bytes).get()?;
    save(o, &map)
}

/// Fits the map to the image's size. ESTALE if it would lose an object in another state than that of new
/// ones.
pub(super) fn object_map_resize(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (objects, default): (u64, u8) = (input.get()?, input.get()?);
    if objects > MAX_OBJECTS {
        return fail(Errno::EINVAL);
    }
    let mut map = match load(o) {
        Err(MethodStop::Fail(Errno::ENOENT)) => BitVector::default(),
        map => map?,
    };
    let old = map.len();
    if (objects..old).any(|i| map.get(i) != default) {
        return fail(Errno::ESTALE);
    }
    map.resize(objects);
    (old..objects).for_each(|i| map.set(i, default));
    save(o, &map)
}

/// Sets the state of a range of objects: of all, or of those that are in a certain state. Reads and writes
/// nothing but the blocks that it needs.
pub(super) fn object_map_update(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (start, end): (u64, u64) = (input.get()?, input.get()?);
    let (new, current): (u8, Option<u8>) = (input.get()?, input.get()?);
    must_exist(o)?;
    let header = o.read(0, HEADER)?.to_vec();
    let len = Place::read_len(&header).map_err(|_| Errno::EINVAL)?;
    if start >= end || end > len {
        return fail(Errno::ERANGE);
    }
    let place = Place::of(&(start..end), len);
    let (data, crcs) = (o.read(place.data.0, place.data.1), o.read(place.crcs.0, place.crcs.1));
    let (mut data, crcs) = (data?.to_vec(), crcs?.to_vec());
    if !place.is_sound(&data, &crcs) {
        return fail(Errno::EINVAL);
    }
    let is_meant = |state: u8| match current {
        None => true,
        Some(state::EXISTS) => matches!(state, state::EXISTS | state::EXISTS_CLEAN),
        Some(current) => state == current,
    };
    let mut changed = false;
    for i in start..end {
        let old = place.get(&data, i);
        if is_meant(old) && old != new {
            place.set(&mut data, i, new);
            changed = true;
        }
    }
    if changed {
        let crcs = Place::crcs_of(&data);
        o.write(place.data.0, data.into())?;
        o.write(place.crcs.0, crcs.into())?;
    }
    done()
}

/// A snapshot has been made: all objects are as they are in it.
pub(super) fn object_map_snap_add(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    let mut map = load(o)?;
    let dirty: Vec<u64> = (0..map.len()).filter(|i| map.get(*i) == state::EXISTS).collect();
    if dirty.is_empty() {
        return done();
    }
    dirty.into_iter().for_each(|i| map.set(i, state::EXISTS_CLEAN));
    save(o, &map)
}

/// A snapshot is removed: what had changed in it now counts as changed since the one before.
pub(super) fn object_map_snap_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let gone: BitVector = Input::new(bytes).get()?;
    let mut map = load(o)?;
    let was_dirty = |i: u64| i >= gone.len() || gone.get(i) == state::EXISTS;
    let is_dirty = |i: &u64| map.get(*i) == state::EXISTS_CLEAN && was_dirty(*i);
    let dirty: Vec<u64> = (0..map.len()).filter(is_dirty).collect();
    if dirty.is_empty() {
        return done();
    }
    dirty.into_iter().for_each(|i| map.set(i, state::EXISTS));
    save(o, &map)
}
