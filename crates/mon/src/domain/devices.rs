//! Failing devices: their OSDs are marked out automatically if the device is much slower than others of its
//! class or reports many errors. Such a device still answers, so nobody reports its OSD, yet every write with
//! a copy on it waits for it.
//!
//! One OSD is marked out at a time, and only if enough others remain: if many devices are slow at once, the
//! cause is load and not a defect.

use crate::crush_edit;
use crate::pg_stats::{OsdStat, PgTable};
use crate::state::State;
use crate::volatile::periodic::Periodic;
use maps::{OsdId, OsdMap};
use peer::pg_state;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;
use wire::{EntityName, EntityType};

/// Keys of the reasons for which OSDs were marked out, by OSD number; kept while they are out.
pub const PREFIX: &str = "disk/out/";

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(5);

/// Commits that take longer are slow …
const SLOW_MS: u32 = 500;

/// … if they take so many times longer than the median of the others …
const SLOW_FACTOR: u32 = 10;

/// … who are at least so many …
const MIN_OTHERS: usize = 3;

/// … for so long: three windows of measurement.
const SLOW_FOR: Duration = Duration::from_secs(90);

/// So many reads refused by a device …
const TOO_MANY_ERRORS: u32 = 10;

/// … within so long, are too many.
const ERRORS_IN: Duration = Duration::from_secs(600);

/// The least time between two that are marked out.
const MARK_OUT_INTERVAL: Duration = Duration::from_secs(600);

/// Observations of the devices; kept by the leader alone.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    looked: Periodic,
    slow_since: BTreeMap<OsdId, Instant>,
    /// Errors of each device at the beginning of the current counting period. Those of an OSD that is out do
    /// not count when somebody takes it in again.
    errors: BTreeMap<OsdId, (Instant, u32)>,
    /// Time at which an OSD was last marked out.
    last: Option<Instant>,
}

impl Devices {
    /// Returns true and starts a new period if it is time to look.
    pub fn begin_look(&mut self, now: Instant) -> bool {
        let is_due = self.looked.is_due(now, PERIOD);
        if is_due {
            self.looked.done(now);
        }
        is_due
    }

    /// True if no OSD was marked out recently.
    pub fn may_mark_out(&self, now: Instant) -> bool {
        self.last.is_none_or(|at| now.since(at) >= MARK_OUT_INTERVAL)
    }

    /// An OSD was marked out.
    pub fn marked_out(&mut self, now: Instant) {
        self.last = Some(now);
    }

    /// Devices that have been faulty for long enough, with the reason.
    pub fn look(
        &mut self,
        now: Instant,
        map: &OsdMap,
        stats: &BTreeMap<OsdId, OsdStat>,
    ) -> BTreeMap<OsdId, String> {
        let serves = |osd: OsdId| map.is_up(osd) && map.is_in(osd);
        let serving: Vec<(OsdId, &OsdStat)> =
            stats.iter().filter(|(osd, _)| serves(**osd)).map(|(osd, stat)| (*osd, stat)).collect();
        self.slow_since.retain(|osd, _| serves(*osd));
        self.errors.retain(|osd, _| map.is_up(*osd));
        for (osd, stat) in stats.iter().filter(|(osd, _)| map.is_up(**osd) && !map.is_in(**osd)) {
            self.errors.insert(*osd, (now, stat.disk.errors));
        }
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
                && others.len() >= MIN_OTHERS
                && stat.disk.commit_ms > SLOW_MS.max(usual.saturating_mul(SLOW_FACTOR));
            if !slow {
                self.slow_since.remove(osd);
            } else if now.since(*self.slow_since.entry(*osd).or_insert(now)) >= SLOW_FOR {
                let text = format!("writes take {} ms, those of its kind {usual} ms", stat.disk.commit_ms);
                found.insert(*osd, text);
            }
            // At this leader's first look, or when an OSD has begun anew, the OSD knows what is recent.
            let before = (now, stat.disk.errors.saturating_sub(stat.disk.errors_lately));
            let errors = self.errors.entry(*osd).or_insert(before);
            if stat.disk.errors < errors.1 {
                *errors = before;
            } else if now.since(errors.0) >= ERRORS_IN {
                *errors = (now, stat.disk.errors);
            }
            let more = stat.disk.errors.saturating_sub(errors.1);
            if more >= TOO_MANY_ERRORS {
                found.insert(*osd, format!("it refused {more} reads in {} min", ERRORS_IN.as_secs() / 60));
            }
        }
        found
    }
}

/// The key of the reason why an OSD was marked out.
pub(crate) fn key(osd: OsdId) -> String {
    format!("{PREFIX}{osd}")
}

/// True if the cluster can do without one more OSD: the rest suffices for all pools, and no data lacks
/// copies.
pub(crate) fn can_spare_one(map: &OsdMap, pgs: &PgTable, min_in_ratio: f64) -> bool {
    let total = map.existing().count();
    let left = map.existing().filter(|(_, o)| o.is_in()).count().saturating_sub(1);
    let sizes = map.pools.values().map(|pool| usize::from(pool.size));
    let unsound = pg_state::DEGRADED | pg_state::UNDERSIZED;
    left as f64 / total.max(1) as f64 >= min_in_ratio
        && left >= sizes.max().unwrap_or(0)
        && pgs.pgs().values().all(|pg| pg.state & unsound == 0 && pg.state & pg_state::ACTIVE != 0)
}

/// Recorded reasons of OSDs that were marked out.
pub(crate) fn noted(state: &State) -> BTreeMap<OsdId, String> {
    let mine = state.kv.range(PREFIX.to_owned()..).take_while(|(key, _)| key.starts_with(PREFIX));
    mine.filter_map(|(key, text)| {
        let osd = key[PREFIX.len()..].parse().ok().map(OsdId)?;
        Some((osd, String::from_utf8_lossy(text).into_owned()))
    })
    .collect()
}

/// An OSD's device, as shown to people.
pub(crate) fn device_of(state: &State, osd: OsdId) -> String {
    let metadata = state.metadata.get(&EntityName::new(EntityType::OSD, osd.0.to_string()));
    let of = |key: &str| metadata.and_then(|m| m.get(key)).filter(|text| !text.is_empty()).cloned();
    let host = of("hostname").unwrap_or_else(|| "unknown host".into());
    let device = of("devices").map(|name| format!("/dev/{name}")).or_else(|| of("osd_data"));
    format!("{} on {host}", device.unwrap_or_else(|| "unknown device".into()))
}
