//! Directories of names and ids: the images of a pool (`rbd_directory`), its groups (`rbd_group_directory`),
//! and the object that holds the id of one image's name (`rbd_id.NAME`).

use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{self, Input, find, key, load, must_exist, prefetch, save};
use std::collections::BTreeMap;
use wire::{Errno, Writer};

/// Prefix of the keys that hold an id for each name.
const NAME: &[u8] = b"name_";
/// Prefix of the keys that hold a name for each id.
const ID: &[u8] = b"id_";
/// Key of the directory's state.
const STATE: &[u8] = b"state";

/// States of a directory.
mod state {
    pub const READY: u8 = 0;
    /// Nothing can be added: its namespace is about to be removed.
    pub const ADD_DISABLED: u8 = 1;
}

/// True if the text can be an image's id.
pub(super) fn is_valid_id(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(u8::is_ascii_alphanumeric)
}

fn add(o: &mut Object<'_, '_>, name: &[u8], id: &[u8], id_is_new: bool) -> MethodResult {
    if name.is_empty() || !is_valid_id(id) {
        return fail(Errno::EINVAL);
    }
    let (by_name, by_id) = (key(NAME, name), key(ID, id));
    prefetch(o, &[&by_name, &by_id])?;
    if o.omap_value(&by_name)?.is_some() {
        return fail(Errno::EEXIST);
    }
    if id_is_new && o.omap_value(&by_id)?.is_some() {
        return fail(Errno::EBADF);
    }
    o.omap_set(vec![(by_name, Writer::encode(id)), (by_id, Writer::encode(name))])?;
    done()
}

/// ESTALE if name and id do not belong together (any more).
fn remove(o: &mut Object<'_, '_>, name: &[u8], id: &[u8]) -> Result<(), MethodStop> {
    let (by_name, by_id) = (key(NAME, name), key(ID, id));
    prefetch(o, &[&by_name, &by_id])?;
    let (stored_id, stored_name): (Vec<u8>, Vec<u8>) = (load(o, &by_name)?, load(o, &by_id)?);
    if stored_id != id || stored_name != name {
        return fail(Errno::ESTALE);
    }
    o.omap_remove(vec![by_name, by_id])
}

/// Adds a name and an id. EEXIST if the name is taken, EBADF if the id is.
pub(super) fn dir_add(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    o.create(false)?;
    let mut input = Input::new(bytes);
    let (name, id): (Vec<u8>, Vec<u8>) = (input.get()?, input.get()?);
    add(o, &name, &id, true)
}

pub(super) fn dir_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (name, id): (Vec<u8>, Vec<u8>) = (input.get()?, input.get()?);
    remove(o, &name, &id)?;
    done()
}

pub(super) fn dir_rename(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (from, to): (Vec<u8>, Vec<u8>) = (input.get()?, input.get()?);
    let id: Vec<u8> = input.get()?;
    remove(o, &from, &id)?;
    add(o, &to, &id, false)
}

pub(super) fn dir_get_id(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let name: Vec<u8> = Input::new(bytes).get()?;
    output(&load::<Vec<u8>>(o, &key(NAME, &name))?)
}

pub(super) fn dir_get_name(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: Vec<u8> = Input::new(bytes).get()?;
    output(&load::<Vec<u8>>(o, &key(ID, &id))?)
}

/// Gives ids by name, from the first name after the given one on.
pub(super) fn dir_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (Vec<u8>, u64) = (input.get()?, input.get()?);
    let mut ids: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for (name, id) in stored::list(o, NAME, &after, max)? {
        ids.insert(name, stored::decode(&id)?);
    }
    output(&ids)
}

/// ENOENT if the directory is in another state, or in none.
pub(super) fn dir_state_assert(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let state: u8 = Input::new(bytes).get()?;
    if find::<u8>(o, STATE)? == Some(state) { done() } else { fail(Errno::ENOENT) }
}

/// Only an empty directory can be closed (EBUSY).
pub(super) fn dir_state_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let state: u8 = Input::new(bytes).get()?;
    match state {
        state::READY => {}
        state::ADD_DISABLED => {
            must_exist(o)?;
            if !stored::list(o, NAME, b"", 1)?.is_empty() {
                return fail(Errno::EBUSY);
            }
        }
        _ => return fail(Errno::EINVAL),
    }
    save(o, STATE, &state)?;
    done()
}

/// Gives the id in `rbd_id.NAME`.
pub(super) fn get_id(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    must_exist(o)?;
    let size = o.size()?;
    if size == 0 {
        return fail(Errno::ENOENT);
    }
    output(&stored::decode::<Vec<u8>>(&o.read(0, size)?.to_vec())?)
}

/// Sets the id in `rbd_id.NAME`, which exists and has none (EEXIST).
pub(super) fn set_id(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    must_exist(o)?;
    let id: Vec<u8> = Input::new(bytes).get()?;
    if !is_valid_id(&id) {
        return fail(Errno::EINVAL);
    }
    if o.size()? != 0 {
        return fail(Errno::EEXIST);
    }
    o.write(0, Writer::encode(&id).into())?;
    done()
}
