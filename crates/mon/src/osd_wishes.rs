//! What OSDs asked for, put into the next OSD map: one epoch for all that came while the last one was being written.

use crate::commands::osd_state::flags_of;
use crate::crush_edit;
use crate::edit::Edit;
use crate::entry::Change;
use crate::mon::Mon;
use crate::soft::{Boots, OsdWishes, Soft};
use crate::storage::Storage;
use maps::{OsdEntry, OsdId, OsdXinfo, WEIGHT_IN, osd_flags, osd_state};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Instant, Now};
use wire::{EntityName, EntityType};

/// For how long an OSD that boots waits for others that are expected to: what restarts together comes up in one epoch, and its PGs
/// agree once.
pub(crate) const GATHER_BOOTS: Duration = Duration::from_millis(100);
/// An OSD that has been down for longer is not expected.
const EXPECTED_FOR: Duration = Duration::from_secs(20);

impl<S: Storage> Mon<S> {
    /// Proposes the next OSD map, if somebody waits for one and none is being written. Boots may wait for one another; all else is
    /// granted at once, as PGs wait for it.
    pub(crate) fn grant_wishes(&mut self, now: Now) {
        // What is asked meanwhile shares the next map.
        if self.log.is_proposing() {
            return;
        }
        let boots = match self.boots_are_due(now.mono) {
            true => std::mem::take(&mut self.soft.boots),
            false => Boots::default(),
        };
        if boots.by_osd.is_empty() && self.soft.wanted.is_empty() {
            return;
        }
        let wanted = std::mem::take(&mut self.soft.wanted);
        let refused = std::mem::take(&mut self.soft.refused);
        let (later, _) = self.edit(now, |edit| grant(edit, wanted, boots, &refused));
        if !later.is_empty() {
            // They have waited.
            self.soft.boots.until = Some(now.mono);
            self.soft.boots.by_osd.extend(later);
        }
    }

    /// When boots that wait for others do so no longer.
    pub(crate) fn boots_deadline(&self) -> Option<Instant> {
        self.soft.boots.until.filter(|_| self.log.leads() && !self.log.is_proposing())
    }

    /// Nobody is expected to boot whose boot is not here, or they have waited for long enough.
    fn boots_are_due(&self, now: Instant) -> bool {
        let Soft { boots, osd_down, osd_gone, .. } = &self.soft;
        if boots.until.is_none_or(|until| until <= now) {
            return true;
        }
        let map = self.log.state().osdmap();
        let is_expected = |(id, osd): (OsdId, &OsdEntry)| {
            let lately = osd_down.get(&id).is_some_and(|since| now.since(*since) < EXPECTED_FOR);
            let was_up =
                if osd.is_up() { osd_gone.contains_key(&id) } else { lately && osd.info.up_from.0 > 0 };
            was_up && !boots.by_osd.contains_key(&id)
        };
        !map.existing().any(is_expected)
    }
}

/// Gives the boots that have to wait for another epoch.
fn grant(
    edit: &mut Edit<'_>,
    wanted: OsdWishes,
    boots: Boots,
    refused: &BTreeSet<OsdId>,
) -> BTreeMap<OsdId, Box<peer::OsdBoot>> {
    let mut later = BTreeMap::new();
    for (osd, addrs) in wanted.down {
        let entry = edit.osdmap().osd(osd).filter(|o| o.is_up());
        if entry.is_some_and(|o| crate::osd_service::same_incarnation(o, &addrs)) {
            mark_down(edit, osd, refused.contains(&osd));
        }
    }
    for (osd, boot) in boots.by_osd {
        match edit.osdmap().osd(osd) {
            Some(entry) if entry.is_up() && entry.client_addrs == boot.addrs => {}
            Some(entry) if entry.is_up() => {
                // A new run of a process that is still up in the map: the old one must go down first, in an epoch of
                // its own. It is dead, as the new one holds its store.
                mark_down(edit, osd, true);
                later.insert(osd, boot);
            }
            _ => boot_osd(edit, &boot),
        }
    }
    for (osd, epoch) in wanted.up_thru {
        let current = edit.osdmap().osd(osd).filter(|o| o.is_up()).map(|o| o.info.up_thru);
        if current.is_some_and(|thru| thru < epoch) {
            edit.osd().new_up_thru.insert(osd, epoch);
        }
    }
    for (pg, acting) in wanted.pg_temp {
        let pool = edit.osdmap().pools.get(&pg.pool).filter(|p| pg.seed < p.pg_num);
        let old = edit.osdmap().pg_temp.get(&pg).cloned().unwrap_or_default();
        if pool.is_some() && old != acting {
            edit.osd().new_pg_temp.insert(pg, acting);
        }
    }
    later
}

/// Marks an OSD down that is up. `dead` says that its process is known to be gone.
pub(crate) fn mark_down(edit: &mut Edit<'_>, osd: OsdId, dead: bool) {
    let stamp = edit.stamp();
    let entry = edit.osdmap().osd(osd).expect("the OSD exists");
    let (up_from, xinfo) = (entry.info.up_from, OsdXinfo { down_stamp: stamp, ..entry.xinfo.clone() });
    if dead {
        edit.nacre().dead.insert(osd, up_from);
    }
    let inc = edit.osd();
    if inc.new_state.contains_key(&osd) {
        return;
    }
    inc.new_state.insert(osd, osd_state::UP);
    inc.new_xinfo.insert(osd, xinfo);
    inc.new_last_up_change = stamp;
    edit.notes.push(format!("osd.{osd} marked {}", if dead { "down, its process is dead" } else { "down" }));
}

/// Marks an OSD out; `by_itself` remembers that nobody wished it, so that it comes back in when it boots.
pub(crate) fn mark_out(edit: &mut Edit<'_>, osd: OsdId, by_itself: bool) {
    let stamp = edit.stamp();
    let entry = edit.osdmap().osd(osd).expect("the OSD exists");
    let xinfo = OsdXinfo { old_weight: entry.weight, ..entry.xinfo.clone() };
    let flip = if by_itself { osd_state::AUTOOUT & !entry.state } else { osd_state::AUTOOUT & entry.state };
    let inc = edit.osd();
    inc.new_weight.insert(osd, 0);
    inc.new_xinfo.insert(osd, xinfo);
    inc.new_last_in_change = stamp;
    if flip != 0 {
        *inc.new_state.entry(osd).or_default() ^= flip;
    }
}

/// Marks an OSD in with its former weight.
pub(crate) fn mark_in(edit: &mut Edit<'_>, osd: OsdId) {
    let stamp = edit.stamp();
    let entry = edit.osdmap().osd(osd).expect("the OSD exists");
    let by_itself = entry.state & osd_state::AUTOOUT != 0;
    let weight = if by_itself && entry.xinfo.old_weight > 0 { entry.xinfo.old_weight } else { WEIGHT_IN };
    let inc = edit.osd();
    // A weight clears AUTOOUT and NEW when it is applied.
    inc.new_weight.insert(osd, weight);
    inc.new_last_in_change = stamp;
}

/// Makes an OSD number exist, with the store's uuid.
pub(crate) fn create_osd(edit: &mut Edit<'_>, osd: OsdId, uuid: wire::Uuid) {
    let max = edit.osdmap().max_osd().max(edit.osd().new_max_osd);
    let inc = edit.osd();
    if osd.0 >= max {
        inc.new_max_osd = osd.0 + 1;
    }
    inc.new_state.insert(osd, osd_state::EXISTS | osd_state::NEW);
    inc.new_weight.insert(osd, 0);
    inc.new_uuid.insert(osd, uuid);
}

fn boot_osd(edit: &mut Edit<'_>, m: &peer::OsdBoot) {
    let map = edit.osdmap();
    let own = flags_of(map, m.osd);
    if map.has_flag(osd_flags::NOUP) || own & osd_state::NOUP != 0 {
        return;
    }
    let osd = m.osd;
    let entry = map.osd(osd).cloned();
    let is_new = entry.as_ref().is_none_or(|o| o.state & osd_state::NEW != 0);
    if osd.0 >= map.max_osd().max(edit.osd().new_max_osd) {
        edit.osd().new_max_osd = osd.0 + 1;
    }
    let stamp = edit.stamp();
    let xinfo =
        OsdXinfo { features: m.features, ..entry.as_ref().map(|o| o.xinfo.clone()).unwrap_or_default() };
    let inc = edit.osd();
    inc.new_up_client.insert(osd, m.addrs.clone());
    inc.new_up_cluster.insert(osd, m.cluster_addrs.clone());
    inc.new_hb_back_up.insert(osd, m.heartbeat_addrs.clone());
    inc.new_hb_front_up.insert(osd, m.heartbeat_addrs.clone());
    inc.new_uuid.insert(osd, m.uuid);
    inc.new_xinfo.insert(osd, xinfo);
    inc.new_last_up_change = stamp;
    if let Some(o) = entry.as_ref().filter(|o| m.boot_epoch > o.info.up_from && o.info.up_from.0 > 0) {
        inc.new_last_clean_interval.insert(osd, (o.info.up_from, m.boot_epoch));
    }
    let auto_out = entry.as_ref().is_some_and(|o| o.state & osd_state::AUTOOUT != 0);
    if is_new {
        // A weight and an address make the number exist: EXISTS in new_state would take it away again.
        inc.new_weight.insert(osd, WEIGHT_IN);
        inc.new_last_in_change = stamp;
    } else if auto_out && !map.has_flag(osd_flags::NOIN) && own & osd_state::NOIN == 0 {
        mark_in(edit, osd);
    }
    place(edit, m);
    let name = EntityName::new(EntityType::OSD, osd.0.to_string());
    if edit.base.metadata.get(&name) != Some(&m.metadata) {
        edit.push(Change::Metadata(name, Some(m.metadata.clone())));
    }
    edit.notes.push(format!("osd.{osd} {} boot", m.addrs));
}

/// Puts the OSD where it says it is in the CRUSH hierarchy; an existing weight stays.
fn place(edit: &mut Edit<'_>, m: &peer::OsdBoot) {
    if m.crush_location.is_empty() {
        return;
    }
    let mut crush = edit.crush();
    let old = crush_edit::weight(&crush, m.osd.0);
    let here: BTreeMap<_, _> = crush_edit::location(&crush, m.osd.0).into_iter().collect();
    let moved = m.crush_location.iter().any(|(ty, name)| here.get(ty) != Some(name));
    let new_class = !m.device_class.is_empty() && crush_edit::class(&crush, m.osd.0).is_empty();
    let may_move = edit.option::<bool>("osd_crush_update_on_start");
    if old.is_some() && (!moved || !may_move) && !new_class {
        return;
    }
    if old.is_none() || moved && may_move {
        let initial: f64 = edit.option("osd_crush_initial_weight");
        let by_size = if initial < 0.0 { m.crush_weight } else { (initial * f64::from(WEIGHT_IN)) as u32 };
        let weight = old.unwrap_or(by_size);
        if let Err(why) = crush_edit::place(&mut crush, m.osd.0, weight, &m.crush_location) {
            edit.notes.push(format!("osd.{}: not placed in CRUSH: {why}", m.osd));
            return;
        }
    }
    if new_class && let Err(why) = crush.set_class(m.osd.0, Some(&m.device_class)) {
        edit.notes.push(format!("osd.{}: no device class: {why}", m.osd));
    }
    edit.set_crush(&crush);
}
