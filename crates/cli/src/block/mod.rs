//! Block-device images in a program: the machines of crate `block` with a cluster's client and sockets.

mod driver;
mod mapped;
mod nbd_server;
mod pools;
mod spec;
pub(crate) mod tls;
mod world;

pub(crate) use driver::News;
pub(crate) use driver::{Driver, run_script};
pub(crate) use mapped::{Mapped, Registration, list as list_mapped, run_dir};
pub(crate) use nbd_server::{Endpoint, Server};
pub(crate) use pools::Pools;
pub(crate) use spec::ImageSpec;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what is whole at any time, also after a panic of another thread.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
