//! Disks: a regular file or a block device behind `DiskOp`s.
//!
//! Policy (DESIGN, decision 14): the host's page cache is the only cache, for reads as for writes; nothing is ever
//! opened with `O_DIRECT`, so the two kinds of access never meet on one file. A write ends when it is in the page
//! cache, a flush is `fdatasync`. That keeps cached reads out of the daemon's own memory and lets a read that hits
//! the cache end without a thread hand-off.

mod file;
mod open;
mod pool;

pub use file::FileDisk;
pub use open::{DiskOpenError, DiskSpec, in_use, open};
pub use pool::DiskPool;

use node::{DiskInfo, DiskOp, DiskResult};

/// What carries out disk operations: `pread`, `pwritev` and `fdatasync` on threads today, `io_uring` later.
pub trait DiskBackend: Send {
    /// What a role is told of the device.
    fn info(&self) -> DiskInfo;

    /// Starts `op`; `done` is called once with its result, here or on another thread. Several may be in flight and may
    /// end in any order; a flush covers the writes that had ended when it was started.
    fn start(&self, op: DiskOp, done: Box<dyn FnOnce(DiskResult) + Send>);
}

#[cfg(test)]
mod tests;
