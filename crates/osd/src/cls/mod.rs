//! Object classes: methods that run beside the object, as one operation of a vector (paper, 2: "intelligent
//! OSDs").
//!
//! A class is a [`Class`]: a name and its [`Method`]s. A method is a function from the object ([`Object`])
//! and its input to an output; its changes become part of the vector's transaction. It need not declare what
//! it reads. If it asks for something that is not loaded, [`Object`] records the need and fails; the vector
//! waits for the store and is executed again from the start.
//!
//! A method must therefore pass on the error of a read (`?` does), and must depend on nothing but [`Object`]:
//! no clock, no entropy. Several keys that are known together should be read together
//! ([`Object::omap_values`]).

mod hello;
mod lock;
mod log;
mod numops;
mod object;
mod refcount;
mod version;

pub use object::{Cached, Need, Object};

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

/// Why a method gives nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MethodStop {
    /// It fails with this error.
    Fail(Errno),
    /// It has asked for something that is not loaded, and is run anew when it is.
    NeedsData,
}

impl From<Errno> for MethodStop {
    fn from(errno: Errno) -> Self {
        Self::Fail(errno)
    }
}

/// What running a method gives.
pub type MethodResult = Result<MethodOutput, MethodStop>;

/// Fails a method.
fn fail<T>(errno: Errno) -> Result<T, MethodStop> {
    Err(MethodStop::Fail(errno))
}

/// A method of a class.
#[derive(Debug)]
pub struct Method {
    /// Name by which clients call it.
    pub name: &'static str,
    /// The method may read the object. One that reads without declaring it fails with EIO; every method may
    /// ask if the object exists.
    pub reads: bool,
    /// The method may change the object, under the same rule.
    pub writes: bool,
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

static CLASSES: &[&dyn Class] =
    &[&hello::Hello, &lock::Lock, &log::Log, &numops::NumOps, &refcount::RefCount, &version::Version];

/// Classes that Ceph's OSDs load and this one does not implement.
const NOT_HERE: &[&str] = &[
    "2pc_queue",
    "cas",
    "cephfs",
    "cmpomap",
    "fifo",
    "journal",
    "otp",
    "queue",
    "rbd",
    "rgw",
    "rgw_gc",
    "timeindex",
    "user",
];

/// The method of this name. EOPNOTSUPP if it, or its class, is not implemented; EPERM for a class that Ceph's
/// OSDs refuse to load.
pub fn find(class: &str, method: &str) -> Result<&'static Method, Errno> {
    let Some(known) = CLASSES.iter().find(|c| c.name() == class) else {
        return Err(if NOT_HERE.contains(&class) { Errno::EOPNOTSUPP } else { Errno::EPERM });
    };
    known.methods().iter().find(|m| m.name == method).ok_or(Errno::EOPNOTSUPP)
}

/// A method that reads the object.
const fn reader(name: &'static str, run: fn(&mut Object<'_, '_>, &[u8]) -> MethodResult) -> Method {
    Method { name, reads: true, writes: false, run }
}

/// A method that reads and changes the object.
const fn updater(name: &'static str, run: fn(&mut Object<'_, '_>, &[u8]) -> MethodResult) -> Method {
    Method { name, reads: true, writes: true, run }
}

/// A method that changes the object without reading it.
const fn writer(name: &'static str, run: fn(&mut Object<'_, '_>, &[u8]) -> MethodResult) -> Method {
    Method { name, reads: false, writes: true, run }
}

/// Decodes a method's input. Bytes that follow are from a newer client and ignored.
fn input<T: Decode>(bytes: &[u8]) -> Result<T, Errno> {
    Reader::new(bytes).get().map_err(|_| Errno::EINVAL)
}

/// A result without output.
fn done() -> MethodResult {
    Ok(MethodOutput::default())
}

/// An encoded output.
fn output<T: wire::Encode>(value: &T) -> MethodResult {
    Ok(wire::Writer::encode(value).into())
}
