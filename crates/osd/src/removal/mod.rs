//! Removal of PGs: those of deleted pools, and copies that their primary no longer needs. Objects are removed
//! piece by piece and the PG's records last, so that a restart continues.

mod steps;

use crate::pg::range::objects_of;
use maps::{PgId, Spg};
use std::collections::BTreeMap;
use stdx::Instant;
use store::ObjectKey;

/// A PG that is being removed.
#[derive(Debug)]
pub struct Removal {
    from: ObjectKey,
    to: ObjectKey,
    /// Set if only our copy is removed and the pool remains; a new round of peering ends the removal.
    round: Option<u64>,
    emptied: bool,
    gone: bool,
    /// End of the pause: clients come first.
    pause: Option<Instant>,
}

impl Removal {
    /// Objects in a range of keys.
    pub fn of(range: (ObjectKey, ObjectKey)) -> Self {
        Self { from: range.0, to: range.1, round: None, emptied: false, gone: false, pause: None }
    }

    /// A PG of an unknown pool: everything left of the pool is removed with it.
    pub fn whole_pool_part(pgid: Spg) -> Self {
        Self::of(objects_of(pgid.of(PgId::new(pgid.pgid.pool, 0)), 1))
    }
}

/// The PGs that are being removed.
#[derive(Debug, Default)]
pub struct Removals {
    by_pg: BTreeMap<Spg, Removal>,
}

impl Removals {
    /// Begins to remove a PG.
    pub fn begin(&mut self, pgid: Spg, removal: Removal) {
        self.by_pg.insert(pgid, removal);
    }

    /// True if a PG is being removed.
    pub fn contains(&self, pgid: &Spg) -> bool {
        self.by_pg.contains_key(pgid)
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.by_pg.len()
    }

    /// True if none is.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.by_pg.is_empty()
    }

    /// The PGs.
    pub fn ids(&self) -> Vec<Spg> {
        self.by_pg.keys().copied().collect()
    }

    /// The first end of a pause.
    pub fn deadline(&self) -> Option<Instant> {
        self.by_pg.values().filter_map(|removal| removal.pause).min()
    }
}
