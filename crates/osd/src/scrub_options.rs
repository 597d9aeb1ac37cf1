//! Schedule and limits of scrubs.

use std::time::Duration;

/// Schedule and limits of scrubs; names of options are Ceph's.
#[derive(Clone, Debug)]
pub struct ScrubOptions {
    /// Number of PGs scrubbed at once (`osd_max_scrubs`).
    pub at_once: usize,
    /// Interval between light scrubs (`osd_scrub_min_interval`).
    pub min_interval: Duration,
    /// The longest time between two light scrubs (`osd_scrub_max_interval`).
    pub max_interval: Duration,
    /// Interval between deep scrubs (`osd_deep_scrub_interval`).
    pub deep_interval: Duration,
    /// Light scrubs are delayed by up to this part of their interval, differently for each PG
    /// (`osd_scrub_interval_randomize_ratio`).
    pub randomize_ratio: f64,
    /// Objects of one chunk (`osd_scrub_chunk_max`).
    pub chunk_max: usize,
    /// Bytes read at once (`osd_deep_scrub_stride`).
    pub stride: u64,
    /// Additional pause between two chunks (`osd_scrub_sleep`).
    pub sleep: Duration,
    /// True if scrubs repair (`osd_scrub_auto_repair`) …
    pub auto_repair: bool,
    /// … provided that one finds no more damaged objects than this (`osd_scrub_auto_repair_num_errors`).
    pub auto_repair_errors: usize,
}

impl Default for ScrubOptions {
    fn default() -> Self {
        Self {
            at_once: 1,
            min_interval: Duration::from_secs(86_400),
            max_interval: Duration::from_secs(604_800),
            deep_interval: Duration::from_secs(604_800),
            randomize_ratio: 0.5,
            chunk_max: 25,
            stride: 512 << 10,
            sleep: Duration::ZERO,
            auto_repair: true,
            auto_repair_errors: 5,
        }
    }
}

impl ScrubOptions {
    /// Applies changed options.
    pub fn apply(&mut self, settings: &decl::Settings) {
        let default = Self::default();
        let set = |name: &str| settings.set_value(name).map(|(value, _)| value.to_owned());
        let size = |name: &str| settings.size(name);
        let count = |name: &str| settings.count(name);
        let secs = |name: &str| settings.secs(name);
        let long = |name: &str| secs(name).filter(|s| *s >= Duration::from_secs(1));
        let ratio = |name: &str| set(name).and_then(|v| v.trim().parse::<f64>().ok());
        self.at_once = count("osd_max_scrubs").filter(|n| *n > 0).unwrap_or(default.at_once);
        self.min_interval = long("osd_scrub_min_interval").unwrap_or(default.min_interval);
        self.max_interval = long("osd_scrub_max_interval").unwrap_or(default.max_interval);
        self.deep_interval = long("osd_deep_scrub_interval").unwrap_or(default.deep_interval);
        self.randomize_ratio = ratio("osd_scrub_interval_randomize_ratio")
            .filter(|r| (0.0..=10.0).contains(r))
            .unwrap_or(default.randomize_ratio);
        self.chunk_max =
            count("osd_scrub_chunk_max").filter(|n| (1..=1000).contains(n)).unwrap_or(default.chunk_max);
        self.stride =
            size("osd_deep_scrub_stride").filter(|n| (4096..=64 << 20).contains(n)).unwrap_or(default.stride);
        self.sleep =
            secs("osd_scrub_sleep").filter(|s| *s <= Duration::from_secs(60)).unwrap_or(default.sleep);
        self.auto_repair = set("osd_scrub_auto_repair")
            .and_then(|v| decl::options::parse_bool(&v))
            .unwrap_or(default.auto_repair);
        self.auto_repair_errors =
            count("osd_scrub_auto_repair_num_errors").unwrap_or(default.auto_repair_errors);
    }

    /// Objects of one chunk: fewer for a deep scrub, because updates wait for it.
    pub fn chunk(&self, deep: bool) -> usize {
        if deep { (self.chunk_max / 5).max(1) } else { self.chunk_max }
    }
}
