//! Disks: a regular file or a block device behind `DiskOp`s.
//!
//! Policy (ADR 0009): where the file system allows it all access is direct, past the host's page cache, through `io_uring`; so a
//! flush waits for nothing but what was written before it, and large writes cost no copy. A host that forbids `io_uring` gets
//! the same calls on threads, a file system without direct access goes through the page cache. The kinds never meet on one file
//! while it is open.

mod file;
mod holder;
mod open;
mod pool;
mod ring;

pub use file::FileDisk;
pub use holder::{forget_partitions, in_use, kernel_use, partitions};
pub use open::{Access, DiskOpenError, DiskSpec, lock_shared, open, open_alone};
pub use pool::DiskPool;

use node::{DiskInfo, DiskOp, DiskResult};
use std::os::fd::OwnedFd;

/// Called once with an operation's result.
pub type DiskDone = Box<dyn FnOnce(DiskResult) + Send>;

/// What carries out disk operations.
pub trait DiskBackend: Send {
    /// What a role is told of the device.
    fn info(&self) -> DiskInfo;

    /// Starts `op`; `done` is called once with its result, here, within [`Self::reap`], or on another thread. Several may be in
    /// flight and may end in any order; a flush covers the writes that had ended when it was started.
    fn start(&self, op: DiskOp, done: DiskDone);

    /// Hands what was started to the host; to be called after each batch of [`Self::start`].
    fn submit(&self);

    /// Calls `done` of the operations that have ended and whose results wait here.
    fn reap(&self);

    /// A descriptor that becomes readable, once, when there is something to [`Self::reap`]; `None` where other threads
    /// call `done`.
    fn completions(&self) -> std::io::Result<Option<OwnedFd>>;
}

#[cfg(test)]
mod tests;
