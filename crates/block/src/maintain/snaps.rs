//! Snapshots: taken, removed, gone back to.

use super::remove::leave_parent;
use super::resize;
use super::work::Work;
use crate::call::{Answer, Call, NOTHING, ObjectCall, method_of, rbd};
use crate::error::Error;
use crate::format::{FLAG_OBJECT_MAP_INVALID, ParentSpec, SnapNamespace, feature, map_object};
use crate::header::{self, Header, Snap};
use crate::lock;
use crate::map::{self, ObjectMap};
use crate::operation::Reply;
use crate::script::{Cx, Flow, Stop, decode};
use maps::SnapId;
use msgs::Op;
use wire::Errno;

/// Takes a snapshot: an id from the monitors, an entry in the header, a copy of the object map.
pub(super) fn create(cx: &mut Cx<'_>, work: &Work, name: &str) -> Flow<Reply> {
    if name.is_empty() || name.contains(['@', '/']) {
        let text = format!("`{name}` cannot be the name of a snapshot: `@` and `/` are not allowed in it");
        return Err(Error::new(Errno::EINVAL, text).into());
    }
    let header = work.header();
    let snap = loop {
        let pool = header.data.pool;
        let Answer::Snap(snap) = cx.call(|| Call::PoolSnap { pool, remove: None })? else {
            return Err(Error::new(Errno::EIO, "no snapshot id").into());
        };
        let snap = snap.map_err(|errno| Error::of(errno, "cannot get a snapshot id"))?;
        let namespace = SnapNamespace::default();
        let add = || work.on_header(vec![rbd("snapshot_add", &((name.to_owned(), snap.0), namespace))]);
        let errno = match cx.object(add)?.result() {
            Ok(()) => break snap,
            Err(errno) => errno,
        };
        cx.call(|| Call::PoolSnap { pool, remove: Some(snap) })?;
        match errno {
            // Another client has taken a newer one.
            Errno::ESTALE => {}
            Errno::EEXIST => {
                return Err(Error::new(errno, format!("there is a snapshot `{name}` already")).into());
            }
            Errno::EDQUOT => {
                let text =
                    "the image has as many snapshots as its limit allows: `rbd snap limit clear` ends it";
                return Err(Error::new(errno, text).into());
            }
            errno => return Err(Error::of(errno, "cannot add the snapshot to the header").into()),
        }
    };
    if header.has(feature::OBJECT_MAP) {
        copy_map(cx, work, snap)?;
    }
    Ok(Reply::Done)
}

/// The snapshot's object map is the image's; in that nothing has changed since.
fn copy_map(cx: &mut Cx<'_>, work: &Work, snap: SnapId) -> Flow<()> {
    let header = work.header();
    let Some(current) = &work.map else { return map::invalidate(cx, header, snap) };
    let saved = cx.object(|| map::on(header, snap, vec![rbd("object_map_save", current)]))?;
    map::check(cx, header, snap, saved)?;
    if header.has(feature::FAST_DIFF) {
        let ops = || {
            let held = method_of("lock", "assert_locked", lock::map_assert());
            vec![held, rbd("object_map_snap_add", &NOTHING)]
        };
        let added = cx.object(|| map::on(header, SnapId::HEAD, ops()))?;
        map::check(cx, header, SnapId::HEAD, added)?;
    }
    Ok(())
}

/// Removes a snapshot. One that has clones goes to the trash, and is removed with the last of them.
pub(super) fn remove(cx: &mut Cx<'_>, work: &Work, name: &str) -> Flow<Reply> {
    // Clones are recorded without the lock.
    let header = header::load(cx, &work.header().place, &work.header().id)?;
    let snap = header.snap(name)?;
    if snap.protected {
        let text = format!("the snapshot `{name}` is protected: `rbd snap unprotect` ends that");
        return Err(Error::new(Errno::EBUSY, text).into());
    }
    if snap.info.child_count > 0 {
        return keep(cx, work, snap);
    }
    if is_last_clone(&header, snap) {
        // Once the parent has forgotten it, it must go: no clone may come in between.
        keep(cx, work, snap)?;
        let header = header::load(cx, &work.header().place, &work.header().id)?;
        let Some(snap) = header.snaps.iter().find(|s| s.info.id == snap.info.id) else {
            return Ok(Reply::Done);
        };
        if snap.info.child_count > 0 {
            return Ok(Reply::KeptForClones(snap.info.child_count));
        }
        let unused = remove_now(cx, work, &header, snap)?;
        return Ok(unused.map_or(Reply::Done, Reply::LastClone));
    }
    match remove_now(cx, work, &header, snap) {
        // It has been cloned after all, or the lock is lost.
        Err(Stop::Fail(error)) if error.errno == Errno::EBUSY => {
            let header = header::load(cx, &work.header().place, &work.header().id)?;
            let cloned = header.snap(name).ok().filter(|snap| snap.info.child_count > 0);
            cloned.map_or(Err(error.into()), |snap| keep(cx, work, snap))
        }
        unused => Ok(unused?.map_or(Reply::Done, Reply::LastClone)),
    }
}

/// Moves a snapshot to the trash, where it stays for its clones, and nobody can clone it.
fn keep(cx: &mut Cx<'_>, work: &Work, snap: &Snap) -> Flow<Reply> {
    let what = "cannot move the snapshot to the trash";
    cx.object_ok(what, || work.on_header(vec![rbd("snapshot_trash_add", &snap.info.id)]))?;
    Ok(Reply::KeptForClones(snap.info.child_count))
}

/// True if the image itself is no clone any more, and no other snapshot of it either.
fn is_last_clone(header: &Header, snap: &Snap) -> bool {
    let other = header.snaps.iter().any(|s| s.info.id != snap.info.id && s.overlap.is_some());
    snap.overlap.is_some() && header.overlap.is_none() && !other
}

/// Removes a snapshot of the trash whose last clone is gone.
pub(super) fn remove_trashed(cx: &mut Cx<'_>, work: &Work, id: u64) -> Flow<Reply> {
    let header = header::load(cx, &work.header().place, &work.header().id)?;
    let unused = |s: &&Snap| s.info.id == id && s.is_trash() && s.info.child_count == 0;
    let Some(snap) = header.snaps.iter().find(unused) else { return Ok(Reply::Done) };
    let unused = remove_now(cx, work, &header, snap)?;
    Ok(unused.map_or(Reply::Done, Reply::LastClone))
}

/// Removes a snapshot that has no clones. First the next object map says what changed in the snapshot:
/// without that, nobody would find it. The snapshot's own map goes then: if there is none, this was done
/// before. The header follows, whose class refuses if there is a clone after all; the data are last:
/// interrupted, this wastes room, but loses nothing.
///
/// If the image was flattened, and this was the last of its snapshots that is a clone, its parent forgets it.
/// Returns the parent as [`leave_parent`] does.
fn remove_now(cx: &mut Cx<'_>, work: &Work, header: &Header, snap: &Snap) -> Flow<Option<ParentSpec>> {
    let unused = if is_last_clone(header, snap) { leave_parent(cx, work)? } else { None };
    let forgotten = stdx::mutants::is_active("block_forgets_what_changed_in_snapshots");
    if header.has(feature::OBJECT_MAP | feature::FAST_DIFF) && !forgotten {
        merge_map(cx, header, snap)?;
    }
    if header.has(feature::OBJECT_MAP) {
        let map = || ObjectCall::new(&header.place, map_object(&header.id, snap.id()), vec![Op::Delete]);
        cx.object(map)?;
    }
    let what = "cannot remove the snapshot from the header";
    cx.object_ok(what, || work.on_header(vec![rbd("snapshot_remove", &snap.info.id)]))?;
    let pool = header.data.pool;
    match cx.call(|| Call::PoolSnap { pool, remove: Some(snap.id()) })?.result() {
        Ok(()) | Err(Errno::ENOENT) => Ok(unused),
        Err(errno) => Err(Error::of(errno, "cannot give the snapshot id back").into()),
    }
}

/// What had changed in the snapshot has changed since the one before: so the next newer map says.
fn merge_map(cx: &mut Cx<'_>, header: &Header, snap: &Snap) -> Flow<()> {
    let next = header.snaps.iter().map(Snap::id).find(|id| *id > snap.id()).unwrap_or(SnapId::HEAD);
    let loaded = cx.object(|| map::on(header, snap.id(), vec![rbd("object_map_load", &NOTHING)]))?;
    if loaded.result() == Err(Errno::ENOENT) {
        return Ok(());
    }
    let old = loaded.result().ok().and_then(|()| decode::<ObjectMap>("the map", &loaded.output(0)).ok());
    let Some(old) = old else { return map::invalidate(cx, header, next) };
    let answer = cx.object(|| {
        let held = method_of("lock", "assert_locked", lock::map_assert());
        let held = (next == SnapId::HEAD).then_some(held);
        let removed = rbd("object_map_snap_remove", &old);
        map::on(header, next, held.into_iter().chain([removed]).collect())
    })?;
    map::check(cx, header, next, answer)
}

/// Makes the image what it was at a snapshot.
pub(super) fn rollback(cx: &mut Cx<'_>, work: &Work, name: &str) -> Flow<Reply> {
    let header = work.header();
    let snap = header.snap(name)?;
    let size = snap.info.image_size;
    if header.has(feature::OBJECT_MAP) {
        rollback_map(cx, work, snap)?;
    }
    // What exists behind the end would be lost if this were interrupted, and show again when the image grows.
    if size > header.size {
        resize::set_size(cx, work, size)?;
    }
    let objects = header.objects(size.max(header.size));
    // Objects behind the snapshot's end had no data in it, and are removed by this.
    let all = Work { map: None, layer: work.layer.clone(), name: work.name.clone(), ..*work };
    all.each(cx, "cannot roll an object back", 0..objects, |_| vec![Op::Rollback { snap: snap.id() }])?;
    if size < header.size {
        resize::set_size(cx, work, size)?;
        resize::fit_map(cx, work, size)?;
    }
    Ok(Reply::Done)
}

/// The map says that all objects exist which may exist meanwhile or afterwards; afterwards is unknown what
/// has changed since the newest snapshot, so everything may have.
fn rollback_map(cx: &mut Cx<'_>, work: &Work, snap: &Snap) -> Flow<()> {
    let header = work.header();
    let loaded = cx.object(|| map::on(header, snap.id(), vec![rbd("object_map_load", &NOTHING)]))?;
    let believed = (header.flags | snap.flags) & FLAG_OBJECT_MAP_INVALID == 0 && work.map.is_some();
    let old = loaded.result().ok().and_then(|()| decode::<ObjectMap>("the map", &loaded.output(0)).ok());
    let (Some(old), true) = (old, believed) else { return map::invalidate(cx, header, SnapId::HEAD) };
    let mut merged = old.all_changed();
    if let Some(current) = &work.map {
        merged.resize(old.len().max(current.len()));
        let there = |n: &u64| current.get(*n) != map::state::NONEXISTENT;
        (0..current.len()).filter(there).for_each(|n| merged.set(n, map::state::EXISTS));
    }
    let saved = cx.object(|| {
        let held = method_of("lock", "assert_locked", lock::map_assert());
        map::on(header, SnapId::HEAD, vec![held, rbd("object_map_save", &merged)])
    })?;
    map::check(cx, header, SnapId::HEAD, saved)
}
