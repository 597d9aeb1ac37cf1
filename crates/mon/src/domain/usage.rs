//! Space that pools and OSDs use and have left.

use crate::crush_edit;
use crate::pg_stats::PgTable;
use maps::{OsdId, OsdMap, osd_state};

/// Content of a pool and the space left for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolUsage {
    /// Bytes that users stored.
    pub stored: u64,
    /// Bytes of omap, part of `stored`.
    pub omap: u64,
    /// Number of objects.
    pub objects: u64,
    /// Bytes on devices.
    pub used: u64,
    /// Bytes that users may still store.
    pub max_avail: u64,
    /// The same space in raw bytes of the devices.
    pub raw_avail: u64,
}

/// The usage of a pool. Its free space is determined by the OSD under its rule that will be full first.
pub fn pool_usage(map: &OsdMap, pgs: &PgTable, id: i64) -> PoolUsage {
    let Some(pool) = map.pools.get(&id) else { return PoolUsage::default() };
    let sum = pgs.pool(id);
    let size = u64::from(pool.size.max(1));
    let stored = sum.stats.num_bytes.max(0) as u64;
    let root = crush_edit::rule_root(&map.crush, u32::from(pool.crush_rule));
    let devices = root.map(|r| crush_edit::devices(&map.crush, r)).unwrap_or_default();
    let weight = |osd: i32| {
        let entry = map.osd(OsdId(osd)).map_or(0, |o| if o.is_in() { o.weight } else { 0 });
        f64::from(crush_edit::weight(&map.crush, osd).unwrap_or(0)) * f64::from(entry) / 65536.0
    };
    let total_weight: f64 = devices.iter().map(|d| weight(*d)).sum();
    let free = |osd: i32| {
        let stat = pgs.osd(OsdId(osd))?;
        let keep = (stat.store.total as f64 * (1.0 - f64::from(map.full_ratio))) as u64;
        let share = weight(osd) / total_weight;
        (share > 0.0).then(|| stat.store.available.saturating_sub(keep) as f64 / share)
    };
    let raw = devices.iter().filter_map(|d| free(*d)).fold(f64::INFINITY, f64::min);
    let raw_avail = if raw.is_finite() { raw as u64 } else { 0 };
    let used = if sum.num_store > 0 {
        (sum.store.allocated + sum.store.omap_allocated).max(0) as u64
    } else {
        stored * size
    };
    PoolUsage {
        stored,
        omap: sum.stats.num_omap_bytes.max(0) as u64,
        objects: sum.stats.num_objects.max(0) as u64,
        used,
        max_avail: raw_avail / size,
        raw_avail,
    }
}

/// Part of an OSD's device that is in use, from 0 to 1.
pub(crate) fn fullness(pgs: &PgTable, osd: maps::OsdId) -> f64 {
    pgs.osd(osd)
        .filter(|s| s.store.total > 0)
        .map_or(0.0, |s| (s.store.total - s.store.available.min(s.store.total)) as f64 / s.store.total as f64)
}

/// OSDs whose full flags are wrong for their usage, with the bits to toggle.
pub(crate) fn fullness_changes(map: &OsdMap, pgs: &PgTable) -> Vec<(OsdId, u32)> {
    const BITS: u32 = osd_state::FULL | osd_state::BACKFILLFULL | osd_state::NEARFULL;
    let levels = [
        (osd_state::FULL, map.full_ratio),
        (osd_state::BACKFILLFULL, map.backfillfull_ratio),
        (osd_state::NEARFULL, map.nearfull_ratio),
    ];
    let wanted = |osd: OsdId| {
        let used = fullness(pgs, osd);
        levels.iter().find(|(_, ratio)| *ratio > 0.0 && used >= f64::from(*ratio)).map_or(0, |(bit, _)| *bit)
    };
    let reported = map.existing().filter(|(id, _)| pgs.osd(*id).is_some());
    reported.map(|(id, o)| (id, (o.state & BITS) ^ wanted(id))).filter(|(_, flip)| *flip != 0).collect()
}
