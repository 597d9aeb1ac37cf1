//! LOOKUP and its relatives by inode number.

use super::context::Cx;
use super::getattr::gather;
use super::plan::{Plan, Reply};
use super::view;
use crate::types::Stop;
use fsfmt::{Ino, InodeKey};
use maps::SnapId;
use msgs::{GetattrArgs, LookupInoArgs};
use wire::Errno;

/// LOOKUP: by name. The client may cache that a name is absent.
pub(super) fn by_path(cx: &Cx<'_>) -> Result<Plan, Stop> {
    if cx.request.path.path.is_empty() {
        return super::getattr::prepare(cx);
    }
    let (dir, key) = cx.parent(&cx.request.path)?;
    let found = cx.entry(dir, &key)?.inode();
    let Some(ino) = found else {
        if !cx.wants_dentry() {
            return Err(Errno::ENOENT.into());
        }
        let reply =
            Reply { result: Errno::ENOENT.to_result_code(), dentry: Some((dir, key)), ..Reply::default() };
        return Ok(Plan { reply, ..Plan::default() });
    };
    cx.shown(ino)?;
    if !cx.cache.subtrees.is_foreign_root(ino.ino) {
        gather(cx, ino, cx.request.args.get::<GetattrArgs>().mask);
    }
    let reply = Reply { dentry: Some((dir, key)), target: Some(ino), ..Reply::default() };
    cx.finish(Plan { reply, touched: vec![ino], ..Plan::default() })
}

fn only_target(cx: &Cx<'_>, ino: InodeKey) -> Result<Plan, Stop> {
    cx.inode(ino)?;
    gather(cx, ino, cx.request.args.get::<GetattrArgs>().mask);
    let reply = Reply { target: Some(ino), ..Reply::default() };
    cx.finish(Plan { reply, touched: vec![ino], ..Plan::default() })
}

/// LOOKUPINO: by inode number, of the live file system or as of a snapshot.
pub(super) fn by_ino(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let ino = Ino(cx.request.path.ino);
    match snap_of(cx) {
        Some(snap) => view::by_ino(cx, ino, snap),
        None => only_target(cx, ino.head()),
    }
}

/// The snapshot that a request by inode number is about; none for the live file system.
fn snap_of(cx: &Cx<'_>) -> Option<SnapId> {
    let snap = SnapId(cx.request.args.get::<LookupInoArgs>().snapid);
    (snap != SnapId(0) && snap != SnapId::HEAD).then_some(snap)
}

/// LOOKUPPARENT: the directory that an inode's primary entry is in.
pub(super) fn parent(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let inode = cx.inode(Ino(cx.request.path.ino).head())?;
    match &inode.place {
        Some((dir, _)) if cx.cache.subtrees.keeper(*dir).is_shard() => {
            cx.copy_of(dir.ino)?;
            let reply = Reply { target: Some(dir.inode()), ..Reply::default() };
            Ok(Plan { reply, ..Plan::default() })
        }
        Some((dir, _)) if !dir.ino.is_base() || dir.ino == Ino::ROOT => only_target(cx, dir.inode()),
        _ if inode.data.ino.is_base() => Err(Errno::EINVAL.into()),
        // It has no name any more, and is open somewhere.
        _ => Err(Errno::ESTALE.into()),
    }
}

/// LOOKUPNAME: the name of an inode in its directory.
pub(super) fn name(cx: &Cx<'_>) -> Result<Plan, Stop> {
    // The first path is the inode, the second the directory.
    let inode = cx.inode(Ino(cx.request.path.ino).head())?;
    let Some((dir, key)) = inode.place.clone() else { return Err(Errno::ENOENT.into()) };
    if dir.ino != Ino(cx.request.path2.ino) {
        return Err(Errno::ENOENT.into());
    }
    cx.dir_of(dir)?;
    cx.check_alone(dir.inode())?;
    let reply = Reply { dentry: Some((dir, key)), target: Some(inode.data.key()), ..Reply::default() };
    Ok(Plan { reply, ..Plan::default() })
}
