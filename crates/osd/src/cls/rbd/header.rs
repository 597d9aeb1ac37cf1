//! The header object of an image (`rbd_header.ID`): size, striping, times, names of data objects. Each
//! property is an omap key.

use super::features::{self, DATA_POOL, FEATURES, OPERATIONS, STRIPING};
use super::parent;
use super::snap::{self, NOSNAP, SIZE, SNAP_SEQ};
use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::Object;
use crate::cls::stored::{Input, find, load, must_exist, prefetch, save};
use wire::{Errno, Utime, Writer};

const ORDER: &[u8] = b"order";
const OBJECT_PREFIX: &[u8] = b"object_prefix";
const DATA_POOL_ID: &[u8] = b"data_pool_id";
const STRIPE_UNIT: &[u8] = b"stripe_unit";
const STRIPE_COUNT: &[u8] = b"stripe_count";
const CREATED: &[u8] = b"create_timestamp";
const ACCESSED: &[u8] = b"access_timestamp";
const MODIFIED: &[u8] = b"modify_timestamp";

/// The id of a data pool that is the header's own.
const SAME_POOL: i64 = -1;

/// Makes a header. ENOSYS if it is to have a feature that is unknown here.
pub(super) fn create(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (size, order): (u64, u8) = (input.get()?, input.get()?);
    let (features, prefix): (u64, Vec<u8>) = (input.get()?, input.get()?);
    let data_pool = input.get_or(SAME_POOL)?;
    if features & !features::ALL != 0 {
        return fail(Errno::ENOSYS);
    }
    if prefix.is_empty() {
        return fail(Errno::EINVAL);
    }
    if o.omap_value(OBJECT_PREFIX)?.is_some() {
        return fail(Errno::EEXIST);
    }
    if features & OPERATIONS != 0 || (features & DATA_POOL != 0) != (data_pool != SAME_POOL) {
        return fail(Errno::EINVAL);
    }
    let now = Writer::encode(&o.now());
    let mut keys = vec![
        (SIZE, Writer::encode(&size)),
        (ORDER, Writer::encode(&order)),
        (FEATURES, Writer::encode(&features)),
        (OBJECT_PREFIX, Writer::encode(&prefix)),
        (SNAP_SEQ, Writer::encode(&0u64)),
        (CREATED, now.clone()),
        (ACCESSED, now.clone()),
        (MODIFIED, now),
    ];
    if data_pool != SAME_POOL {
        keys.push((DATA_POOL_ID, Writer::encode(&data_pool)));
    }
    o.omap_set(keys.into_iter().map(|(key, value)| (key.to_vec(), value)).collect())?;
    done()
}

/// Gives the order of data objects, and the size of the image or of a snapshot.
pub(super) fn get_size(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id = Input::new(bytes).get()?;
    prefetch(o, &[ORDER, SIZE])?;
    let order: u8 = load(o, ORDER)?;
    let size: u64 = if id == NOSNAP { load(o, SIZE)? } else { snap::load(o, id)?.image_size };
    output(&(order, size))
}

pub(super) fn set_size(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let size: u64 = Input::new(bytes).get()?;
    prefetch(o, &[SIZE, parent::PARENT])?;
    let old: u64 = load(o, SIZE)?;
    save(o, SIZE, &size)?;
    if size < old {
        parent::shrink_overlap(o, size)?;
    }
    done()
}

pub(super) fn get_stripe_unit_count(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    must_exist(o)?;
    prefetch(o, &[FEATURES, STRIPE_UNIT, STRIPE_COUNT, ORDER])?;
    features::require(o, STRIPING)?;
    let unit = match find::<u64>(o, STRIPE_UNIT)? {
        Some(unit) => unit,
        None => object_size(find(o, ORDER)?.ok_or(Errno::EIO)?)?,
    };
    output(&(unit, find::<u64>(o, STRIPE_COUNT)?.unwrap_or(1)))
}

pub(super) fn set_stripe_unit_count(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (unit, count): (u64, u64) = (input.get()?, input.get()?);
    if unit == 0 || count == 0 {
        return fail(Errno::EINVAL);
    }
    must_exist(o)?;
    prefetch(o, &[FEATURES, ORDER])?;
    features::require(o, STRIPING)?;
    let order = load(o, ORDER)?;
    if !object_size(order)?.is_multiple_of(unit) {
        return fail(Errno::EINVAL);
    }
    save(o, STRIPE_UNIT, &unit)?;
    save(o, STRIPE_COUNT, &count)?;
    done()
}

/// Bytes of a data object.
fn object_size(order: u8) -> Result<u64, Errno> {
    1u64.checked_shl(order.into()).ok_or(Errno::EINVAL)
}

pub(super) fn get_object_prefix(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&load::<Vec<u8>>(o, OBJECT_PREFIX)?)
}

pub(super) fn get_data_pool(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&find::<i64>(o, DATA_POOL_ID)?.unwrap_or(SAME_POOL))
}

fn time(o: &mut Object<'_, '_>, key: &[u8]) -> MethodResult {
    output(&find::<Utime>(o, key)?.unwrap_or_default())
}

pub(super) fn get_create_timestamp(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    time(o, CREATED)
}

pub(super) fn get_access_timestamp(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    time(o, ACCESSED)
}

pub(super) fn get_modify_timestamp(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    time(o, MODIFIED)
}

fn touch(o: &mut Object<'_, '_>, key: &[u8]) -> MethodResult {
    must_exist(o)?;
    let now = o.now();
    save(o, key, &now)?;
    done()
}

pub(super) fn set_access_timestamp(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    touch(o, ACCESSED)
}

pub(super) fn set_modify_timestamp(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    touch(o, MODIFIED)
}
