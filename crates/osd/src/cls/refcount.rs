//! `refcount`: an object that is deleted with its last reference.

use super::class::{Class, Method, MethodResult, done, fail, input, output, reader, updater};
use super::object::{MethodStop, Object};
use std::collections::{BTreeMap, BTreeSet};
use wire::{Errno, Reader, Writer, wire_structs};

pub struct RefCount;

impl Class for RefCount {
    fn name(&self) -> &'static str {
        "refcount"
    }

    fn methods(&self) -> &'static [Method] {
        const { &[updater("get", get), updater("put", put), updater("set", set), reader("read", read)] }
    }
}

/// The implicit referrer of an object without recorded references.
const WILDCARD: &[u8] = b"";
/// The xattr that holds the references.
const ATTR: &[u8] = b"refcount";

wire_structs! {
    /// The referrers of an object.
    struct Refs[v 2/1] {
        pub refs: BTreeMap<Vec<u8>, bool>,
        /// Referrers that were dropped.
        pub retired: BTreeSet<Vec<u8>> = since 2,
    }

    /// The input of `get` and `put`.
    struct RefOp[v 1/1] {
        pub tag: Vec<u8>,
        /// True if an object without recorded references counts as having one.
        pub implicit: bool,
    }

    /// The input of `set`, and what `read` gives.
    struct RefList[v 1/1] {
        pub refs: Vec<Vec<u8>>,
    }

    struct ReadOp[v 1/1] {
        pub implicit: bool,
    }
}

fn load(o: &Object<'_, '_>, implicit: bool) -> Result<Refs, MethodStop> {
    if !o.exists() {
        return fail(Errno::ENOENT);
    }
    match o.xattr(ATTR)? {
        Some(stored) => Reader::new(stored).get().map_err(|_| Errno::EIO.into()),
        None => {
            let refs = implicit.then(|| (WILDCARD.to_vec(), true)).into_iter().collect();
            Ok(Refs { refs, ..Refs::default() })
        }
    }
}

fn save(o: &mut Object<'_, '_>, refs: &Refs) -> MethodResult {
    o.set_xattr(ATTR, Writer::encode(refs))?;
    done()
}

fn remove(o: &mut Object<'_, '_>) -> MethodResult {
    o.remove()?;
    done()
}

fn get(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let op: RefOp = input(bytes)?;
    let mut all = load(o, op.implicit)?;
    all.refs.insert(op.tag, true);
    save(o, &all)
}

fn put(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let op: RefOp = input(bytes)?;
    let mut all = load(o, op.implicit)?;
    if all.refs.is_empty() {
        return fail(Errno::EINVAL);
    }
    let named = all.refs.contains_key(&op.tag);
    let gone = if named || !op.implicit { op.tag.as_slice() } else { WILDCARD };
    if !all.refs.contains_key(gone) || all.retired.contains(&op.tag) {
        return done();
    }
    all.refs.remove(gone);
    all.retired.insert(op.tag);
    if all.refs.is_empty() { remove(o) } else { save(o, &all) }
}

fn set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let op: RefList = input(bytes)?;
    if op.refs.is_empty() {
        return remove(o);
    }
    let refs = op.refs.into_iter().map(|tag| (tag, true)).collect();
    save(o, &Refs { refs, ..Refs::default() })
}

fn read(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let op: ReadOp = input(bytes)?;
    output(&RefList { refs: load(o, op.implicit)?.refs.into_keys().collect() })
}
