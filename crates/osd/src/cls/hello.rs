//! `hello`: Ceph's example of a class, which clients' tests call.

use super::class::{Class, Method, MethodOutput, MethodResult, done, fail, reader, updater, writer};
use super::object::Object;
use wire::Errno;

pub struct Hello;

impl Class for Hello {
    fn name(&self) -> &'static str {
        "hello"
    }

    fn methods(&self) -> &'static [Method] {
        const {
            &[
                reader("say_hello", say_hello),
                reader("replay", replay),
                writer("record_hello", record_hello),
                writer("write_return_data", write_return_data),
                writer("writes_dont_return_data", writes_dont_return_data),
                updater("turn_it_to_11", turn_it_to_11),
                writer("bad_reader", bad_reader),
                reader("bad_writer", bad_writer),
            ]
        }
    }
}

/// Bytes of a greeting that a replay reads.
const GREETING: u64 = 1100;

fn greeting(to: &[u8]) -> Result<Vec<u8>, Errno> {
    if to.len() > 100 {
        return Err(Errno::EINVAL);
    }
    let to = if to.is_empty() { b"world" } else { to };
    Ok([&b"Hello, "[..], to, b"!"].concat())
}

fn say_hello(_: &mut Object<'_, '_>, input: &[u8]) -> MethodResult {
    Ok(greeting(input)?.into())
}

fn replay(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    Ok(o.read(0, GREETING)?.to_vec().into())
}

fn sign(o: &mut Object<'_, '_>, attr: &[u8]) -> MethodResult {
    let (who, addr) = o.caller();
    o.set_xattr(attr, format!("{who} {addr}").into_bytes())?;
    done()
}

fn record_hello(o: &mut Object<'_, '_>, input: &[u8]) -> MethodResult {
    let text = greeting(input)?;
    if o.exists() {
        return fail(Errno::EEXIST);
    }
    o.write_full(text)?;
    sign(o, b"said_by")
}

fn change_and_say(o: &mut Object<'_, '_>, input: &[u8], text: &[u8]) -> MethodResult {
    o.set_xattr(b"foo", b"bar".to_vec())?;
    if input.is_empty() { Ok(MethodOutput { rval: 42, data: text.to_vec() }) } else { fail(Errno::EINVAL) }
}

fn write_return_data(o: &mut Object<'_, '_>, input: &[u8]) -> MethodResult {
    change_and_say(o, input, b"you might see this")
}

fn writes_dont_return_data(o: &mut Object<'_, '_>, input: &[u8]) -> MethodResult {
    change_and_say(o, input, b"you will never see this")
}

fn turn_it_to_11(o: &mut Object<'_, '_>, input: &[u8]) -> MethodResult {
    if !input.is_empty() {
        return fail(Errno::EINVAL);
    }
    let before = o.read(0, GREETING)?.to_vec();
    o.write_full(before.to_ascii_uppercase())?;
    sign(o, b"amplified_by")
}

/// Declared as a writer, but reads.
fn bad_reader(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    Ok(o.read(0, 100)?.to_vec().into())
}

/// Declared as a reader, but writes.
fn bad_writer(o: &mut Object<'_, '_>, input: &[u8]) -> MethodResult {
    o.write_full(input.to_vec())?;
    done()
}
