//! Snapshots of groups, in the object of the group.

use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{self, Input, find, key, load, save};
use std::collections::BTreeMap;
use wire::{Decode, DecodeError, Encode, Errno, Reader, Writer, wire_structs};

/// Prefix of the snapshots' keys.
const SNAPSHOT: &[u8] = b"snapshot_";
/// Prefix of the keys that say in which order the snapshots were made.
const ORDER: &[u8] = b"snap_order_";

/// Key of the newest snapshot's place in that order.
const MAX_ORDER: &[u8] = b"snap_max_order";

/// The state of a snapshot of which not all images have theirs yet.
const INCOMPLETE: u8 = 0;

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
    /// [`INCOMPLETE`] or not.
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

/// Records a snapshot, or its new state. EEXIST if another one has its name, or if one that is new is not.
pub(super) fn group_snap_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let new: GroupSnap = Input::new(bytes).get()?;
    if new.name.is_empty() || new.id.is_empty() {
        return fail(Errno::EINVAL);
    }
    let is_new = new.state == INCOMPLETE;
    let collides = |old: &GroupSnap| if old.id == new.id { is_new } else { old.name == new.name };
    if all(o)?.iter().any(collides) {
        return fail(Errno::EEXIST);
    }
    if is_new {
        let order = find::<u64>(o, MAX_ORDER)?.unwrap_or(0).wrapping_add(1);
        save(o, MAX_ORDER, &order)?;
        save(o, &key(ORDER, &new.id), &order)?;
    }
    save(o, &key(SNAPSHOT, &new.id), &new)?;
    done()
}

pub(super) fn group_snap_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: Vec<u8> = Input::new(bytes).get()?;
    o.omap_remove(vec![key(SNAPSHOT, &id), key(ORDER, &id)])?;
    done()
}

pub(super) fn group_snap_get_by_id(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: Vec<u8> = Input::new(bytes).get()?;
    output(&load::<GroupSnap>(o, &key(SNAPSHOT, &id))?)
}

/// Gives snapshots by their ids, from the one after a given one on.
pub(super) fn group_snap_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (GroupSnap, u64) = (input.get()?, input.get()?);
    let stored = stored::list(o, SNAPSHOT, &after.id, max)?;
    output(&stored.iter().map(|(_, value)| stored::decode(value)).collect::<Result<Vec<GroupSnap>, _>>()?)
}

/// Gives the place of snapshots in the order in which they were made, by their ids.
pub(super) fn group_snap_list_order(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (Vec<u8>, u64) = (input.get()?, input.get()?);
    let mut orders: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for (id, order) in stored::list(o, ORDER, &after, max)? {
        orders.insert(id, stored::decode(&order)?);
    }
    output(&orders)
}
