//! Groups of images: the images of a group (`rbd_group_header.ID`), and the group of an image, in its header.

use super::features::{self, GROUP};
use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{self, Input, save};
use wire::{Errno, Reader, wire_structs};

/// Prefix of the keys of a group's images.
const IMAGE: &[u8] = b"image_";
/// Key of an image's group.
const GROUP_REF: &[u8] = b"rbd_group_ref";
/// The pool of no group and no image.
const NO_POOL: i64 = -1;

wire_structs! {
    /// A group (`cls::rbd::GroupSpec`).
    struct GroupSpec[v 1/1] {
        pub pool: i64,
        pub id: Vec<u8>,
    }

    /// An image of a group (`cls::rbd::GroupImageSpec`).
    struct ImageSpec[v 1/1] {
        pub id: Vec<u8>,
        pub pool: i64,
    }

    /// An image of a group, and if it really is (`cls::rbd::GroupImageStatus`).
    struct ImageStatus[v 1/1] {
        pub spec: ImageSpec,
        /// 1 while a client is about to add or to remove it.
        pub state: u8,
    }
}

impl ImageSpec {
    /// What follows the prefix in the image's key.
    fn name(&self) -> Vec<u8> {
        if self.pool == NO_POOL {
            return Vec::new();
        }
        [format!("{:016x}_", self.pool).as_bytes(), &self.id].concat()
    }

    /// The image of a key without its prefix.
    fn of(name: &[u8]) -> Option<Self> {
        let at = name.iter().position(|byte| *byte == b'_')?;
        let pool = u64::from_str_radix(std::str::from_utf8(&name[..at]).ok()?, 16).ok()?;
        Some(Self { id: name[at + 1..].to_vec(), pool: pool.cast_signed() })
    }

    fn key(&self) -> Vec<u8> {
        if self.pool == NO_POOL { Vec::new() } else { stored::key(IMAGE, &self.name()) }
    }
}

pub(super) fn group_image_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let image: ImageStatus = Input::new(bytes).get()?;
    save(o, &image.spec.key(), &image.state)?;
    done()
}

pub(super) fn group_image_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let image: ImageSpec = Input::new(bytes).get()?;
    stored::remove(o, &image.key())?;
    done()
}

pub(super) fn group_image_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (ImageSpec, u64) = (input.get()?, input.get()?);
    let mut images = Vec::new();
    for (name, state) in stored::list(o, IMAGE, &after.name(), max)? {
        let (spec, state) = (ImageSpec::of(&name).ok_or(Errno::EIO)?, stored::decode(&state)?);
        images.push(ImageStatus { spec, state });
    }
    output(&images)
}

/// The group of an image, if it is in one.
fn group_of(o: &mut Object<'_, '_>) -> Result<Option<GroupSpec>, MethodStop> {
    let Some(stored) = o.omap_value(GROUP_REF)? else { return Ok(None) };
    Reader::new(&stored).get().map(Some).map_err(|_| Errno::EINVAL.into())
}

/// Records the group of an image. EEXIST if it is in another one.
pub(super) fn image_group_add(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let group: GroupSpec = Input::new(bytes).get()?;
    match group_of(o)? {
        Some(old) if old == group => return done(),
        Some(_) => return fail(Errno::EEXIST),
        None => {}
    }
    features::set_operations(o, GROUP, GROUP)?;
    save(o, GROUP_REF, &group)?;
    done()
}

pub(super) fn image_group_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let group: GroupSpec = Input::new(bytes).get()?;
    if group_of(o)?.ok_or(Errno::ENOENT)? != group {
        return fail(Errno::EBADF);
    }
    stored::remove(o, GROUP_REF)?;
    features::set_operations(o, 0, GROUP)?;
    done()
}

pub(super) fn image_group_get(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&group_of(o)?.unwrap_or(GroupSpec { pool: NO_POOL, id: Vec::new() }))
}
