//! What a class is made of, and what its methods are written with.

use super::object::{Access, MethodStop, Object};
use wire::{Decode, Errno, Reader};

/// What a method that succeeds gives.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MethodOutput {
    /// Its return value, which is 0 for most methods.
    pub rval: u16,
    /// Its output.
    pub data: Vec<u8>,
}

impl From<Vec<u8>> for MethodOutput {
    fn from(data: Vec<u8>) -> Self {
        Self { rval: 0, data }
    }
}

/// What running a method gives.
pub type MethodResult = Result<MethodOutput, MethodStop>;

/// Fails a method.
pub(super) fn fail<T>(errno: Errno) -> Result<T, MethodStop> {
    Err(MethodStop::Fail(errno))
}

/// A method of a class.
#[derive(Debug)]
pub struct Method {
    /// Name by which clients call it.
    pub name: &'static str,
    /// What it may do to the object.
    pub access: Access,
    /// Its implementation.
    pub run: fn(&mut Object<'_, '_>, &[u8]) -> MethodResult,
}

/// An object class.
pub trait Class: Sync {
    /// Name by which clients call it.
    fn name(&self) -> &'static str;
    /// The methods that it offers.
    fn methods(&self) -> &'static [Method];
}

/// A method that reads the object.
pub(super) const fn reader(
    name: &'static str,
    run: fn(&mut Object<'_, '_>, &[u8]) -> MethodResult,
) -> Method {
    Method { name, access: Access { reads: true, writes: false }, run }
}

/// A method that reads and changes the object.
pub(super) const fn updater(
    name: &'static str,
    run: fn(&mut Object<'_, '_>, &[u8]) -> MethodResult,
) -> Method {
    Method { name, access: Access { reads: true, writes: true }, run }
}

/// A method that changes the object without reading it.
pub(super) const fn writer(
    name: &'static str,
    run: fn(&mut Object<'_, '_>, &[u8]) -> MethodResult,
) -> Method {
    Method { name, access: Access { reads: false, writes: true }, run }
}

/// Decodes a method's input. Bytes that follow are from a newer client and ignored.
pub(super) fn input<T: Decode>(bytes: &[u8]) -> Result<T, Errno> {
    Reader::new(bytes).get().map_err(|_| Errno::EINVAL)
}

/// A result without output.
pub(super) fn done() -> MethodResult {
    Ok(MethodOutput::default())
}

/// An encoded output.
pub(super) fn output<T: wire::Encode>(value: &T) -> MethodResult {
    Ok(wire::Writer::encode(value).into())
}
