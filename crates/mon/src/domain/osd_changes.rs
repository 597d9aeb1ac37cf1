//! Puts the pending changes of OSDs into the next OSD map.

use crate::crush_edit;
use crate::domain::features;
use crate::domain::osd_flags::flags_of;
use crate::domain::osd_marks::{mark_down, mark_in, same_incarnation};
use crate::edit::Edit;
use crate::entry::Change;
use crate::volatile::pending_osd_changes::{BootsByOsd, OsdChanges};
use crush::{CrushError, CrushMap};
use maps::{OsdId, OsdXinfo, WEIGHT_IN, osd_flags, osd_state};
use std::collections::{BTreeMap, BTreeSet};
use wire::{EntityName, EntityType};

/// Applies pending changes. `refused` are OSDs that refused connections: their processes are dead. Returns
/// the boots that must wait for another epoch.
pub(crate) fn apply_pending(
    edit: &mut Edit<'_>,
    changes: OsdChanges,
    refused: &BTreeSet<OsdId>,
) -> BootsByOsd {
    let mut later = BTreeMap::new();
    for (osd, addrs) in changes.down {
        let entry = edit.osdmap().osd(osd).filter(|o| o.is_up());
        if entry.is_some_and(|o| same_incarnation(o, &addrs)) {
            mark_down(edit, osd, refused.contains(&osd));
        }
    }
    let mut booting = Vec::new();
    for (osd, boot) in changes.boots {
        match edit.osdmap().osd(osd) {
            Some(entry) if entry.is_up() && entry.client_addrs == boot.addrs => {}
            Some(entry) if entry.is_up() => {
                // A new incarnation of an OSD that the map still has as up. The old one must be marked down
                // first, in an epoch of its own. It is dead, because the new one holds its store.
                mark_down(edit, osd, true);
                later.insert(osd, boot);
            }
            _ if boot_osd(edit, &boot) => booting.push(boot),
            _ => {}
        }
    }
    place_all(edit, &booting);
    for (osd, epoch) in changes.up_thru {
        let current = edit.osdmap().osd(osd).filter(|o| o.is_up()).map(|o| o.info.up_thru);
        if current.is_some_and(|thru| thru < epoch) {
            edit.osd().new_up_thru.insert(osd, epoch);
        }
    }
    for (pg, acting) in changes.pg_temp {
        let pool = edit.osdmap().pools.get(&pg.pool).filter(|p| pg.seed < p.pg_num);
        let old = edit.osdmap().pg_temp.get(&pg).cloned().unwrap_or_default();
        if pool.is_some() && old != acting {
            edit.osd().new_pg_temp.insert(pg, acting);
        }
    }
    later
}

/// Marks an OSD up unless flags forbid it. Its CRUSH location follows later.
fn boot_osd(edit: &mut Edit<'_>, m: &peer::OsdBoot) -> bool {
    let map = edit.osdmap();
    let own = flags_of(map, m.osd);
    if map.has_flag(osd_flags::NOUP) || own & osd_state::NOUP != 0 {
        return false;
    }
    // The required level may have risen since the OSD was checked.
    if features::refusal(edit.base, "", &m.metadata, m.feature_level).is_some() {
        return false;
    }
    // Its new epoch implies that earlier incarnations are over.
    if edit.base.osd.nacre().dead.contains_key(&m.osd) {
        edit.nacre().dead.remove(&m.osd);
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
    let name = EntityName::new(EntityType::OSD, osd.0.to_string());
    let mut metadata = m.metadata.clone();
    metadata.insert(peer::level::NEWEST.to_owned(), m.feature_level.to_string());
    if edit.base.metadata.get(&name) != Some(&metadata) {
        edit.push(Change::Metadata(name, Some(metadata)));
    }
    edit.notes.push(format!("osd.{osd} {} boot", m.addrs));
    true
}

/// Puts OSDs at the CRUSH locations that they report; existing weights stay. All of them share one copy of
/// the map, whose size grows with the number of OSDs.
fn place_all(edit: &mut Edit<'_>, boots: &[Box<peer::OsdBoot>]) {
    let now = edit.crush_now();
    let mut wanted: Vec<&peer::OsdBoot> =
        boots.iter().map(|m| &**m).filter(|m| is_elsewhere(now, m)).collect();
    while !wanted.is_empty() {
        let mut crush = edit.crush();
        let (mut changed, mut refused) = (false, None);
        for m in &wanted {
            match place(edit, &mut crush, m) {
                Ok(moved) => changed |= moved,
                Err(why) => {
                    edit.notes.push(format!("osd.{}: not placed in CRUSH: {why}", m.osd));
                    refused = Some(m.osd);
                    break;
                }
            }
        }
        // A refused placement must leave no changes behind.
        if refused.is_none() {
            if changed {
                edit.set_crush(crush);
            }
            return;
        }
        wanted.retain(|m| Some(m.osd) != refused);
    }
}

/// True if an OSD may need another place in the CRUSH map.
fn is_elsewhere(crush: &CrushMap, m: &peer::OsdBoot) -> bool {
    !m.crush_location.is_empty() && (!is_at(crush, m) || lacks_class(crush, m))
}

fn is_at(crush: &CrushMap, m: &peer::OsdBoot) -> bool {
    let here: BTreeMap<_, _> = crush_edit::location(crush, m.osd.0).into_iter().collect();
    m.crush_location.iter().all(|(ty, name)| here.get(ty) == Some(name))
}

fn lacks_class(crush: &CrushMap, m: &peer::OsdBoot) -> bool {
    !m.device_class.is_empty() && crush_edit::class(crush, m.osd.0).is_empty()
}

fn place(edit: &mut Edit<'_>, crush: &mut CrushMap, m: &peer::OsdBoot) -> Result<bool, CrushError> {
    let old = crush_edit::weight(crush, m.osd.0);
    let mut changed = false;
    if old.is_none() || edit.option::<bool>("osd_crush_update_on_start") && !is_at(crush, m) {
        let initial: f64 = edit.option("osd_crush_initial_weight");
        let by_size = if initial < 0.0 { m.crush_weight } else { (initial * f64::from(WEIGHT_IN)) as u32 };
        crush_edit::place(crush, m.osd.0, old.unwrap_or(by_size), &m.crush_location)?;
        changed = true;
    }
    if lacks_class(crush, m) {
        match crush.set_class(m.osd.0, Some(&m.device_class)) {
            Ok(()) => changed = true,
            Err(why) => edit.notes.push(format!("osd.{}: no device class: {why}", m.osd)),
        }
    }
    Ok(changed)
}
