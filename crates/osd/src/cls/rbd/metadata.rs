//! Users' own pairs of keys and values in an image's header, and settings of `rbd config image`.

use crate::cls::class::{MethodResult, done, output};
use crate::cls::object::Object;
use crate::cls::stored::{self, Input, key};
use std::collections::BTreeMap;
use wire::Errno;

/// Prefix of the keys.
const METADATA: &[u8] = b"metadata_";
/// Pairs of a list for a client that sets no limit.
const DEFAULT_MAX: u64 = 64;

pub(super) fn metadata_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (Vec<u8>, u64) = (input.get()?, input.get()?);
    let max = if max == 0 { DEFAULT_MAX } else { max };
    output(&stored::list(o, METADATA, &after, max)?.into_iter().collect::<BTreeMap<_, _>>())
}

pub(super) fn metadata_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let pairs: BTreeMap<Vec<u8>, Vec<u8>> = Input::new(bytes).get()?;
    o.omap_set(pairs.into_iter().map(|(name, value)| (key(METADATA, &name), value)).collect())?;
    done()
}

pub(super) fn metadata_get(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let name: Vec<u8> = Input::new(bytes).get()?;
    output(&o.omap_value(&key(METADATA, &name))?.ok_or(Errno::ENOENT)?)
}

pub(super) fn metadata_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let name: Vec<u8> = Input::new(bytes).get()?;
    stored::remove(o, &key(METADATA, &name))?;
    done()
}
