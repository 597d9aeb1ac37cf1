//! The namespaces of a pool (`rbd_namespace`).

use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::Object;
use crate::cls::stored::{self, Input, key};
use wire::Errno;

/// Prefix of the namespaces' keys, which have no value.
const NAME: &[u8] = b"name_";

pub(super) fn namespace_add(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let name: Vec<u8> = Input::new(bytes).get()?;
    let key = key(NAME, &name);
    if o.omap_value(&key)?.is_some() {
        return fail(Errno::EEXIST);
    }
    o.omap_set(vec![(key, Vec::new())])?;
    done()
}

pub(super) fn namespace_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let name: Vec<u8> = Input::new(bytes).get()?;
    stored::remove_existing(o, &key(NAME, &name))?;
    done()
}

pub(super) fn namespace_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (Vec<u8>, u64) = (input.get()?, input.get()?);
    let names = stored::list(o, NAME, &after, max)?.into_iter().map(|(name, _)| name);
    output(&names.collect::<Vec<_>>())
}
