//! LINK: a further name for an inode. The inode notes its further names: when the first one goes, one of them
//! takes its place.

use super::context::Cx;
use super::directory;
use super::draft::Draft;
use super::plan::{Plan, RealmChange, Reply};
use crate::authority::Auth;
use crate::cache::{Inode, SlotLink};
use crate::cap::STRONG;
use crate::types::{Place, Stop};
use fsfmt::{BackPointer, InodeData, Realm};
use maps::SnapId;
use msgs::cap;
use wire::Errno;

/// Further names that an inode notes, the newest ones: backups that are linked remove the oldest first.
const MOST_NOTED: usize = 8;

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
    if data.nlink == 0 || cx.dir_of(dir)?.data.nlink == 0 {
        return Err(Errno::ENOENT.into());
    }
    let dtype = data.dtype();
    let mut draft = Draft::new(cx.cache, cx.now);
    let changed = draft.changed(target.ino)?;
    changed.nlink += 1;
    cx.stay_outside_fence(Realm::GLOBAL)?;
    let moves = changed.realm != Realm::GLOBAL && cx.cache.snaps.last() != SnapId(0);
    // Snapshots of any directory with one of its names may contain it.
    changed.realm = Realm::GLOBAL;
    note_name(changed, &(dir, key.clone()));
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

/// Notes a further name of an inode.
pub(super) fn note_name(data: &mut InodeData, (dir, key): &Place) {
    let name = BackPointer { dir: dir.ino, name: key.name.to_vec(), ..BackPointer::default() };
    data.links.edit(|links| {
        links.push(name);
        if links.len() > MOST_NOTED {
            links.remove(0);
        }
    });
}

/// Forgets a further name of an inode, if it is noted.
pub(super) fn forget_name(data: &mut InodeData, (dir, key): &Place) {
    if !data.links.is_empty() {
        data.links.edit(|links| links.retain(|link| (link.dir, &*link.name) != (dir.ino, &*key.name)));
    }
}

/// A further name of an inode that can become its first one: this rank has the directory, and it is known to
/// lead there still.
pub(super) fn other_name(cx: &Cx<'_>, inode: &Inode) -> Result<Option<Place>, Stop> {
    for link in inode.data.links.iter().rev() {
        match leads_to(cx, inode, link) {
            Ok(None) | Err(Stop::Fail(_)) => {}
            found => return found,
        }
    }
    Ok(None)
}

fn leads_to(cx: &Cx<'_>, inode: &Inode, link: &BackPointer) -> Result<Option<Place>, Stop> {
    let dir = link.dir.head();
    let keeper = cx.cache.subtrees.keeper_of_name(link.dir, &link.name);
    if cx.cache.authority(keeper).map_err(|need| cx.unless_missing(need))? != Auth::Here {
        return Ok(None);
    }
    // Who works there alone may have removed another file's first name, which waits for this client.
    let except = Some(cx.client.into());
    if cx.cache.revocation(dir, except, cap::DIR_ASYNC).is_some() {
        return Ok(None);
    }
    let (frag, key) = cx.place(dir, &link.name)?;
    let is_there = matches!(cx.entry(frag, &key)?, SlotLink::Remote { ino, .. } if ino == inode.data.ino);
    Ok(is_there.then_some((frag, key)))
}
