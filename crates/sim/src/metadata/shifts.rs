//! The balancer under a load that stays as it is for hours, and under one that moves. Each client makes and
//! removes files in eight directories of its own, some of them several times as many as others.

use super::report::kinds_of_busiest;
use super::{Clients, Counted, MetadataSpec, SERVER, Workload, cluster, give_speed, without_complaints};
use crate::cluster::Cluster;
use std::time::Duration;

/// Clients of each rank.
const CLIENTS_EACH: u32 = 8;
/// The mean time between an answer and the next request of the busiest clients; others take up to four times
/// as long.
const PACE: Duration = Duration::from_millis(60);
/// What it is divided by for clients that have more to do for a while.
const HURRY: u32 = 6;
/// Seconds over which processors are compared: in one alone, chance decides.
const COMPARED: u64 = 10;

/// A load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// It stays as it is.
    Steady,
    /// After so many seconds another quarter of the clients has more to do than the others.
    Shifts(u64),
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct ShiftsSpec {
    /// The load.
    pub load: Load,
    /// Number of ranks.
    pub ranks: u32,
    /// Length of the run in seconds.
    pub seconds: u64,
    /// Seed of the run.
    pub seed: u64,
}

/// What ten seconds of a run had.
#[derive(Clone, Debug)]
pub struct Span {
    /// The second in which they end.
    pub second: u64,
    /// Requests a second.
    pub requests: u64,
    /// The greatest work of a processor to the mean.
    pub unevenness: f64,
    /// The most requests that a rank answered, to the mean.
    pub of_requests: f64,
    /// Directories that moved.
    pub moved: u64,
    /// What the busiest server received and sent most.
    pub busiest: String,
}

/// Runs the cluster and measures it. `tell` gets each ten seconds.
pub fn run(spec: ShiftsSpec, tell: &mut dyn FnMut(&Span)) -> Result<Vec<Span>, String> {
    let of_load = MetadataSpec {
        clients_each: CLIENTS_EACH,
        ..MetadataSpec::of(Workload::Churn, spec.ranks, spec.seed)
    };
    let mut cluster = cluster(&of_load);
    cluster.bring_up()?;
    give_speed(&mut cluster, SERVER);
    let mut load = Clients::new(&of_load, &mut cluster);
    load.begin(&mut cluster);
    let (mut spans, mut sum) = (Vec::new(), Counted::default());
    for second in 0..spec.seconds {
        set_paces(&spec, second, &cluster, &mut load);
        sum.add(load.run_second(&mut cluster)?);
        if (second + 1) % COMPARED == 0 {
            let counted = std::mem::take(&mut sum);
            let span = Span {
                second: second + 1,
                requests: counted.total() / COMPARED,
                unevenness: counted.unevenness(),
                of_requests: counted.unevenness_of_requests(),
                moved: counted.moved,
                busiest: kinds_of_busiest(&counted),
            };
            tell(&span);
            spans.push(span);
        }
    }
    without_complaints(&cluster)?;
    Ok(spans)
}

fn set_paces(spec: &ShiftsSpec, second: u64, cluster: &Cluster, load: &mut Clients) {
    let busy = match spec.load {
        Load::Steady => None,
        Load::Shifts(every) => Some((second / every) as usize % 4),
    };
    for (n, host) in cluster.clients.iter().enumerate() {
        let pace = PACE * (1 + n as u32 % 4);
        // Neighbours: they have begun at the same time, and so share a rank.
        let is_busy = Some(n * 4 / cluster.clients.len()) == busy;
        load.paces.insert(*host, if is_busy { pace / HURRY } else { pace });
    }
}

/// Runs a load of this length. `tell` gets the lines of a table.
pub fn report(spec: ShiftsSpec, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
    tell(
        "| seconds | requests/s | busiest processor / mean | most requests / mean | directories moved \
         | messages of the busiest |",
    );
    tell("|---|---|---|---|---|---|");
    let mut line = |span: &Span| {
        let Span { second, requests, unevenness, of_requests, moved, busiest } = span;
        tell(&format!(
            "| {second} | {requests} | {unevenness:.2} | {of_requests:.2} | {moved} | {busiest} |"
        ));
    };
    run(spec, &mut line).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_load_moves_nothing_once_it_is_spread() {
        let spec = ShiftsSpec { load: Load::Steady, ranks: 2, seconds: 160, seed: 2 };
        let spans = run(spec, &mut |_| {}).expect("a run without complaints");
        let late = spans.iter().filter(|span| span.second > 100);
        let late: Vec<&Span> = late.collect();
        assert!(late.iter().all(|span| span.moved == 0), "{late:?}");
        assert!(late.iter().all(|span| span.unevenness < 1.3), "{late:?}");
        assert!(spans.iter().map(|span| span.moved).sum::<u64>() > 0, "it was spread");
    }
}
