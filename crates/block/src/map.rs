//! The map of an image's data objects: which exist, and which have changed since the last snapshot. The
//! image's own map is written only under a lock on its object, beside that on the image.

use crate::call::{Answer, Call, NOTHING, ObjectCall, method_of, rbd};
use crate::error::Error;
use crate::format::{FLAG_FAST_DIFF_INVALID, FLAG_OBJECT_MAP_INVALID, NOSNAP, feature, map_object};
use crate::header::Header;
use crate::lock;
use crate::script::{Cx, Flow, decode};
use maps::SnapId;
use wire::{Decode, DecodeError, Encode, Errno, Reader, Writer};

/// States of a data object.
pub(crate) mod state {
    pub(crate) const NONEXISTENT: u8 = 0;
    /// It exists, and has changed since the last snapshot.
    pub(crate) const EXISTS: u8 = 1;
    /// It is being removed.
    pub(crate) const PENDING: u8 = 2;
    /// It exists, and is as it was at the last snapshot.
    pub(crate) const EXISTS_CLEAN: u8 = 3;
}

/// Numbers in a byte.
const PER_BYTE: u64 = 4;

/// Two bits for each data object, in Ceph's `BitVector<2>`: the first is in the highest bits of a byte.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ObjectMap {
    objects: u64,
    bits: Vec<u8>,
}

impl ObjectMap {
    /// The number of objects.
    pub(crate) fn len(&self) -> u64 {
        self.objects
    }

    /// The state of an object; one that is not in the map may exist.
    pub(crate) fn get(&self, n: u64) -> u8 {
        if n >= self.objects {
            return state::EXISTS;
        }
        self.bits[(n / PER_BYTE) as usize] >> (2 * (PER_BYTE - 1 - n % PER_BYTE)) & 3
    }

    /// Sets the state of an object of the map.
    pub(crate) fn set(&mut self, n: u64, state: u8) {
        if n < self.objects {
            let shift = 2 * (PER_BYTE - 1 - n % PER_BYTE);
            let byte = &mut self.bits[(n / PER_BYTE) as usize];
            *byte = *byte & !(3 << shift) | (state & 3) << shift;
        }
    }

    /// Objects that are there, in whatever state, are changed.
    pub(crate) fn all_changed(&self) -> Self {
        let mut map = self.clone();
        for n in (0..map.objects).filter(|n| self.get(*n) != state::NONEXISTENT) {
            map.set(n, state::EXISTS);
        }
        map
    }

    /// Changes the number of objects; new ones do not exist.
    pub(crate) fn resize(&mut self, objects: u64) {
        let old = self.objects;
        self.bits.resize(objects.div_ceil(PER_BYTE) as usize, 0);
        self.objects = objects;
        (old..objects).take(PER_BYTE as usize).for_each(|n| self.set(n, state::NONEXISTENT));
    }
}

impl Encode for ObjectMap {
    /// Without checksums, as methods take it.
    fn encode(&self, w: &mut Writer) {
        w.sized(|w| w.versioned(1, 1, |w| w.put(&self.objects)));
        w.raw(&self.bits);
        w.blob(b"");
    }
}

impl Decode for ObjectMap {
    const MIN_SIZE: usize = 22;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let objects: u64 = r.sub()?.versioned(1, |_, r| r.get())?;
        let bits = r.take(usize::try_from(objects.div_ceil(PER_BYTE)).unwrap_or(usize::MAX))?;
        // Checksums, which the method has compared.
        r.sub()?;
        Ok(Self { objects, bits: bits.to_vec() })
    }
}

/// The image's map and the right to change it. `None` if the image has none, or has one that is not to be
/// believed: that one is flagged so.
pub(crate) fn open(cx: &mut Cx<'_>, header: &Header) -> Flow<Option<ObjectMap>> {
    if !header.has(feature::OBJECT_MAP) {
        return Ok(None);
    }
    lock::take_map(cx, header)?;
    let answer = cx.object(|| on(header, SnapId::HEAD, vec![rbd("object_map_load", &NOTHING)]))?;
    let objects = header.objects(header.size);
    if header.flags & FLAG_OBJECT_MAP_INVALID != 0 {
        return Ok(None);
    }
    if answer.result().is_ok()
        && let Ok(map) = decode::<ObjectMap>("the object map", &answer.output(0))
        && map.len() >= objects
    {
        return shortened(cx, header, map, objects);
    }
    invalidate(cx, header, SnapId::HEAD)?;
    Ok(None)
}

/// A map without what is behind the image's end: who changed the size has died before the map was cut.
/// Nothing exists there, since a map grows before the image, and data go before it shrinks.
fn shortened(cx: &mut Cx<'_>, header: &Header, mut map: ObjectMap, objects: u64) -> Flow<Option<ObjectMap>> {
    if map.len() == objects {
        return Ok(Some(map));
    }
    let none: Option<u8> = None;
    let cleared = rbd("object_map_update", &((objects, map.len()), (state::NONEXISTENT, none)));
    let cut = rbd("object_map_resize", &(objects, state::NONEXISTENT));
    for op in [cleared, cut] {
        let held = method_of("lock", "assert_locked", lock::map_assert());
        let answer = cx.object(|| on(header, SnapId::HEAD, vec![held, op]))?;
        check(cx, header, SnapId::HEAD, answer)?;
        if answer.result().is_err() {
            return Ok(None);
        }
    }
    map.resize(objects);
    Ok(Some(map))
}

/// A vector on a map.
pub(crate) fn on(header: &Header, snap: SnapId, ops: Vec<msgs::Op>) -> ObjectCall {
    ObjectCall::new(&header.place, map_object(&header.id, snap), ops)
}

/// A call that sets the state of objects in a map; `current` is the only state that is replaced.
pub(crate) fn update_call(header: &Header, snap: SnapId, n: u64, new: u8, current: Option<u8>) -> Call {
    let mut ops = Vec::new();
    if snap == SnapId::HEAD {
        ops.push(method_of("lock", "assert_locked", lock::map_assert()));
    }
    ops.push(rbd("object_map_update", &((n, n + 1), (new, current))));
    Call::Object(on(header, snap, ops))
}

/// Sets the state of an object in a map. A map that cannot be changed is flagged as one that is not to be
/// believed, so that the data may change all the same.
pub(crate) fn update(
    cx: &mut Cx<'_>,
    header: &Header,
    snap: SnapId,
    n: u64,
    new: u8,
    current: Option<u8>,
) -> Flow<()> {
    let answer = cx.call(|| update_call(header, snap, n, new, current))?;
    check(cx, header, snap, answer)
}

/// Takes the answer to a change of a map.
pub(crate) fn check(cx: &mut Cx<'_>, header: &Header, snap: SnapId, answer: &Answer) -> Flow<()> {
    match answer.result() {
        Ok(()) => Ok(()),
        // We are not the one who may write any more.
        Err(errno @ (Errno::EBLOCKLISTED | Errno::EBUSY)) => {
            Err(Error::of(errno, "another client has taken the image's object map").into())
        }
        Err(_) => invalidate(cx, header, snap),
    }
}

/// Flags a map as one that is not to be believed.
pub(crate) fn invalidate(cx: &mut Cx<'_>, header: &Header, snap: SnapId) -> Flow<()> {
    let mut flags = FLAG_OBJECT_MAP_INVALID;
    if header.has(feature::FAST_DIFF) {
        flags |= FLAG_FAST_DIFF_INVALID;
    }
    let of = if snap == SnapId::HEAD { NOSNAP } else { snap.0 };
    let what = "cannot flag the image's object map as invalid";
    cx.object_ok(what, || header.on(vec![rbd("set_flags", &((flags, flags), of))]))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_encoded_as_methods_have_it() {
        let mut map = ObjectMap::default();
        map.resize(5);
        [1, 2, 3, 0, 2].into_iter().enumerate().for_each(|(n, state)| map.set(n as u64, state));
        let encoded = Writer::encode(&map);
        let head = [14, 0, 0, 0, 1, 1, 8, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(encoded, [&head[..], &[0b0110_1100, 0b1000_0000], &[0; 4]].concat());
        assert_eq!(Reader::new(&encoded).get::<ObjectMap>().ok(), Some(map));
    }
}
