//! UNLINK and RMDIR.

use super::context::Cx;
use super::directory;
use super::draft::Draft;
use super::link::{forget_name, other_name};
use super::plan::{Plan, Reply};
use crate::cache::{Inode, SlotLink};
use crate::types::{Place, Stop};
use fsfmt::{Ino, InodeData, InodeKey, Realm};
use msgs::{MdsOp, cap};
use wire::Errno;

/// Removes a name from its inode. Another name takes the place of the first one, if one is known; otherwise
/// the inode becomes a stray: until the last cap on it is gone, or as long as other names lead to it.
pub(super) fn drop_name(
    cx: &Cx<'_>,
    draft: &mut Draft<'_>,
    place: &Place,
    link: SlotLink,
) -> Result<(), Stop> {
    let Some(ino) = link.inode() else { return Ok(()) };
    let inode = cx.inode(ino)?;
    let is_dir = inode.data.is_dir();
    let is_first = matches!(link, SlotLink::Primary(_));
    let other = if is_first && inode.data.nlink > 1 { other_name(cx, inode)? } else { None };
    let data = draft.changed(ino)?;
    data.nlink = data.nlink.saturating_sub(1);
    if other.is_none() && (is_first || data.nlink == 0) {
        keep_realm(cx, inode, data);
    }
    forget_name(data, other.as_ref().unwrap_or(place));
    if is_first {
        draft.unaccount(place.0, ino)?;
        match other {
            Some(other) => {
                draft.account(other.0, ino)?;
                draft.put(other, ino);
            }
            None => {
                draft.inode(ino)?.stray_from = place.0.ino;
                draft.put(stray_place(cx, ino)?, ino);
            }
        }
    }
    directory::change(cx, draft, place.0, (-i64::from(!is_dir), -i64::from(is_dir)))?;
    // Also from the asking client: the answer does not carry the new count.
    cx.revoke(ino, None, cap::LINK_SHARED | cap::LINK_EXCL);
    Ok(())
}

/// Lets a removed inode keep the snapshots that contain it: its objects are removed for all but them.
fn keep_realm(cx: &Cx<'_>, inode: &Inode, data: &mut InodeData) {
    let covering = cx.cache.snaps_of(inode);
    if covering.is_empty() && data.own_realm.is_none() {
        return;
    }
    let last = cx.cache.snaps.last();
    data.own_realm = Some(Box::new(Realm {
        seq: last,
        created: last,
        parent_since: cx.cache.snaps.next_first(),
        past_parent_snaps: covering.into_iter().collect(),
        ..Realm::default()
    }));
}

fn stray_place(cx: &Cx<'_>, inode: InodeKey) -> Result<Place, Stop> {
    cx.place(Ino::stray(cx.cfg.rank).head(), format!("{:x}", inode.ino.0).as_bytes())
}

/// Checks that an operation may remove an inode: one that expects a directory (`as_dir`), or anything else.
pub(super) fn check_removable(cx: &Cx<'_>, ino: InodeKey, as_dir: bool) -> Result<(), Stop> {
    cx.check_alone(ino)?;
    let data = &cx.inode(ino)?.data;
    cx.gather_shards(ino)?;
    match (data.is_dir(), as_dir) {
        (true, false) => Err(Errno::EISDIR.into()),
        (false, true) => Err(Errno::ENOTDIR.into()),
        (true, true) if data.dirstat.entries() > 0 => Err(Errno::ENOTEMPTY.into()),
        (true, true) if data.own_realm.as_ref().is_some_and(|own| !own.snaps.is_empty()) => {
            Err(Errno::ENOTEMPTY.into())
        }
        _ => Ok(()),
    }
}

pub(super) fn prepare(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let place = cx.parent(&cx.request.path)?;
    let link = cx.entry(place.0, &place.1)?;
    let Some(ino) = link.inode() else { return Err(Errno::ENOENT.into()) };
    check_removable(cx, ino, cx.request.op == MdsOp::RMDIR)?;
    let mut draft = Draft::new(cx.cache, cx.now);
    draft.remove(place.clone());
    drop_name(cx, &mut draft, &place, link)?;
    let reply = Reply { dentry: Some(place), ..Reply::default() };
    cx.finish(Plan { local: draft.finish(), reply, touched: vec![ino], ..Plan::default() })
}
