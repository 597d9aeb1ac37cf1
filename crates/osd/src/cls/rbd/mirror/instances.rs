//! The daemons that mirror a pool's images, and which of them has which image.

use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::Object;
use crate::cls::stored::{self, Input, key, save};
use std::collections::BTreeMap;
use wire::{Errno, Reader, Utime, wire_structs};

/// Prefix of the daemons' keys, which have no value.
const INSTANCE: &[u8] = b"instance_";
/// Prefix of the keys that hold an image's daemon.
const IMAGE_MAP: &[u8] = b"image_map_";

wire_structs! {
    /// The daemon of an image (`cls::rbd::MirrorImageMap`).
    struct ImageMap[v 1/1] {
        pub instance: Vec<u8>,
        pub mapped: Utime,
        pub data: Vec<u8>,
    }
}

pub fn mirror_instances_list(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    let ids = stored::list_all(o, INSTANCE)?.into_iter().map(|(id, _)| id);
    output(&ids.collect::<Vec<_>>())
}

pub fn mirror_instances_add(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: Vec<u8> = Input::new(bytes).get()?;
    o.omap_set(vec![(key(INSTANCE, &id), Vec::new())])?;
    done()
}

pub fn mirror_instances_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: Vec<u8> = Input::new(bytes).get()?;
    stored::remove(o, &key(INSTANCE, &id))?;
    done()
}

pub fn mirror_image_map_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (Vec<u8>, u64) = (input.get()?, input.get()?);
    let mut images: BTreeMap<Vec<u8>, ImageMap> = BTreeMap::new();
    for (global, value) in stored::list(o, IMAGE_MAP, &after, max)? {
        match Reader::new(&value).get() {
            Ok(image) => drop(images.insert(global, image)),
            Err(_) => return fail(Errno::EINVAL),
        }
    }
    output(&images)
}

pub fn mirror_image_map_update(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (global, image): (Vec<u8>, ImageMap) = (input.get()?, input.get()?);
    save(o, &key(IMAGE_MAP, &global), &image)?;
    done()
}

pub fn mirror_image_map_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let global: Vec<u8> = Input::new(bytes).get()?;
    if o.exists() {
        stored::remove(o, &key(IMAGE_MAP, &global))?;
    }
    done()
}
