//! Marking OSDs down, out and in, and creating them.

use crate::edit::Edit;
use maps::{OsdId, OsdXinfo, WEIGHT_IN, osd_state};
use wire::AddrVec;

/// Marks an OSD down that is up. `dead` means that its process is known to be gone.
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

/// Marks an OSD out. `by_itself` records that no administrator asked for it, so that the OSD comes back in
/// when it boots.
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

/// Marks an OSD in with its previous weight.
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

/// True if `addrs` belong to the incarnation that the map names: any of its addresses has the same nonce.
pub(crate) fn same_incarnation(entry: &maps::OsdEntry, addrs: &AddrVec) -> bool {
    let known = [&entry.client_addrs, &entry.cluster_addrs, &entry.hb_back_addrs, &entry.hb_front_addrs];
    addrs.0.iter().any(|a| known.iter().any(|k| k.0.contains(a)))
}
