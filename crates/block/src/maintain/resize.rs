//! The size of an image. Before it grows, its object map does; before it shrinks, what goes is removed.
//!
//! A clone that shrinks stops sharing what it loses before that: where an object is removed, whoever reads by
//! a header that still shares would see the parent's data, which were never there or are long overwritten.

use super::work::Work;
use crate::call::{method_of, rbd};
use crate::error::Error;
use crate::format::feature;
use crate::header::Header;
use crate::layer::Layer;
use crate::lock;
use crate::map::{self, state};
use crate::operation::{Operation, Reply};
use crate::script::{Cx, Flow};
use maps::SnapId;
use msgs::{Extent, Op};
use wire::Errno;

/// Changes the size.
pub(super) fn resize(cx: &mut Cx<'_>, work: &Work, size: u64, allow_shrink: bool) -> Flow<Reply> {
    let header = work.header();
    if size < header.size && !allow_shrink {
        let text = format!(
            "the image has {} bytes and would lose those beyond {size}: --allow-shrink permits that",
            header.size
        );
        return Err(Error::new(Errno::EINVAL, text).into());
    }
    if size > header.size {
        fit_map(cx, work, size)?;
        set_size(cx, work, size)?;
    } else if size < header.size {
        trim(cx, work, size)?;
        set_size(cx, work, size)?;
        fit_map(cx, work, size)?;
    }
    Ok(Reply::Done)
}

/// The bytes that the image will share with its parent, if an operation makes these fewer.
pub(super) fn shares_less(layer: &Layer, operation: &Operation) -> Option<u64> {
    let Operation::Resize { size, allow_shrink: true } = operation else { return None };
    (*size < layer.overlap).then_some(*size)
}

/// Lowers what the image shares with its parent. Its size stays: interrupted, this leaves zeros where the
/// parent's data were, in a part that was to go.
pub(crate) fn share_less(cx: &mut Cx<'_>, work: &Work, overlap: u64) -> Flow<()> {
    // No method does only this: a smaller size does, and the old size comes back with the same vector.
    let sizes = [overlap, work.header().size];
    cx.object_ok("cannot stop sharing data with the parent", || {
        work.on_header(sizes.iter().map(|size| rbd("set_size", size)).collect())
    })?;
    Ok(())
}

/// Sets the size in the header.
pub(super) fn set_size(cx: &mut Cx<'_>, work: &Work, size: u64) -> Flow<()> {
    cx.object_ok("cannot set the size", || work.on_header(vec![rbd("set_size", &size)]))?;
    Ok(())
}

/// Gives the object map the length for a size. What is behind it must not exist any more.
pub(super) fn fit_map(cx: &mut Cx<'_>, work: &Work, size: u64) -> Flow<()> {
    let header = work.header();
    if !header.has(feature::OBJECT_MAP) {
        return Ok(());
    }
    let objects = header.objects(size);
    if header.objects(header.size) > objects {
        set_states(cx, work, objects..header.objects(header.size), state::NONEXISTENT, None)?;
    }
    let answer = cx.object(|| {
        let held = method_of("lock", "assert_locked", lock::map_assert());
        let resize = rbd("object_map_resize", &(objects, state::NONEXISTENT));
        map::on(header, SnapId::HEAD, vec![held, resize])
    })?;
    map::check(cx, header, SnapId::HEAD, answer)
}

/// Sets the state of a range of objects; `current` is the only state that is replaced.
pub(super) fn set_states(
    cx: &mut Cx<'_>,
    work: &Work,
    objects: std::ops::Range<u64>,
    new: u8,
    current: Option<u8>,
) -> Flow<()> {
    if objects.is_empty() {
        return Ok(());
    }
    let answer = cx.object(|| {
        let held = method_of("lock", "assert_locked", lock::map_assert());
        let update = rbd("object_map_update", &((objects.start, objects.end), (new, current)));
        map::on(work.header(), SnapId::HEAD, vec![held, update])
    })?;
    map::check(cx, work.header(), SnapId::HEAD, answer)
}

/// The first object that may lose data if the image gets a smaller size.
pub(super) fn first_cut(header: &Header, size: u64) -> u64 {
    let striper = &header.striper;
    size / striper.set_size() * (striper.set_size() / striper.object_size())
}

/// Removes what is beyond a size.
pub(super) fn trim(cx: &mut Cx<'_>, work: &Work, size: u64) -> Flow<()> {
    let header = work.header();
    let striper = header.striper;
    let all = header.objects(header.size);
    // Objects are shared by a stripe: those from the first one on that lose data.
    let first = first_cut(header, size);
    let what = "cannot remove data beyond the new size";
    if header.has(feature::OBJECT_MAP) {
        // Those that become shorter have changed since the last snapshot.
        let kept = first..header.objects(size).max(first);
        set_states(cx, work, kept, state::EXISTS, Some(state::EXISTS_CLEAN))?;
        set_states(cx, work, header.objects(size)..all, state::PENDING, None)?;
    }
    work.each(cx, what, first..all, |n| match striper.object_len(n, size) {
        0 => vec![Op::Delete],
        len if len < striper.object_len(n, header.size) => {
            // An object that does not exist stays so: the image shares less with its parent from now on.
            vec![Op::Stat, Op::Truncate(Extent::new(len, 0))]
        }
        _ => vec![Op::Stat],
    })
}
