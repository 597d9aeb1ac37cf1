//! The flags of an open, by Ceph's numbers, and what they ask for.

use super::flags::is_async;
use crate::cap::wanted_by_open;
use msgs::{ClientRequest, MdsOp, OpenArgs, cap};

pub(super) const ACCESS: u32 = 3;
pub(super) const WRONLY: u32 = 1;
pub(super) const EXCL: u32 = 0o200;
pub(super) const TRUNC: u32 = 0o1000;
pub(super) const DIRECTORY: u32 = 0o200_000;

/// True if the request opens a file to change it. It then needs the permissions of a change, although its
/// operation number does not say so.
pub(super) fn changes(request: &ClientRequest) -> bool {
    let flags = || request.args.get::<OpenArgs>().flags;
    request.op == MdsOp::OPEN && flags() & (ACCESS | TRUNC) != 0
}

/// Cap bits that an open file wants.
pub(super) fn wanted(flags: u32) -> u32 {
    let access = flags & ACCESS;
    wanted_by_open(access != WRONLY, access != 0)
}

/// Cap bits that the creator of a file wants.
pub(super) fn wanted_by_create(request: &ClientRequest) -> u32 {
    let taken = if is_async(request) { cap::ASSUMED } else { 0 };
    wanted(request.args.get::<OpenArgs>().flags) | taken
}
