//! MKSNAP, RMSNAP, RENAMESNAP, LOOKUPSNAP and LSSNAP.
//!
//! A snapshot is made at a moment at which no client may change anything that it contains without asking:
//! all write and exclusive bits below the directory are revoked first, and with them everything comes that
//! clients have written and not told (docs/adr/0015-snapshots-wait-for-writers.md).

use super::context::Cx;
use super::draft::Draft;
use super::plan::{Extra, Plan, RealmChange, Reply, View};
use super::view::{find, shown_name, split, top_state};
use crate::cache::Inode;
use crate::cap::STRONG;
use crate::types::{Need, Stop};
use fsfmt::{Frag, Ino, InodeKey, Realm, SnapInfo, SnapRecord, Update, snap_state};
use maps::SnapId;
use msgs::readdir_flag::{FRAG_COMPLETE, FRAG_END};
use msgs::{FilePath, SnapPayload};
use std::collections::BTreeMap;
use wire::{Errno, Reader};

/// Snapshots of one directory, Ceph's default of `mds_max_snaps_per_dir`.
const MAX_SNAPS: usize = 100;
/// The most bytes of what the maker says of a snapshot.
const MAX_METADATA: usize = 16 << 10;
/// The longest name: inherited snapshots are listed as `_NAME_INODE`.
const MAX_NAME: usize = 240;

/// The live directory and the name of a snapshot in it.
fn named<'a>(cx: &Cx<'_>, path: &'a FilePath) -> Result<(InodeKey, &'a [u8]), Stop> {
    let (live, name) = match split(path) {
        Some((live, names)) => match names[..] {
            [name] => (live, name),
            _ => return Err(Errno::EINVAL.into()),
        },
        // Some clients leave out the empty name of the directory of snapshots.
        None => {
            let at = path.path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
            let live = FilePath { ino: path.ino, path: path.path[..at.saturating_sub(1)].to_vec() };
            (live, &path.path[at..])
        }
    };
    let dir = cx.resolve(&live)?.ino;
    cx.dir(dir)?;
    cx.stay(dir)?;
    Ok((dir, name))
}

/// LOOKUPSNAP.
pub(super) fn lookup(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let (dir, name) = named(cx, &cx.request.path)?;
    let snap = find(cx, dir, name)?;
    let target = Some(top_state(cx, dir, snap)?);
    let reply = Reply { view: Some(View { snap, dentry: None, target }), ..Reply::default() };
    Ok(Plan { reply, ..Plan::default() })
}

/// LSSNAP.
pub(super) fn list(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let (live, _) = split(&cx.request.path).unwrap_or((cx.request.path.clone(), Vec::new()));
    let dir = cx.resolve(&live)?.ino;
    let inode = cx.dir(dir)?;
    cx.stay(dir)?;
    let mut entries = Vec::new();
    for snap in cx.cache.snaps_of(inode) {
        if let Some(name) = shown_name(cx, inode, snap) {
            entries.push((name, top_state(cx, dir, snap)?, snap));
        }
    }
    entries.sort();
    let after = &cx.request.path2.path;
    entries.retain(|(name, ..)| after.is_empty() || name > after);
    let extra =
        Extra::Snapped { frag: Frag::WHOLE, entries, flags: FRAG_END | FRAG_COMPLETE, max_bytes: 512 << 10 };
    let reply = Reply { target: Some(dir), extra, ..Reply::default() };
    Ok(Plan { reply, ..Plan::default() })
}

/// MKSNAP.
pub(super) fn make(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let (dir, name) = named(cx, &cx.request.path)?;
    if name.is_empty() || name.starts_with(b"_") || name.contains(&b'/') {
        return Err(Errno::EINVAL.into());
    }
    if name.len() > MAX_NAME {
        return Err(Errno::ENAMETOOLONG.into());
    }
    let inode = cx.dir(dir)?;
    if dir.is_base() && dir.ino != Ino::ROOT || inode.data.nlink == 0 {
        return Err(Errno::EPERM.into());
    }
    let own = inode.data.own_realm.as_deref();
    if own.is_some_and(|own| own.snaps.values().any(|snap| snap.name == name)) {
        return Err(Errno::EEXIST.into());
    }
    if own.is_some_and(|own| own.snaps.len() >= MAX_SNAPS) {
        return Err(Errno::EMLINK.into());
    }
    cx.gather_for_snaps(dir)?;
    if !stdx::mutants::is_active("mds_makes_snapshots_at_once") {
        quiesce(cx, dir)?;
    }
    let metadata = metadata_of(cx)?;
    let id = cx.snap_id()?;
    cx.fence()?;
    let info = SnapInfo { ino: dir.ino, stamp: cx.now, name: name.to_vec(), metadata: BTreeMap::new() };
    let mut draft = Draft::new(cx.cache, cx.now);
    // All that is in no other realm is in the root's from the beginning.
    let is_new = own.is_none() && dir.ino != Ino::ROOT;
    change_realm(cx, &mut draft, dir, id, |own| drop(own.snaps.insert(id, info.clone())))?;
    // Realms are told to every client; what describes a snapshot is in the table only.
    let info = SnapInfo { metadata, ..info };
    let record = SnapRecord { info, state: snap_state::LIVE, ..SnapRecord::default() };
    let mut local = draft.finish();
    local.push(Update::Snapshot { snap: id, record: Some(Box::new(record)) });
    local.push(cx.cache.snaps.take(id, true));
    let realm = if is_new { RealmChange::Split(dir.ino) } else { RealmChange::Updated(dir.ino) };
    let view = View { snap: id, dentry: None, target: Some(dir) };
    let reply = Reply { view: Some(view), ..Reply::default() };
    cx.finish(Plan { local, reply, realm: Some(realm), touched: vec![dir], ..Plan::default() })
}

/// The metadata that the maker of a snapshot gives it.
fn metadata_of(cx: &Cx<'_>) -> Result<BTreeMap<String, String>, Stop> {
    let bytes = cx.request.data.to_vec();
    match bytes.len() {
        0 => Ok(BTreeMap::new()),
        1..=MAX_METADATA => {
            let payload = Reader::new(&bytes).get::<SnapPayload>().map_err(|_| Errno::EINVAL)?;
            Ok(payload.metadata)
        }
        _ => Err(Errno::E2BIG.into()),
    }
}

/// Changes the realm that begins at a directory, which becomes one if it is not yet.
fn change_realm(
    cx: &Cx<'_>,
    draft: &mut Draft<'_>,
    dir: InodeKey,
    id: SnapId,
    change: impl FnOnce(&mut Realm),
) -> Result<(), Stop> {
    let data = draft.inode(dir)?;
    let own = data.own_realm.get_or_insert_with(|| Box::new(Realm { created: id, ..Realm::default() }));
    own.seq = id;
    own.changed_at = cx.now;
    own.change_attr += 1;
    change(own);
    Ok(())
}

/// Requires that no client holds bits under which it may change something below a directory, or a file with
/// several names, without asking; and that their data are in objects, where snapshots are looked for.
pub(super) fn quiesce(cx: &Cx<'_>, top: InodeKey) -> Result<(), Stop> {
    revoke_below(cx, top, STRONG, |_| true)?;
    let is_meant = |ino: &InodeKey| cx.cache.inodes.get(ino).is_some_and(|inode| is_covered(cx, top, inode));
    let unstored: Vec<Need> = cx.cache.unstored.files().filter(is_meant).map(Need::Stored).collect();
    if unstored.is_empty() { Ok(()) } else { Err(Stop::Need(unstored)) }
}

/// True for an inode below a directory, and for a file with several names.
fn is_covered(cx: &Cx<'_>, top: InodeKey, inode: &Inode) -> bool {
    cx.cache.upwards(inode).any(|at| at.data.key() == top || at.data.realm == Realm::GLOBAL)
}

/// Requires that no client holds these bits on such inodes below a directory.
pub(super) fn revoke_below(
    cx: &Cx<'_>,
    top: InodeKey,
    bits: u32,
    is_meant: impl Fn(&Inode) -> bool,
) -> Result<(), Stop> {
    if cx.has_absent() {
        return Err(Need::Absent.into());
    }
    let held =
        cx.cache.inodes.iter().filter(|(key, inode)| {
            key.is_head() && inode.held_by_others(None) & bits != 0 && is_meant(inode)
        });
    let mut covered: Vec<InodeKey> =
        held.filter(|(_, inode)| is_covered(cx, top, inode)).map(|(k, _)| *k).collect();
    covered.sort_unstable();
    for ino in covered {
        cx.revoke(ino, None, bits);
    }
    cx.finish(Plan::default()).map(drop)
}

/// RMSNAP.
pub(super) fn remove(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let (dir, name) = named(cx, &cx.request.path)?;
    let snap = own_snap(cx, dir, name)?;
    cx.gather_for_snaps(dir)?;
    let record = cx.cache.snaps.live(snap).ok_or(Errno::ENOENT)?.clone();
    let id = cx.snap_id()?;
    cx.fence()?;
    let mut draft = Draft::new(cx.cache, cx.now);
    change_realm(cx, &mut draft, dir, id, |own| drop(own.snaps.remove(&snap)))?;
    let record = SnapRecord { state: snap_state::TRIMMING, removed_as: id, ..record };
    let mut local = draft.finish();
    local.push(Update::Snapshot { snap, record: Some(Box::new(record)) });
    local.push(cx.cache.snaps.take(id, false));
    let realm = Some(RealmChange::Updated(dir.ino));
    cx.finish(Plan { local, realm, touched: vec![dir], ..Plan::default() })
}

/// RENAMESNAP: the path is the new name, the second one the present.
pub(super) fn rename(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let (dir, new) = named(cx, &cx.request.path)?;
    let (same, old) = named(cx, &cx.request.path2)?;
    if dir != same || new.is_empty() || new.starts_with(b"_") || new.len() > MAX_NAME {
        return Err(Errno::EINVAL.into());
    }
    let snap = own_snap(cx, dir, old)?;
    if own_snap(cx, dir, new).is_ok() {
        return Err(Errno::EEXIST.into());
    }
    cx.gather_for_snaps(dir)?;
    let mut record = cx.cache.snaps.live(snap).ok_or(Errno::ENOENT)?.clone();
    record.info.name = new.to_vec();
    let id = cx.snap_id()?;
    let mut draft = Draft::new(cx.cache, cx.now);
    let info = SnapInfo { metadata: BTreeMap::new(), ..record.info.clone() };
    change_realm(cx, &mut draft, dir, id, |own| drop(own.snaps.insert(snap, info)))?;
    let mut local = draft.finish();
    local.push(Update::Snapshot { snap, record: Some(Box::new(record)) });
    local.push(cx.cache.snaps.take(id, false));
    let view = View { snap, dentry: None, target: Some(dir) };
    let reply = Reply { view: Some(view), ..Reply::default() };
    let realm = Some(RealmChange::Updated(dir.ino));
    cx.finish(Plan { local, reply, realm, touched: vec![dir], ..Plan::default() })
}

fn own_snap(cx: &Cx<'_>, dir: InodeKey, name: &[u8]) -> Result<SnapId, Stop> {
    // The snapshot of a directory above is changed there.
    if name.starts_with(b"_") {
        return Err(Errno::EINVAL.into());
    }
    let own = cx.dir(dir)?.data.own_realm.as_deref().ok_or(Errno::ENOENT)?;
    let found = own.snaps.iter().find(|(_, info)| info.name == name);
    found.map(|(snap, _)| *snap).ok_or(Errno::ENOENT.into())
}
