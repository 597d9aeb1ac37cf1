//! Operations on whole images.

pub(crate) mod copy_up;
mod flatten;
mod pool;
mod remove;
mod resize;
mod snaps;
mod work;

pub use pool::{Listed, NewImage, clone, create, info, list};
pub use remove::remove_remains;
pub(crate) use resize::{share_less, shares_less};
pub(crate) use work::Work;

use crate::operation::{Operation, Reply};
use crate::script::{Cx, Flow};

/// Carries out an operation.
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
