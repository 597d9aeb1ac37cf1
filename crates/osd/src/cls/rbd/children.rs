//! The clones of a snapshot: listed in the parent's header (clone format 2), or in the object `rbd_children`
//! of the clones' pool (clone format 1).

use super::features::{self, CLONE_PARENT};
use super::snap::{self, kind};
use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{self, Input, find, load, remove, save};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use wire::{Errno, Writer, wire_structs};

/// Prefix of the keys of snapshots' clones.
const CHILDREN: &str = "snap_children_";

wire_structs! {
    /// A clone (`cls::rbd::ChildImageSpec`).
    #[derive(Eq)]
    struct Child[v 2/1] {
        pub pool: i64,
        pub image: Vec<u8>,
        pub namespace: Vec<u8> = since 2,
    }
}

impl Ord for Child {
    /// The order in which Ceph lists clones.
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.pool.cmp(&other.pool).then_with(|| self.namespace.cmp(&other.namespace));
        order.then_with(|| self.image.cmp(&other.image))
    }
}

impl PartialOrd for Child {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn children_of(o: &mut Object<'_, '_>, snap: u64) -> Result<BTreeSet<Child>, MethodStop> {
    Ok(find(o, &stored::snap_key(CHILDREN, snap))?.unwrap_or_default())
}

/// Records a clone of a snapshot. A removed snapshot can not be cloned (ENOENT).
pub(super) fn child_attach(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (id, child): (u64, Child) = (input.get()?, input.get()?);
    let mut parent = snap::load(o, id)?;
    if parent.namespace.kind == kind::TRASH {
        return fail(Errno::ENOENT);
    }
    let mut children = children_of(o, id)?;
    if !children.insert(child) {
        return fail(Errno::EEXIST);
    }
    save(o, &stored::snap_key(CHILDREN, id), &children)?;
    parent.child_count = parent.child_count.wrapping_add(1);
    snap::save(o, &parent)?;
    features::set_operations(o, CLONE_PARENT, CLONE_PARENT)?;
    done()
}

pub(super) fn child_detach(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (id, child): (u64, Child) = (input.get()?, input.get()?);
    let mut parent = snap::load(o, id)?;
    let mut children = children_of(o, id)?;
    if parent.child_count as usize != children.len() {
        return fail(Errno::EINVAL);
    }
    if !children.remove(&child) {
        return fail(Errno::ENOENT);
    }
    let key = stored::snap_key(CHILDREN, id);
    if children.is_empty() {
        remove(o, &key)?
    } else {
        save(o, &key, &children)?
    }
    parent.child_count -= 1;
    snap::save(o, &parent)?;
    let has_clones = |s: &snap::Snap| s.id != id && s.child_count > 0;
    if children.is_empty() && !snap::all(o)?.iter().any(has_clones) {
        features::set_operations(o, 0, CLONE_PARENT)?;
    }
    done()
}

pub(super) fn children_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: u64 = Input::new(bytes).get()?;
    snap::load(o, id)?;
    output(&load::<BTreeSet<Child>>(o, &stored::snap_key(CHILDREN, id))?)
}

/// The key of a parent in `rbd_children`: pool, image and snapshot as the input has them.
fn parent_key(input: &mut Input<'_>) -> Result<Vec<u8>, Errno> {
    let (pool, image): (u64, Vec<u8>) = (input.get()?, input.get()?);
    let snap: u64 = input.get()?;
    Ok(Writer::encode(&((pool, image), snap)))
}

pub(super) fn add_child(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (key, child): (_, Vec<u8>) = (parent_key(&mut input)?, input.get()?);
    let mut children: BTreeSet<Vec<u8>> = find(o, &key)?.unwrap_or_default();
    if !children.insert(child) {
        return fail(Errno::EEXIST);
    }
    save(o, &key, &children)?;
    done()
}

pub(super) fn remove_child(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (key, child): (_, Vec<u8>) = (parent_key(&mut input)?, input.get()?);
    let mut children: BTreeSet<Vec<u8>> = load(o, &key)?;
    if !children.remove(&child) {
        return fail(Errno::ENOENT);
    }
    if children.is_empty() {
        remove(o, &key)?
    } else {
        save(o, &key, &children)?
    }
    done()
}

pub(super) fn get_children(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let key = parent_key(&mut Input::new(bytes))?;
    output(&load::<BTreeSet<Vec<u8>>>(o, &key)?)
}
