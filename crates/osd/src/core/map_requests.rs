//! Changes that PGs request from the monitors for the next map.

use maps::{Epoch, OsdId, PgId};
use std::collections::BTreeMap;

/// Changes of the map that PGs wait for.
#[derive(Debug, Default)]
pub struct MapRequests {
    /// The highest epoch in which a PG wants the map to say that we were up. It only grows.
    up_thru: Epoch,
    /// The OSDs that should serve a PG meanwhile; none to take that back.
    temp_primaries: BTreeMap<PgId, Vec<OsdId>>,
}

impl MapRequests {
    /// A PG needs the map to say that we were up in `epoch`.
    pub fn need_up_thru(&mut self, epoch: Epoch) {
        self.up_thru = self.up_thru.max(epoch);
    }

    /// The highest epoch that was needed.
    pub fn up_thru(&self) -> Epoch {
        self.up_thru
    }

    /// Asks that these OSDs serve a PG meanwhile; none takes that back.
    pub fn ask_pg_temp(&mut self, pgid: PgId, acting: Vec<OsdId>) {
        self.temp_primaries.insert(pgid, acting);
    }

    /// True if acting sets are to be asked for.
    pub fn wants_pg_temp(&self) -> bool {
        !self.temp_primaries.is_empty()
    }

    /// Takes the acting sets that are to be asked for.
    pub fn take_pg_temp(&mut self) -> BTreeMap<PgId, Vec<OsdId>> {
        std::mem::take(&mut self.temp_primaries)
    }
}
