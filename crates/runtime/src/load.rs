//! How busy a thread is, and its host.

use node::{Load, Used};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use stdx::Instant;

/// The least time that is measured over.
const EVERY: Duration = Duration::from_secs(2);

/// Measures the thread that calls it.
pub(crate) struct Gauge {
    last: Option<Reading>,
}

/// What had been used at some time.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    /// Processor time of the thread.
    thread: Duration,
    /// Time of all processors together, and how much of it was idle, in ticks of the kernel.
    host: Option<(u64, u64)>,
}

impl Gauge {
    pub(crate) fn new() -> Self {
        Self { last: None }
    }

    /// The load since the last one, if that is long enough ago.
    pub(crate) fn measure(&mut self, now: Instant) -> Option<Load> {
        if self.last.is_some_and(|last| now.since(last.at) < EVERY) {
            return None;
        }
        let thread = spent(ClockId::ThreadCPUTime);
        let host = std::fs::read_to_string("/proc/stat").ok().and_then(|text| host_time(&text));
        let reading = Reading { at: now, thread, host };
        let last = self.last.replace(reading)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let process_cpu_ms = spent(ClockId::ProcessCPUTime).as_millis() as u64;
        let total = Used { pid: std::process::id(), process_cpu_ms, ..Used::default() };
        let (memory, resident) = (crate::memory::now(), crate::memory::resident());
        Some(Load { memory, resident, total, ..between(&last, &reading, cores) })
    }
}

fn spent(clock: ClockId) -> Duration {
    let spent = clock_gettime(clock);
    Duration::new(spent.tv_sec.unsigned_abs(), spent.tv_nsec.unsigned_abs() as u32)
}

/// The load between two readings on a host of which `cores` may be used. Where the host tells nothing, none
/// are idle.
fn between(from: &Reading, to: &Reading, cores: u64) -> Load {
    let thousandths = |part: u128, whole: u128| u32::try_from(part * 1000 / whole.max(1)).unwrap_or(u32::MAX);
    let thread = to.thread.saturating_sub(from.thread).as_nanos();
    let host = from.host.zip(to.host).map(|((all, idle), (all_later, idle_later))| {
        let (all, idle) = (all_later.saturating_sub(all), idle_later.saturating_sub(idle));
        let share = |part: u64| thousandths(u128::from(part) * u128::from(cores), u128::from(all));
        (share(idle), share(all.saturating_sub(idle)))
    });
    let busy = thousandths(thread, to.at.since(from.at).as_nanos());
    let (idle, host_busy) = host.unwrap_or_default();
    Load { busy, idle, host_busy, ..Load::default() }
}

/// Time of all processors and how much of it was idle, from the first line of `/proc/stat`: `cpu`, then user,
/// nice, system, idle, iowait, irq, softirq, steal; guests' time is part of the first two.
fn host_time(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let fields = line.split_whitespace().take(8).map(|field| field.parse::<u64>().ok());
    let fields = fields.collect::<Option<Vec<_>>>().filter(|fields| fields.len() >= 5)?;
    Some((fields.iter().sum(), fields[3] + fields[4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_a_share_of_the_time_between() {
        let stat = "cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 2 3\n";
        let host = host_time(stat);
        assert_eq!(host, Some((1000, 850)));
        let from = Reading { at: Instant(0), thread: Duration::from_secs(3), host };
        let later = Reading {
            at: Instant(2_000_000_000),
            thread: Duration::from_millis(4500),
            host: Some((1400, 1150)),
        };
        let load = |idle, host_busy| Load { busy: 750, idle, host_busy, ..Load::default() };
        assert_eq!(between(&from, &later, 2), load(1500, 500));
        assert_eq!(between(&from, &Reading { host: None, ..later }, 2), load(0, 0));
        assert_eq!(host_time("cpu0 1 2 3 4 5"), None);
        assert_eq!(host_time("cpu  1 2 3"), None);
    }

    #[test]
    fn a_thread_is_measured_every_two_seconds() {
        let mut gauge = Gauge::new();
        assert_eq!(gauge.measure(Instant(0)), None);
        assert_eq!(gauge.measure(Instant(1_999_999_999)), None);
        assert!(gauge.measure(Instant(2_000_000_000)).is_some());
        assert_eq!(gauge.measure(Instant(2_000_000_001)), None);
    }
}
