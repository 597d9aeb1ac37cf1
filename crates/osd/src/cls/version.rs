//! `version`: a counter in an xattr, with conditions on it that guard a vector.

use super::class::{Class, Method, MethodResult, done, fail, input, output, reader, updater};
use super::object::{MethodStop, Object};
use wire::{Errno, Reader, Writer, wire_structs};

pub struct Version;

impl Class for Version {
    fn name(&self) -> &'static str {
        "version"
    }

    fn methods(&self) -> &'static [Method] {
        const {
            &[
                updater("set", set),
                updater("inc", inc),
                updater("inc_conds", inc),
                reader("read", read),
                reader("check_conds", check),
            ]
        }
    }
}

/// The xattr that holds the counter.
const ATTR: &[u8] = b"ceph.objclass.version";

wire_structs! {
    /// A counter, with a tag that distinguishes it from another one of the same value.
    struct Counter[v 1/1] {
        pub ver: u64,
        pub tag: Vec<u8>,
    }

    struct Condition[v 1/1] {
        pub than: Counter,
        /// The comparison; unknown ones are true.
        pub kind: u32,
    }

    /// The input of `set`, and what `read` gives.
    struct One[v 1/1] {
        pub counter: Counter,
    }

    /// The input of `inc`, `inc_conds` and `check_conds`.
    struct Conditions[v 1/1] {
        pub counter: Counter,
        pub all: Vec<Condition>,
    }
}

/// The counter; `None` if there is none yet.
fn load(o: &Object<'_, '_>) -> Result<Option<Counter>, MethodStop> {
    let stored = o.xattr(ATTR)?;
    stored.map(|bytes| Reader::new(bytes).get().map_err(|_| Errno::EIO.into())).transpose()
}

fn save(o: &mut Object<'_, '_>, counter: &Counter) -> MethodResult {
    o.set_xattr(ATTR, Writer::encode(counter))?;
    done()
}

fn hold(counter: &Counter, conditions: &[Condition]) -> bool {
    conditions.iter().all(|c| match c.kind {
        1 => *counter == c.than,
        2 => counter.ver > c.than.ver,
        3 => counter.ver >= c.than.ver,
        4 => counter.ver < c.than.ver,
        5 => counter.ver <= c.than.ver,
        6 => counter.tag == c.than.tag,
        7 => counter.tag != c.than.tag,
        _ => true,
    })
}

fn set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let One { counter } = input(bytes)?;
    save(o, &counter)
}

fn inc(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let Conditions { all, .. } = input(bytes)?;
    let at = o.next_version();
    // Any tag that differs from all other counters' will do; Ceph draws as many characters.
    let new = || Counter { ver: 1, tag: format!("{:08x}{:016x}", at.epoch.0, at.version).into_bytes() };
    let mut counter = load(o)?.unwrap_or_else(new);
    if !hold(&counter, &all) {
        return fail(Errno::ECANCELED);
    }
    counter.ver = counter.ver.wrapping_add(1);
    save(o, &counter)
}

fn read(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&One { counter: load(o)?.unwrap_or_default() })
}

fn check(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let Conditions { all, .. } = input(bytes)?;
    if hold(&load(o)?.unwrap_or_default(), &all) { done() } else { fail(Errno::ECANCELED) }
}
