//! PGs that go: of a pool that was deleted, or copies that their primary needs no more. Their objects go
//! piece by piece, their knowledge last, so that a restart goes on with it.

mod steps;

use crate::pg::objects_of;
use maps::{PgId, Spg};
use stdx::Instant;
use store::ObjectKey;

/// A PG that goes.
#[derive(Debug)]
pub struct Removal {
    from: ObjectKey,
    to: ObjectKey,
    /// The pool is there, only our copy goes, unless another round of peering begins before.
    round: Option<u64>,
    emptied: bool,
    gone: bool,
    /// Not before: clients come first.
    pause: Option<Instant>,
}

impl Removal {
    /// Objects in a range of keys.
    pub fn of(range: (ObjectKey, ObjectKey)) -> Self {
        Self { from: range.0, to: range.1, round: None, emptied: false, gone: false, pause: None }
    }

    /// Of a PG whose pool is not known any more: all that is left of the pool goes with it.
    pub fn whole_pool_part(pgid: Spg) -> Self {
        Self::of(objects_of(pgid.of(PgId::new(pgid.pgid.pool, 0)), 1))
    }

    /// When it goes on, if it pauses.
    pub fn deadline(&self) -> Option<Instant> {
        self.pause
    }
}
