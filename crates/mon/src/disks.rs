//! Devices that are half dead: so slow, beside those of their kind, or with so many errors, that their OSDs are marked out by
//! themselves. Such a device answers, so nobody reports it, and every write that has a copy on it waits for it.
//!
//! One at a time, and never so that too few are left: many slow devices at once are no defect of each, but load.

use crate::commands::View;
use crate::crush_edit;
use crate::entry::Change;
use crate::health::{Check, plural};
use crate::mon::Mon;
use crate::osd_wishes::mark_out;
use crate::pgstat::OsdStat;
use crate::state::State;
use crate::storage::Storage;
use decl::Code;
use maps::{OsdId, OsdMap, osd_flags, osd_state};
use peer::pg_state;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Instant, Now};
use wire::{EntityName, EntityType};

/// Why OSDs were marked out, by number; kept while they are out.
pub const PREFIX: &str = "disk/out/";
/// Between two looks.
const PERIOD: Duration = Duration::from_secs(5);
/// Commits that take longer are slow …
const SLOW_MS: u32 = 500;
/// … if they take so many times longer than the median of the others …
const TIMES: u32 = 10;
/// … who are at least so many …
const OTHERS: usize = 3;
/// … for so long: three windows of measurement.
const SLOW_FOR: Duration = Duration::from_secs(90);
/// So many reads refused by a device …
const ERRORS: u32 = 10;
/// … within so long, are too many.
const ERRORS_IN: Duration = Duration::from_secs(600);
/// Between two that are marked out.
const BETWEEN: Duration = Duration::from_secs(600);

/// What was seen of the devices; the leader's own.
#[derive(Debug, Default)]
pub struct Disks {
    looked: Instant,
    slow_since: BTreeMap<OsdId, Instant>,
    /// Errors that each had at the beginning of the time in which they count.
    errors: BTreeMap<OsdId, (Instant, u32)>,
    /// When one was last marked out.
    last: Option<Instant>,
}

impl Disks {
    /// What is wrong with the devices, of those with which it has been for long enough.
    fn look(
        &mut self,
        now: Instant,
        map: &OsdMap,
        stats: &BTreeMap<OsdId, OsdStat>,
    ) -> BTreeMap<OsdId, String> {
        let serves = |osd: OsdId| map.is_up(osd) && map.is_in(osd);
        let serving: Vec<(OsdId, &OsdStat)> =
            stats.iter().filter(|(osd, _)| serves(**osd)).map(|(osd, stat)| (*osd, stat)).collect();
        self.slow_since.retain(|osd, _| serves(*osd));
        self.errors.retain(|osd, _| serves(*osd));
        let mut found = BTreeMap::new();
        for (osd, stat) in &serving {
            let class = crush_edit::class(&map.crush, osd.0);
            let others = serving.iter().filter(|(other, s)| {
                other != osd && s.disk.commits > 0 && crush_edit::class(&map.crush, other.0) == class
            });
            let mut others: Vec<u32> = others.map(|(_, s)| s.disk.commit_ms).collect();
            others.sort_unstable();
            let usual = others.get(others.len() / 2).copied().unwrap_or_default();
            let slow = stat.disk.commits > 0
                && others.len() >= OTHERS
                && stat.disk.commit_ms > SLOW_MS.max(usual.saturating_mul(TIMES));
            if !slow {
                self.slow_since.remove(osd);
            } else if now.since(*self.slow_since.entry(*osd).or_insert(now)) >= SLOW_FOR {
                let text = format!("writes take {} ms, those of its kind {usual} ms", stat.disk.commit_ms);
                found.insert(*osd, text);
            }
            let errors = self.errors.entry(*osd).or_insert((now, stat.disk.errors));
            if now.since(errors.0) >= ERRORS_IN || stat.disk.errors < errors.1 {
                *errors = (now, stat.disk.errors);
            }
            let more = stat.disk.errors - errors.1;
            if more >= ERRORS {
                found.insert(*osd, format!("it refused {more} reads in {} s", now.since(errors.0).as_secs()));
            }
        }
        found
    }
}

/// Whether the cluster can do without one more of its OSDs: the rest is enough for all pools, and no data lacks copies.
fn can_spare_one<S: Storage>(mon: &Mon<S>, map: &OsdMap) -> bool {
    let total = map.existing().count();
    let left = map.existing().filter(|(_, o)| o.is_in()).count().saturating_sub(1);
    let min_in: f64 = mon.option("mon_osd_min_in_ratio");
    let sizes = map.pools.values().map(|pool| usize::from(pool.size));
    let unsound = pg_state::DEGRADED | pg_state::UNDERSIZED;
    left as f64 / total.max(1) as f64 >= min_in
        && left >= sizes.max().unwrap_or(0)
        && mon.soft.pgs.pgs().values().all(|pg| pg.state & unsound == 0 && pg.state & pg_state::ACTIVE != 0)
}

impl<S: Storage> Mon<S> {
    /// Marks the OSD of a half-dead device out.
    pub(crate) fn tick_disks(&mut self, now: Now) {
        if now.mono.since(self.soft.disks.looked) < PERIOD {
            return;
        }
        self.soft.disks.looked = now.mono;
        let map = self.log.tail().osdmap().clone();
        self.forget_disks(now, &map);
        let found = self.soft.disks.look(now.mono, &map, self.soft.pgs.osds());
        let recent = self.soft.disks.last.is_some_and(|at| now.mono.since(at) < BETWEEN);
        let kept = |osd: OsdId| {
            map.has_flag(osd_flags::NOOUT)
                || crate::commands::osd_state::flags_of(&map, osd) & osd_state::NOOUT != 0
        };
        let Some((osd, why)) = found.into_iter().find(|(osd, _)| !kept(*osd)) else { return };
        if recent || !can_spare_one(self, &map) {
            return;
        }
        self.soft.disks.last = Some(now.mono);
        let device = device_of(self.log.tail(), osd);
        self.edit(now, |edit| {
            // It stays out until a person has looked at it, also over a restart.
            mark_out(edit, osd, false);
            let text = format!("osd.{osd} ({device}): {why}");
            edit.push(Change::Kv(format!("{PREFIX}{osd}"), Some(text.clone().into_bytes())));
            edit.notes.push(format!("marking osd.{osd} out: its device {device} is half dead: {why}"));
        });
    }

    /// Who was taken in again, or is gone, is forgotten.
    fn forget_disks(&mut self, now: Now, map: &OsdMap) {
        let noted: Vec<OsdId> = noted(self.log.tail()).into_keys().collect();
        let over: Vec<OsdId> =
            noted.into_iter().filter(|osd| map.osd(*osd).is_none_or(|o| !o.exists() || o.is_in())).collect();
        if !over.is_empty() {
            self.edit(now, |edit| {
                over.iter().for_each(|osd| edit.push(Change::Kv(format!("{PREFIX}{osd}"), None)));
            });
        }
    }
}

/// What is noted of OSDs that were marked out.
fn noted(state: &State) -> BTreeMap<OsdId, String> {
    let mine = state.kv.range(PREFIX.to_owned()..).take_while(|(key, _)| key.starts_with(PREFIX));
    mine.filter_map(|(key, text)| {
        let osd = key[PREFIX.len()..].parse().ok().map(OsdId)?;
        Some((osd, String::from_utf8_lossy(text).into_owned()))
    })
    .collect()
}

/// An OSD's device, for people.
fn device_of(state: &State, osd: OsdId) -> String {
    let metadata = state.metadata.get(&EntityName::new(EntityType::OSD, osd.0.to_string()));
    let of = |key: &str| metadata.and_then(|m| m.get(key)).filter(|text| !text.is_empty()).cloned();
    let host = of("hostname").unwrap_or_else(|| "unknown host".into());
    let device = of("devices").map(|name| format!("/dev/{name}")).or_else(|| of("osd_data"));
    format!("{} on {host}", device.unwrap_or_else(|| "unknown device".into()))
}

/// Devices whose OSDs were marked out.
pub(crate) fn checks(view: &View<'_>, out: &mut Vec<Check>) {
    let map = view.state.osdmap();
    let still = noted(view.state).into_iter().filter(|(osd, _)| map.osd(*osd).is_some_and(|o| !o.is_in()));
    let detail: Vec<String> = still.map(|(_, text)| text).collect();
    if !detail.is_empty() {
        let summary =
            format!("{} slow or failing, marked out", plural(detail.len(), "device is", "devices are"));
        out.push(Check { code: Code::DeviceHealth, summary, count: detail.len(), detail });
    }
}
