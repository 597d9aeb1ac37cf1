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

mod class;
mod hello;
mod journal;
mod lock;
mod log;
mod numops;
mod object;
mod rbd;
mod refcount;
mod stored;
mod version;

pub use object::{MethodStop, Object};

use class::{Class, Method};
use wire::Errno;

static CLASSES: &[&dyn Class] = &[
    &hello::Hello,
    &journal::Journal,
    &lock::Lock,
    &log::Log,
    &numops::NumOps,
    &rbd::Rbd,
    &refcount::RefCount,
    &version::Version,
];

/// Classes that Ceph's OSDs load and this one does not implement.
const NOT_HERE: &[&str] =
    &["2pc_queue", "cas", "cephfs", "cmpomap", "fifo", "otp", "queue", "rgw", "rgw_gc", "timeindex", "user"];

/// The methods of a class.
#[cfg(test)]
fn methods(class: &str) -> &'static [Method] {
    CLASSES.iter().find(|c| c.name() == class).map_or(&[], |c| c.methods())
}

/// The method of this name. EOPNOTSUPP if it, or its class, is not implemented; EPERM for a class that Ceph's
/// OSDs refuse to load.
pub fn find(class: &str, method: &str) -> Result<&'static Method, Errno> {
    let Some(known) = CLASSES.iter().find(|c| c.name() == class) else {
        return Err(if NOT_HERE.contains(&class) { Errno::EOPNOTSUPP } else { Errno::EPERM });
    };
    known.methods().iter().find(|m| m.name == method).ok_or(Errno::EOPNOTSUPP)
}
