//! Removed images that can come back (`rbd_trash`).

use super::names::is_valid_id;
use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::Object;
use crate::cls::stored::{self, Input, find, key, load, save};
use std::collections::BTreeMap;
use wire::{Errno, Utime, wire_structs};

/// Prefix of the images' keys.
const ID: &[u8] = b"id_";

wire_structs! {
    /// A removed image (`cls::rbd::TrashImageSpec`).
    struct Removed[v 2/1] {
        /// Who removed it.
        pub source: u8,
        pub name: Vec<u8>,
        pub deleted: Utime,
        /// Until then it must not be purged.
        pub deferred_until: Utime,
        /// What is being done with it.
        pub state: u8 = since 2,
    }
}

pub(super) fn trash_add(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    o.create(false)?;
    let mut input = Input::new(bytes);
    let (id, image): (Vec<u8>, Removed) = (input.get()?, input.get()?);
    if !is_valid_id(&id) {
        return fail(Errno::EINVAL);
    }
    let key = key(ID, &id);
    if find::<Removed>(o, &key)?.is_some() {
        return fail(Errno::EEXIST);
    }
    save(o, &key, &image)?;
    done()
}

pub(super) fn trash_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: Vec<u8> = Input::new(bytes).get()?;
    stored::remove_existing(o, &key(ID, &id))?;
    done()
}

pub(super) fn trash_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (Vec<u8>, u64) = (input.get()?, input.get()?);
    let mut images: BTreeMap<Vec<u8>, Removed> = BTreeMap::new();
    for (id, image) in stored::list(o, ID, &after, max)? {
        images.insert(id, stored::decode(&image)?);
    }
    output(&images)
}

pub(super) fn trash_get(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: Vec<u8> = Input::new(bytes).get()?;
    Ok(o.omap_value(&key(ID, &id))?.ok_or(Errno::ENOENT)?.into())
}

/// Changes the state from an expected one. ESTALE if it is neither that nor the new one.
pub(super) fn trash_state_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let id: Vec<u8> = input.get()?;
    let (new, expected): (u8, u8) = (input.get()?, input.get()?);
    let key = key(ID, &id);
    let image: Removed = load(o, &key)?;
    if image.state == expected {
        save(o, &key, &Removed { state: new, ..image })?;
    } else if image.state != new {
        return fail(Errno::ESTALE);
    }
    done()
}
