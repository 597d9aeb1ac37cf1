//! The parent of a clone: the snapshot of another image whose data it shows where it has none of its own.
//!
//! The header names the parent once. How many bytes are shared is recorded for the image itself, and in each
//! of its snapshots: an image that was flattened or shrunk may have snapshots that still need the parent.

use super::features::{self, CLONE_CHILD, DEEP_FLATTEN, FEATURES, LAYERING};
use super::snap::{self, NOSNAP, SIZE, Snap};
use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{self, Input, find, load, must_exist, prefetch, remove, save};
use wire::{Errno, wire_structs};

/// Key of the parent.
pub(super) const PARENT: &[u8] = b"parent";
/// The pool of no parent.
const NO_POOL: i64 = -1;

wire_structs! {
    /// A snapshot that is a parent (`cls::rbd::ParentImageSpec`).
    struct ParentSpec[v 1/1] {
        pub pool: i64,
        pub namespace: Vec<u8>,
        pub image: Vec<u8>,
        pub snap: u64,
    }

    /// What a header records of the parent (`cls_rbd_parent`).
    struct Parent[v 2/2] {
        pub pool: i64,
        pub namespace: Vec<u8>,
        pub image: Vec<u8>,
        pub snap: u64,
        /// Bytes that the image itself shares with it.
        pub overlap: Option<u64>,
    }
}

impl ParentSpec {
    fn none() -> Self {
        Self { pool: NO_POOL, snap: NOSNAP, ..Self::default() }
    }
}

impl Parent {
    fn of(spec: ParentSpec, overlap: Option<u64>) -> Self {
        Self { pool: spec.pool, namespace: spec.namespace, image: spec.image, snap: spec.snap, overlap }
    }

    fn spec(self) -> ParentSpec {
        ParentSpec { pool: self.pool, namespace: self.namespace, image: self.image, snap: self.snap }
    }

    fn exists(&self) -> bool {
        self.pool >= 0 && !self.image.is_empty() && self.snap != NOSNAP
    }
}

fn stored(o: &mut Object<'_, '_>) -> Result<Option<Parent>, MethodStop> {
    find(o, PARENT)
}

/// Bytes that the image itself shares with its parent.
pub(super) fn head_overlap(o: &mut Object<'_, '_>) -> Result<Option<u64>, MethodStop> {
    Ok(stored(o)?.filter(Parent::exists).and_then(|parent| parent.overlap))
}

/// The image has been shrunk to this size: it shares no more than that.
pub(super) fn shrink_overlap(o: &mut Object<'_, '_>, size: u64) -> Result<(), MethodStop> {
    match stored(o)?.filter(Parent::exists) {
        Some(parent) if parent.overlap.is_some_and(|bytes| bytes > size) => {
            save(o, PARENT, &Parent { overlap: Some(size), ..parent })
        }
        _ => Ok(()),
    }
}

/// Forgets a parent that neither the image itself nor, as `shared` says, a snapshot needs. True if the image
/// itself needs it.
pub(super) fn drop_unless_shared(o: &mut Object<'_, '_>, shared: bool) -> Result<bool, MethodStop> {
    let Some(parent) = stored(o)?.filter(Parent::exists) else { return Ok(false) };
    if parent.overlap.is_none() && !shared {
        remove(o, PARENT)?;
    }
    Ok(parent.overlap.is_some())
}

/// True if the image can have a parent at all.
fn is_layered(o: &mut Object<'_, '_>) -> Result<bool, MethodStop> {
    prefetch(o, &[FEATURES, PARENT])?;
    Ok(find::<u64>(o, FEATURES)?.is_some_and(|all| all & LAYERING != 0))
}

/// Gives pool, image, snapshot and overlap of the parent of the image or of a snapshot. It can not tell a
/// namespace, so a parent in one gives EXDEV.
pub(super) fn get_parent(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id = Input::new(bytes).get()?;
    must_exist(o)?;
    let none = || Parent::of(ParentSpec::none(), None);
    let mut parent = none();
    if is_layered(o)? {
        parent = stored(o)?.unwrap_or(parent);
        if !parent.namespace.is_empty() {
            return fail(Errno::EXDEV);
        }
        if id != NOSNAP {
            parent = match snap::find(o, id)?.and_then(|of| of.parent_overlap) {
                Some(_) if !parent.exists() => return fail(Errno::EINVAL),
                Some(overlap) => Parent { overlap: Some(overlap), ..parent },
                None => none(),
            };
        }
    }
    output(&((parent.pool, parent.image), (parent.snap, parent.overlap.unwrap_or(0))))
}

pub(super) fn parent_get(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    must_exist(o)?;
    let parent = if is_layered(o)? { stored(o)? } else { None };
    output(&parent.map_or_else(ParentSpec::none, Parent::spec))
}

/// Gives how much the image or a snapshot shares with the parent, if it does.
pub(super) fn parent_overlap_get(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id = Input::new(bytes).get()?;
    let overlap: Option<u64> = match is_layered(o)? {
        false => None,
        true if id == NOSNAP => stored(o)?.and_then(|parent| parent.overlap),
        true => snap::load(o, id)?.parent_overlap,
    };
    output(&overlap)
}

/// Makes the image a clone. EEXIST if it is one already, unless it comes back to the same parent.
fn attach(o: &mut Object<'_, '_>, spec: ParentSpec, overlap: u64, again: bool) -> MethodResult {
    must_exist(o)?;
    prefetch(o, &[FEATURES, PARENT, SIZE])?;
    features::require(o, LAYERING)?;
    let parent = Parent::of(spec, Some(overlap));
    if !parent.exists() || overlap == 0 {
        return fail(Errno::EINVAL);
    }
    let old = stored(o)?;
    let differs = |old: Parent| old.overlap.is_some() || old != Parent { overlap: None, ..parent.clone() };
    if !again && old.is_some_and(differs) {
        return fail(Errno::EEXIST);
    }
    let overlap = overlap.min(stored::load(o, SIZE)?);
    save(o, PARENT, &Parent { overlap: Some(overlap), ..parent })?;
    done()
}

pub(super) fn set_parent(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (pool, image) = (input.get()?, input.get()?);
    let spec = ParentSpec { pool, namespace: Vec::new(), image, snap: input.get()? };
    let overlap = input.get()?;
    attach(o, spec, overlap, false)
}

pub(super) fn parent_attach(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (spec, overlap) = (input.get()?, input.get()?);
    let again = input.get_or(false)?;
    attach(o, spec, overlap, again)
}

/// Ends that the image itself is a clone. Snapshots stay clones, unless they are to be flattened with it.
fn detach(o: &mut Object<'_, '_>, parent: Parent) -> MethodResult {
    let features: u64 = load(o, FEATURES)?;
    let clones: Vec<Snap> = snap::all(o)?.into_iter().filter(|s| s.parent_overlap.is_some()).collect();
    let shared = !clones.is_empty() && features & DEEP_FLATTEN == 0;
    if shared {
        save(o, PARENT, &Parent { overlap: None, ..parent })?;
        return done();
    }
    for clone in clones {
        snap::save(o, &Snap { parent_overlap: None, ..clone })?;
    }
    remove(o, PARENT)?;
    features::set_operations(o, 0, CLONE_CHILD)?;
    done()
}

/// The parent of an image that is to be flattened.
fn to_detach(o: &mut Object<'_, '_>) -> Result<Parent, MethodStop> {
    must_exist(o)?;
    if !is_layered(o)? {
        return fail(Errno::ENOEXEC);
    }
    load(o, PARENT)
}

pub(super) fn remove_parent(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    let parent = to_detach(o)?;
    if !parent.namespace.is_empty() {
        return fail(Errno::EXDEV);
    }
    if parent.overlap.is_none() { fail(Errno::ENOENT) } else { detach(o, parent) }
}

pub(super) fn parent_detach(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    let parent = to_detach(o)?;
    if parent.overlap.is_none() { fail(Errno::ENOENT) } else { detach(o, parent) }
}
