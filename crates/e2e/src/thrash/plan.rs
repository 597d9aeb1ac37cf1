//! Parameters and results of a run.

use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of all choices.
    pub seed: u64,
    /// Duration.
    pub time: Duration,
    /// Monitors.
    pub mons: u32,
    /// OSDs, each on a host of its own if this machine allows to make hosts.
    pub osds: u32,
    /// True if the pools' numbers of PGs are doubled now and then.
    pub splits: bool,
    /// True if bits are flipped on devices of OSDs that are stopped.
    pub flips: bool,
    /// Prints each step on standard error.
    pub tells: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 1,
            time: Duration::from_secs(60),
            mons: 3,
            osds: 4,
            splits: false,
            flips: false,
            tells: true,
        }
    }
}

/// Results of a run.
#[derive(Debug, Default)]
pub struct Done {
    /// Number of faults by name.
    pub counts: BTreeMap<&'static str, u32>,
    /// The writers' report.
    pub writers: Value,
    /// Runs of `rados bench`.
    pub benches: u32,
    /// The longest that it took until all was active and clean after everything was mended.
    pub longest_recovery: Duration,
}

impl Done {
    /// In one line, as the log of runs has it.
    pub fn line(&self) -> String {
        let counts: Vec<String> = self.counts.iter().map(|(name, n)| format!("{n} {name}")).collect();
        let said = |name: &str| self.writers[name].as_u64().unwrap_or(0);
        format!(
            "{} s: {}; {} operations, longest {:.1} s, {} states of objects verified; {} runs of rados bench; recovered in at most {:.0} s",
            said("seconds"),
            counts.join(", "),
            said("operations"),
            said("longest_ms") as f64 / 1000.0,
            said("verified"),
            self.benches,
            self.longest_recovery.as_secs_f64(),
        )
    }
}
