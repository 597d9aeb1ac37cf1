//! From one OSD map to the next. The order of the parts is Ceph's: everybody who applies an incremental must
//! get the same map to the byte, because its checksum is compared.

use crate::{
    AFFINITY_DEFAULT, OsdEntry, OsdId, OsdInfo, OsdMap, OsdMapIncremental, OsdXinfo, osd_flags, osd_state,
};
use crate::{Epoch, release};
use crush::CrushMap;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use wire::{DecodeError, Reader, Uuid};

/// Why an incremental does not fit a map. The map is then as before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApplyError {
    /// It leads to another epoch than the next.
    Epoch {
        /// Of the map.
        map: Epoch,
        /// Of the incremental.
        incremental: Epoch,
    },
    /// It is another cluster's.
    Fsid(Uuid),
    /// It names an OSD beyond the map's `max_osd`.
    Osd(OsdId),
    /// A map inside it does not decode.
    Decode(DecodeError),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Epoch { map, incremental } => {
                write!(f, "incremental {incremental} does not follow OSD map {map}")
            }
            Self::Fsid(fsid) => write!(f, "incremental of another cluster, {fsid}"),
            Self::Osd(osd) => write!(f, "incremental changes osd.{osd}, for which the map has no room"),
            Self::Decode(e) => write!(f, "a map inside the incremental: {e}"),
        }
    }
}

impl std::error::Error for ApplyError {}

impl From<DecodeError> for ApplyError {
    fn from(e: DecodeError) -> Self {
        Self::Decode(e)
    }
}

/// More OSDs than any cluster has: a bound on what a damaged incremental makes us allocate.
const MAX_OSDS: i32 = 1 << 20;
/// Flags that meant what `require_osd_release` means since.
const LEGACY_REQUIRE: u32 =
    osd_flags::REQUIRE_JEWEL | osd_flags::REQUIRE_KRAKEN | osd_flags::REQUIRE_LUMINOUS;

impl OsdMap {
    /// Makes this the map that `inc` leads to.
    pub fn apply(&mut self, inc: &OsdMapIncremental) -> Result<(), ApplyError> {
        if inc.epoch.0.checked_sub(1) != Some(self.epoch.0) {
            return Err(ApplyError::Epoch { map: self.epoch, incremental: inc.epoch });
        }
        if inc.epoch != Epoch(1) && inc.fsid != self.fsid {
            return Err(ApplyError::Fsid(inc.fsid));
        }
        if !inc.fullmap.is_empty() {
            *self = Reader::new(&inc.fullmap).get()?;
            return Ok(());
        }
        let crush: Option<CrushMap> =
            if inc.crush.is_empty() { None } else { Some(Reader::new(&inc.crush).get()?) };
        self.check_ids(inc)?;

        self.fsid = inc.fsid;
        self.epoch = inc.epoch;
        self.modified = inc.modified;
        self.apply_pools(inc);
        self.apply_osds(inc);
        self.apply_placement(inc);
        self.apply_settings(inc);
        if let Some(crush) = crush {
            self.device_class_flags.retain(|class, _| crush.class_names.contains_key(class));
            self.crush = Arc::new(crush);
            self.crush_version += 1;
        }
        Ok(())
    }

    /// Every OSD that the incremental changes must have its place, so that applying cannot fail half way.
    fn check_ids(&self, inc: &OsdMapIncremental) -> Result<(), ApplyError> {
        let max = if inc.new_max_osd >= 0 { inc.new_max_osd } else { self.max_osd() };
        if max > MAX_OSDS {
            return Err(ApplyError::Osd(OsdId(max)));
        }
        let ids = (inc.new_up_client.keys())
            .chain(inc.new_state.keys())
            .chain(inc.new_weight.keys())
            .chain(inc.new_primary_affinity.keys())
            .chain(inc.new_up_thru.keys())
            .chain(inc.new_last_clean_interval.keys())
            .chain(inc.new_lost.keys())
            .chain(inc.new_up_cluster.keys())
            .chain(inc.new_uuid.keys())
            .chain(inc.new_xinfo.keys());
        match ids.into_iter().find(|id| !(0..max).contains(&id.0)) {
            Some(id) => Err(ApplyError::Osd(*id)),
            None => Ok(()),
        }
    }

    fn entry(&mut self, osd: OsdId) -> &mut OsdEntry {
        &mut self.osds[osd.0 as usize]
    }

    fn apply_pools(&mut self, inc: &OsdMapIncremental) {
        if inc.new_flags >= 0 {
            self.flags = inc.new_flags as u32;
        }
        if inc.new_max_osd >= 0 {
            self.osds.resize(inc.new_max_osd as usize, OsdEntry::default());
            if !self.primary_affinity.is_empty() {
                self.primary_affinity.resize(inc.new_max_osd as usize, AFFINITY_DEFAULT);
            }
        }
        if inc.new_pool_max != -1 {
            self.pool_max = inc.new_pool_max as i32;
        }
        for (id, pool) in &inc.new_pools {
            self.pools.insert(*id, crate::Pool { last_change: inc.epoch, ..pool.clone() });
        }
        self.new_removed_snaps.clone_from(&inc.new_removed_snaps);
        self.new_purged_snaps.clone_from(&inc.new_purged_snaps);
        for (id, removed) in &inc.new_removed_snaps {
            self.removed_snaps_queue.entry(*id).or_default().union_of(removed);
        }
        for (id, purged) in &inc.new_purged_snaps {
            if let Some(queue) = self.removed_snaps_queue.get_mut(id) {
                queue.subtract(purged);
                if queue.is_empty() {
                    self.removed_snaps_queue.remove(id);
                }
            }
        }
        self.pool_names.extend(inc.new_pool_names.clone());
        for id in &inc.old_pools {
            self.pools.remove(id);
            self.pool_names.remove(id);
        }
    }

    fn apply_osds(&mut self, inc: &OsdMapIncremental) {
        for (osd, weight) in &inc.new_weight {
            let entry = self.entry(*osd);
            entry.weight = *weight;
            if *weight != 0 {
                entry.state |= osd_state::EXISTS;
                entry.state &= !(osd_state::AUTOOUT | osd_state::NEW);
                entry.xinfo.old_weight = 0;
            }
        }
        for (osd, affinity) in &inc.new_primary_affinity {
            self.set_affinity(*osd, *affinity);
        }
        for (osd, bits) in &inc.new_state {
            self.apply_state(*osd, if *bits == 0 { osd_state::UP } else { *bits }, inc);
        }
        for (osd, addrs) in &inc.new_up_client {
            let entry = self.entry(*osd);
            entry.state |= osd_state::EXISTS | osd_state::UP;
            entry.state &= !osd_state::STOP;
            entry.client_addrs.clone_from(addrs);
            entry.hb_back_addrs = inc.new_hb_back_up.get(osd).cloned().unwrap_or_default();
            entry.hb_front_addrs = inc.new_hb_front_up.get(osd).cloned().unwrap_or_default();
            entry.info.up_from = inc.epoch;
        }
        for (osd, addrs) in &inc.new_up_cluster {
            self.entry(*osd).cluster_addrs.clone_from(addrs);
        }
        for (osd, epoch) in &inc.new_up_thru {
            self.entry(*osd).info.up_thru = *epoch;
        }
        for (osd, (begin, end)) in &inc.new_last_clean_interval {
            let info = &mut self.entry(*osd).info;
            (info.last_clean_begin, info.last_clean_end) = (*begin, *end);
        }
        for (osd, epoch) in &inc.new_lost {
            self.entry(*osd).info.lost_at = *epoch;
        }
        for (osd, xinfo) in &inc.new_xinfo {
            self.entry(*osd).xinfo = xinfo.clone();
        }
        for (osd, uuid) in &inc.new_uuid {
            self.entry(*osd).uuid = *uuid;
        }
    }

    fn apply_state(&mut self, osd: OsdId, bits: u32, inc: &OsdMapIncremental) {
        let entry = self.entry(osd);
        if entry.state & bits & osd_state::UP != 0 {
            entry.info.down_at = inc.epoch;
            entry.xinfo.down_stamp = inc.modified;
        }
        if entry.state & bits & osd_state::EXISTS == 0 {
            entry.state ^= bits;
            return;
        }
        // The id is given up: only its weight stays.
        *entry = OsdEntry { weight: entry.weight, ..OsdEntry::default() };
        (entry.info, entry.xinfo) = (OsdInfo::default(), OsdXinfo::default());
        self.set_affinity(osd, AFFINITY_DEFAULT);
    }

    /// Sets a primary affinity; from the first on, the map holds those of all OSDs.
    fn set_affinity(&mut self, osd: OsdId, affinity: u32) {
        self.primary_affinity.resize(self.osds.len(), AFFINITY_DEFAULT);
        self.primary_affinity[osd.0 as usize] = affinity;
    }

    fn apply_placement(&mut self, inc: &OsdMapIncremental) {
        for (pg, osds) in &inc.new_pg_temp {
            set_or_remove(&mut self.pg_temp, *pg, osds.clone(), osds.is_empty());
        }
        for (pg, osd) in &inc.new_primary_temp {
            set_or_remove(&mut self.primary_temp, *pg, *osd, osd.0 == -1);
        }
        self.pg_upmap.extend(inc.new_pg_upmap.clone());
        self.pg_upmap.retain(|pg, _| !inc.old_pg_upmap.contains(pg));
        self.pg_upmap_items.extend(inc.new_pg_upmap_items.clone());
        self.pg_upmap_items.retain(|pg, _| !inc.old_pg_upmap_items.contains(pg));
        self.pg_upmap_primaries.extend(inc.new_pg_upmap_primaries.clone());
        self.pg_upmap_primaries.retain(|pg, _| !inc.old_pg_upmap_primaries.contains(pg));
    }

    fn apply_settings(&mut self, inc: &OsdMapIncremental) {
        for name in &inc.old_ec_profiles {
            self.ec_profiles.remove(name);
        }
        self.ec_profiles.extend(inc.new_ec_profiles.clone());
        self.blocklist.extend(&inc.new_blocklist);
        for addr in &inc.old_blocklist {
            self.blocklist.remove(addr);
        }
        for (node, flags) in &inc.new_crush_node_flags {
            set_or_remove(&mut self.crush_node_flags, *node, *flags, *flags == 0);
        }
        for (class, flags) in &inc.new_device_class_flags {
            set_or_remove(&mut self.device_class_flags, *class, *flags, *flags == 0);
        }
        self.cluster_snapshot.clone_from(&inc.cluster_snapshot);
        self.cluster_snapshot_epoch = if inc.cluster_snapshot.is_empty() { Epoch(0) } else { inc.epoch };
        let zero = wire::Utime::default();
        if inc.new_last_up_change != zero {
            self.last_up_change = inc.new_last_up_change;
        }
        if inc.new_last_in_change != zero {
            self.last_in_change = inc.new_last_in_change;
        }
        for (ratio, new) in [
            (&mut self.nearfull_ratio, inc.new_nearfull_ratio),
            (&mut self.full_ratio, inc.new_full_ratio),
            (&mut self.backfillfull_ratio, inc.new_backfillfull_ratio),
        ] {
            if new >= 0.0 {
                *ratio = new;
            }
        }
        if is_release(inc.new_require_min_compat_client) && inc.new_require_min_compat_client != 0 {
            self.require_min_compat_client = inc.new_require_min_compat_client;
        }
        if is_release(inc.new_require_osd_release) {
            self.require_osd_release = inc.new_require_osd_release;
            if self.require_osd_release >= release::LUMINOUS {
                self.flags = self.flags & !LEGACY_REQUIRE | osd_flags::RECOVERY_DELETES;
            }
            if self.require_osd_release >= release::NAUTILUS {
                self.flags |= osd_flags::PGLOG_HARDLIMIT;
            }
        }
    }
}

/// "No change" is 0xff, which is -1.
fn is_release(release: u8) -> bool {
    release < 0x80
}

fn set_or_remove<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V, remove: bool) {
    if remove {
        map.remove(&key);
    } else {
        map.insert(key, value);
    }
}
