//! The counts of a run, for people and for programs.

use super::tally::{Count, Flows, Way};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Simulated time until every OSD had the map.
    pub took: Duration,
    /// Simulated time over which was counted.
    pub counted: Duration,
    /// Epochs of the OSD map.
    pub epochs: u32,
    /// Bytes of their incrementals, each counted once.
    pub incrementals: u64,
    /// Messages of all kinds.
    pub flows: Flows,
    /// Bytes that monitors sent to the busiest OSD.
    pub most_taken: u64,
    /// Other findings, with their units.
    pub facts: Vec<(&'static str, f64)>,
    /// Processor time of everything.
    pub cpu: Duration,
    /// Processor time of each monitor.
    pub mon_cpu: Vec<Duration>,
}

impl Phase {
    /// The count of one kind of message.
    pub fn count(&self, way: Way, kind: &str) -> Count {
        let found = self.flows.iter().find(|((w, k), _)| *w == way && *k == kind);
        found.map_or(Count::default(), |(_, count)| *count)
    }

    /// A measured fact by name; panics if the phase did not measure it.
    pub fn fact(&self, name: &str) -> f64 {
        self.facts.iter().find(|(n, _)| *n == name).expect("a finding of this phase").1
    }

    /// All messages that go one way.
    pub fn all(&self, way: Way) -> Count {
        let counts = self.flows.iter().filter(|((w, _), _)| *w == way).map(|(_, count)| count);
        counts.fold(Count::default(), |sum, c| Count {
            messages: sum.messages + c.messages,
            bytes: sum.bytes + c.bytes,
        })
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Number of OSDs.
    pub osds: u32,
    /// Number of monitors.
    pub mons: u32,
    /// Number of PGs.
    pub pgs: u32,
    /// True if the OSDs were real.
    pub real: bool,
    /// The phases, in order.
    pub phases: Vec<Phase>,
}

impl Report {
    /// A phase by a part of its name; panics if there is none.
    pub fn phase(&self, name: &str) -> &Phase {
        self.phases.iter().find(|p| p.name.contains(name)).expect("a phase of this name")
    }

    /// The report as JSON, for programs.
    pub fn json(&self) -> Value {
        let phase = |p: &Phase| {
            let flow = |((way, kind), c): (&(Way, &str), &Count)| {
                let way = way.name();
                json!({ "way": way, "kind": kind, "messages": c.messages, "bytes": c.bytes })
            };
            let flows: Vec<Value> = p.flows.iter().map(flow).collect();
            let facts: serde_json::Map<_, _> =
                p.facts.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
            json!({ "name": p.name, "simulated_s": p.took.as_secs_f64(), "counted_s": p.counted.as_secs_f64(),
                "epochs": p.epochs, "incremental_bytes": p.incrementals, "most_bytes_to_an_osd": p.most_taken,
                "facts": facts, "cpu_s": p.cpu.as_secs_f64(),
                "mon_cpu_s": p.mon_cpu.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(),
                "flows": flows })
        };
        json!({ "osds": self.osds, "mons": self.mons, "pgs": self.pgs, "real": self.real,
            "phases": self.phases.iter().map(phase).collect::<Vec<_>>() })
    }

    /// A phase for people.
    pub fn table<'a>(osds: u32, phase: &'a Phase) -> impl fmt::Display + 'a {
        Table { osds, phase }
    }
}

struct Table<'a> {
    osds: u32,
    phase: &'a Phase,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = self.phase;
        writeln!(
            f,
            "{}: {:.3} simulated seconds (counted over {:.3}), {} epochs, {} bytes of incrementals",
            p.name,
            p.took.as_secs_f64(),
            p.counted.as_secs_f64(),
            p.epochs,
            p.incrementals
        )?;
        for (name, value) in &p.facts {
            writeln!(f, "  {name}: {value:.3}")?;
        }
        writeln!(f, "  most bytes from monitors to one OSD: {}", p.most_taken)?;
        if !p.cpu.is_zero() {
            let mons: Vec<String> = p.mon_cpu.iter().map(|c| format!("{:.2}", c.as_secs_f64())).collect();
            writeln!(f, "  CPU-seconds: {:.1}, of monitors {}", p.cpu.as_secs_f64(), mons.join(" "))?;
        }
        writeln!(
            f,
            "  {:<20} {:<20} {:>12} {:>16} {:>10} {:>12}",
            "", "", "messages", "bytes", "per OSD", "bytes"
        )?;
        for ((way, kind), count) in &p.flows {
            let each = |n: u64| n as f64 / f64::from(self.osds.max(1));
            writeln!(
                f,
                "  {:<20} {kind:<20} {:>12} {:>16} {:>10.2} {:>12.0}",
                way.name(),
                count.messages,
                count.bytes,
                each(count.messages),
                each(count.bytes)
            )?;
        }
        Ok(())
    }
}
