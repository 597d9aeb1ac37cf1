//! Statistics that OSDs report (primaries report their PGs, each OSD its device), and their sums.

use maps::{Epoch, ObjectStatSum, OsdId, OsdMap, PgId, StoreStatfs};
use peer::{PgStat, pg_state};
use std::collections::{BTreeMap, VecDeque};
use stdx::Instant;

/// The order in which Ceph prints the parts of a state; tools compare whole names.
const STATE_ORDER: [&str; 31] = [
    "stale",
    "creating",
    "active",
    "activating",
    "clean",
    "recovery_wait",
    "recovery_toofull",
    "recovering",
    "forced_recovery",
    "down",
    "recovery_unfound",
    "backfill_unfound",
    "undersized",
    "degraded",
    "remapped",
    "premerge",
    "scrubbing",
    "deep",
    "inconsistent",
    "peering",
    "repair",
    "backfill_wait",
    "forced_backfill",
    "backfilling",
    "backfill_toofull",
    "incomplete",
    "peered",
    "snaptrim",
    "snaptrim_wait",
    "snaptrim_error",
    "failed_repair",
];

/// True if `name` can be part of a PG's state.
pub fn is_state(name: &str) -> bool {
    name == "unknown" || STATE_ORDER.contains(&name)
}

/// A PG's state as Ceph prints it: `active+undersized+degraded`.
pub fn state_name(state: u64) -> String {
    let name = pg_state::name(state);
    let mut parts: Vec<&str> = name.split('+').collect();
    parts.sort_by_key(|part| STATE_ORDER.iter().position(|o| o == part));
    parts.join("+")
}

/// Statistics that one OSD reported about itself.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OsdStat {
    /// Usage of its device.
    pub store: StoreStatfs,
    /// Space used by each pool.
    pub pools: BTreeMap<i64, StoreStatfs>,
    /// Mean commit latency in milliseconds.
    pub commit_latency_ms: u32,
    /// OSDs that it exchanges heartbeats with.
    pub heartbeat_peers: Vec<OsdId>,
    /// Requests that have waited too long, and the age of the oldest in seconds.
    pub slow_ops: (u32, u32),
    /// Damaged objects that it has replaced since its start.
    pub repaired: u32,
    /// Latency and errors of its device.
    pub disk: DiskStat,
    /// Peers to whom its pings take long.
    pub ping_times: Vec<peer::OsdPingTime>,
    /// What it and its host have used.
    pub used: peer::OsdUsage,
    /// Number of reports from it to this monitor.
    pub reports: u64,
    /// Its map when it sent the last report.
    pub epoch: Epoch,
}

/// Latency and errors of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskStat {
    /// Median commit time of recent transactions, in milliseconds.
    pub commit_ms: u32,
    /// Number of those transactions.
    pub commits: u32,
    /// Reads that it has refused since its OSD's start.
    pub errors: u32,
    /// Those of them in the last minutes.
    pub errors_lately: u32,
}

/// Sums of one pool.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PoolSum {
    /// Objects and bytes.
    pub stats: ObjectStatSum,
    /// Entries in the PGs' logs.
    pub log_size: u64,
    /// PG copies by up set; `acting` counts them by acting set.
    pub up: i32,
    /// PG copies by acting set.
    pub acting: i32,
    /// PGs that were reported.
    pub pgs: usize,
    /// Space that it takes on devices.
    pub store: StoreStatfs,
    /// OSDs in `store`.
    pub num_store: u32,
}

/// Totals read, written and recovered since this monitor began to count. A PG's first report only sets its
/// baseline: otherwise a monitor that starts would show the PG's whole past as current load.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Done {
    rd_kb: i64,
    wr_kb: i64,
    rd: i64,
    wr: i64,
    recovered_bytes: i64,
    recovered: i64,
}

impl Done {
    /// Adds the difference between two reports of a PG; counters that went back count as nothing.
    fn add(&mut self, old: &ObjectStatSum, new: &ObjectStatSum) {
        let more = |old: i64, new: i64| new.saturating_sub(old).max(0);
        self.rd_kb += more(old.num_rd_kb, new.num_rd_kb);
        self.wr_kb += more(old.num_wr_kb, new.num_wr_kb);
        self.rd += more(old.num_rd, new.num_rd);
        self.wr += more(old.num_wr, new.num_wr);
        self.recovered_bytes += more(old.num_bytes_recovered, new.num_bytes_recovered);
        self.recovered += more(old.num_objects_recovered, new.num_objects_recovered);
    }
}

/// Current load, per second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rates {
    /// Bytes read per second.
    pub read_bytes: u64,
    /// Bytes written per second.
    pub write_bytes: u64,
    /// Reads per second.
    pub read_ops: u64,
    /// Writes per second.
    pub write_ops: u64,
    /// Bytes recovered per second.
    pub recover_bytes: u64,
    /// Objects recovered per second.
    pub recover_objects: u64,
}

/// What had been done at some time: of all PGs, and by pool.
type Totals = (Instant, Done, BTreeMap<i64, Done>);

/// The latest statistics of all PGs and OSDs.
#[derive(Debug, Default)]
pub struct PgTable {
    pgs: BTreeMap<PgId, PgStat>,
    osds: BTreeMap<OsdId, OsdStat>,
    /// Of all PGs, and by pool.
    done: (Done, BTreeMap<i64, Done>),
    /// Totals at recent points in time.
    history: VecDeque<Totals>,
    /// Number of changes so far.
    version: u64,
}

/// Length of the window over which rates are averaged.
const RATE_WINDOW_S: u64 = 10;

impl PgTable {
    /// Takes a report. During a change of primary, both may report the same PG: the newer (epoch, seq) wins.
    pub fn report(&mut self, now: Instant, report: peer::PgStats) {
        self.version += 1;
        for pg in report.pgs {
            let newer =
                |old: &PgStat| (old.reported_epoch, old.reported_seq) <= (pg.reported_epoch, pg.reported_seq);
            let old = self.pgs.get(&pg.pgid);
            if old.is_none_or(newer) {
                // A PG that was merged has done from then on what the other one did before.
                if let Some(old) = old.filter(|old| old.state & pg_state::PREMERGE == 0) {
                    self.done.0.add(&old.stats, &pg.stats);
                    self.done.1.entry(pg.pgid.pool).or_default().add(&old.stats, &pg.stats);
                }
                self.pgs.insert(pg.pgid, pg);
            }
        }
        for pgid in report.removed {
            let by_reporter = |p: &PgStat| p.acting.first() == Some(&report.osd);
            if self.pgs.get(&pgid).is_some_and(by_reporter) {
                self.pgs.remove(&pgid);
            }
        }
        let stat = OsdStat {
            store: report.store,
            pools: report.pools.into_iter().map(|p| (p.pool, p.store)).collect(),
            commit_latency_ms: report.commit_latency_ms,
            heartbeat_peers: report.heartbeat_peers,
            slow_ops: (report.slow_ops, report.oldest_slow_s),
            repaired: report.repaired,
            disk: DiskStat {
                commit_ms: report.disk_commit_ms,
                commits: report.disk_commits,
                errors: report.disk_errors,
                errors_lately: report.disk_errors_lately,
            },
            ping_times: report.ping_times,
            used: report.used,
            reports: self.osds.get(&report.osd).map_or(0, |o| o.reports) + 1,
            epoch: report.epoch,
        };
        self.osds.insert(report.osd, stat);
        self.sample(now);
    }

    /// True if the state of a PG is known as of `epoch` or later. An OSD that has reached that map and
    /// reported nothing new about a PG had nothing new to report.
    pub fn is_seen(&self, pg: PgId, epoch: Epoch) -> bool {
        let reporter = |stat: &PgStat| self.osds.get(stat.acting.first()?).map(|osd| osd.epoch);
        self.pgs.get(&pg).is_some_and(|s| s.reported_epoch.max(reporter(s).unwrap_or_default()) >= epoch)
    }

    /// Takes the usage that comes with a beacon.
    pub fn beacon(&mut self, osd: OsdId, store: StoreStatfs) {
        if store.total > 0 {
            self.osds.entry(osd).or_default().store = store;
        }
    }

    /// Drops PGs and OSDs that the map no longer has; marks PGs stale whose primary is down.
    pub fn follow(&mut self, map: &OsdMap) {
        self.version += 1;
        self.osds.retain(|osd, _| map.exists(*osd));
        self.done.1.retain(|pool, _| map.pools.contains_key(pool));
        self.pgs.retain(|pg, _| map.pools.get(&pg.pool).is_some_and(|pool| pg.seed < pool.pg_num));
        for stat in self.pgs.values_mut() {
            let dead = stat.acting.first().is_none_or(|p| map.is_down(*p));
            match dead {
                true => stat.state |= pg_state::STALE,
                false => stat.state &= !pg_state::STALE,
            }
        }
    }

    /// Number of changes so far; equal versions mean equal contents.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Statistics of all PGs that were reported.
    pub fn pgs(&self) -> &BTreeMap<PgId, PgStat> {
        &self.pgs
    }

    /// Statistics that an OSD reported.
    pub fn osd(&self, osd: OsdId) -> Option<&OsdStat> {
        self.osds.get(&osd)
    }

    /// All that OSDs reported.
    pub fn osds(&self) -> &BTreeMap<OsdId, OsdStat> {
        &self.osds
    }

    /// Number of PGs in each state, most common first; PGs that nobody reported are `unknown`.
    pub fn by_state(&self, map: &OsdMap) -> Vec<(String, usize)> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for stat in self.pgs.values() {
            *counts.entry(state_name(stat.state)).or_default() += 1;
        }
        let total: usize = map.pools.values().map(|p| p.pg_num as usize).sum();
        let unknown = total.saturating_sub(self.pgs.len());
        if unknown > 0 {
            *counts.entry("unknown".into()).or_default() += unknown;
        }
        let mut out: Vec<_> = counts.into_iter().collect();
        out.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        out
    }

    /// The sums of a pool.
    pub fn pool(&self, pool: i64) -> PoolSum {
        let mut sum = PoolSum::default();
        let (from, to) = (PgId::new(pool, 0), PgId::new(pool, u32::MAX));
        for stat in self.pgs.range(from..=to).map(|(_, s)| s) {
            sum.stats.add(&stat.stats);
            sum.log_size += stat.log_size;
            sum.up += stat.up.iter().filter(|o| o.is_some()).count() as i32;
            sum.acting += stat.acting.iter().filter(|o| o.is_some()).count() as i32;
            sum.pgs += 1;
        }
        for store in self.osds.values().filter_map(|o| o.pools.get(&pool)) {
            add_store(&mut sum.store, store);
            sum.num_store += 1;
        }
        sum
    }

    /// The sums of all PGs.
    pub fn total(&self) -> ObjectStatSum {
        let mut sum = ObjectStatSum::default();
        self.pgs.values().for_each(|s| sum.add(&s.stats));
        sum
    }

    /// The space of all OSDs that are in.
    pub fn space(&self, map: &OsdMap) -> StoreStatfs {
        let mut sum = StoreStatfs::default();
        for (osd, stat) in &self.osds {
            if map.is_in(*osd) {
                add_store(&mut sum, &stat.store);
            }
        }
        sum
    }

    /// Number of PGs with an OSD in their acting or up set.
    pub fn pgs_on(&self, osd: OsdId) -> usize {
        self.pgs.values().filter(|s| s.up.contains(&osd) || s.acting.contains(&osd)).count()
    }

    fn sample(&mut self, now: Instant) {
        if self.history.back().is_some_and(|(at, ..)| now.since(*at).as_millis() < 500) {
            return;
        }
        self.history.push_back((now, self.done.0, self.done.1.clone()));
        while self.history.front().is_some_and(|(at, ..)| now.since(*at).as_secs() > 2 * RATE_WINDOW_S) {
            self.history.pop_front();
        }
    }

    /// The load at `now`.
    pub fn rates(&self, now: Instant) -> Rates {
        self.rates_of(now, |(_, all, _)| *all)
    }

    /// The load of a pool at `now`.
    pub fn pool_rates(&self, now: Instant, pool: i64) -> Rates {
        self.rates_of(now, |(_, _, pools)| pools.get(&pool).copied().unwrap_or_default())
    }

    fn rates_of(&self, now: Instant, of: impl Fn(&Totals) -> Done) -> Rates {
        let recent = |(at, ..): &&Totals| now.since(*at).as_secs() <= RATE_WINDOW_S;
        let (Some(began), Some(ended)) = (self.history.iter().find(recent), self.history.back()) else {
            return Rates::default();
        };
        let (first, last) = (of(began), of(ended));
        let secs = ended.0.since(began.0).as_secs_f64();
        if secs <= 0.0 {
            return Rates::default();
        }
        let per_s = |a: i64, b: i64| ((b - a).max(0) as f64 / secs) as u64;
        Rates {
            read_bytes: per_s(first.rd_kb, last.rd_kb) * 1024,
            write_bytes: per_s(first.wr_kb, last.wr_kb) * 1024,
            read_ops: per_s(first.rd, last.rd),
            write_ops: per_s(first.wr, last.wr),
            recover_bytes: per_s(first.recovered_bytes, last.recovered_bytes),
            recover_objects: per_s(first.recovered, last.recovered),
        }
    }
}

fn add_store(sum: &mut StoreStatfs, s: &StoreStatfs) {
    sum.total += s.total;
    sum.available += s.available;
    sum.internally_reserved += s.internally_reserved;
    sum.allocated += s.allocated;
    sum.data_stored += s.data_stored;
    sum.data_compressed += s.data_compressed;
    sum.data_compressed_allocated += s.data_compressed_allocated;
    sum.data_compressed_original += s.data_compressed_original;
    sum.omap_allocated += s.omap_allocated;
    sum.internal_metadata += s.internal_metadata;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(seed: u32, epoch: u32, seq: u64, bytes: i64) -> PgStat {
        let stats = ObjectStatSum { num_bytes: bytes, num_objects: 1, ..ObjectStatSum::default() };
        let state = pg_state::ACTIVE | pg_state::CLEAN;
        let acting = vec![OsdId(0)];
        let (pgid, reported_epoch) = (PgId::new(1, seed), Epoch(epoch));
        PgStat { pgid, state, reported_epoch, reported_seq: seq, stats, acting, ..PgStat::default() }
    }

    fn report(osd: i32, pgs: Vec<PgStat>, removed: Vec<PgId>) -> peer::PgStats {
        peer::PgStats { osd: OsdId(osd), pgs, removed, ..peer::PgStats::default() }
    }

    #[test]
    fn a_pg_of_which_its_primary_says_nothing_new_is_seen_all_the_same() {
        let mut table = PgTable::default();
        let at = |epoch, pgs| peer::PgStats { epoch: Epoch(epoch), ..report(0, pgs, vec![]) };
        table.report(Instant(0), at(5, vec![stat(0, 5, 1, 10)]));
        let pg = PgId::new(1, 0);
        assert!(table.is_seen(pg, Epoch(5)) && !table.is_seen(pg, Epoch(6)));
        table.report(Instant(0), peer::PgStats { osd: OsdId(1), ..at(6, vec![]) });
        assert!(!table.is_seen(pg, Epoch(6)), "another OSD has nothing to say of it");
        table.report(Instant(0), at(6, vec![]));
        assert!(table.is_seen(pg, Epoch(6)) && !table.is_seen(PgId::new(1, 1), Epoch(1)));
    }

    #[test]
    fn states_are_printed_in_cephs_order() {
        use pg_state::{ACTIVE, CLEAN, DEGRADED, UNDERSIZED};
        assert_eq!(state_name(ACTIVE | DEGRADED | UNDERSIZED), "active+undersized+degraded");
        assert_eq!(state_name(ACTIVE | CLEAN), "active+clean");
        assert_eq!(state_name(0), "unknown");
    }

    #[test]
    fn rates_count_what_happens_from_the_first_report_on() {
        let at = |secs: u64| Instant(secs * 1_000_000_000);
        let wrote = |seq: u64, kb: i64| {
            let mut s = stat(0, 5, seq, 10);
            (s.stats.num_wr, s.stats.num_wr_kb) = (kb, kb);
            report(0, vec![s], vec![])
        };
        let mut table = PgTable::default();
        table.report(at(1), wrote(1, 1_000_000));
        table.report(at(3), wrote(2, 1_000_000));
        assert_eq!(table.rates(at(3)), Rates::default(), "a monitor that starts has seen nothing happen");
        table.report(at(5), wrote(3, 1_000_040));
        let rates = table.rates(at(5));
        assert_eq!((rates.write_ops, rates.write_bytes), (10, 10 * 1024));
        let pool = stat(0, 5, 1, 10).pgid.pool;
        assert_eq!(table.pool_rates(at(5), pool), rates, "it is the only pool");
        assert_eq!(table.pool_rates(at(5), pool + 1), Rates::default());
        table.report(at(7), wrote(4, 0));
        assert!(table.rates(at(7)).write_ops <= 10, "counters that begin anew are no negative rate");
    }

    #[test]
    fn the_newest_report_of_a_pg_wins() {
        let mut table = PgTable::default();
        table.report(Instant(0), report(0, vec![stat(0, 5, 2, 10), stat(1, 5, 1, 7)], vec![]));
        table.report(Instant(0), report(1, vec![stat(0, 5, 1, 99)], vec![]));
        assert_eq!(table.pool(1).stats.num_bytes, 17);
        table.report(Instant(0), report(1, vec![stat(0, 6, 1, 20)], vec![]));
        assert_eq!(table.pool(1).stats.num_bytes, 27);
        table.report(Instant(0), report(1, vec![], vec![PgId::new(1, 0)]));
        assert_eq!(table.pgs().len(), 2, "only the PG's own primary may take it back");
        table.report(Instant(0), report(0, vec![], vec![PgId::new(1, 0)]));
        assert_eq!(table.pgs().len(), 1);
    }
}
