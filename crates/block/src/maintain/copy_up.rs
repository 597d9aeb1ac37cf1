//! Objects that get the data which they share with the parent: all of a clone that is flattened; and those
//! behind the new end of one that shrinks, for the snapshots. The image shares less with its parent
//! afterwards, and whoever flattens it would not find what its snapshots need.

use super::work::Work;
use crate::call::{Call, ObjectCall, method_of};
use crate::change::{copied_states, update_maps};
use crate::error::Error;
use crate::format::feature;
use crate::header::Header;
use crate::layer::{self, Layer};
use crate::map::state;
use crate::operation::Operation;
use crate::script::{Cx, Flow};
use msgs::Op;
use std::ops::Range;
use stdx::Bufs;
use wire::Errno;

/// Objects that are copied up at the same time.
pub(super) const AT_ONCE: u64 = 8;

/// The objects that are to be copied up before an operation.
pub(super) fn wanted(layer: &Layer, operation: &Operation) -> Range<u64> {
    let header = &layer.header;
    let shared = if layer.parent.is_some() { header.objects(layer.overlap) } else { 0 };
    match operation {
        Operation::Flatten => 0..shared,
        Operation::Resize { size, allow_shrink: true }
            if *size < layer.overlap && !header.snaps.is_empty() =>
        {
            super::resize::first_cut(header, *size)..shared
        }
        _ => 0..0,
    }
}

/// The state of an object of the image itself that has been copied up and nothing else: it is as the last
/// snapshot has it, if one has it at all.
fn state_after(header: &Header, object: u64) -> u8 {
    let is_old = header.snaps.iter().any(|s| object < header.objects(s.info.image_size));
    if is_old && header.has(feature::FAST_DIFF) { state::EXISTS_CLEAN } else { state::EXISTS }
}

/// Copies these objects up. Returns those that exist by this, and their states in the object map.
pub(crate) fn copy_up(cx: &mut Cx<'_>, work: &Work, objects: &Range<u64>) -> Flow<Vec<(u64, u8)>> {
    const WHAT: &str = "cannot copy the parent's data";
    let (header, layer) = (work.header(), &work.layer);
    let Some(parent) = &layer.parent else { return Ok(Vec::new()) };
    let on = |n: u64, op: Op| ObjectCall::new(&header.data, header.data_object(n), vec![op]);
    // A map may have objects that do not exist: whoever wanted to write them has died.
    let found = cx.all(|| objects.clone().map(|n| Call::Object(on(n, Op::Stat))).collect())?;
    let mut absent: Vec<(u64, Vec<(u64, u64)>)> = Vec::new();
    for (n, answer) in objects.clone().zip(found) {
        match answer.result() {
            Ok(()) => {}
            Err(Errno::ENOENT) => absent.push((n, layer.shared_extents(n))),
            Err(errno) => return Err(Error::of(errno, WHAT).into()),
        }
    }
    let extents: Vec<(u64, u64)> = absent.iter().flat_map(|(_, extents)| extents.clone()).collect();
    let mut data = layer::read(cx, parent, &extents)?.into_iter();
    let mut copies: Vec<(u64, Bufs)> = Vec::new();
    for (n, extents) in &absent {
        let mut all = Bufs::new();
        data.by_ref().take(extents.len()).for_each(|part| all.append(part));
        // What is absent reads as zeros without the parent too.
        if all.parts().iter().any(|part| part.iter().any(|byte| *byte != 0)) {
            copies.push((*n, all));
        }
    }
    if header.has(feature::OBJECT_MAP) && work.locked {
        let states = |n: u64| copied_states(header, n, Some(state_after(header, n)), true);
        let states = copies.iter().flat_map(|(n, _)| states(*n));
        update_maps(cx, header, &states.collect::<Vec<_>>())?;
    }
    // As of before all snapshots: these show the parent's data too.
    let copied = cx.all(|| {
        let copy = |(n, data): &(u64, Bufs)| Call::Object(on(*n, method_of("rbd", "copyup", data.to_vec())));
        copies.iter().map(copy).collect()
    })?;
    for answer in copied {
        answer.result().map_err(|errno| Error::of(errno, WHAT))?;
    }
    Ok(copies.into_iter().map(|(n, _)| (n, state_after(header, n))).collect())
}
