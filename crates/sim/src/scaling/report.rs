//! Results of runs, for people and for programs.

use super::{Measured, ScalingSpec, Who, run};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Runs that belong together.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// With growing numbers of writes in flight, on few OSDs and on many.
    pub loads: Vec<Measured>,
    /// Runs with growing numbers of OSDs.
    pub sizes: Vec<Measured>,
    /// With growing numbers of PGs on the same OSDs, placed by CRUSH and balanced.
    pub placements: Vec<Measured>,
    /// Runs with growing numbers of copies.
    pub copies: Vec<Measured>,
}

impl Report {
    /// All runs of `cargo xtask sim --scaling MOST`. `tell` gets each as a line of a table, under headings.
    pub fn of(most: u32, tell: &mut dyn FnMut(&str)) -> Result<Self, String> {
        let mut report = Self::default();
        tell(&size_head());
        for in_flight in [1, 4, 16, 64] {
            for osds in [2, most.clamp(2, 8)] {
                let measured = run(&ScalingSpec { in_flight, ..ScalingSpec::of(osds, 2) })?;
                let first = report.loads.last().filter(|m| m.spec.in_flight == in_flight);
                tell(&size_line(&measured, first.unwrap_or(&measured)));
                report.loads.push(measured);
            }
        }
        tell("");
        tell(&size_head());
        for (write, most_copies) in [(64 << 10, 3u32), (4 << 10, 2)] {
            for copies in 1..=most_copies {
                let mut osds = copies.next_power_of_two();
                while osds <= most {
                    let measured = run(&ScalingSpec { write, ..ScalingSpec::of(osds, copies) })?;
                    let first = report.sizes.iter().find(|m| is_same_but_for_size(m, &measured));
                    tell(&size_line(&measured, first.unwrap_or(&measured)));
                    report.sizes.push(measured);
                    osds *= 2;
                }
            }
        }
        tell(&placement_head());
        for (pgs_each, balanced) in [(8, false), (32, false), (128, false), (128, true)] {
            let measured = run(&ScalingSpec { pgs_each, balanced, ..ScalingSpec::of(most, most.min(2)) })?;
            tell(&placement_line(&measured));
            report.placements.push(measured);
        }
        for copies in 1..=most.min(5) {
            let light = ScalingSpec { write: 4 << 10, in_flight: 4, ..ScalingSpec::of(most.min(8), copies) };
            let measured = run(&light)?;
            tell(&format!("\n{}", flow_table(&measured)));
            report.copies.push(measured);
        }
        Ok(report)
    }

    /// The report as JSON, for programs.
    pub fn json(&self) -> Value {
        let all = |runs: &[Measured]| runs.iter().map(as_json).collect::<Vec<_>>();
        json!({
            "loads": all(&self.loads), "sizes": all(&self.sizes),
            "placements": all(&self.placements), "copies": all(&self.copies),
        })
    }
}

fn is_same_but_for_size(a: &Measured, b: &Measured) -> bool {
    (a.spec.write, a.spec.copies) == (b.spec.write, b.spec.copies)
}

fn size_head() -> String {
    "| bytes | copies | OSDs | in flight for each | writes/s | MB/s for each OSD | of the smallest \
     | PGs: most / mean | disk: mean, most | card: mean, most | ms: median, 99 % |\n\
     |---|---|---|---|---|---|---|---|---|---|---|"
        .to_owned()
}

fn size_line(m: &Measured, first: &Measured) -> String {
    let (disk, card) = (m.load(|w| w.disk), m.load(|w| w.sending.max(w.receiving)));
    let ms = |percent| m.latency(percent).as_secs_f64() * 1e3;
    format!(
        "| {} | {} | {} | {} | {:.0} | {:.2} | {:.3} | {:.3} | {:.2}, {:.2} | {:.2}, {:.2} | {:.1}, {:.1} |",
        m.spec.write,
        m.spec.copies,
        m.spec.osds,
        m.spec.clients_each * m.spec.in_flight,
        m.a_second,
        m.rate() / 1e6,
        m.rate() / first.rate(),
        m.imbalance(),
        disk.0,
        disk.1,
        card.0,
        card.1,
        ms(50),
        ms(99)
    )
}

fn placement_head() -> String {
    "\n| OSDs | copies | PGs on each OSD | placed by | MB/s for each OSD | PGs: most / mean \
     | disk: mean, most |\n\
     |---|---|---|---|---|---|---|"
        .to_owned()
}

fn placement_line(m: &Measured) -> String {
    let disk = m.load(|w| w.disk);
    let mean = f64::from(m.pgs.iter().sum::<u32>()) / f64::from(m.spec.osds);
    let by = if m.spec.balanced { "CRUSH and balancer" } else { "CRUSH" };
    format!(
        "| {} | {} | {mean:.0} | {by} | {:.2} | {:.3} | {:.2}, {:.2} |",
        m.spec.osds,
        m.spec.copies,
        m.rate() / 1e6,
        m.imbalance(),
        disk.0,
        disk.1
    )
}

/// Kinds of messages that belong to writes; all others come by the clock.
const OF_WRITES: [&str; 4] = ["osd_op", "rep_op", "rep_op_reply", "osd_op_reply"];

fn flow_table(m: &Measured) -> String {
    let mut out = format!("{} copies, writes of {} bytes\n", m.spec.copies, m.spec.write);
    let (writes, seconds) = (m.writes.max(1) as f64, m.spec.counted.as_secs_f64());
    let (mut messages, mut bytes) = (0.0, 0.0);
    for ((from, to, kind), carried) in m.flows.iter().filter(|((_, _, kind), _)| OF_WRITES.contains(kind)) {
        let each = (carried.messages as f64 / writes, carried.bytes as f64 / writes);
        (messages, bytes) = (messages + each.0, bytes + each.1);
        let mean = carried.bytes as f64 / carried.messages.max(1) as f64;
        let _ = writeln!(
            out,
            "  {:<18} {kind:<16} {:>8.4} for each write, {mean:>8.0} bytes",
            way(*from, *to),
            each.0
        );
    }
    let _ = writeln!(out, "  in all {messages:.4} messages and {bytes:.0} bytes for each write");
    for ((from, to, kind), carried) in m.flows.iter().filter(|((_, _, kind), _)| !OF_WRITES.contains(kind)) {
        let a_second = |n: u64| n as f64 / seconds / f64::from(m.spec.osds);
        let _ = writeln!(
            out,
            "  {:<18} {kind:<16} {:>8.2} a second for each OSD, {:.0} bytes",
            way(*from, *to),
            a_second(carried.messages),
            a_second(carried.bytes)
        );
    }
    out
}

fn way(from: Who, to: Who) -> String {
    let name = |who| match who {
        Who::Client => "client",
        Who::Osd => "OSD",
        Who::Mon => "monitor",
    };
    format!("{} to {}", name(from), name(to))
}

fn as_json(m: &Measured) -> Value {
    let flow = |((from, to, kind), c): (&(Who, Who, &str), &super::Carried)| {
        let way = way(*from, *to);
        json!({ "way": way, "kind": kind, "messages": c.messages, "bytes": c.bytes })
    };
    let load = |(mean, most): (f64, f64)| json!({ "mean": mean, "most": most });
    json!({
        "osds": m.spec.osds, "copies": m.spec.copies, "write_bytes": m.spec.write,
        "balanced": m.spec.balanced,
        "pgs": m.spec.pgs(), "pgs_of_each_osd": m.pgs, "primaries_of_each_osd": m.primaries,
        "clients": m.spec.clients_each * m.spec.osds, "in_flight_each": m.spec.in_flight,
        "counted_s": m.spec.counted.as_secs_f64(), "writes": m.writes, "writes_a_second": m.a_second,
        "bytes_a_second_for_each_osd": m.rate(),
        "most_pgs_to_mean": m.imbalance(), "disk": load(m.load(|w| w.disk)),
        "card_sends": load(m.load(|w| w.sending)), "card_receives": load(m.load(|w| w.receiving)),
        "latency_ms": {
            "median": m.latency(50).as_secs_f64() * 1e3, "p99": m.latency(99).as_secs_f64() * 1e3
        },
        "disk_bytes_for_each_byte": m.work.iter().map(|w| w.written).sum::<u64>() as f64
            / (m.writes.max(1) as f64 * m.spec.write as f64),
        "flows": m.flows.iter().map(flow).collect::<Vec<_>>(),
    })
}
