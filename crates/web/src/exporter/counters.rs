//! From what daemons say of their counters to Prometheus' text.

use crate::metrics::text::Exposition;
use crate::value::{fields, int, num, rows, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// Counters that monitors tell of all daemons at port 9283. Who scrapes both, as Ceph's dashboards expect,
/// and adds them up must have each once; and Ceph's rule on uneven PGs finds them only beside
/// `ceph_osd_metadata`.
const TOLD_BY_MONITORS: [&str; 3] = ["ceph_osd_numpg", "ceph_osd_stat_bytes", "ceph_osd_stat_bytes_used"];

/// The bit of Ceph's types that marks an average.
const LONG_RUN_AVERAGE: i64 = 4;

/// What a daemon said.
pub(super) struct Told {
    pub daemon: String,
    /// Its counters and what they mean; none if it did not answer.
    pub answers: Option<(Value, Value)>,
}

/// A metric with its samples.
struct Metric {
    kind: &'static str,
    help: String,
    samples: Vec<(Vec<(String, String)>, f64)>,
}

/// All metrics, by name.
#[derive(Default)]
struct Metrics(BTreeMap<String, Metric>);

impl Metrics {
    fn add(
        &mut self,
        (name, kind): (String, &'static str),
        help: &str,
        labels: &[(String, String)],
        value: f64,
    ) {
        if TOLD_BY_MONITORS.contains(&name.as_str()) {
            return;
        }
        let new = || Metric { kind, help: help.to_owned(), samples: Vec::new() };
        self.0.entry(name).or_insert_with(new).samples.push((labels.to_vec(), value));
    }
}

/// True for what Prometheus takes as a name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The text. Counters of a priority below `prio` are left out.
pub(super) fn exposition(hostname: &str, told: &[Told], prio: i64) -> String {
    let mut metrics = Metrics::default();
    for Told { daemon, answers } in told {
        let labels = [("ceph_daemon", daemon.as_str()), ("hostname", hostname)];
        let labels: Vec<(String, String)> = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
        let up = f64::from(u8::from(answers.is_some()));
        let name = ("ceph_daemon_socket_up".to_owned(), "gauge");
        metrics.add(name, "Daemons that answer on their admin sockets", &labels, up);
        if let Some((dump, schema)) = answers {
            for (group, parts) in fields(schema) {
                let told = rows(&dump[group.as_str()]);
                for (part, told) in rows(parts).iter().zip(told) {
                    put_part(group, (part, told), &labels, prio, &mut metrics);
                }
            }
        }
    }
    let mut out = Exposition::default();
    for (name, metric) in &metrics.0 {
        let mut family = out.family(name, metric.kind, &metric.help);
        for (labels, value) in &metric.samples {
            let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            family.add(&labels, *value);
        }
    }
    out.finish()
}

/// One set of labels of a group: what its counters mean, and their values.
fn put_part(
    group: &str,
    (part, told): (&Value, &Value),
    common: &[(String, String)],
    prio: i64,
    metrics: &mut Metrics,
) {
    let own = fields(&part["labels"]).map(|(name, value)| (name.clone(), text_of(value)));
    let labels: Vec<(String, String)> = common.iter().cloned().chain(own).collect();
    for (counter, meaning) in fields(&part["counters"]) {
        let name = format!("ceph_{group}_{counter}").replace(['-', '.', ' ', ':'], "_");
        if int(&meaning["priority"]) < prio || !is_name(&name) {
            continue;
        }
        let (help, value) = (text(&meaning["description"]), &told["counters"][counter.as_str()]);
        if int(&meaning["type"]) & LONG_RUN_AVERAGE != 0 {
            metrics.add((format!("{name}_sum"), "counter"), help, &labels, num(&value["sum"]));
            metrics.add((format!("{name}_count"), "counter"), help, &labels, num(&value["avgcount"]));
        } else if let Some(value) = value.as_f64() {
            let kind = if meaning["metric_type"] == "counter" { "counter" } else { "gauge" };
            metrics.add((name, kind), help, &labels, value);
        }
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
