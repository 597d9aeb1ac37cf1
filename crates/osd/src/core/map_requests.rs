//! Changes that PGs request from the monitors for the next map.

use maps::{Epoch, OsdId, PgId};
use std::collections::BTreeMap;

/// Changes of the map that PGs wait for.
#[derive(Debug, Default)]
pub struct MapRequests {
    /// The highest epoch in which a PG needs us recorded as up. It only grows.
    up_thru: Epoch,
    /// Temporary acting sets to request for PGs; an empty one ends the request.
    temp_primaries: BTreeMap<PgId, Vec<OsdId>>,
}

impl MapRequests {
    /// Notes that a PG needs us recorded as up in `epoch`.
    pub fn need_up_thru(&mut self, epoch: Epoch) {
        self.up_thru = self.up_thru.max(epoch);
    }

    /// The highest epoch that was needed.
    pub fn up_thru(&self) -> Epoch {
        self.up_thru
    }

    /// Requests a temporary acting set for a PG; an empty one ends it.
    pub fn ask_pg_temp(&mut self, pgid: PgId, acting: Vec<OsdId>) {
        self.temp_primaries.insert(pgid, acting);
    }

    /// True if acting sets are to be requested.
    pub fn wants_pg_temp(&self) -> bool {
        !self.temp_primaries.is_empty()
    }

    /// Takes the acting sets to request.
    pub fn take_pg_temp(&mut self) -> BTreeMap<PgId, Vec<OsdId>> {
        std::mem::take(&mut self.temp_primaries)
    }
}
