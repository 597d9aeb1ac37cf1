//! Disks: a regular file or a block device behind `DiskOp`s.
//!
//! Policy (ADR 0009): if the file system allows it, all access is direct, past the host's page cache, through
//! `io_uring`. Then a flush waits only for earlier writes, and large writes cost no copy. If the host forbids
//! `io_uring`, threads make the same calls; a file system without direct access is used through the page
//! cache. The ways are never mixed on a file while it is open. Reads whose owner verifies them may be
//! answered from memory that the kernel takes back when it needs it (ADR 0032).

mod device;
mod file;
mod holder;
mod kept;
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

/// Carries out disk operations.
pub trait DiskBackend: Send {
    /// The device's description, for a role.
    fn info(&self) -> DiskInfo;

    /// Starts `op`. `done` is called once with its result: here, within [`Self::reap`], or on another thread.
    /// Several operations may be in flight and may complete in any order; a flush covers the writes that had
    /// completed when it was started.
    fn start(&self, op: DiskOp, done: DiskDone);

    /// Hands what was started to the host; to be called after each batch of [`Self::start`].
    fn submit(&self);

    /// Calls `done` of the completed operations.
    fn reap(&self);

    /// Bytes that were asked for from the device, but for those that came from memory, and given to it.
    fn bytes(&self) -> (u64, u64);

    /// A descriptor that becomes readable, once, when there is something to [`Self::reap`]; `None` if other
    /// threads call `done`.
    fn completions(&self) -> std::io::Result<Option<OwnedFd>>;
}

#[cfg(test)]
mod tests;
