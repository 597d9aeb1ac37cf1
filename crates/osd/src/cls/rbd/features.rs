//! An image's features, its operation features, and its flags. Numbers are Ceph's.
//!
//! Operation features say what has been done with an image, such as being cloned. Clients that do not know
//! them must not write to it: they see the feature OPERATIONS while there is one.

use super::snap::{self, NOSNAP};
use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{Input, find, load, prefetch, remove, save};
pub(super) use msgs::class::rbd::feature::{
    DATA_POOL, DEEP_FLATTEN, LAYERING, MIGRATING, OPERATIONS, STRIPING,
};
use msgs::class::rbd::feature::{
    DIRTY_CACHE, EXCLUSIVE_LOCK, FAST_DIFF, JOURNALING, NON_PRIMARY, OBJECT_MAP,
};
use wire::Errno;

/// All known ones.
pub(super) const ALL: u64 = (1 << 12) - 1;

/// A client that does not know them can not even read the image.
const READ_INCOMPATIBLE: u64 = LAYERING | STRIPING | DATA_POOL | DIRTY_CACHE;
/// They can be enabled and disabled.
const MUTABLE: u64 = EXCLUSIVE_LOCK | OBJECT_MAP | FAST_DIFF | JOURNALING | NON_PRIMARY | DIRTY_CACHE;
/// They follow from what is done with the image.
const INTERNAL: u64 = OPERATIONS | MIGRATING;

/// Operation feature: a snapshot of the image has clones.
pub(super) const CLONE_PARENT: u64 = 1 << 0;
/// Operation feature: the image is a clone.
pub(super) const CLONE_CHILD: u64 = 1 << 1;
/// Operation feature: the image is in a group.
pub(super) const GROUP: u64 = 1 << 2;
/// Operation feature: a removed snapshot is kept for its clones.
pub(super) const SNAP_TRASH: u64 = 1 << 3;
const ALL_OPERATIONS: u64 = (1 << 4) - 1;

pub(super) const FEATURES: &[u8] = b"features";
const OP_FEATURES: &[u8] = b"op_features";
const FLAGS: &[u8] = b"flags";

fn masked(old: u64, new: u64, mask: u64) -> u64 {
    old & !mask | new & mask
}

/// ENOEXEC if the image lacks the feature.
pub(super) fn require(o: &mut Object<'_, '_>, feature: u64) -> Result<(), MethodStop> {
    let has = find::<u64>(o, FEATURES)?.is_some_and(|all| all & feature == feature);
    if has { Ok(()) } else { fail(Errno::ENOEXEC) }
}

/// Changes the operation features that `mask` selects.
pub(super) fn set_operations(o: &mut Object<'_, '_>, new: u64, mask: u64) -> Result<(), MethodStop> {
    prefetch(o, &[FEATURES, OP_FEATURES])?;
    let features: u64 = load(o, FEATURES)?;
    let old = find(o, OP_FEATURES)?.unwrap_or(0);
    let new = masked(old, new, mask);
    if new == old {
        return Ok(());
    }
    let shown = if new == 0 { features & !OPERATIONS } else { features | OPERATIONS };
    if new == 0 {
        remove(o, OP_FEATURES)?;
    } else {
        save(o, OP_FEATURES, &new)?;
    }
    if shown == features { Ok(()) } else { save(o, FEATURES, &shown) }
}

pub(super) fn get_all_features(_: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&ALL)
}

/// Gives the features, and those of them that a client must know.
pub(super) fn get_features(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    // A snapshot, which had features of its own once.
    let _: u64 = input.get()?;
    let read_only = input.get_or(false)?;
    let features: u64 = load(o, FEATURES)?;
    output(&(features, features & if read_only { READ_INCOMPATIBLE } else { ALL }))
}

pub(super) fn set_features(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (new, mask): (u64, u64) = (input.get()?, input.get()?);
    let old: u64 = find(o, FEATURES)?.unwrap_or(0);
    // A newer client's mask may have features that are unknown here.
    let (enabled, disabled) = (new & mask & ALL, !new & mask & ALL);
    if mask & INTERNAL != 0 || enabled & !MUTABLE != 0 || disabled & !(MUTABLE | DEEP_FLATTEN) != 0 {
        return fail(Errno::EINVAL);
    }
    save(o, FEATURES, &masked(old, new, mask & ALL))?;
    done()
}

pub(super) fn op_features_get(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&find::<u64>(o, OP_FEATURES)?.unwrap_or(0))
}

pub(super) fn op_features_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (new, mask): (u64, u64) = (input.get()?, input.get()?);
    if mask & !ALL_OPERATIONS != 0 {
        return fail(Errno::EINVAL);
    }
    set_operations(o, new, mask)?;
    done()
}

/// Flags of the image itself.
pub(super) fn flags(o: &mut Object<'_, '_>) -> Result<u64, MethodStop> {
    Ok(find(o, FLAGS)?.unwrap_or(0))
}

pub(super) fn get_flags(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    match Input::new(bytes).get()? {
        NOSNAP => output(&flags(o)?),
        id => output(&snap::load(o, id)?.flags),
    }
}

pub(super) fn set_flags(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (new, mask): (u64, u64) = (input.get()?, input.get()?);
    match input.get_or(NOSNAP)? {
        NOSNAP => {
            let old = flags(o)?;
            save(o, FLAGS, &masked(old, new, mask))?;
        }
        id => {
            let mut of = snap::load(o, id)?;
            of.flags = masked(of.flags, new, mask);
            snap::save(o, &of)?;
        }
    }
    done()
}
