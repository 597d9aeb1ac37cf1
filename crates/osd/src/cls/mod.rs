//! Object classes: methods that run beside the object, as one operation of a vector (paper, 2: "intelligent
//! OSDs").
//!
//! A class is a [`Class`]: a name and its [`Method`]s. A method is a function from the object as it is
//! ([`Object`]) and its input to an output; what it changes becomes part of the vector's transaction. It need
//! not say beforehand what it reads: asked for something that is not loaded, [`Object`] notes the need and
//! fails, the vector is put aside until the store has answered, and is executed anew. So a method must fail
//! with what a read gave it (`?` does), and must not depend on anything but what [`Object`] tells it: no
//! clock, no entropy. Several keys that are known together are best asked for together
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
    /// What clients call.
    pub name: &'static str,
    /// It may look at the object. One that does not fails with EIO if it does; whether an object exists all
    /// may ask.
    pub reads: bool,
    /// It may change the object; the same.
    pub writes: bool,
    /// What it does.
    pub run: fn(&mut Object<'_, '_>, &[u8]) -> MethodResult,
}

/// An object class.
pub trait Class: Sync {
    /// What clients call it.
    fn name(&self) -> &'static str;
    /// What it offers.
    fn methods(&self) -> &'static [Method];
}

static CLASSES: &[&dyn Class] =
    &[&hello::Hello, &lock::Lock, &log::Log, &numops::NumOps, &refcount::RefCount, &version::Version];

/// Classes that Ceph's OSDs load and these do not have.
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

/// The method of this name; or EOPNOTSUPP where it, or its class, is not here; or EPERM for a class that
/// Ceph's OSDs refuse to load.
pub fn find(class: &str, method: &str) -> Result<&'static Method, Errno> {
    let Some(known) = CLASSES.iter().find(|c| c.name() == class) else {
        return Err(if NOT_HERE.contains(&class) { Errno::EOPNOTSUPP } else { Errno::EPERM });
    };
    known.methods().iter().find(|m| m.name == method).ok_or(Errno::EOPNOTSUPP)
}

/// A method that looks at the object.
const fn reader(name: &'static str, run: fn(&mut Object<'_, '_>, &[u8]) -> MethodResult) -> Method {
    Method { name, reads: true, writes: false, run }
}

/// A method that looks at the object and changes it.
const fn updater(name: &'static str, run: fn(&mut Object<'_, '_>, &[u8]) -> MethodResult) -> Method {
    Method { name, reads: true, writes: true, run }
}

/// A method that changes the object without looking at it.
const fn writer(name: &'static str, run: fn(&mut Object<'_, '_>, &[u8]) -> MethodResult) -> Method {
    Method { name, reads: false, writes: true, run }
}

/// Decodes a method's input. What follows it is a newer client's.
fn input<T: Decode>(bytes: &[u8]) -> Result<T, Errno> {
    Reader::new(bytes).get().map_err(|_| Errno::EINVAL)
}

/// No output.
fn done() -> MethodResult {
    Ok(MethodOutput::default())
}

/// An encoded output.
fn output<T: wire::Encode>(value: &T) -> MethodResult {
    Ok(wire::Writer::encode(value).into())
}
