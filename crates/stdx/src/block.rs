//! The unit of checksums and disks.

/// The unit of alignment and of checksums, in bytes.
pub const BLOCK: usize = 4096;
