//! How methods read their input, and omap keys in which they keep their state.

use crate::cls::object::{MethodStop, Object};
use crate::ops::OmapEntry;
use std::ops::Range;
use wire::{Decode, Encode, Errno, Reader, Uuid, Writer};

/// Entries of one read: a list of any length takes few reads, and each of them little memory.
const PAGE: usize = 1000;

/// A method's input, read value by value.
pub(super) struct Input<'a>(Reader<'a>);

impl<'a> Input<'a> {
    /// Bytes beyond the values that the method reads are from a newer client, and ignored.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(Reader::new(bytes))
    }

    /// The next value. EINVAL if the bytes left hold none.
    pub(super) fn get<T: Decode>(&mut self) -> Result<T, Errno> {
        self.0.get().map_err(|_| Errno::EINVAL)
    }

    /// The range of the next value, which is a text or bytes. EINVAL if the bytes left hold none.
    pub(super) fn get_range(&mut self) -> Result<Range<usize>, Errno> {
        let len = self.0.blob().map_err(|_| Errno::EINVAL)?.len();
        Ok(self.0.position() - len..self.0.position())
    }

    /// The next value, which an older client leaves out.
    pub(super) fn get_or<T: Decode>(&mut self, default: T) -> Result<T, Errno> {
        if self.0.is_empty() { Ok(default) } else { self.get() }
    }
}

/// A stored value. EIO if it is damaged.
pub(super) fn decode<T: Decode>(stored: &[u8]) -> Result<T, MethodStop> {
    Reader::new(stored).get().map_err(|_| Errno::EIO.into())
}

/// The value of a key, if there is one.
pub(super) fn find<T: Decode>(o: &mut Object<'_, '_>, key: &[u8]) -> Result<Option<T>, MethodStop> {
    o.omap_value(key)?.map(|stored| decode(&stored)).transpose()
}

/// The value of a key. ENOENT if there is none.
pub(super) fn load<T: Decode>(o: &mut Object<'_, '_>, key: &[u8]) -> Result<T, MethodStop> {
    find(o, key)?.ok_or(MethodStop::Fail(Errno::ENOENT))
}

/// Reads several keys at once, of which a method then takes one after another.
pub(super) fn prefetch(o: &mut Object<'_, '_>, keys: &[&[u8]]) -> Result<(), MethodStop> {
    o.omap_values(&keys.iter().map(|key| key.to_vec()).collect::<Vec<_>>())?;
    Ok(())
}

/// Sets a key.
pub(super) fn save<T: Encode + ?Sized>(
    o: &mut Object<'_, '_>,
    key: &[u8],
    value: &T,
) -> Result<(), MethodStop> {
    o.omap_set(vec![(key.to_vec(), Writer::encode(value))])
}

/// Removes a key. ENOENT if there is no object; a missing key is no error.
pub(super) fn remove(o: &mut Object<'_, '_>, key: &[u8]) -> Result<(), MethodStop> {
    o.omap_remove(vec![key.to_vec()])
}

/// Removes a key that is there. ENOENT if it is not.
pub(super) fn remove_existing(o: &mut Object<'_, '_>, key: &[u8]) -> Result<(), MethodStop> {
    o.omap_value(key)?.ok_or(Errno::ENOENT)?;
    remove(o, key)
}

/// ENOENT if there is no object.
pub(super) fn must_exist(o: &Object<'_, '_>) -> Result<(), Errno> {
    if o.exists() { Ok(()) } else { Err(Errno::ENOENT) }
}

/// A key of a kind that has one for each name.
pub(super) fn key(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    [prefix, name].concat()
}

/// A key of a kind that has one for each snapshot.
pub(super) fn snap_key(prefix: &str, snap: u64) -> Vec<u8> {
    format!("{prefix}{snap:016x}").into_bytes()
}

/// Names and values of the keys with a prefix, in order, from the first name after `after` on.
pub(super) fn list(
    o: &mut Object<'_, '_>,
    prefix: &[u8],
    after: &[u8],
    max: u64,
) -> Result<Vec<OmapEntry>, MethodStop> {
    list_after(o, prefix, key(prefix, after), max)
}

/// The same for keys after `last`; if that is empty, a key that is nothing but the prefix counts, too.
pub(super) fn list_after(
    o: &mut Object<'_, '_>,
    prefix: &[u8],
    mut last: Vec<u8>,
    max: u64,
) -> Result<Vec<OmapEntry>, MethodStop> {
    let (mut found, mut more) = (Vec::new(), true);
    while more && (found.len() as u64) < max {
        let left = max - found.len() as u64;
        let (entries, follow) = o.omap_range(&last, prefix, left.min(PAGE as u64) as usize)?;
        let Some((newest, _)) = entries.last() else { break };
        (last, more) = (newest.clone(), follow);
        found.extend(entries.into_iter().map(|(key, value)| (key[prefix.len()..].to_vec(), value)));
    }
    Ok(found)
}

/// Names and values of all keys with a prefix.
pub(super) fn list_all(o: &mut Object<'_, '_>, prefix: &[u8]) -> Result<Vec<OmapEntry>, MethodStop> {
    list(o, prefix, b"", u64::MAX)
}

/// A name in the form of a uuid, which nothing else in the object has if `salt` differs within a change. Ceph
/// draws one; a method here must not depend on chance, but no other change has its version.
pub(super) fn unique_name(o: &Object<'_, '_>, salt: u64) -> Vec<u8> {
    let at = o.next_version();
    let change = at.version.rotate_left(32).wrapping_add(at.epoch.0.into());
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&salt.to_be_bytes());
    bytes[8..].copy_from_slice(&change.to_be_bytes());
    Uuid::from_random(bytes).to_string().into_bytes()
}
