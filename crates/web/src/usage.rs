//! How much of hosts is used, beside what clients get for it: made of the totals that OSDs report.
//!
//! OSDs report every few seconds, at times of their own, so what an OSD does in a second is the difference of
//! its last two reports, whenever somebody looks. Processes are counted once, however many OSDs they hold.

use crate::value::{int, num, rows, text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Points of the charts.
const SAMPLES: usize = 120;
/// The time in seconds after which an OSD that reports nothing new does nothing.
const SILENT_FOR: u64 = 20;

/// What is known of each OSD and has been shown of hosts.
#[derive(Clone, Default)]
pub(crate) struct Usage {
    osds: BTreeMap<i64, Reported>,
    /// Oldest first.
    samples: VecDeque<Arc<Sample>>,
}

/// All hosts at one time.
struct Sample {
    at: u64,
    hosts: BTreeMap<String, HostUsage>,
}

/// Totals of an OSD and what grew of them in a second.
#[derive(Clone, Default)]
struct Reported {
    /// Seconds since 1970 at which it was first seen.
    seen: u64,
    at_ms: f64,
    pid: i64,
    totals: [f64; TOTALS.len()],
    rates: [f64; TOTALS.len()],
    /// Thousandths of a core that are used on its host, and that are not.
    host: [f64; 2],
}

/// What grows.
const TOTALS: [&str; 8] = [
    "process_cpu_ms",
    "net_in_bytes",
    "net_out_bytes",
    "disk_read_bytes",
    "disk_written_bytes",
    "ops",
    "client_read_bytes",
    "client_written_bytes",
];

/// What is told of an OSD's host.
const HOST: [&str; 2] = ["host_busy_millicores", "host_idle_millicores"];

/// What a host does in a second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct HostUsage {
    /// Cores in use, and all of them.
    pub cores: [f64; 2],
    /// Cores that OSDs' processes use.
    pub osd_cores: f64,
    /// Bytes that OSDs receive and send.
    pub net: [f64; 2],
    /// Bytes that they read from disks, and write.
    pub disk: [f64; 2],
    /// Requests of clients.
    pub ops: f64,
    /// Bytes that clients read and write.
    pub client: [f64; 2],
}

impl HostUsage {
    /// The names of [`Self::row`]'s columns, after the time.
    const FIELDS: [&str; 10] = [
        "cores_used",
        "cores",
        "osd_cores",
        "net_in_bytes",
        "net_out_bytes",
        "disk_read_bytes",
        "disk_written_bytes",
        "ops",
        "client_read_bytes",
        "client_written_bytes",
    ];

    fn row(&self) -> [f64; 10] {
        let Self { cores, osd_cores, net, disk, ops, client } = self;
        let all =
            [cores[0], cores[1], *osd_cores, net[0], net[1], disk[0], disk[1], *ops, client[0], client[1]];
        all.map(rounded)
    }

    fn add(&mut self, other: &Self) {
        self.osd_cores += other.osd_cores;
        self.ops += other.ops;
        let pairs = [
            (&mut self.cores, other.cores),
            (&mut self.net, other.net),
            (&mut self.disk, other.disk),
            (&mut self.client, other.client),
        ];
        for (sum, more) in pairs {
            sum[0] += more[0];
            sum[1] += more[1];
        }
    }
}

/// To three digits: what changes less is not worth telling.
pub(crate) fn rounded(value: f64) -> f64 {
    if value.abs() >= 100.0 {
        let unit = 10_f64.powf(value.abs().log10().floor() - 2.0);
        return ((value / unit).round() * unit).round();
    }
    (value * 100.0).round() / 100.0
}

impl Reported {
    /// Takes a report of an OSD, as `pg summary` has it.
    fn take(before: Option<&Self>, now: u64, of: impl Fn(&str) -> f64) -> Self {
        let (at_ms, pid, totals) = (of("at_ms"), of("pid") as i64, TOTALS.map(&of));
        let new = Self { seen: now, at_ms, pid, totals, rates: [0.0; TOTALS.len()], host: HOST.map(&of) };
        let Some(before) = before.filter(|b| b.pid == pid && b.at_ms <= at_ms) else { return new };
        if before.at_ms == at_ms {
            let is_silent = now.saturating_sub(before.seen) > SILENT_FOR;
            return if is_silent { Self { seen: before.seen, ..new } } else { before.clone() };
        }
        let seconds = (at_ms - before.at_ms) / 1000.0;
        // An OSD that began anew within its process counts from zero.
        let rates = std::array::from_fn(|i| (totals[i] - before.totals[i]).max(0.0) / seconds);
        Self { rates, ..new }
    }
}

impl Usage {
    /// The usage after another report of OSDs (`pg summary`), which are on these hosts.
    pub fn next(before: Option<&Self>, now: u64, summary: &Value, hosts: &BTreeMap<i64, &str>) -> Self {
        let fields: Vec<&str> = rows(&summary["used_fields"]).iter().map(text).collect();
        let mut next =
            Self { samples: before.map(|b| b.samples.clone()).unwrap_or_default(), ..Self::default() };
        for osd in rows(&summary["osds"]).iter().filter(|osd| osd["used"].is_array()) {
            let id = int(&osd["osd"]);
            let of = |name: &str| {
                let column = fields.iter().position(|field| *field == name);
                column.map_or(0.0, |column| num(&osd["used"][column]))
            };
            next.osds.insert(id, Reported::take(before.and_then(|b| b.osds.get(&id)), now, of));
        }
        let hosts = next.by_host(hosts);
        next.samples.push_back(Arc::new(Sample { at: now, hosts }));
        if next.samples.len() > SAMPLES {
            next.samples.pop_front();
        }
        next
    }

    fn by_host(&self, hosts: &BTreeMap<i64, &str>) -> BTreeMap<String, HostUsage> {
        let mut on: BTreeMap<&str, Vec<&Reported>> = BTreeMap::new();
        for (osd, reported) in &self.osds {
            if let Some(host) = hosts.get(osd) {
                on.entry(host).or_default().push(reported);
            }
        }
        on.into_iter().map(|(host, osds)| (host.to_owned(), of_host(&osds))).collect()
    }

    /// A host as it is now.
    pub fn of_host(&self, host: &str) -> Option<&HostUsage> {
        self.samples.back()?.hosts.get(host)
    }

    /// The chart of a host, or of all together.
    pub fn chart(&self, host: Option<&str>) -> Value {
        let row = |sample: &Arc<Sample>| {
            let mut sum = HostUsage::default();
            match host {
                Some(host) => sum = sample.hosts.get(host).copied().unwrap_or_default(),
                None => sample.hosts.values().for_each(|one| sum.add(one)),
            }
            let mut row = vec![json!(sample.at)];
            row.extend(sum.row().map(Value::from));
            Value::from(row)
        };
        let fields: Vec<&str> = std::iter::once("at").chain(HostUsage::FIELDS).collect();
        let hosts: Vec<&String> = self.samples.back().map(|s| s.hosts.keys().collect()).unwrap_or_default();
        json!({
            "host": host, "hosts": hosts, "sample_fields": fields,
            "samples": self.samples.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

/// The usage of a host with these OSDs.
fn of_host(osds: &[&Reported]) -> HostUsage {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let mut processes: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    let mut sums = [0.0; TOTALS.len()];
    for osd in osds {
        processes.entry(osd.pid).or_default().push(osd.rates[0]);
        sums.iter_mut().zip(osd.rates).for_each(|(sum, rate)| *sum += rate);
    }
    let [_, net_in, net_out, read, written, ops, client_read, client_written] = sums;
    let host = |i: usize| mean(&osds.iter().map(|osd| osd.host[i]).collect::<Vec<_>>()) / 1000.0;
    HostUsage {
        cores: [host(0), host(0) + host(1)],
        osd_cores: processes.values().map(|rates| mean(rates)).sum::<f64>() / 1000.0,
        net: [net_in, net_out],
        disk: [read, written],
        ops,
        client: [client_read, client_written],
    }
}

/// The columns of an OSD's report in `pg summary`, as monitors have them.
#[cfg(test)]
pub(crate) fn reported() -> Vec<&'static str> {
    [&["at_ms", "pid"][..], &TOTALS, &HOST].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports of OSDs: number, time in seconds, process, and how often it did what it does.
    fn summary(osds: &[(i64, u64, u64, u64)]) -> Value {
        let osd = |(id, at, pid, n): &(i64, u64, u64, u64)| {
            let totals = [100, 1000, 2000, 3000, 4000, 5, 600, 700].map(|one: u64| one * n);
            let used = [[at * 1000, *pid].as_slice(), &totals, &[1500, 2500]].concat();
            json!({ "osd": id, "used": used })
        };
        json!({ "used_fields": reported(), "osds": osds.iter().map(osd).collect::<Vec<_>>() })
    }

    fn follow(reports: &[(u64, Value)]) -> Usage {
        let hosts = [(0, "a"), (1, "a"), (2, "b")].into();
        let next = |usage: Option<Usage>, (now, told): &(u64, Value)| {
            Some(Usage::next(usage.as_ref(), *now, told, &hosts))
        };
        reports.iter().fold(None, next).expect("a report")
    }

    #[test]
    fn two_osds_of_a_process_use_it_once() {
        let began = summary(&[(0, 100, 7, 0), (1, 101, 7, 0), (2, 100, 8, 0)]);
        let later = summary(&[(0, 102, 7, 2), (1, 103, 7, 2), (2, 102, 8, 4)]);
        let usage = follow(&[(10, began), (12, later)]);
        let a = usage.of_host("a").expect("a host");
        assert_eq!((a.osd_cores, a.cores), (0.1, [1.5, 4.0]));
        assert_eq!((a.net, a.disk), ([2000.0, 4000.0], [6000.0, 8000.0]));
        assert_eq!((a.ops, a.client), (10.0, [1200.0, 1400.0]));
        assert_eq!(usage.of_host("b").map(|b| b.ops), Some(10.0));
        let all = usage.chart(None);
        assert_eq!(all["samples"][1][8], 20.0, "{all}");
        assert_eq!((&all["sample_fields"][8], &all["hosts"]), (&json!("ops"), &json!(["a", "b"])));
        assert_eq!(usage.chart(Some("b"))["samples"][1][8], 10.0);
        assert_eq!(usage.chart(Some("nowhere"))["samples"][1][8], 0.0);
    }

    #[test]
    fn rates_stay_until_the_next_report_and_end_with_reports() {
        let (began, later) = (summary(&[(2, 100, 8, 0)]), summary(&[(2, 104, 8, 4)]));
        let rate = |reports: &[(u64, Value)]| follow(reports).of_host("b").map(|b| b.ops);
        let mut reports = vec![(10, began), (12, later.clone()), (14, later.clone()), (30, later.clone())];
        assert_eq!(rate(&reports), Some(5.0));
        reports.push((34, later));
        assert_eq!(rate(&reports), Some(0.0));
        // It began anew.
        reports.extend([(36, summary(&[(2, 1, 9, 1)])), (38, summary(&[(2, 3, 9, 3)]))]);
        assert_eq!(rate(&reports), Some(5.0));
        assert_eq!(rate(&[(10, json!({ "osds": [{ "osd": 2, "used": null }] }))]), None);
    }

    #[test]
    fn numbers_are_told_to_three_digits() {
        let told = [0.0, 1.234, 99.999, 123.4, 123_456.0, 9_999_999.0].map(rounded);
        assert_eq!(told, [0.0, 1.23, 100.0, 123.0, 123_000.0, 10_000_000.0]);
    }
}
