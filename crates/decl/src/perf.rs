//! Performance counters of a daemon: what its `perf dump`, `perf schema`, `counter dump` and `counter schema`
//! say, in the form of Ceph's daemons, which `ceph-exporter` and `ceph daemonperf` read.
//!
//! A role keeps plain numbers. When it is asked, it lists them with what they mean ([`Groups`]); so each
//! counter is declared once, where its value is read.

use serde_json::{Map, Value, json};
use std::time::Duration;

/// How often something was done, and how long all of it took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mean {
    /// How often.
    pub count: u64,
    /// The time that all of it took.
    pub sum: Duration,
}

impl Mean {
    /// It was done once more.
    pub fn add(&mut self, took: Duration) {
        self.count += 1;
        self.sum += took;
    }
}

/// A counter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Amount {
    /// It only grows while the daemon runs.
    Count(u64),
    /// It is what there is at present.
    Gauge(u64),
    /// An average time.
    Mean(Mean),
}

/// What a number counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    None,
    Bytes,
}

#[derive(Debug)]
struct Counter {
    name: &'static str,
    help: &'static str,
    amount: Amount,
    unit: Unit,
}

/// Bits of Ceph's type of a counter.
const TIME: u8 = 1;
const U64: u8 = 2;
const LONG_RUN_AVERAGE: u8 = 4;
const COUNTER: u8 = 8;

/// Ceph's priority of a counter that is useful: exporters show those from here on.
const USEFUL: u8 = 5;

impl Counter {
    fn dump(&self) -> Value {
        match self.amount {
            Amount::Count(value) | Amount::Gauge(value) => value.into(),
            Amount::Mean(Mean { count, sum }) => {
                let sum = sum.as_secs_f64();
                json!({ "avgcount": count, "sum": sum, "avgtime": sum / count.max(1) as f64 })
            }
        }
    }

    fn schema(&self) -> Value {
        let (ty, metric, value) = match self.amount {
            Amount::Count(_) => (U64 | COUNTER, "counter", "integer"),
            Amount::Gauge(_) => (U64, "gauge", "integer"),
            Amount::Mean(_) => (TIME | LONG_RUN_AVERAGE, "gauge", "real-integer-pair"),
        };
        let unit = if self.unit == Unit::Bytes { "bytes" } else { "none" };
        json!({
            "type": ty, "metric_type": metric, "value_type": value,
            "description": self.help, "nick": "", "priority": USEFUL, "units": unit,
        })
    }
}

/// The counters of one part of a daemon.
#[derive(Debug)]
pub struct Group {
    name: &'static str,
    labels: Map<String, Value>,
    counters: Vec<Counter>,
}

impl Group {
    fn add(&mut self, name: &'static str, amount: Amount, unit: Unit, help: &'static str) -> &mut Self {
        assert!(self.counters.iter().all(|other| other.name != name), "{name} comes twice");
        self.counters.push(Counter { name, help, amount, unit });
        self
    }

    /// What its counters are about.
    pub fn label(&mut self, name: &str, value: String) -> &mut Self {
        self.labels.insert(name.to_owned(), value.into());
        self
    }

    /// A number that only grows.
    pub fn count(&mut self, name: &'static str, value: u64, help: &'static str) -> &mut Self {
        self.add(name, Amount::Count(value), Unit::None, help)
    }

    /// A number of bytes that only grows.
    pub fn count_bytes(&mut self, name: &'static str, value: u64, help: &'static str) -> &mut Self {
        self.add(name, Amount::Count(value), Unit::Bytes, help)
    }

    /// What there is at present.
    pub fn gauge(&mut self, name: &'static str, value: u64, help: &'static str) -> &mut Self {
        self.add(name, Amount::Gauge(value), Unit::None, help)
    }

    /// Bytes that there are at present.
    pub fn gauge_bytes(&mut self, name: &'static str, value: u64, help: &'static str) -> &mut Self {
        self.add(name, Amount::Gauge(value), Unit::Bytes, help)
    }

    /// How often something was done, and how long it took.
    pub fn mean(&mut self, name: &'static str, value: Mean, help: &'static str) -> &mut Self {
        self.add(name, Amount::Mean(value), Unit::None, help)
    }

    fn map(&self, of: impl Fn(&Counter) -> Value) -> Value {
        Value::Object(self.counters.iter().map(|c| (c.name.to_owned(), of(c))).collect())
    }
}

/// All counters of a daemon.
#[derive(Debug, Default)]
pub struct Groups(Vec<Group>);

/// The commands that [`Groups::command`] knows, in the notation of [`crate::sig`], with help.
pub const COMMANDS: &[(&str, &str)] = &[
    ("counter dump", "Shows the counters with their labels"),
    ("counter schema", "Shows what those counters mean"),
    ("perf dump", "Shows the counters"),
    ("perf schema", "Shows what those counters mean"),
];

/// True for one of [`COMMANDS`].
pub fn is_command(prefix: &str) -> bool {
    COMMANDS.iter().any(|(name, _)| *name == prefix)
}

impl Groups {
    /// Begins a group; each name comes once.
    pub fn group(&mut self, name: &'static str) -> &mut Group {
        assert!(self.0.iter().all(|other| other.name != name), "{name} comes twice");
        self.0.push(Group { name, labels: Map::new(), counters: Vec::new() });
        self.0.last_mut().expect("just added")
    }

    /// Goes on with a group, or begins it.
    pub fn more(&mut self, name: &'static str) -> &mut Group {
        match self.0.iter().position(|group| group.name == name) {
            Some(index) => &mut self.0[index],
            None => self.group(name),
        }
    }

    fn map(&self, of: impl Fn(&Group) -> Value) -> Map<String, Value> {
        self.0.iter().map(|group| (group.name.to_owned(), of(group))).collect()
    }

    /// The same with labels.
    fn labelled(&self, of: impl Fn(&Counter) -> Value) -> Map<String, Value> {
        self.map(|group| json!([{ "labels": group.labels, "counters": group.map(&of) }]))
    }

    /// The answer to one of [`COMMANDS`]; `None` if it is none of them.
    pub fn command(&self, prefix: &str) -> Option<Map<String, Value>> {
        Some(match prefix {
            "perf dump" => self.map(|group| group.map(Counter::dump)),
            "perf schema" => self.map(|group| group.map(Counter::schema)),
            "counter dump" => self.labelled(Counter::dump),
            "counter schema" => self.labelled(Counter::schema),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_told_as_by_ceph() {
        let mut groups = Groups::default();
        let mut took = Mean::default();
        took.add(Duration::from_millis(500));
        took.add(Duration::from_millis(1000));
        groups.group("osd").count("op", 7, "Operations").mean("op_latency", took, "Their time");
        groups.group("mds").label("rank", "0".to_owned());
        groups.more("mds").gauge_bytes("rss", 4096, "Memory");
        let told = |prefix: &str| Value::Object(groups.command(prefix).expect("a command"));
        let osd = json!({ "op": 7, "op_latency": { "avgcount": 2, "sum": 1.5, "avgtime": 0.75 } });
        assert_eq!(told("perf dump"), json!({ "osd": osd, "mds": { "rss": 4096 } }));
        assert_eq!(told("counter dump")["osd"], json!([{ "labels": {}, "counters": osd }]));
        let labelled = json!([{ "labels": { "rank": "0" }, "counters": { "rss": 4096 } }]);
        assert_eq!(told("counter dump")["mds"], labelled);
        let schema = told("counter schema");
        assert_eq!(schema["osd"][0]["counters"]["op"]["type"], 10);
        assert_eq!(schema["osd"][0]["counters"]["op_latency"]["type"], 5);
        let rss = &told("perf schema")["mds"]["rss"];
        assert_eq!(
            (&rss["metric_type"], &rss["units"], &rss["priority"]),
            (&json!("gauge"), &json!("bytes"), &json!(5))
        );
        assert!(COMMANDS.iter().all(|(name, _)| is_command(name) && groups.command(name).is_some()));
        assert!(groups.command("status").is_none());
    }
}
