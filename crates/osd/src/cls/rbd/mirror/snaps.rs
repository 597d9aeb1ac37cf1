//! Snapshots by which an image is mirrored, in its header.

use super::super::snap::{self, MirrorBody, Snap, kind};
use crate::cls::class::{MethodResult, done, fail};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::Input;
use wire::{Errno, Reader, Writer};

/// The first state of an image that is a copy.
const FIRST_NON_PRIMARY: u8 = 2;

/// Changes what is recorded of the mirroring of a snapshot. EINVAL if it is no mirrored one.
fn change(
    o: &mut Object<'_, '_>,
    id: u64,
    with: impl FnOnce(&mut MirrorBody) -> Result<(), Errno>,
) -> Result<(), MethodStop> {
    let mut of: Snap = snap::load(o, id)?;
    if of.namespace.kind != kind::MIRROR {
        return fail(Errno::EINVAL);
    }
    let mut r = Reader::new(&of.namespace.body);
    let mut body: MirrorBody = r.get().map_err(|_| Errno::EIO)?;
    with(&mut body)?;
    let more = r.rest();
    of.namespace.body = [&Writer::encode(&body), more].concat();
    snap::save(o, &of)
}

/// A peer does not need the snapshot any more. ENOENT if it did not.
pub fn mirror_image_snapshot_unlink_peer(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (id, peer): (u64, Vec<u8>) = (input.get()?, input.get()?);
    change(o, id, |body| if body.peers.remove(&peer) { Ok(()) } else { Err(Errno::ENOENT) })?;
    done()
}

pub fn mirror_image_snapshot_set_copy_progress(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let id: u64 = input.get()?;
    let (complete, last_copied_object): (bool, u64) = (input.get()?, input.get()?);
    change(o, id, |body| {
        body.complete = complete;
        if body.state >= FIRST_NON_PRIMARY {
            body.last_copied_object = last_copied_object;
        }
        Ok(())
    })?;
    done()
}
