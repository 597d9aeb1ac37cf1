//! The PGs of an OSD.

use crate::pg::Pg;
use maps::{PgId, Spg};
use std::collections::BTreeMap;

/// The PGs of which this OSD has a shard, or is to have one, in the order of their ids.
///
/// Invariant: a PG is found by its own id.
#[derive(Debug, Default)]
pub struct Pgs {
    by_id: BTreeMap<Spg, Pg>,
}

impl Pgs {
    /// Number of PGs.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True if there are none.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// True if the OSD has this shard.
    pub fn contains(&self, id: &Spg) -> bool {
        self.by_id.contains_key(id)
    }

    /// A shard of a PG.
    pub fn get(&self, id: &Spg) -> Option<&Pg> {
        self.by_id.get(id)
    }

    /// A shard of a PG, to act on an input.
    pub fn get_mut(&mut self, id: &Spg) -> Option<&mut Pg> {
        self.by_id.get_mut(id)
    }

    /// The ids.
    pub fn ids(&self) -> impl Iterator<Item = Spg> {
        self.by_id.keys().copied()
    }

    /// All PGs.
    pub fn values(&self) -> impl Iterator<Item = &Pg> {
        self.by_id.values()
    }

    /// All PGs, to act on an input.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Pg> {
        self.by_id.values_mut()
    }

    /// The shards of one PG.
    pub fn shards_of(&self, pgid: PgId) -> impl Iterator<Item = &Pg> {
        self.by_id.range(Spg::all_of(pgid)).map(|(_, pg)| pg)
    }

    /// Adds a PG.
    pub fn add(&mut self, pg: Pg) {
        self.by_id.insert(pg.id(), pg);
    }

    /// Takes a PG out.
    pub fn remove(&mut self, id: &Spg) -> Option<Pg> {
        self.by_id.remove(id)
    }
}

#[cfg(test)]
impl std::ops::Index<&Spg> for Pgs {
    type Output = Pg;

    fn index(&self, id: &Spg) -> &Pg {
        &self.by_id[id]
    }
}
