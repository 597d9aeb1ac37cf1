//! LOOKUP and its relatives by inode number.

use super::getattr::gather;
use super::{Cx, Plan, Reply};
use crate::types::{Errno, Stop};
use fsfmt::Ino;
use msgs::{GetattrArgs, errno};

/// LOOKUP: a name. That it is absent is an answer that the client may keep.
pub(super) fn by_path(cx: &Cx<'_>) -> Result<Plan, Stop> {
    if cx.request.path.path.is_empty() {
        return super::getattr::prepare(cx);
    }
    let (dir, key) = cx.parent(&cx.request.path)?;
    let found = cx.entry(dir, &key)?.ino();
    let Some(ino) = found else {
        if !cx.wants_dentry() {
            return Err(Errno(errno::ENOENT).into());
        }
        let reply = Reply { result: -errno::ENOENT, dentry: Some((dir, key)), ..Reply::default() };
        return Ok(Plan { reply, ..Plan::default() });
    };
    cx.inode(ino)?;
    gather(cx, ino, cx.request.args.get::<GetattrArgs>().mask);
    let reply = Reply { dentry: Some((dir, key)), target: Some(ino), ..Reply::default() };
    cx.finish(Plan { reply, touched: vec![ino], ..Plan::default() })
}

fn only_target(cx: &Cx<'_>, ino: Ino) -> Result<Plan, Stop> {
    cx.inode(ino)?;
    gather(cx, ino, cx.request.args.get::<GetattrArgs>().mask);
    let reply = Reply { target: Some(ino), ..Reply::default() };
    cx.finish(Plan { reply, touched: vec![ino], ..Plan::default() })
}

/// LOOKUPINO: the inode of a number.
pub(super) fn by_ino(cx: &Cx<'_>) -> Result<Plan, Stop> {
    only_target(cx, Ino(cx.request.path.ino))
}

/// LOOKUPPARENT: the directory that an inode's primary entry is in.
pub(super) fn parent(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let inode = cx.inode(Ino(cx.request.path.ino))?;
    match &inode.place {
        Some((dir, _)) if !dir.is_base() || *dir == Ino::ROOT => only_target(cx, *dir),
        _ => Err(Errno(errno::ENOENT).into()),
    }
}

/// LOOKUPNAME: the name of an inode in its directory.
pub(super) fn name(cx: &Cx<'_>) -> Result<Plan, Stop> {
    // The second path is the child, the first its directory.
    let inode = cx.inode(Ino(cx.request.path2.ino))?;
    let Some((dir, key)) = inode.place.clone() else { return Err(Errno(errno::ENOENT).into()) };
    if dir != Ino(cx.request.path.ino) {
        return Err(Errno(errno::ENOENT).into());
    }
    cx.inode(dir)?;
    let reply = Reply { dentry: Some((dir, key)), target: Some(inode.data.ino), ..Reply::default() };
    Ok(Plan { reply, ..Plan::default() })
}
