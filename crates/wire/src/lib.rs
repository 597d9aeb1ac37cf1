//! Encoding and decoding of Ceph's binary formats: little-endian integers, length-prefixed containers, and
//! structures with a header of version, oldest compatible version and length, so that an older reader skips
//! the additions of a newer writer (docs/protocol.md 1.2, 7.6). Nacre's own stored and inter-daemon formats
//! use the same.
//!
//! Untrusted bytes are read only through [`Reader`], which never reads past its end, never allocates more
//! than the bytes present can justify, and reports the offset of an error.

mod codec;
mod entity;
mod errno;
mod error;
#[macro_use]
mod macros;
#[macro_use]
mod message;
mod raw;
mod reader;
mod sample;
mod stamp;
mod writer;

/// The feature bits that our daemons and clients announce: Pacific's without 31, which together with others
/// would read as Reef (docs/protocol.md 1.5).
pub const FEATURES: u64 = 0x3f01_cfbd_7ffd_ffff;

pub use codec::{Decode, Encode, Fields};
pub use entity::{AddrType, AddrVec, EntityAddr, EntityId, EntityName, EntityType};
pub use errno::Errno;
pub use error::{DecodeError, NEWER};
pub use message::{Message, PRIORITY_DEFAULT};
pub use raw::RawMsg;
pub use reader::Reader;
pub use sample::Sample;
pub use stamp::{Timespec, Utime, Uuid};
pub use stdx::crc32c;
pub use writer::Writer;
