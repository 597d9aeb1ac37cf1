//! Results of runs, for people and for programs.

use super::{Counted, Direction, Measured, MetadataSpec, run};
use serde_json::{Value, json};

/// Runs that belong together.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One run each.
    pub runs: Vec<Measured>,
}

impl Report {
    /// Runs these one after another. `tell` gets each as a line of a table, after its head; with `seconds`,
    /// also a line for each second.
    pub fn of(
        specs: impl IntoIterator<Item = MetadataSpec>,
        seconds: bool,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, String> {
        let mut report = Self::default();
        tell(HEAD);
        for spec in specs {
            let mut each = |second: u64, counted: &Counted| {
                if seconds {
                    tell(&second_line(second, &spec, counted));
                }
            };
            let measured = run(&spec, &mut each)?;
            let first = report.runs.iter().find(|run| run.spec.workload == spec.workload);
            tell(&line(&measured, first.unwrap_or(&measured)));
            report.runs.push(measured);
        }
        Ok(report)
    }

    /// The report as JSON, for programs.
    pub fn json(&self) -> Value {
        Value::Array(self.runs.iter().map(as_json).collect())
    }
}

/// Kinds of messages of the busiest server that are told.
const MOST_KINDS: usize = 6;
const HEAD: &str = "| workload | ranks | clients | requests/s of each rank | of the smallest \
     | processors: mean, \
     most / mean | forwarded | messages between ranks, a request | moves | ms: mean, median, 99 % |\n\
     |---|---|---|---|---|---|---|---|---|---|";

fn line(m: &Measured, first: &Measured) -> String {
    let total = m.counted.total().max(1) as f64;
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    format!(
        "| {} | {} | {} | {:.0} | {:.2} | {:.2}, {:.2} | {:.2} % | {:.3} | {} | {:.1}, {:.1}, {:.1} |",
        m.spec.workload.name(),
        m.spec.ranks,
        m.spec.ranks * m.spec.clients_each,
        m.each(),
        m.each() / first.each(),
        m.busy(),
        m.unevenness(),
        m.counted.forwarded as f64 / total * 100.0,
        m.counted.between_ranks as f64 / total,
        m.counted.moved,
        ms(m.mean_latency()),
        ms(m.latency(50)),
        ms(m.latency(99)),
    )
}

fn second_line(second: u64, spec: &MetadataSpec, counted: &Counted) -> String {
    let used = counted.used.values().map(|used| used.as_secs_f64());
    let (most, all) = used.fold((0.0f64, 0.0), |(most, all), used| (most.max(used), all + used));
    format!(
        "  second {second}: {} requests, {} for each rank; processors {:.2} in the mean, {most:.2} at most; \
         {} forwarded, {} between ranks, {} moves; the busiest: {}",
        counted.total(),
        counted.total() / u64::from(spec.ranks),
        all / f64::from(spec.ranks),
        counted.forwarded,
        counted.between_ranks,
        counted.moved,
        kinds_of_busiest(counted)
    )
}

/// What the server whose processor worked most received and sent most.
pub(super) fn kinds_of_busiest(counted: &Counted) -> String {
    let name = |direction| if direction == Direction::In { "in" } else { "out" };
    let busiest = counted.of_busiest().into_iter().take(MOST_KINDS);
    let busiest: Vec<String> =
        busiest.map(|((direction, kind), n)| format!("{n} {} {kind}", name(direction))).collect();
    busiest.join(", ")
}

fn as_json(m: &Measured) -> Value {
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    json!({
        "workload": m.spec.workload.name(), "ranks": m.spec.ranks, "clients_each": m.spec.clients_each,
        "seed": m.spec.seed, "requests_each": m.each(), "busy": m.busy(), "unevenness": m.unevenness(),
        "forwarded": m.counted.forwarded, "between_ranks": m.counted.between_ranks, "moved": m.counted.moved,
        "mean_ms": ms(m.mean_latency()), "median_ms": ms(m.latency(50)), "p99_ms": ms(m.latency(99)),
        "seconds": m.seconds,
    })
}
