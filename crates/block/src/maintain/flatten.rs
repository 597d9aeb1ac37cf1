//! Making a clone independent of its parent, once its objects have the parent's data.

use super::remove::leave_parent;
use super::work::Work;
use crate::call::{Call, NOTHING, rbd};
use crate::error::Error;
use crate::format::feature;
use crate::lock::NOTIFY_TIMEOUT;
use crate::notify::Message;
use crate::operation::Reply;
use crate::script::{Cx, Flow};
use wire::Errno;

/// Ends that the image is a clone. The parent forgets it first, as it does for `rbd`: interrupted, this can
/// be repeated, but the parent's snapshot must not be removed in between.
pub(super) fn detach(cx: &mut Cx<'_>, work: &Work) -> Flow<Reply> {
    let header = work.header();
    if header.overlap.is_none() {
        return Err(Error::new(Errno::EINVAL, "the image is no clone: there is nothing to flatten").into());
    }
    // Snapshots without deep-flatten stay clones.
    let shared = !header.has(feature::DEEP_FLATTEN) && header.snaps.iter().any(|s| s.overlap.is_some());
    let unused = if shared { None } else { leave_parent(cx, work)? };
    let what = "cannot detach the image from its parent";
    cx.object_ok(what, || work.on_header(vec![rbd("parent_detach", &NOTHING)]))?;
    // Who still shares would show the parent's data where an object is removed from now on.
    cx.call(|| Call::Notify {
        place: header.place.clone(),
        object: header.object(),
        payload: Message::HeaderUpdate.encode(),
        timeout: NOTIFY_TIMEOUT,
    })?;
    Ok(unused.map_or(Reply::Done, Reply::LastClone))
}
