//! RENAME, including over an existing name and across directories.

use super::context::Cx;
use super::directory;
use super::draft::Draft;
use super::layout;
use super::link::{forget_name, note_name};
use super::plan::{Plan, RealmChange, Reply};
use super::snap::quiesce;
use super::unlink::{check_removable, drop_name};
use crate::cache::SlotLink;
use crate::types::{Place, Stop};
use fsfmt::{DirFrag, InodeKey, Realm};
use maps::SnapId;
use msgs::{RenameArgs, cap, rename_flag};
use std::collections::BTreeSet;
use wire::Errno;

pub(super) fn prepare(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let dest = cx.parent(&cx.request.path)?;
    let src = cx.parent(&cx.request.path2)?;
    let src_link = cx.entry(src.0, &src.1)?;
    let Some(ino) = src_link.inode() else { return Err(Errno::ENOENT.into()) };
    let inode = cx.inode(ino)?;
    let dest_link = cx.entry(dest.0, &dest.1)?;
    let reply = Reply { dentry: Some(dest.clone()), target: Some(ino), ..Reply::default() };
    if dest_link.inode() == Some(ino) {
        // Two names of one inode: nothing to do.
        return Ok(Plan { reply, ..Plan::default() });
    }
    let is_dir = inode.data.is_dir();
    if is_dir {
        check_loop(cx, ino, dest.0)?;
    }
    if cx.dir_of(dest.0)?.data.nlink == 0 {
        return Err(Errno::ENOENT.into());
    }
    let mut draft = Draft::new(cx.cache, cx.now);
    let mut touched = vec![ino];
    if let Some(victim) = dest_link.inode() {
        check_removable(cx, victim, is_dir)?;
        drop_name(cx, &mut draft, &dest, dest_link)?;
        touched.push(victim);
    }
    draft.remove(src.clone());
    move_link(cx, &mut draft, (ino, src_link), &src, &dest)?;
    let realm = match src_link {
        SlotLink::Primary(_) => change_realm(cx, &mut draft, ino, dest.0)?,
        _ => None,
    };
    let mut local = draft.finish();
    if let Some((id, _)) = realm {
        local.push(cx.cache.snaps.take(id, false));
    }
    let realm = realm.map(|(_, change)| change);
    cx.finish(Plan { local, reply, touched, realm, ..Plan::default() })
}

/// Puts a link to an inode under another name. What is left at its old one is the caller's to say.
fn move_link(
    cx: &Cx<'_>,
    draft: &mut Draft<'_>,
    (ino, link): (InodeKey, SlotLink),
    from: &Place,
    to: &Place,
) -> Result<(), Stop> {
    let is_dir = cx.inode(ino)?.data.is_dir();
    if is_dir {
        cx.gather(ino)?;
    }
    draft.changed(ino)?;
    layout::forget_if_other(cx, ino, from.0.inode(), to.0.inode())?;
    directory::change(cx, draft, from.0, (-i64::from(!is_dir), -i64::from(is_dir)))?;
    directory::change(cx, draft, to.0, (i64::from(!is_dir), i64::from(is_dir)))?;
    match link {
        SlotLink::Remote { dtype, .. } => {
            let data = draft.inode(ino)?;
            forget_name(data, from);
            note_name(data, to);
            draft.put_remote(to.clone(), ino.ino, dtype);
        }
        _ => {
            if !stdx::mutants::is_active("mds_counts_what_has_moved_away") {
                draft.unaccount(from.0, ino)?;
            }
            draft.account(to.0, ino)?;
            draft.put(to.clone(), ino);
        }
    }
    cx.revoke_others(ino, cap::LINK_SHARED);
    cx.revoke(ino, None, cap::LINK_EXCL);
    Ok(())
}

/// A rename with flags of renameat2(2), which Ceph's protocol does not have.
pub(super) fn with_flags(cx: &Cx<'_>) -> Result<Plan, Stop> {
    match cx.request.args.get::<RenameArgs>().flags {
        rename_flag::NOREPLACE => {
            let [dest, src] = [cx.parent(&cx.request.path)?, cx.parent(&cx.request.path2)?];
            let exists = |place: &Place| Ok::<_, Stop>(cx.entry(place.0, &place.1)?.inode().is_some());
            if exists(&src)? && exists(&dest)? {
                return Err(Errno::EEXIST.into());
            }
            prepare(cx)
        }
        rename_flag::EXCHANGE => exchange(cx),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// Two names change places.
fn exchange(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let places = [cx.parent(&cx.request.path)?, cx.parent(&cx.request.path2)?];
    let mut links = [SlotLink::Null; 2];
    for (place, link) in places.iter().zip(&mut links) {
        *link = cx.entry(place.0, &place.1)?;
    }
    let (Some(first), Some(second)) = (links[0].inode(), links[1].inode()) else {
        return Err(Errno::ENOENT.into());
    };
    let [to, from] = &places;
    let reply = Reply { dentry: Some(to.clone()), target: Some(second), ..Reply::default() };
    if first == second {
        return Ok(Plan { reply: Reply { target: Some(first), ..reply }, ..Plan::default() });
    }
    let realm = |place: &Place| Ok::<_, Stop>(cx.cache.realm_of(cx.dir_of(place.0)?));
    if realm(to)? != realm(from)? {
        // Each of them would need a realm of its own for the snapshots that contain it.
        return Err(Errno::EXDEV.into());
    }
    let mut draft = Draft::new(cx.cache, cx.now);
    for (ino, link, here, there) in [(first, links[0], to, from), (second, links[1], from, to)] {
        if cx.inode(ino)?.data.is_dir() {
            check_loop(cx, ino, there.0)?;
        }
        move_link(cx, &mut draft, (ino, link), here, there)?;
    }
    cx.finish(Plan { local: draft.finish(), reply, touched: vec![first, second], ..Plan::default() })
}

/// Lets what moves to another realm keep the snapshots that contain it, in a realm of its own. Clients that
/// may write there must first know which snapshots count.
fn change_realm(
    cx: &Cx<'_>,
    draft: &mut Draft<'_>,
    ino: InodeKey,
    dest: DirFrag,
) -> Result<Option<(SnapId, RealmChange)>, Stop> {
    let inode = cx.inode(ino)?;
    let own = inode.data.own_realm.as_deref();
    let from = match &inode.place {
        Some((dir, _)) => cx.cache.realm_of(cx.dir_of(*dir)?),
        None => return Ok(None),
    };
    if inode.data.realm == Realm::GLOBAL || from == cx.cache.realm_of(cx.dir_of(dest)?) {
        return Ok(None);
    }
    cx.gather_for_snaps(ino)?;
    quiesce(cx, ino)?;
    let id = cx.snap_id()?;
    let mut past: BTreeSet<SnapId> = cx.cache.snaps_of(inode).into_iter().collect();
    past.retain(|snap| own.is_none_or(|own| !own.snaps.contains_key(snap)));
    let data = draft.inode(ino)?;
    let new = data.own_realm.get_or_insert_with(|| Box::new(Realm { created: id, ..Realm::default() }));
    new.seq = id;
    new.parent_since = SnapId(id.0 + 1);
    new.past_parent_snaps = past;
    Ok(Some((id, RealmChange::Split(ino.ino))))
}

/// A directory must not move below itself.
fn check_loop(cx: &Cx<'_>, ino: InodeKey, dest: DirFrag) -> Result<(), Stop> {
    let above = cx.cache.ancestors(dest.inode())?;
    // What others moved may decide this: if a crash loses that, this may be repeated first.
    for dir in &above {
        cx.inode(*dir)?;
    }
    if dest.inode() == ino || above.contains(&ino) {
        return Err(Errno::EINVAL.into());
    }
    Ok(())
}
