//! GETATTR: an inode's attributes, fetched from whoever may have changed them.

use super::context::Cx;
use super::plan::{Plan, Reply};
use crate::types::Stop;
use fsfmt::InodeKey;
use msgs::{GetattrArgs, cap};

/// Revokes the capabilities that keep the attributes named by `mask` from being known here.
pub(super) fn gather(cx: &Cx<'_>, ino: InodeKey, mask: u32) {
    let mut revoke = 0;
    for (shared, excl) in [
        (cap::AUTH_SHARED, cap::AUTH_EXCL),
        (cap::LINK_SHARED, cap::LINK_EXCL),
        (cap::XATTR_SHARED, cap::XATTR_EXCL),
        (cap::FILE_SHARED, cap::FILE_EXCL | cap::FILE_WR | cap::FILE_BUFFER),
    ] {
        if mask & shared != 0 {
            revoke |= excl;
        }
    }
    cx.revoke_others(ino, revoke);
}

pub(super) fn prepare(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let target = cx.resolve(&cx.request.path)?;
    let mask = cx.request.args.get::<GetattrArgs>().mask;
    gather(cx, target.ino, mask);
    let reply = Reply { target: Some(target.ino), ..Reply::default() };
    cx.finish(Plan { reply, touched: vec![target.ino], ..Plan::default() })
}
