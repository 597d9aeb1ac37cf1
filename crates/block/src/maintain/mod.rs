//! Operations on whole images.

mod copy_up;
mod flatten;
mod pool;
mod remove;
mod resize;
mod snaps;
mod work;

pub(crate) use copy_up::copy_up;
pub use pool::{Listed, NewImage, clone, create, info, list};
pub use remove::remove_remains;
pub(crate) use resize::share_less;
pub(crate) use work::Work;

use crate::layer::Layer;
use crate::operation::{Operation, Reply};
use crate::script::{Cx, Flow};
use std::ops::Range;

/// A step of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// These objects get the data that they share with the parent: [`copy_up()`].
    CopyUp(Range<u64>),
    /// The image shares only so many bytes with its parent: [`share_less`]. Others are to know that before
    /// the next step.
    ShareLess(u64),
    /// The rest: [`run`].
    Rest,
}

/// The next step of an operation. Objects before `copied` are copied up; `told` if the image shares less
/// already.
pub(crate) fn next_step(layer: &Layer, operation: &Operation, copied: u64, told: bool) -> Step {
    let wanted = copy_up::wanted(layer, operation);
    let from = wanted.start.max(copied);
    if from < wanted.end {
        return Step::CopyUp(from..wanted.end.min(from + copy_up::AT_ONCE));
    }
    let less = resize::shares_less(layer, operation).filter(|_| !told);
    less.map_or(Step::Rest, Step::ShareLess)
}

/// Carries out the last step of an operation.
pub(crate) fn run(cx: &mut Cx<'_>, work: &Work, operation: &Operation) -> Flow<Reply> {
    match operation {
        Operation::SnapCreate { name } => snaps::create(cx, work, name),
        Operation::SnapRemove { name } => snaps::remove(cx, work, name),
        Operation::SnapRemoveTrashed { id } => snaps::remove_trashed(cx, work, *id),
        Operation::Rollback { name } => snaps::rollback(cx, work, name),
        Operation::Resize { size, allow_shrink } => resize::resize(cx, work, *size, *allow_shrink),
        Operation::Flatten => flatten::detach(cx, work),
        Operation::Remove => remove::remove(cx, work),
    }
}
