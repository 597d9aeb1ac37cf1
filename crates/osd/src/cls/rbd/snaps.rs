//! Snapshots of an image: methods on its header.

use super::features::{self, CLONE_CHILD, LAYERING, SNAP_TRASH};
use super::snap::{self, NOSNAP, SIZE, SNAP_LIMIT, SNAP_SEQ, Snap, SnapInfo, kind, protection};
use super::{old_format, parent};
use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{self, Input, find, must_exist, prefetch};
use maps::SnapId;
use msgs::class::rbd::SnapNamespace;
use wire::Errno;

/// Gives the newest snapshot that ever was, and those that are, newest first: what clients need to write.
pub(super) fn get_snapcontext(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    let mut ids = snap::ids(o)?;
    ids.reverse();
    output(&(stored::load::<u64>(o, SNAP_SEQ)?, ids))
}

/// The snapshot that the input names; the image itself is none.
fn named(o: &mut Object<'_, '_>, bytes: &[u8]) -> Result<Snap, MethodStop> {
    match Input::new(bytes).get()? {
        NOSNAP => fail(Errno::EINVAL),
        id => snap::load(o, id),
    }
}

pub(super) fn get_snapshot_name(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    output(&named(o, bytes)?.name)
}

pub(super) fn get_snapshot_namespace(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    output(&named(o, bytes)?.namespace)
}

pub(super) fn get_snapshot_timestamp(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    output(&named(o, bytes)?.timestamp)
}

pub(super) fn snapshot_get(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let Snap { id, namespace, name, image_size, timestamp, child_count, .. } = named(o, bytes)?;
    output(&SnapInfo { id, namespace, name, image_size, timestamp, child_count })
}

/// Adds a snapshot. ESTALE if another client has made a newer one meanwhile; EEXIST if its id, or its name in
/// its namespace, is taken; EDQUOT beyond the image's limit.
pub(super) fn snapshot_add(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (name, id): (Vec<u8>, u64) = (input.get()?, input.get()?);
    let namespace = input.get_or(SnapNamespace::default())?;
    if !snap::is_valid(&namespace) || id > SnapId::MAX.0 {
        return fail(Errno::EINVAL);
    }
    prefetch(o, &[SNAP_SEQ, SIZE, SNAP_LIMIT, parent::PARENT])?;
    if id < stored::load(o, SNAP_SEQ)? {
        return fail(Errno::ESTALE);
    }
    let image_size = stored::load(o, SIZE)?;
    let flags = features::flags(o)?;
    let limit: u64 = find(o, SNAP_LIMIT)?.unwrap_or(u64::MAX);
    for (count, old) in (1..).zip(snap::all(o)?) {
        if count >= limit {
            return fail(Errno::EDQUOT);
        }
        if old.id == id || old.name == name && old.namespace == namespace {
            return fail(Errno::EEXIST);
        }
    }
    let parent_overlap = parent::head_overlap(o)?;
    if namespace.kind == kind::TRASH {
        features::set_operations(o, SNAP_TRASH, SNAP_TRASH)?;
    }
    stored::save(o, SNAP_SEQ, &id)?;
    let timestamp = o.now();
    let (protection, child_count) = (protection::UNPROTECTED, 0);
    let new =
        Snap { id, name, image_size, protection, flags, namespace, timestamp, child_count, parent_overlap };
    snap::save(o, &new)?;
    done()
}

/// Renames a user's snapshot.
pub(super) fn snapshot_rename(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (id, name): (u64, Vec<u8>) = (input.get()?, input.get()?);
    if snap::all(o)?.iter().any(|s| s.namespace.kind == kind::USER && s.name == name) {
        return fail(Errno::EEXIST);
    }
    let mut renamed = snap::load(o, id)?;
    if renamed.namespace.kind != kind::USER {
        return fail(Errno::EINVAL);
    }
    renamed.name = name;
    snap::save(o, &renamed)?;
    done()
}

/// Removes a snapshot, and what only it needed. EBUSY while it is protected or has clones.
pub(super) fn snapshot_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: u64 = Input::new(bytes).get()?;
    let gone = snap::load(o, id)?;
    if gone.protection != protection::UNPROTECTED || gone.child_count > 0 {
        return fail(Errno::EBUSY);
    }
    snap::remove(o, id)?;
    let others: Vec<Snap> = snap::all(o)?.into_iter().filter(|s| s.id != id).collect();
    let shared = others.iter().any(|s| s.parent_overlap.is_some());
    let is_clone = parent::drop_unless_shared(o, shared)?;
    let mut unused = 0;
    if !is_clone && !shared {
        unused |= CLONE_CHILD;
    }
    if others.iter().all(|s| s.namespace.kind != kind::TRASH) {
        unused |= SNAP_TRASH;
    }
    if unused != 0 {
        features::set_operations(o, 0, unused)?;
    }
    done()
}

/// Removes a snapshot that has clones from the user's sight; it is removed with the last of them.
pub(super) fn snapshot_trash_add(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut gone = snap::load(o, Input::new(bytes).get()?)?;
    if gone.protection != protection::UNPROTECTED {
        return fail(Errno::EBUSY);
    }
    if gone.namespace.kind == kind::TRASH {
        return fail(Errno::EEXIST);
    }
    features::set_operations(o, SNAP_TRASH, SNAP_TRASH)?;
    gone.namespace = snap::trash(&gone.name, gone.namespace.kind);
    gone.name = stored::unique_name(o, gone.id);
    snap::save(o, &gone)?;
    done()
}

pub(super) fn get_protection_status(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let status = named(o, bytes)?.protection;
    if protection::is_known(status) { output(&status) } else { fail(Errno::EIO) }
}

pub(super) fn set_protection_status(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (id, status): (u64, u8) = (input.get()?, input.get()?);
    must_exist(o)?;
    features::require(o, LAYERING)?;
    if id == NOSNAP || !protection::is_known(status) {
        return fail(Errno::EINVAL);
    }
    let mut of = snap::load(o, id)?;
    of.protection = status;
    snap::save(o, &of)?;
    done()
}

pub(super) fn snapshot_get_limit(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&find::<u64>(o, SNAP_LIMIT)?.unwrap_or(u64::MAX))
}

/// Limits the number of snapshots; the highest number is no limit. ERANGE if there are more already.
pub(super) fn snapshot_set_limit(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let limit: u64 = Input::new(bytes).get()?;
    if limit == u64::MAX {
        stored::remove(o, SNAP_LIMIT)?;
        return done();
    }
    let count = match old_format::Header::find(o)? {
        Some(header) => header.snaps.len(),
        None => snap::ids(o)?.len(),
    };
    if limit < count as u64 {
        return fail(Errno::ERANGE);
    }
    stored::save(o, SNAP_LIMIT, &limit)?;
    done()
}
