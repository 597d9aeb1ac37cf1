//! The maps that this OSD has processed, and queries on them.

use crate::map_sharing::RecentMaps;
use maps::{Epoch, NacreMap, OsdId, OsdMap, SnapId};
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::Buf;

/// The newest maps, with the last incrementals that led to them.
///
/// The OSD map only moves forward, and each PG has processed it before the next input.
#[derive(Debug, Default)]
pub struct MapView {
    map: Arc<OsdMap>,
    nacre: NacreMap,
    recent: RecentMaps,
    /// The map shows this OSD up at its addresses.
    is_up: bool,
}

impl MapView {
    /// The OSD map.
    pub fn map(&self) -> &Arc<OsdMap> {
        &self.map
    }

    /// Epoch of the newest map.
    pub fn epoch(&self) -> Epoch {
        self.map.epoch
    }

    /// True if the map shows this OSD up at its addresses.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Moves on to a newer map.
    pub fn advance(&mut self, map: Arc<OsdMap>, is_up: bool) {
        assert!(map.epoch > self.map.epoch, "map {} follows {}", map.epoch, self.map.epoch);
        (self.map, self.is_up) = (map, is_up);
    }

    /// Takes the map that was stored when the OSD ended.
    pub fn load(&mut self, map: OsdMap) {
        self.map = Arc::new(map);
    }

    /// Takes a newer servers' map; `false` if the present one is newer.
    pub fn take_nacre(&mut self, map: NacreMap) -> bool {
        let is_news = map.epoch >= self.nacre.epoch;
        if is_news {
            self.nacre = map;
        }
        is_news
    }

    /// Keeps an incremental for others.
    pub fn keep_incremental(&mut self, epoch: Epoch, bytes: Buf) {
        self.recent.add(epoch, bytes);
    }

    /// Forgets all incrementals: epochs were skipped.
    pub fn forget_incrementals(&mut self) {
        self.recent.clear();
    }

    /// The incrementals that are kept.
    pub fn recent(&self) -> &RecentMaps {
        &self.recent
    }

    /// The incrementals that lead from `has` to the present map, if all are kept.
    pub fn since(&self, has: Epoch) -> Option<BTreeMap<Epoch, Buf>> {
        self.recent.between(has, self.epoch())
    }

    /// True if a snapshot was removed, lately or ever.
    pub fn is_removed(&self, pool: i64, snap: SnapId) -> bool {
        let queued = self.map.removed_snaps_queue.get(&pool);
        let just_purged = self.map.new_purged_snaps.get(&pool);
        [queued, just_purged].into_iter().flatten().any(|set| set.contains(snap.0))
            || self.is_purged(pool, snap)
    }

    /// True if a snapshot was removed and all its clones are trimmed.
    pub fn is_purged(&self, pool: i64, snap: SnapId) -> bool {
        self.nacre.purged_snaps.get(&pool).is_some_and(|purged| purged.contains(snap.0))
    }

    /// True if an incarnation is known to be gone: its process is dead, or a later one has come up.
    pub fn is_gone(&self, osd: OsdId, up_from: Epoch) -> bool {
        self.nacre.is_dead(osd, up_from) || self.map.osd(osd).is_some_and(|o| o.info.up_from > up_from)
    }

    /// True if the incarnation that an OSD had in epoch `last` is known to be gone.
    pub fn is_gone_since(&self, osd: OsdId, last: Epoch) -> bool {
        let Some(entry) = self.map.osd(osd) else { return true };
        entry.info.up_from > last || !entry.is_up() && self.nacre.is_dead(osd, entry.info.up_from)
    }

    /// True if the map has an OSD up in this incarnation.
    pub fn is_incarnation(&self, osd: OsdId, up_from: Epoch) -> bool {
        self.map.osd(osd).is_some_and(|o| o.info.up_from == up_from)
    }
}
