//! Results: the rounds of each measurement, and what is told of them.

use super::args::{BenchArgs, Shape};
use super::histogram::Histogram;
use super::round::Unit;
use super::workers::Phase;
use serde_json::{Value, json};

/// What is said of caches, wherever results are shown.
pub(super) const CACHES: &str = "Before the first read of a file its pages are dropped from this kernel's \
    cache (fsync, posix_fadvise DONTNEED), as far as the file system heeds that; names are not, and caches \
    of servers and disks stay as they are.";

/// All rounds of one measurement.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) shape: Shape,
    pub(super) name: String,
    pub(super) unit: Unit,
    /// The rate of each round.
    pub(super) rates: Vec<f64>,
    pub(super) bytes: u64,
    pub(super) latencies: Histogram,
}

impl Measured {
    /// The rate in the middle.
    pub(super) fn median(&self) -> f64 {
        median(&self.rates)
    }

    pub(super) fn min(&self) -> f64 {
        self.rates.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(super) fn max(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// The median absolute deviation: half of the rounds are nearer to the median.
    fn deviation(&self) -> f64 {
        let median = self.median();
        self::median(&self.rates.iter().map(|rate| (rate - median).abs()).collect::<Vec<_>>())
    }

    /// A latency in microseconds.
    pub(super) fn percentile_us(&self, part: f64) -> f64 {
        self.latencies.percentile(part) as f64 / 1e3
    }

    fn json(&self) -> Value {
        json!({
            "shape": self.shape.name(),
            "name": self.name,
            "unit": self.unit.name(),
            "median": self.median(),
            "min": self.min(),
            "max": self.max(),
            "median_absolute_deviation": self.deviation(),
            "rounds": self.rates,
            "operations": self.latencies.total(),
            "bytes": self.bytes,
            "latency_us": {
                "p50": self.percentile_us(0.5),
                "p99": self.percentile_us(0.99),
                "p99.9": self.percentile_us(0.999),
                "max": self.latencies.longest() as f64 / 1e3,
            },
        })
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (len, half) if len % 2 == 0 => f64::midpoint(sorted[half - 1], sorted[half]),
        (_, half) => sorted[half],
    }
}

/// Adds a round of a shape to the results.
pub(super) fn add(results: &mut Vec<Measured>, shape: Shape, round: Vec<(String, Unit, Phase)>) {
    for (name, unit, phase) in round {
        let rate = unit.rate(&phase);
        match results.iter_mut().find(|m| m.shape == shape && m.name == name) {
            Some(measured) => {
                measured.rates.push(rate);
                measured.bytes += phase.bytes;
                measured.latencies.merge(&phase.latencies);
            }
            None => results.push(Measured {
                shape,
                name,
                unit,
                rates: vec![rate],
                bytes: phase.bytes,
                latencies: phase.latencies,
            }),
        }
    }
}

/// The results and how they were measured.
pub(super) fn json(args: &BenchArgs, file_system: &str, results: &[Measured]) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "dir": args.dir.display().to_string(),
        "file_system": file_system,
        "threads": args.threads,
        "files": args.files,
        "size": args.size,
        "ops": args.ops,
        "seed": args.seed,
        "rounds": args.rounds,
        "caches": CACHES,
        "results": results.iter().map(Measured::json).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(seconds: f64, bytes: u64, nanos: &[u64]) -> Phase {
        let mut latencies = Histogram::default();
        nanos.iter().for_each(|&n| latencies.add(n));
        Phase { seconds, bytes, latencies }
    }

    #[test]
    fn rounds_are_told_by_their_median_and_spread() {
        let mut results = Vec::new();
        for seconds in [1.0, 4.0, 2.0, 8.0] {
            let phase = phase(seconds, 8 << 20, &[1000, 2000]);
            add(&mut results, Shape::Fio, vec![("read".into(), Unit::Bytes, phase)]);
        }
        let [read] = &results[..] else { panic!("{results:?}") };
        assert_eq!(read.rates, [8.0, 2.0, 4.0, 1.0]);
        assert_eq!((read.median(), read.min(), read.max(), read.deviation()), (3.0, 1.0, 8.0, 1.5));
        assert_eq!((read.bytes, read.latencies.total()), (32 << 20, 8));
        add(&mut results, Shape::Mdtest, vec![("read".into(), Unit::Operations, phase(0.5, 0, &[1]))]);
        assert_eq!((results.len(), results[1].median()), (2, 2.0));
    }
}
