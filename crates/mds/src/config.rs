//! The configuration of an MDS daemon and of the rank that it holds.

use auth::{Credentials, Method};
use maps::Epoch;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{AddrVec, EntityAddr};

/// Identity, key and limits of one MDS daemon.
#[derive(Clone, Debug)]
pub struct MdsConfig {
    /// The part after the dot of `mds.a`.
    pub name: String,
    /// Its addresses, with the nonce of this incarnation.
    pub addrs: AddrVec,
    /// Its name `mds.NAME` and key; no key for the method `none`.
    pub credentials: Credentials,
    /// Accepted authentication methods, the preferred one first.
    pub methods: Vec<Method>,
    /// Addresses of the monitors.
    pub monitors: Vec<EntityAddr>,
    /// The host's name, for the cluster log.
    pub hostname: String,
    /// The answer to `ceph mds metadata`.
    pub metadata: BTreeMap<String, String>,
    /// Feature levels that it can do.
    pub levels: peer::level::Levels,
    /// Limits and intervals.
    pub options: MdsOptions,
}

/// Settings of one rank, from the MDS map and the daemon's configuration.
#[derive(Clone, Debug)]
pub struct RankConfig {
    /// The number of the rank.
    pub rank: u32,
    /// Name of the file system.
    pub fs_name: String,
    /// Pool of the metadata.
    pub metadata_pool: i64,
    /// Pool for the data of new files.
    pub data_pool: i64,
    /// All pools for data, by number, with their names as far as they are known.
    pub data_pools: BTreeMap<i64, String>,
    /// Seconds of silence after which a client is stale.
    pub session_timeout_s: u32,
    /// Seconds of silence after which a client is evicted.
    pub session_autoclose_s: u32,
    /// The largest size of a file, in bytes.
    pub max_file_size: u64,
    /// Epoch of the MDS map, for replies.
    pub map_epoch: Epoch,
    /// Epoch of the OSD map that all object operations carry.
    pub osd_epoch: Epoch,
    /// True if the cluster is full: nothing new may be created.
    pub full: bool,
    /// Limits and intervals.
    pub options: MdsOptions,
}

/// Limits of one MDS daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdsOptions {
    /// Bytes of memory for the cache; clients are asked to return capabilities that pin more.
    pub cache_bytes: u64,
    /// True if nobody has set `cache_bytes`: then the cache may also take memory that the host has to spare.
    pub cache_grows: bool,
    /// Bytes that it may take of that now. Clients may pin none of these: what they hold takes time after a
    /// fail-over.
    pub spare_bytes: u64,
    /// Maximum directory entries in memory, if fewer than fit.
    pub cache_inodes: usize,
    /// Entries of a directory fragment at which it is split.
    pub split_size: u64,
    /// Entries below which the parts of a fragment are joined, if that is less than half of `split_size`.
    pub merge_size: u64,
    /// Bytes of journal at which changes wait until directories are written back.
    pub journal_bytes: u64,
    /// Bytes of journal, in per cent of what is kept of it when it is trimmed, at which health tells of it.
    pub trim_warn_percent: u32,
    /// Requests, and flushes of capabilities, that a client may leave unconfirmed before health tells of it.
    pub max_completed: (usize, usize),
    /// Time between two looks of the balancer.
    pub balance_interval: Duration,
    /// Weighted requests a second by which a rank's load must exceed the mean before it gives some away.
    pub balance_least: u64,
    /// Weighted requests a second in one directory below which other ranks do not answer for it too.
    pub replicate_least: u64,
    /// Time for which the journal gathers events that nobody waits for. A crash of the server loses none of
    /// them as long as the clients live, since they repeat their requests.
    pub journal_delay: Duration,
    /// Inodes of a subtree about which something is sent at once when it moves to another rank.
    pub handover_part: usize,
    /// Inodes of a subtree that moves at once; of a larger one, parts move first if it has directories that
    /// are large enough.
    pub handover_most: usize,
}

/// The least memory for the cache: an operation needs a few entries at once.
const MIN_CACHE_BYTES: u64 = 256 << 10;
/// The least number of entries, for the same reason.
const MIN_CACHE_INODES: usize = 100;

impl MdsOptions {
    /// Reads the options whose names begin with `mds_` and that limit a server (`decl::options`). One that is
    /// not set or does not parse keeps its default.
    pub fn from_values(values: &BTreeMap<String, String>) -> Self {
        let size = |name: &str| values.get(name).and_then(|v| decl::options::parse_size(v));
        let default = Self::default();
        let set = size("mds_cache_memory_limit");
        let bytes = set.unwrap_or(default.cache_bytes);
        let most = values.get("mds_cache_max_inodes").and_then(|v| v.trim().parse::<usize>().ok());
        let number = |name: &str| values.get(name).and_then(|v| v.trim().parse::<u64>().ok());
        let count = |name: &str| number(name).filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok());
        Self {
            cache_bytes: bytes.max(MIN_CACHE_BYTES),
            cache_grows: set.is_none(),
            spare_bytes: 0,
            cache_inodes: most.filter(|n| *n > 0).unwrap_or(default.cache_inodes).max(MIN_CACHE_INODES),
            split_size: number("mds_bal_split_size").filter(|n| *n > 0).unwrap_or(default.split_size),
            merge_size: number("mds_bal_merge_size").unwrap_or(default.merge_size),
            journal_bytes: size("mds_journal_limit").unwrap_or(default.journal_bytes).max(1 << 20),
            trim_warn_percent: (values.get("mds_log_warn_factor"))
                .and_then(|v| v.trim().parse::<f64>().ok())
                .filter(|factor| (1.0..=1000.0).contains(factor))
                .map_or(default.trim_warn_percent, |factor| (factor * 100.0) as u32),
            max_completed: (
                count("mds_max_completed_requests").unwrap_or(default.max_completed.0),
                count("mds_max_completed_flushes").unwrap_or(default.max_completed.1),
            ),
            balance_interval: number("mds_bal_interval")
                .filter(|s| *s > 0)
                .map_or(default.balance_interval, Duration::from_secs),
            balance_least: number("mds_bal_min_start").unwrap_or(default.balance_least),
            replicate_least: number("mds_bal_replicate_threshold").unwrap_or(default.replicate_least),
            journal_delay: default.journal_delay,
            handover_part: default.handover_part,
            handover_most: default.handover_most,
        }
    }

    /// Takes over what may change while a daemon runs: all but what its journal was opened with.
    pub(crate) fn take_limits(&mut self, limits: &Self) {
        *self = Self {
            spare_bytes: if limits.cache_grows { self.spare_bytes } else { 0 },
            journal_bytes: self.journal_bytes,
            trim_warn_percent: self.trim_warn_percent,
            journal_delay: self.journal_delay,
            handover_part: self.handover_part,
            handover_most: self.handover_most,
            ..limits.clone()
        };
    }
}

impl Default for MdsOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            cache_grows: true,
            spare_bytes: 0,
            cache_inodes: usize::MAX,
            split_size: 10_000,
            merge_size: 50,
            journal_bytes: 64 << 20,
            trim_warn_percent: 200,
            max_completed: (100_000, 100_000),
            balance_interval: Duration::from_secs(5),
            balance_least: 100,
            replicate_least: 0,
            journal_delay: Duration::from_millis(20),
            handover_part: 500,
            handover_most: 4000,
        }
    }
}
