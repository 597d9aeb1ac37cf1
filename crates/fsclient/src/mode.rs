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
/// Who runs the file becomes its owner.
const SET_UID: u32 = 0o4000;
/// The group may run the file.
const GROUP_RUNS: u32 = 0o010;

/// The mode of a file without the bits that give rights to whoever runs it; `None` if it has none of them.
/// Without the right of the group to run it, set-group-ID means something else, and stays.
pub(crate) fn without_set_id(mode: u32) -> Option<u32> {
    let group = if mode & GROUP_RUNS != 0 { SET_GID } else { 0 };
    (mode & (SET_UID | group) != 0).then_some(mode & !(SET_UID | group))
}
