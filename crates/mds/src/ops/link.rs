//! LINK: a further name for an inode.

use super::context::Cx;
use super::draft::Draft;
use super::plan::{Plan, Reply};
use crate::types::Stop;
use msgs::cap;
use wire::Errno;

pub(super) fn prepare(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let (dir, key) = cx.parent(&cx.request.path)?;
    let target = cx.resolve(&cx.request.path2)?;
    if cx.entry(dir, &key)?.inode().is_some() {
        return Err(Errno::EEXIST.into());
    }
    let data = &cx.inode(target.ino)?.data;
    if data.is_dir() {
        return Err(Errno::EPERM.into());
    }
    if data.nlink == 0 || cx.dir(dir.inode())?.data.nlink == 0 {
        return Err(Errno::ENOENT.into());
    }
    let dtype = data.dtype();
    let mut draft = Draft::new(cx.cache, cx.now);
    draft.changed(target.ino)?.nlink += 1;
    draft.dir_changed(dir, 1, 0)?;
    draft.put_remote((dir, key.clone()), target.ino.ino, dtype);
    cx.revoke_others(dir.inode(), cap::FILE_SHARED);
    cx.revoke_others(target.ino, cap::LINK_SHARED);
    cx.revoke(target.ino, None, cap::LINK_EXCL);
    let reply = Reply { dentry: Some((dir, key)), target: Some(target.ino), ..Reply::default() };
    cx.finish(Plan { local: draft.finish(), reply, touched: vec![target.ino], ..Plan::default() })
}
