//! What the cluster's commands say, read together.

use crate::monitors::{Monitors, Refused};
use crate::usage::Usage;
use crate::value::{int, num, rows, text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time for which all who ask are shown the same.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// The time after which what daemons say of themselves is read again, though no map has changed.
const METADATA_TTL: Duration = Duration::from_secs(60);
/// Points of the charts: half an hour, if somebody looks all the time.
const SAMPLES: usize = 900;
/// Lines of the cluster log.
const LOG_LINES: u64 = 200;

/// What daemons say of themselves, and the maps. Read when a map's epoch has changed.
pub(crate) struct Maps {
    epochs: [i64; 3],
    read_at: Instant,
    /// `osd dump`.
    pub osdmap: Value,
    /// `osd tree`.
    pub tree: Value,
    /// `osd metadata`, by OSD.
    pub osd_metadata: BTreeMap<i64, Value>,
    /// `fs dump`.
    pub fsmap: Value,
    /// `mds metadata`, by name.
    pub mds_metadata: BTreeMap<String, Value>,
    /// `mon dump`.
    pub monmap: Value,
    /// `mon metadata`, by name.
    pub mon_metadata: BTreeMap<String, Value>,
}

/// A point of the charts.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Sample {
    /// Seconds since 1970.
    pub at: u64,
    /// Bytes a second that clients read, write, and that recovery writes.
    pub bytes: [f64; 3],
    /// Operations a second that read and that write.
    pub ops: [f64; 2],
    /// The median, the 99th percentile and the largest of OSDs' commit latencies, in milliseconds.
    pub commit_ms: [f64; 3],
}

/// The cluster at one time.
pub(crate) struct Facts {
    /// Seconds since 1970 at which it was read.
    pub at: u64,
    /// Time that reading took.
    pub took: Duration,
    /// `status`.
    pub status: Value,
    /// `health detail`.
    pub health: Value,
    /// Codes that were raised since this process looks.
    pub ever_raised: BTreeMap<String, String>,
    /// `df detail`.
    pub df: Value,
    /// `pg summary`.
    pub summary: Value,
    /// `quorum_status`.
    pub quorum: Value,
    /// `mgr dump`.
    pub mgrmap: Value,
    /// `mgr metadata`, by name.
    pub mgr_metadata: BTreeMap<String, Value>,
    /// `mgr module ls`.
    pub modules: Value,
    /// The last lines of the cluster log.
    pub log: Value,
    /// See there.
    pub maps: Arc<Maps>,
    /// The charts, oldest first.
    pub samples: VecDeque<Sample>,
    /// How much of hosts is used.
    pub usage: Usage,
}

fn by_name(list: &Value) -> BTreeMap<String, Value> {
    rows(list).iter().map(|one| (text(&one["name"]).to_owned(), one.clone())).collect()
}

impl Maps {
    fn read(monitors: &dyn Monitors, epochs: [i64; 3]) -> Result<Self, Refused> {
        let ask = |prefix: &str| monitors.ask(json!({ "prefix": prefix }));
        let osd_metadata = ask("osd metadata")?;
        Ok(Self {
            epochs,
            read_at: Instant::now(),
            osdmap: ask("osd dump")?,
            tree: ask("osd tree")?,
            osd_metadata: rows(&osd_metadata).iter().map(|m| (int(&m["id"]), m.clone())).collect(),
            fsmap: ask("fs dump")?,
            mds_metadata: by_name(&ask("mds metadata")?),
            monmap: ask("mon dump")?,
            mon_metadata: by_name(&ask("mon metadata")?),
        })
    }
}

impl Facts {
    /// Reads everything; maps only if they have changed.
    pub fn read(monitors: &dyn Monitors, before: Option<&Self>) -> Result<Self, Refused> {
        let began = Instant::now();
        let ask = |prefix: &str| monitors.ask(json!({ "prefix": prefix }));
        let status = ask("status")?;
        let epochs = ["osdmap", "fsmap", "monmap"].map(|map| int(&status[map]["epoch"]));
        let fresh = |m: &&Arc<Maps>| m.epochs == epochs && m.read_at.elapsed() < METADATA_TTL;
        let maps = match before.map(|b| &b.maps).filter(fresh) {
            Some(maps) => Arc::clone(maps),
            None => Arc::new(Maps::read(monitors, epochs)?),
        };
        let health = monitors.ask(json!({ "prefix": "health", "detail": "detail" }))?;
        let mut ever_raised = before.map(|b| b.ever_raised.clone()).unwrap_or_default();
        for (code, check) in crate::value::fields(&health["checks"]) {
            ever_raised.insert(code.clone(), text(&check["severity"]).to_owned());
        }
        let log = json!({ "prefix": "log last", "num": LOG_LINES, "level": "info", "channel": "*" });
        let mut facts = Self {
            at: crate::clock::now(),
            took: Duration::ZERO,
            health,
            ever_raised,
            df: monitors.ask(json!({ "prefix": "df", "detail": "detail" }))?,
            summary: ask("pg summary")?,
            quorum: ask("quorum_status")?,
            mgrmap: ask("mgr dump")?,
            mgr_metadata: by_name(&ask("mgr metadata")?),
            modules: ask("mgr module ls")?,
            log: monitors.ask(log)?,
            status,
            maps,
            samples: before.map(|b| b.samples.clone()).unwrap_or_default(),
            usage: Usage::default(),
        };
        facts.usage = Usage::next(before.map(|b| &b.usage), facts.at, &facts.summary, &facts.hosts_of_osds());
        facts.samples.push_back(facts.sample());
        if facts.samples.len() > SAMPLES {
            facts.samples.pop_front();
        }
        if let Some(before) = before {
            crate::steady::keep_up(&mut facts.df, &before.df);
        }
        facts.took = began.elapsed();
        Ok(facts)
    }

    fn sample(&self) -> Sample {
        let pgmap = &self.status["pgmap"];
        let rate = |name: &str| num(&pgmap[name]);
        let mut latencies: Vec<f64> =
            rows(&self.summary["osds"]).iter().map(|osd| num(&osd["commit_latency_ms"])).collect();
        latencies.sort_by(f64::total_cmp);
        let part = |of: f64| match latencies.len() {
            0 => 0.0,
            n => latencies[((n - 1) as f64 * of).ceil() as usize],
        };
        Sample {
            at: self.at,
            bytes: ["read_bytes_sec", "write_bytes_sec", "recovering_bytes_per_sec"].map(rate),
            ops: ["read_op_per_sec", "write_op_per_sec"].map(rate),
            commit_ms: [part(0.5), part(0.99), part(1.0)],
        }
    }

    /// What an OSD reported, by OSD.
    pub fn osd_reports(&self) -> BTreeMap<i64, &Value> {
        rows(&self.summary["osds"]).iter().map(|osd| (int(&osd["osd"]), osd)).collect()
    }

    /// The names of the buckets that hold each OSD directly.
    pub fn hosts_of_osds(&self) -> BTreeMap<i64, &str> {
        let nodes = rows(&self.maps.tree["nodes"]).iter();
        let buckets = nodes.filter(|node| text(&node["type"]) == "host");
        buckets
            .flat_map(|host| rows(&host["children"]).iter().map(move |osd| (int(osd), text(&host["name"]))))
            .collect()
    }

    /// The flags of the OSD map.
    pub fn flags(&self) -> BTreeSet<&str> {
        text(&self.maps.osdmap["flags"]).split(',').collect()
    }

    /// The classes of devices.
    pub fn classes(&self) -> BTreeMap<i64, &str> {
        let nodes = rows(&self.maps.tree["nodes"]).iter();
        nodes.map(|node| (int(&node["id"]), text(&node["device_class"]))).collect()
    }
}
