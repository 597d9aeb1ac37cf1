//! LINK: a further name for an inode.

use super::context::Cx;
use super::directory;
use super::draft::Draft;
use super::plan::{Plan, RealmChange, Reply};
use crate::cap::STRONG;
use crate::types::Stop;
use fsfmt::Realm;
use maps::SnapId;
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
    let changed = draft.changed(target.ino)?;
    changed.nlink += 1;
    let moves = changed.realm != Realm::GLOBAL && cx.cache.snaps.last() != SnapId(0);
    // Snapshots of any directory with one of its names may contain it.
    changed.realm = Realm::GLOBAL;
    directory::change(cx, &mut draft, dir, (1, 0))?;
    draft.put_remote((dir, key.clone()), target.ino.ino, dtype);
    cx.revoke_others(target.ino, cap::LINK_SHARED);
    cx.revoke(target.ino, None, cap::LINK_EXCL);
    let reply = Reply { dentry: Some((dir, key)), target: Some(target.ino), ..Reply::default() };
    if moves {
        // Before its clients learn of the realm they write nothing.
        cx.revoke(target.ino, None, STRONG);
    }
    let realm = moves.then_some(RealmChange::Split(Realm::GLOBAL));
    cx.finish(Plan { local: draft.finish(), reply, realm, touched: vec![target.ino], ..Plan::default() })
}
