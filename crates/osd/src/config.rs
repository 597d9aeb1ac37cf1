//! Configuration of an OSD.

use crate::ops::Limits;
use maps::OsdId;
use peer::level::Levels;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{AddrVec, EntityAddr, Uuid};

/// Identity, addresses and options of one OSD process.
#[derive(Clone, Debug)]
pub struct OsdConfig {
    /// Number of the OSD.
    pub id: OsdId,
    /// Uuid of its store. A blank store gets it; a store with another one is refused.
    pub uuid: Uuid,
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Addresses for clients, other OSDs and heartbeats; the nonce is new at each start.
    pub addrs: AddrVec,
    /// Its name (`osd.ID`) and key; no key for the method `none`.
    pub credentials: auth::Credentials,
    /// Authentication methods that it accepts, the preferred one first.
    pub methods: Vec<auth::Method>,
    /// Addresses of the monitors.
    pub monitors: Vec<EntityAddr>,
    /// Name of this host, for the monitor's log.
    pub hostname: String,
    /// CRUSH weight to be added with, in 1/65536 (TiB); 0 to derive it from the device's size.
    pub crush_weight: u32,
    /// Its location in the CRUSH tree: type to name.
    pub crush_location: BTreeMap<String, String>,
    /// `hdd`, `ssd`, `nvme`; empty if unknown.
    pub device_class: String,
    /// Metadata that `ceph osd metadata` shows.
    pub metadata: BTreeMap<String, String>,
    /// Tunable options.
    pub options: OsdOptions,
}

/// Tunables of an OSD.
#[derive(Clone, Debug)]
pub struct OsdOptions {
    /// Interval between pings of a peer (`osd_heartbeat_interval`).
    pub heartbeat_interval: Duration,
    /// Silence after which a peer is reported (`osd_heartbeat_grace`). Together with the times of monitors
    /// and peering, clients should wait for no more than 5 s.
    pub heartbeat_grace: Duration,
    /// Time for which an OSD promises its peer that no other primary serves. Longer than two
    /// `heartbeat_interval`s, and shorter than the default of `heartbeat_grace` so that it is over when a
    /// silent OSD is marked down. Not an option: an OSD that was restarted assumes that it promised for no
    /// longer.
    pub read_lease: Duration,
    /// Interval between reports of statistics to the monitors (`osd_mon_report_interval`).
    pub report_interval: Duration,
    /// Delay before an unreachable peer is tried again.
    pub reconnect_delay: Duration,
    /// Log entries that all PGs keep together (`osd_target_pg_log_entries_per_osd`).
    pub log_entries_total: usize,
    /// Minimum and maximum log entries of one PG.
    pub log_entries: (usize, usize),
    /// Objects that are being recovered at once (`osd_recovery_max_active`).
    pub recovery_max_active: usize,
    /// Bytes of one part of a recovered object (`osd_recovery_max_chunk`).
    pub recovery_chunk: u64,
    /// Updates that write more bytes than this have them sent in advance.
    pub update_whole: u64,
    /// Bytes of one part of them.
    pub update_part: u64,
    /// Feature levels that it can do; lower to imitate an older version.
    pub levels: Levels,
    /// PGs that one OSD recovers at a time as primary, and again as many that are backfilled here
    /// (`osd_max_backfills`).
    pub max_backfills: usize,
    /// Delay before an object is sent again to an OSD without space.
    pub space_retry: Duration,
    /// Objects that one step of backfill compares.
    pub scan_max: usize,
    /// Old maps kept beyond those that any PG needs.
    pub maps_kept: u32,
    /// Limits of operations.
    pub limits: Limits,
    /// Schedule and limits of scrubs.
    pub scrub: crate::scrub_options::ScrubOptions,
    /// Memory for the store's cache of its index, bytes.
    pub store_cache: u64,
    /// Memory for the store's cache of data, bytes.
    pub data_cache: u64,
    /// Reads may come from the host's memory: the memory of an OSD is not limited.
    pub host_cache: bool,
    /// OSDs of this process, which share `osd_memory_target` equally. Not an option; fixed at start.
    pub memory_shares: u64,
}

/// Typical memory of an OSD beside the store's caches: changes not yet in the index, PG logs, connections.
const BESIDE_CACHES: u64 = 32 << 20;
/// Shortest and longest interval between pings: of the answers, one may be lost during a lease.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(1500));
/// Minimum grace; the rest is the monitors' and peering.
const LEAST_GRACE: Duration = Duration::from_secs(2);
/// Minimum memory target.
const LEAST_MEMORY: u64 = 16 << 20;

impl Default for OsdOptions {
    fn default() -> Self {
        Self {
            heartbeat_interval: Duration::from_millis(1000),
            heartbeat_grace: Duration::from_secs(4),
            read_lease: Duration::from_millis(3500),
            report_interval: Duration::from_secs(2),
            reconnect_delay: Duration::from_millis(200),
            log_entries_total: 60_000,
            log_entries: (250, 4000),
            recovery_max_active: 16,
            recovery_chunk: 1 << 20,
            update_whole: 4 << 20,
            update_part: 1 << 20,
            levels: Levels::default(),
            max_backfills: 1,
            space_retry: Duration::from_secs(2),
            scan_max: 64,
            maps_kept: 200,
            limits: Limits::default(),
            scrub: Default::default(),
            store_cache: 10 << 20,
            data_cache: 6 << 20,
            host_cache: true,
            memory_shares: 1,
        }
    }
}

impl OsdOptions {
    /// Applies options that may change while an OSD runs.
    pub fn apply(&mut self, settings: &decl::Settings) {
        let default = Self::default();
        let size = |name: &str| settings.size(name);
        let count = |name: &str| settings.count(name);
        let secs = |name: &str| settings.secs(name);
        self.heartbeat_interval = secs("osd_heartbeat_interval")
            .map_or(default.heartbeat_interval, |interval| interval.clamp(INTERVALS.0, INTERVALS.1));
        self.heartbeat_grace = secs("osd_heartbeat_grace")
            .unwrap_or(default.heartbeat_grace)
            .max(LEAST_GRACE)
            .max(2 * self.heartbeat_interval);
        self.recovery_max_active =
            count("osd_recovery_max_active").filter(|n| *n > 0).unwrap_or(default.recovery_max_active);
        self.max_backfills = count("osd_max_backfills").filter(|n| *n > 0).unwrap_or(default.max_backfills);
        self.recovery_chunk = size("osd_recovery_max_chunk")
            .filter(|n| (4096..=64 << 20).contains(n))
            .unwrap_or(default.recovery_chunk);
        self.report_interval = secs("osd_mon_report_interval")
            .filter(|s| *s >= Duration::from_millis(100))
            .unwrap_or(default.report_interval);
        self.log_entries_total = count("osd_target_pg_log_entries_per_osd")
            .filter(|n| *n >= 1000)
            .unwrap_or(default.log_entries_total);
        let target = size("osd_memory_target").filter(|n| *n >= LEAST_MEMORY);
        self.host_cache = target.is_none();
        let caches = target
            .map(|n| n / self.memory_shares.max(1))
            .map_or(default.store_cache + default.data_cache, |n| n.saturating_sub(BESIDE_CACHES).max(n / 4));
        // Neither cache is of use without the other: reads of data and all writes need the index.
        self.store_cache = caches / 8 * 5;
        self.data_cache = caches - self.store_cache;
        self.scrub.apply(settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_taken_over_and_taken_back() {
        let mut options = OsdOptions::default();
        let mut settings = decl::Settings::new("osd.0", BTreeMap::new());
        let of = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        settings.set_central(of(&[("osd_recovery_max_active", "3"), ("osd_mon_report_interval", "0.5")]));
        options.apply(&settings);
        assert_eq!((options.recovery_max_active, options.report_interval), (3, Duration::from_millis(500)));
        settings.set_central(of(&[("osd_recovery_max_active", "0")]));
        options.apply(&settings);
        let default = OsdOptions::default();
        assert_eq!(options.recovery_max_active, default.recovery_max_active, "0 would stop recovery");
        assert_eq!(options.report_interval, default.report_interval);
    }

    #[test]
    fn heartbeats_are_as_declared_and_as_set() {
        let of = |interval: &str, grace: &str| {
            let pairs = [("osd_heartbeat_interval", interval), ("osd_heartbeat_grace", grace)];
            let set = pairs.into_iter().filter(|(_, value)| !value.is_empty());
            let mut options = OsdOptions::default();
            let file = set.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            options.apply(&decl::Settings::new("osd.0", file));
            (options.heartbeat_interval.as_millis(), options.heartbeat_grace.as_millis())
        };
        let declared = ["osd_heartbeat_interval", "osd_heartbeat_grace"];
        let [interval, grace] = declared.map(|name| decl::options::find(name).expect("is known").default);
        assert_eq!(of("", ""), of(interval, grace), "the declared defaults are those in use");
        assert_eq!(of("", "20"), (1000, 20_000));
        assert_eq!(of("0.5", "3"), (500, 3000));
        assert_eq!(of("6", "1"), (1500, 3000), "reads need leases, and pings must be answered in time");
        assert_eq!(of("0", "0"), (100, 2000));
    }

    #[test]
    fn caches_take_what_the_memory_target_leaves() {
        let default = decl::options::find("osd_memory_target").expect("is known").default;
        let caches = |target: &str| {
            let file = BTreeMap::from([("osd_memory_target".to_owned(), target.to_owned())]);
            let mut options = OsdOptions::default();
            options.apply(&decl::Settings::new("osd.0", file));
            (options.store_cache >> 20, options.data_cache >> 20)
        };
        let given = OsdOptions::default();
        assert_eq!(
            caches(default),
            (given.store_cache >> 20, given.data_cache >> 20),
            "it says what there is without it"
        );
        assert_eq!(caches("4G"), (2540, 1524));
        assert_eq!(caches("20M"), (3, 1), "a little of everything");
        assert_eq!(caches("1M"), caches(default), "too little to be meant");
        let keeps_what_is_read = |file: &[(&str, &str)]| {
            let file = file.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let mut options = OsdOptions::default();
            options.apply(&decl::Settings::new("osd.0", file.collect()));
            options.host_cache
        };
        assert!(keeps_what_is_read(&[]) && !keeps_what_is_read(&[("osd_memory_target", "4G")]));
        let file = BTreeMap::from([("osd_memory_target".to_owned(), "256M".to_owned())]);
        let mut one_of_two = OsdOptions { memory_shares: 2, ..OsdOptions::default() };
        one_of_two.apply(&decl::Settings::new("osd.0", file));
        assert_eq!((one_of_two.store_cache >> 20, one_of_two.data_cache >> 20), (60, 36));
    }
}
