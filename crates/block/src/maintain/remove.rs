//! Removing an image: first its data, last its name, so that an interrupted removal can be repeated.

use super::resize;
use super::work::Work;
use crate::call::{Call, ObjectCall, Place, rbd};
use crate::error::Error;
use crate::format::{ChildSpec, DIRECTORY, ParentSpec, feature, header_object, id_object, map_object};
use crate::header::{self, Snap};
use crate::operation::Reply;
use crate::script::{Cx, Flow, Stop, decode};
use maps::SnapId;
use msgs::Op;
use msgs::op::input::ListWatchersReply;
use wire::Errno;

pub(super) fn remove(cx: &mut Cx<'_>, work: &Work) -> Flow<Reply> {
    let header = work.header();
    check_unused(cx, work)?;
    resize::trim(cx, work, 0)?;
    let unused = leave_parent(cx, work)?;
    let object = header.object();
    // Our watch would keep nothing alive, but others would hear of a header that is gone.
    cx.call(|| Call::Unwatch { cookie: work.watch })?;
    let gone = |object: Vec<u8>| {
        let place = header.place.clone();
        move || ObjectCall::new(&place, object, vec![Op::Delete])
    };
    if header.has(feature::OBJECT_MAP) {
        ignore_absent(cx.object(gone(map_object(&header.id, SnapId::HEAD)))?.result(), "object map")?;
    }
    ignore_absent(cx.object(gone(object))?.result(), "header")?;
    let names = (work.name.clone(), header.id.clone());
    let listed =
        cx.object(|| ObjectCall::new(&header.place, DIRECTORY, vec![rbd("dir_remove_image", &names)]))?;
    ignore_absent(listed.result(), "directory entry")?;
    ignore_absent(cx.object(gone(id_object(&work.name)))?.result(), "name")?;
    Ok(unused.map_or(Reply::Done, Reply::LastClone))
}

/// Removes what an interrupted removal, or an interrupted creation, has left of an image: its name, without a
/// header. An image that has one is opened and removed as a whole. Returns false if there is nothing.
pub fn remove_remains(cx: &mut Cx<'_>, place: &Place, name: &str) -> Flow<bool> {
    let id = match header::find_id(cx, place, name) {
        Err(Stop::Fail(error)) if error.errno == Errno::ENOENT => return Ok(false),
        id => id?,
    };
    match header::load(cx, place, &id) {
        Err(Stop::Fail(error)) if error.errno == Errno::ENOENT => {}
        Err(stop) => return Err(stop),
        Ok(_) => {
            let text = format!("the image `{name}` is whole: remove it with `nacre block rm`");
            return Err(Error::new(Errno::EBUSY, text).into());
        }
    }
    let gone = |object: Vec<u8>| ObjectCall::new(place, object, vec![Op::Delete]);
    ignore_absent(cx.object(|| gone(map_object(&id, SnapId::HEAD)))?.result(), "object map")?;
    let names = (name.to_owned(), id.clone());
    let listed = cx.object(|| ObjectCall::new(place, DIRECTORY, vec![rbd("dir_remove_image", &names)]))?;
    ignore_absent(listed.result(), "directory entry")?;
    ignore_absent(cx.object(|| gone(id_object(name)))?.result(), "name")?;
    Ok(true)
}

fn ignore_absent(result: Result<(), Errno>, what: &str) -> Flow<()> {
    match result {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(Error::of(errno, &format!("cannot remove the image's {what}")).into()),
    }
}

/// An image with snapshots, or one that others have open, is not removed.
fn check_unused(cx: &mut Cx<'_>, work: &Work) -> Flow<()> {
    let header = work.header();
    if !header.snaps.is_empty() {
        let names: Vec<&str> =
            header.snaps.iter().filter(|s| s.is_users()).map(|s| s.info.name.as_str()).collect();
        let text = match names.as_slice() {
            [] => {
                "the image has snapshots in the trash, which its clones need: remove or flatten these first"
                    .to_owned()
            }
            names => format!("the image has snapshots ({}): remove these first", names.join(", ")),
        };
        return Err(Error::new(Errno::ENOTEMPTY, text).into());
    }
    const WHAT: &str = "cannot list the image's watchers";
    let answer = cx.object_ok(WHAT, || header.on(vec![Op::ListWatchers]))?;
    let watchers: ListWatchersReply = decode(WHAT, &answer.output(0))?;
    if let Some(other) = watchers.entries.iter().find(|w| w.cookie != work.watch) {
        let text = format!(
            "a client at {} has the image open: unmap it there; the watch of a client that has died \
             ends within 30 s",
            other.addr.legacy_string()
        );
        return Err(Error::new(Errno::EBUSY, text).into());
    }
    Ok(())
}

/// The parent's snapshot has one clone less.
///
/// Returns the parent if its snapshot is in the trash and this was the last clone.
pub(super) fn leave_parent(cx: &mut Cx<'_>, work: &Work) -> Flow<Option<ParentSpec>> {
    let header = work.header();
    let Some(parent) = &header.parent else { return Ok(None) };
    let child = ChildSpec {
        pool: header.place.pool,
        image: header.id.clone(),
        namespace: String::from_utf8_lossy(&header.place.namespace).into_owned(),
    };
    let place = parent.place();
    let detached = cx.object(|| {
        let detach = rbd("child_detach", &(parent.snap, child));
        ObjectCall::new(&place, header_object(&parent.image), vec![detach])
    })?;
    // A clone of format 1 is recorded elsewhere, and a repeated removal finds nothing.
    ignore_absent(detached.result(), "place among its parent's clones")?;
    let parent_header = match header::load(cx, &place, &parent.image) {
        Err(Stop::Fail(error)) if error.errno == Errno::ENOENT => return Ok(None),
        header => header?,
    };
    let unused = |s: &Snap| s.info.id == parent.snap && s.is_trash() && s.info.child_count == 0;
    Ok(parent_header.snaps.iter().any(unused).then(|| parent.clone()))
}
