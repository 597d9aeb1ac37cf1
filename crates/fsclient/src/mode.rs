//! The bits of a mode, as stat(2) has them.

/// The part that tells the kind of an inode.
pub(crate) const FORMAT: u32 = 0o170_000;
pub(crate) const DIR: u32 = 0o040_000;
pub(crate) const FILE: u32 = 0o100_000;
pub(crate) const SYMLINK: u32 = 0o120_000;
/// What is made in the directory gets its group.
pub(crate) const SET_GID: u32 = 0o2000;
/// What chmod(2) changes.
pub(crate) const CHANGEABLE: u32 = 0o7777;
/// What owner, group and others may do.
pub(crate) const PERMISSIONS: u32 = 0o777;
