//! Disks as a node sees them: numbered devices of a fixed sector size, with unordered writes and a flush.

use std::fmt;
use stdx::{Buf, Bufs};
use wire::Errno;

stdx::ids! {
    /// A device of the node: 0 is the first.
    pub struct DiskId(u8) = "disk{}";
}

/// Description of a device, given to a node when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskInfo {
    /// Number of the device.
    pub id: DiskId,
    /// Bytes; a multiple of 4096.
    pub size: u64,
    /// The largest unit that a power loss leaves either old or new, in bytes (512 or 4096).
    pub sector: u32,
}

/// An operation. Operations in flight at once may be carried out in any order.
#[derive(Clone, Debug)]
pub enum DiskOp {
    /// Read `len` bytes at `offset`, both multiples of [`stdx::BLOCK`].
    Read {
        /// The device to use.
        disk: DiskId,
        /// Byte offset on the device.
        offset: u64,
        /// Number of bytes.
        len: usize,
        /// The host may answer from what it keeps of the device in its memory. For an owner that verifies
        /// what it gets: if it is unsound, only a read without this tells what the device has.
        cached: bool,
    },
    /// Write at `offset`; offset and length are multiples of [`stdx::BLOCK`]. Completion does **not** mean
    /// durability: until a later flush has completed, a power loss may keep, lose or tear each sector on its
    /// own.
    Write {
        /// The device to use.
        disk: DiskId,
        /// Byte offset on the device.
        offset: u64,
        /// Bytes to write.
        data: Bufs,
        /// If true, completion **does** mean that these bytes are durable; it says nothing about other
        /// writes.
        through: bool,
    },
    /// Make durable all writes that had **ended** before this was issued.
    Flush {
        /// The device to use.
        disk: DiskId,
    },
    /// Discard a range: reads of it return anything until it is written again.
    Discard {
        /// The device to use.
        disk: DiskId,
        /// Byte offset on the device.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
}

/// The result of an operation: the bytes of a read (empty for other operations), or an error.
pub type DiskResult = Result<Buf, DiskError>;

/// A failed operation. After a failed flush nothing counts as durable that was not durable before: the owner
/// must stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskError {
    /// The host's error (EIO, ENOSPC …).
    pub errno: Errno,
    /// The operation and its range.
    pub what: String,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.errno)?;
        if self.errno == Errno::ENOSPC {
            f.write_str(
                ": the file system that it is on is full; make space there and start again, nothing that \
                 was acknowledged is lost",
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for DiskError {}
