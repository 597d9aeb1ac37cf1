//! Snapshots of groups, in the object of the group.

use super::stored::{self, Input, key, load, save};
use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::{MethodStop, Object};
use std::collections::BTreeMap;
use wire::{Decode, DecodeError, Encode, Errno, Reader, Writer, wire_structs};

/// Prefix of the snapshots' keys.
const SNAPSHOT: &[u8] = b"snapshot_";
/// Prefix of the keys that say in which order the snapshots were made.
const ORDER: &[u8] = b"snap_order_";

/// States of a snapshot.
mod state {
    /// Not all images have theirs yet.
    pub const INCOMPLETE: u8 = 0;
    pub const COMPLETE: u8 = 1;
}

wire_structs! {
    /// The snapshot of one image (`cls::rbd::ImageSnapshotSpec`).
    struct ImageSnap[v 1/1] {
        pub pool: i64,
        pub image: Vec<u8>,
        pub snap: u64,
    }
}

/// A snapshot of a group (`cls::rbd::GroupSnapshot`).
#[derive(Clone, Debug)]
struct GroupSnap {
    version: u8,
    id: Vec<u8>,
    name: Vec<u8>,
    /// One of [`state`].
    state: u8,
    snaps: Vec<ImageSnap>,
    /// What newer clients append; it is kept.
    more: Vec<u8>,
}

impl Encode for GroupSnap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(self.version, 1, |w| {
            w.put(&self.id);
            w.put(&self.name);
            w.put(&self.state);
            w.put(&self.snaps);
            w.raw(&self.more);
        });
    }
}

impl Decode for GroupSnap {
    const MIN_SIZE: usize = 19;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(1, |version, r| {
            let (id, name) = (r.get()?, r.get()?);
            let (state, snaps) = (r.get()?, r.get()?);
            Ok(Self { version, id, name, state, snaps, more: r.rest().to_vec() })
        })
    }
}

fn all(o: &mut Object<'_, '_>) -> Result<Vec<GroupSnap>, MethodStop> {
    stored::list_all(o, SNAPSHOT)?.iter().map(|(_, value)| stored::decode(value)).collect()
}

/// The place of each snapshot in the order.
fn orders(o: &mut Object<'_, '_>) -> Result<BTreeMap<Vec<u8>, u64>, MethodStop> {
    let stored = stored::list_all(o, ORDER)?;
    stored.into_iter().map(|(id, order)| Ok((id, stored::decode(&order)?))).collect()
}

/// Records a snapshot, or its new state. EEXIST if another one has its name, or if one that is new is not.
pub(super) fn group_snap_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let new: GroupSnap = Input::new(bytes).get()?;
    if new.name.is_empty() || new.id.is_empty() {
        return fail(Errno::EINVAL);
    }
    let is_new = new.state == state::INCOMPLETE;
    let collides = |old: &GroupSnap| if old.id == new.id { is_new } else { old.name == new.name };
    if all(o)?.iter().any(collides) {
        return fail(Errno::EEXIST);
    }
    if is_new {
        let newest = orders(o)?.into_values().max().unwrap_or(0);
        save(o, &key(ORDER, &new.id), &newest.wrapping_add(1))?;
    }
    save(o, &key(SNAPSHOT, &new.id), &new)?;
    done()
}

pub(super) fn group_snap_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: Vec<u8> = Input::new(bytes).get()?;
    o.omap_remove(vec![key(SNAPSHOT, &id), key(ORDER, &id)])?;
    done()
}

/// Takes the snapshot of an image out of a complete one, which is removed with the last of them.
pub(super) fn group_snap_unlink(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (id, gone): (Vec<u8>, ImageSnap) = (input.get()?, input.get()?);
    let key = key(SNAPSHOT, &id);
    let mut of: GroupSnap = load(o, &key)?;
    if of.state != state::COMPLETE {
        return fail(Errno::ENOENT);
    }
    of.snaps.retain(|snap| *snap != gone);
    if of.snaps.is_empty() {
        stored::remove(o, &key)?
    } else {
        save(o, &key, &of)?
    }
    done()
}

pub(super) fn group_snap_get_by_id(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: Vec<u8> = Input::new(bytes).get()?;
    output(&load::<GroupSnap>(o, &key(SNAPSHOT, &id))?)
}

/// Gives snapshots in the order in which they were made, from the one after a given one on. ERESTART if that
/// is gone.
pub(super) fn group_snap_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (GroupSnap, u64) = (input.get()?, input.get()?);
    let orders = orders(o)?;
    let order = |snap: &GroupSnap| orders.get(&snap.id).copied().unwrap_or(0);
    if !after.id.is_empty() && !orders.contains_key(&after.id) {
        return fail(Errno::ERESTART);
    }
    let mut snaps = all(o)?;
    snaps.sort_by_key(order);
    snaps.retain(|snap| after.id.is_empty() || order(snap) > order(&after));
    snaps.truncate(usize::try_from(max).unwrap_or(usize::MAX));
    output(&snaps)
}
