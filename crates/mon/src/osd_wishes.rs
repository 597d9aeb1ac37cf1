//! What OSDs asked for, put into the next OSD map: one epoch for all that came while the last one was being written.

use crate::commands::osd_state::flags_of;
use crate::crush_edit;
use crate::edit::Edit;
use crate::entry::Change;
use crate::features;
use crate::mon::Mon;
use crate::soft::{Boots, OsdWishes, Soft};
use crate::storage::Storage;
use crush::{CrushError, CrushMap};
use maps::{OsdEntry, OsdId, OsdXinfo, WEIGHT_IN, osd_flags, osd_state};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Instant, Now};
use wire::{EntityName, EntityType};

/// For how long an OSD that boots waits for others that are expected to: what restarts together comes up in one epoch, and its PGs
/// agree once. Also the time between two epochs of boots in the long run: each of them goes to every OSD, so that those of thousands
/// that boot one after the other would else grow with their square.
const GATHER_BOOTS: Duration = Duration::from_millis(100);
/// The most boots of one epoch: all that it changes must fit into one entry of the log, some 2 KiB for each.
const MAX_BOOTS: usize = 512;
/// An OSD that has been down for longer is not expected.
const EXPECTED_FOR: Duration = Duration::from_secs(20);

impl<S: Storage> Mon<S> {
    /// Proposes the next OSD map, if somebody waits for one and none is being written. Boots may wait for one another; all else is
    /// granted at once, as PGs wait for it.
    pub(crate) fn grant_wishes(&mut self, now: Now) {
        // What is asked meanwhile shares the next map.
        if self.log.is_proposing() || self.soft.pace.next_at(EPOCH_INTERVAL) > now.mono {
            return;
        }
        let boots = match self.boots_are_due(now.mono) {
            true => self.soft.boots.take(now.mono),
            false => BTreeMap::new(),
        };
        if boots.is_empty() && self.soft.wanted.is_empty() {
            return;
        }
        self.soft.pace.spend(now.mono, EPOCH_INTERVAL);
        let wanted = std::mem::take(&mut self.soft.wanted);
        let refused = std::mem::take(&mut self.soft.refused);
        let (later, _) = self.edit(now, |edit| grant(edit, wanted, boots, &refused));
        if !later.is_empty() {
            // They have waited.
            self.soft.boots.until = Some(now.mono);
            self.soft.boots.by_osd.extend(later);
        }
    }

    /// When what waits is granted: boots for others, everything for its turn.
    pub(crate) fn wishes_deadline(&self) -> Option<Instant> {
        if !self.log.leads() || self.log.is_proposing() {
            return None;
        }
        let turn = self.soft.pace.next_at(EPOCH_INTERVAL);
        let boots = self.soft.boots.until.map(|until| until.max(turn));
        boots.into_iter().chain((!self.soft.wanted.is_empty()).then_some(turn)).min()
    }

    /// Nobody is expected to boot whose boot is not here, or they have waited for long enough.
    fn boots_are_due(&self, now: Instant) -> bool {
        let Soft { boots, osd_down, osd_gone, .. } = &self.soft;
        if boots.until.is_none_or(|until| until <= now) {
            return true;
        }
        if now < boots.pace.next_at(GATHER_BOOTS) {
            return false;
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

/// Between two epochs that OSDs ask for, in the long run: each of them is sent to every OSD, and every OSD works out anew where its PGs
/// are. As many are made in a second as Ceph's monitors make at most.
const EPOCH_INTERVAL: Duration = Duration::from_millis(50);
/// So many may come at once before: a failure takes one to mark the OSD down, one for the primaries that take over, and
/// some for those who lead meanwhile; and a small cluster notices nothing of all this.
const EPOCH_BURST: u32 = 16;

/// When there may be another epoch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// When all that was spent is there again.
    full_at: Instant,
}

impl Pace {
    /// The earliest moment of the next one, where they come every `interval` in the long run.
    fn next_at(self, interval: Duration) -> Instant {
        let burst = interval * (EPOCH_BURST - 1);
        Instant(self.full_at.0.saturating_sub(burst.as_nanos() as u64))
    }

    fn spend(&mut self, now: Instant, interval: Duration) {
        self.full_at = self.full_at.max(now) + interval;
    }
}

impl Boots {
    /// An OSD asks to be marked up.
    pub fn add(&mut self, now: Instant, boot: Box<peer::OsdBoot>) {
        let turn = self.pace.next_at(GATHER_BOOTS);
        self.until.get_or_insert(if now < turn { turn } else { now + GATHER_BOOTS });
        self.by_osd.insert(boot.osd, boot);
    }

    /// Those of the next epoch; the others wait for the one after it.
    fn take(&mut self, now: Instant) -> BTreeMap<OsdId, Box<peer::OsdBoot>> {
        let mut boots = std::mem::take(&mut self.by_osd);
        if let Some(beyond) = boots.keys().nth(MAX_BOOTS).copied() {
            self.by_osd = boots.split_off(&beyond);
        }
        if !boots.is_empty() {
            self.pace.spend(now, GATHER_BOOTS);
        }
        let turn = self.pace.next_at(GATHER_BOOTS);
        self.until = Some(turn).filter(|_| !self.by_osd.is_empty());
        boots
    }
}

/// Gives the boots that have to wait for another epoch.
fn grant(
    edit: &mut Edit<'_>,
    wanted: OsdWishes,
    boots: BTreeMap<OsdId, Box<peer::OsdBoot>>,
    refused: &BTreeSet<OsdId>,
) -> BTreeMap<OsdId, Box<peer::OsdBoot>> {
    let mut later = BTreeMap::new();
    for (osd, addrs) in wanted.down {
        let entry = edit.osdmap().osd(osd).filter(|o| o.is_up());
        if entry.is_some_and(|o| crate::osd_service::same_incarnation(o, &addrs)) {
            mark_down(edit, osd, refused.contains(&osd));
        }
    }
    let mut booting = Vec::new();
    for (osd, boot) in boots {
        match edit.osdmap().osd(osd) {
            Some(entry) if entry.is_up() && entry.client_addrs == boot.addrs => {}
            Some(entry) if entry.is_up() => {
                // A new run of a process that is still up in the map: the old one must go down first, in an epoch of
                // its own. It is dead, as the new one holds its store.
                mark_down(edit, osd, true);
                later.insert(osd, boot);
            }
            _ if boot_osd(edit, &boot) => booting.push(boot),
            _ => {}
        }
    }
    place_all(edit, &booting);
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

/// Marks an OSD up, unless flags forbid it; it still is to be put into its place.
fn boot_osd(edit: &mut Edit<'_>, m: &peer::OsdBoot) -> bool {
    let map = edit.osdmap();
    let own = flags_of(map, m.osd);
    if map.has_flag(osd_flags::NOUP) || own & osd_state::NOUP != 0 {
        return false;
    }
    // What it asked may be older than what is required by now.
    if features::refusal(edit.base, m.osd, m.feature_level).is_some() {
        return false;
    }
    // Its new epoch says that earlier runs of it are over.
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
    metadata.insert(features::KEY.to_owned(), m.feature_level.to_string());
    if edit.base.metadata.get(&name) != Some(&metadata) {
        edit.push(Change::Metadata(name, Some(metadata)));
    }
    edit.notes.push(format!("osd.{osd} {} boot", m.addrs));
    true
}

/// Puts OSDs where they say they are in the CRUSH hierarchy; an existing weight stays. On one map for all of them: it is as
/// long as there are OSDs.
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
        // What it has changed before it was refused is to be forgotten.
        if refused.is_none() {
            if changed {
                edit.set_crush(crush);
            }
            return;
        }
        wanted.retain(|m| Some(m.osd) != refused);
    }
}

/// Whether an OSD may have to be put somewhere.
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
