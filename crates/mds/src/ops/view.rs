//! Reads of snapshots. A client names what it wants by a path from a live directory, in which an empty name
//! stands for the directory of snapshots: `a//S/b` is `b` in snapshot S of `a`.

use super::context::Cx;
use super::open_flags as flag;
use super::path::components;
use super::plan::{Extra, Listed, Plan, Reply, View};
use super::readdir::{self, reach};
use crate::cache::{Inode, SlotLink};
use crate::types::Stop;
use fsfmt::{DentryKey, DirFrag, Ino, InodeData, InodeKey, SnapInfo};
use maps::SnapId;
use msgs::{FilePath, MdsOp, OpenArgs};
use std::ops::Bound;
use wire::Errno;

/// A place in a snapshot.
struct Seen<'a> {
    snap: SnapId,
    /// The directory's state and the last name; none for the top directory of the snapshot.
    dentry: Option<(InodeKey, &'a [u8])>,
    /// The state at the end of the path, if there is one.
    target: Option<InodeKey>,
}

/// The live and the snapshot's part of a path; none if it has no snapshot's part.
pub(super) fn split(path: &FilePath) -> Option<(FilePath, Vec<&[u8]>)> {
    let bytes = path.path.as_slice();
    let at =
        if bytes.first() == Some(&b'/') { 0 } else { bytes.windows(2).position(|two| two == b"//")? + 1 };
    let live = FilePath { ino: path.ino, path: bytes[..at.saturating_sub(1)].to_vec() };
    let names = bytes[at + 1..].split(|b| *b == b'/').filter(|name| !name.is_empty()).collect();
    Some((live, names))
}

/// True for a request about the content of a snapshot.
pub(super) fn is_of_snapshot(cx: &Cx<'_>) -> bool {
    let about_snaps = matches!(
        cx.request.op,
        MdsOp::LOOKUPSNAP | MdsOp::LSSNAP | MdsOp::MKSNAP | MdsOp::RMSNAP | MdsOp::RENAMESNAP
    );
    let two = matches!(cx.request.op, MdsOp::RENAME | MdsOp::RENAME_FLAGS | MdsOp::LINK);
    !about_snaps && (split(&cx.request.path).is_some() || two && split(&cx.request.path2).is_some())
}

pub(super) fn prepare(cx: &Cx<'_>) -> Result<Plan, Stop> {
    match cx.request.op {
        op if op.writes() => Err(Errno::EROFS.into()),
        MdsOp::OPEN => open(cx),
        MdsOp::LOOKUP => lookup(cx),
        MdsOp::GETATTR => {
            let seen = resolve(cx)?;
            let target = Some(seen.target.ok_or(Errno::ENOENT)?);
            Ok(answer(View { snap: seen.snap, dentry: None, target }))
        }
        MdsOp::READDIR => list(cx),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}

fn answer(view: View) -> Plan {
    Plan { reply: Reply { view: Some(view), ..Reply::default() }, ..Plan::default() }
}

fn lookup(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let Seen { snap, dentry, target } = resolve(cx)?;
    let mut plan = answer(View { snap, dentry: owned(dentry), target });
    if target.is_none() {
        plan.reply.result = Errno::ENOENT.to_result_code();
    }
    Ok(plan)
}

fn owned(dentry: Option<(InodeKey, &[u8])>) -> Option<(InodeKey, Vec<u8>)> {
    dentry.map(|(dir, name)| (dir, name.to_vec()))
}

fn open(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let flags = cx.request.args.get::<OpenArgs>().flags;
    if flags & (flag::ACCESS | flag::TRUNC) != 0 {
        return Err(Errno::EROFS.into());
    }
    let Seen { snap, dentry, target } = resolve(cx)?;
    let target = target.ok_or(Errno::ENOENT)?;
    if flags & flag::DIRECTORY != 0 && !cx.inode(target)?.data.is_dir() {
        return Err(Errno::ENOTDIR.into());
    }
    // Linux opens by name, and takes an answer without the name for one that it does not exist.
    let dentry = owned(dentry.filter(|_| cx.wants_dentry()));
    Ok(answer(View { snap, dentry, target: Some(target) }))
}

/// Finds the state that the request's path leads to.
fn resolve<'a>(cx: &Cx<'a>) -> Result<Seen<'a>, Stop> {
    let (live, names) = split(&cx.request.path).ok_or(Errno::EINVAL)?;
    components(&cx.request.path)?;
    let Some((first, names)) = names.split_first() else { return Err(Errno::EINVAL.into()) };
    let top = cx.resolve(&live)?.ino;
    cx.stay(top)?;
    let snap = find(cx, top, first)?;
    let mut at = top_state(cx, top, snap)?;
    let mut dentry = None;
    for (n, name) in names.iter().enumerate() {
        let state = &cx.inode(at)?.data;
        if !state.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        let frag = fragments(cx, state)?.frag_of(DentryKey::new(name).hash);
        let found = entry_at(cx, frag, name, snap)?;
        dentry = Some((at, *name));
        match found {
            Some(next) => at = next,
            None if n + 1 == names.len() => return Ok(Seen { snap, dentry, target: None }),
            None => return Err(Errno::ENOENT.into()),
        }
    }
    Ok(Seen { snap, dentry, target: Some(at) })
}

/// The live state of a directory, whose fragments hold the entries of all its states.
fn fragments<'a>(cx: &Cx<'a>, state: &InodeData) -> Result<&'a InodeData, Stop> {
    Ok(&cx.inode(state.ino.head())?.data)
}

/// The snapshot that a name below a directory's `.snap` stands for: one of its own, or as `_NAME_INODE` one
/// of a directory above.
pub(super) fn find(cx: &Cx<'_>, dir: InodeKey, name: &[u8]) -> Result<SnapId, Stop> {
    let inode = cx.dir(dir)?;
    let snaps = cx.cache.snaps_of(inode);
    let found = snaps.into_iter().find(|snap| shown_name(cx, inode, *snap).as_deref() == Some(name));
    found.ok_or(Errno::ENOENT.into())
}

/// The name of a snapshot below a directory's `.snap`.
pub(super) fn shown_name(cx: &Cx<'_>, dir: &Inode, snap: SnapId) -> Option<Vec<u8>> {
    let SnapInfo { ino, name, .. } = &cx.cache.snaps.live(snap)?.info;
    if *ino == dir.data.ino {
        return Some(name.clone());
    }
    let mut long = b"_".to_vec();
    long.extend_from_slice(name);
    long.extend_from_slice(format!("_{}", ino.0).as_bytes());
    Some(long)
}

/// The state of a live directory as of a snapshot that covers it: that of its name then, or if it has moved
/// since, the one that its inode keeps.
pub(super) fn top_state(cx: &Cx<'_>, top: InodeKey, snap: SnapId) -> Result<InodeKey, Stop> {
    let inode = cx.inode(top)?;
    let Some((dir, key)) = &inode.place else { return Ok(top) };
    if inode.data.own_realm.as_ref().is_some_and(|own| own.snaps.contains_key(&snap)) {
        return Ok(top);
    }
    let then = entry_at(cx, *dir, &key.name, snap)?;
    Ok(then.filter(|state| state.ino == top.ino).unwrap_or(top))
}

/// The state that a name led to as of a snapshot.
fn entry_at(cx: &Cx<'_>, dir: DirFrag, name: &[u8], snap: SnapId) -> Result<Option<InodeKey>, Stop> {
    let head = DentryKey::new(name);
    know_name(cx, dir, &head)?;
    let Some(d) = cx.cache.dirs.get(&dir) else { return Ok(None) };
    let of_name = |(key, _): &(&DentryKey, _)| key.hash == head.hash && key.name == head.name;
    for (key, slot) in d.slots.range(head.clone()..).take_while(of_name) {
        if slot.is_null() || slot.first() > snap || key.snap < snap {
            continue;
        }
        cx.see(slot.change());
        return state_of(cx, slot.link(key)).map(Some);
    }
    cx.see(d.change);
    Ok(None)
}

/// LOOKUPINO of what an inode was as of a snapshot, as NFS servers ask by their handles. ESTALE if the
/// snapshot does not contain it, or no longer under the name that it has now.
pub(super) fn by_ino(cx: &Cx<'_>, ino: Ino, snap: SnapId) -> Result<Plan, Stop> {
    let inode = cx.inode(ino.head())?;
    if !cx.cache.snaps_of(inode).contains(&snap) {
        return Err(Errno::ESTALE.into());
    }
    let is_top = inode.data.own_realm.as_ref().is_some_and(|own| own.snaps.contains_key(&snap));
    let then = match &inode.place {
        Some((dir, key)) if !is_top => entry_at(cx, *dir, &key.name, snap)?,
        _ => Some(ino.head()),
    };
    let target = then.filter(|state| state.ino == ino).ok_or(Errno::ESTALE)?;
    Ok(answer(View { snap, dentry: None, target: Some(target) }))
}

fn state_of(cx: &Cx<'_>, link: SlotLink) -> Result<InodeKey, Stop> {
    let key = link.inode().ok_or(Errno::ENOENT)?;
    cx.inode(key)?;
    Ok(key)
}

/// Requires that the entries of a name, those of snapshots included, are cached.
fn know_name(cx: &Cx<'_>, dir: DirFrag, head: &DentryKey) -> Result<(), Stop> {
    cx.check_authority(cx.cache.subtrees.keeper(dir))?;
    if cx.cache.dirs.get(&dir).is_some_and(|d| d.complete) {
        return Ok(());
    }
    let last = DentryKey { snap: SnapId(SnapId::HEAD.0 - 1), ..head.clone() };
    let mut start = Bound::Included(DentryKey::start_of(head.hash));
    while let Some(known) = reach(cx, dir, &start)? {
        if known >= last {
            break;
        }
        start = Bound::Excluded(known);
    }
    Ok(())
}

/// READDIR of a directory in a snapshot.
fn list(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let Seen { snap, target, .. } = resolve(cx)?;
    let target = target.ok_or(Errno::ENOENT)?;
    let state = &cx.inode(target)?.data;
    if !state.is_dir() {
        return Err(Errno::ENOTDIR.into());
    }
    let live = fragments(cx, state)?;
    let asked = readdir::Asked::of(cx, |hash| live.frag_of(hash));
    let (names, at_end) = names_at(cx, &asked, &asked.start, snap)?;
    let entries = names.into_iter().map(|(name, key)| (name.to_vec(), key, snap)).collect();
    let (frag, flags, max_bytes) = (asked.dir.frag, asked.flags(at_end), asked.max_bytes);
    let reply = Reply {
        view: Some(View { snap, dentry: None, target: Some(target) }),
        extra: Extra::Snapped { frag, entries, flags, max_bytes },
        ..Reply::default()
    };
    Ok(Plan { reply, ..Plan::default() })
}

/// Names after `start` with their states as of a snapshot, and whether these are all. A name has one state in
/// a snapshot; it is the live entry or a copy, which the order puts behind the place of the live one.
fn names_at(
    cx: &Cx<'_>,
    asked: &readdir::Asked,
    start: &Bound<DentryKey>,
    snap: SnapId,
) -> Result<(Vec<Listed>, bool), Stop> {
    let complete = cx.cache.dirs.get(&asked.dir).is_some_and(|d| d.complete);
    let until = if complete { None } else { reach(cx, asked.dir, start)? };
    let mut entries: Vec<Listed> = Vec::new();
    let Some(d) = cx.cache.dirs.get(&asked.dir) else { return Ok((entries, until.is_none())) };
    cx.see(d.change);
    for (key, slot) in d.slots.range((start.clone(), Bound::Unbounded)) {
        if until.as_ref().is_some_and(|u| key > u) {
            break;
        }
        let is_in = slot.first() <= snap && snap <= key.snap && !slot.is_null();
        if !is_in || *key.name == *cx.request.path2.path {
            continue;
        }
        if entries.len() == asked.most {
            return Ok((entries, false));
        }
        entries.push((key.name.clone(), state_of(cx, slot.link(key))?));
    }
    if entries.is_empty()
        && let Some(last) = until
    {
        return names_at(cx, asked, &Bound::Excluded(last), snap);
    }
    Ok((entries, until.is_none()))
}
