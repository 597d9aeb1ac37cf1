//! The mirrored images of a pool.

use super::status;
use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{self, Input, find, key, load, save};
use std::collections::BTreeMap;
use wire::{Decode, DecodeError, Encode, Errno, Reader, Writer};

/// Prefix of the images' keys.
const IMAGE: &[u8] = b"image_";
/// Prefix of the keys that hold an image's id for the id that all clusters know.
const GLOBAL: &[u8] = b"global_";

/// States of an image.
mod state {
    pub const DISABLING: u8 = 0;
    pub const ENABLED: u8 = 1;
}

/// A mirrored image (`cls::rbd::MirrorImage`); what nobody looks at here is kept as the client gave it.
#[derive(Clone, Debug)]
pub(super) struct Image {
    version: u8,
    pub(super) global_id: Vec<u8>,
    /// One of [`state`].
    state: u8,
    /// Its mode, and what newer clients append.
    more: Vec<u8>,
}

impl Image {
    pub(super) fn is_enabled(&self) -> bool {
        self.state == state::ENABLED
    }
}

impl Encode for Image {
    fn encode(&self, w: &mut Writer) {
        w.versioned(self.version, 1, |w| {
            w.put(&self.global_id);
            w.put(&self.state);
            w.raw(&self.more);
        });
    }
}

impl Decode for Image {
    const MIN_SIZE: usize = 11;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(1, |version, r| {
            Ok(Self { version, global_id: r.get()?, state: r.get()?, more: r.rest().to_vec() })
        })
    }
}

/// Images by id, from the one after `after` on.
pub(super) fn list(
    o: &mut Object<'_, '_>,
    after: &[u8],
    max: u64,
) -> Result<BTreeMap<Vec<u8>, Image>, MethodStop> {
    let stored = stored::list(o, IMAGE, after, max)?;
    stored.into_iter().map(|(id, image)| Ok((id, stored::decode(&image)?))).collect()
}

/// The image with this global id, if there is one.
pub(super) fn find_global(o: &mut Object<'_, '_>, global: &[u8]) -> Result<Option<Image>, MethodStop> {
    match find::<Vec<u8>>(o, &key(GLOBAL, global))? {
        Some(id) => find(o, &key(IMAGE, &id)),
        None => Ok(None),
    }
}

pub fn mirror_image_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (Vec<u8>, u64) = (input.get()?, input.get()?);
    let images = list(o, &after, max)?.into_iter().map(|(id, image)| (id, image.global_id));
    output(&images.collect::<BTreeMap<_, _>>())
}

pub fn mirror_image_get_image_id(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let global: Vec<u8> = Input::new(bytes).get()?;
    output(&load::<Vec<u8>>(o, &key(GLOBAL, &global))?)
}

pub fn mirror_image_get(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: Vec<u8> = Input::new(bytes).get()?;
    output(&load::<Image>(o, &key(IMAGE, &id))?)
}

/// Adds or changes an image. Its global id is its own (EEXIST) and cannot change (EINVAL).
pub fn mirror_image_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (id, image): (Vec<u8>, Image) = (input.get()?, input.get()?);
    let global = key(GLOBAL, &image.global_id);
    match find::<Image>(o, &key(IMAGE, &id))? {
        Some(old) if old.global_id != image.global_id => return fail(Errno::EINVAL),
        Some(_) => {}
        None if find::<Vec<u8>>(o, &global)?.is_some() => return fail(Errno::EEXIST),
        // Another client has disabled it meanwhile.
        None if image.state == state::DISABLING => return fail(Errno::ENOENT),
        None => {}
    }
    save(o, &key(IMAGE, &id), &image)?;
    save(o, &global, &id)?;
    done()
}

/// Removes an image that is being disabled (EBUSY).
pub fn mirror_image_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: Vec<u8> = Input::new(bytes).get()?;
    let image: Image = load(o, &key(IMAGE, &id))?;
    if image.state != state::DISABLING {
        return fail(Errno::EBUSY);
    }
    let mut keys = status::keys_of(o, &image.global_id)?;
    keys.extend([key(IMAGE, &id), key(GLOBAL, &image.global_id)]);
    o.omap_remove(keys)?;
    done()
}
