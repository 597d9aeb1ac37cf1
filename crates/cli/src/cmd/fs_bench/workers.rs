//! Workers: threads that do the same at the same time, and measure each operation.

use super::histogram::Histogram;
use anyhow::{Context, Result, bail};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use stdx::Rng;

/// What the workers did in one phase of one round.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    /// Seconds from the first one's start to the last one's end.
    pub(super) seconds: f64,
    /// Bytes read or written.
    pub(super) bytes: u64,
    pub(super) latencies: Histogram,
}

/// One worker in a phase.
pub(super) struct Worker<'a> {
    /// Its number, from 0.
    pub(super) number: u64,
    pub(super) rng: Rng,
    stop: &'a AtomicBool,
    bytes: u64,
    latencies: Histogram,
}

impl Worker<'_> {
    /// Does one operation and measures it. Fails if the measurement was interrupted.
    pub(super) fn op<T>(&mut self, what: impl FnOnce() -> std::io::Result<T>) -> Result<T> {
        if self.stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        let began = Instant::now();
        let done = what()?;
        self.latencies.add(began.elapsed().as_nanos() as u64);
        Ok(done)
    }

    /// The same for an operation that moves bytes.
    pub(super) fn moved(&mut self, bytes: u64, what: impl FnOnce() -> std::io::Result<()>) -> Result<()> {
        self.op(what)?;
        self.bytes += bytes;
        Ok(())
    }
}

/// Runs a phase: each of `threads` workers prepares something, and when all have, they use it. The first
/// error of any of them is that of the phase.
pub(super) fn run<S>(
    threads: u64,
    rng: &mut Rng,
    stop: &AtomicBool,
    prepare: impl Fn(u64) -> Result<S> + Sync,
    work: impl Fn(&mut S, &mut Worker<'_>) -> Result<()> + Sync,
) -> Result<Phase> {
    let start = Barrier::new(threads as usize);
    let one = |number, rng| {
        let mut worker = Worker { number, rng, stop, bytes: 0, latencies: Histogram::default() };
        let prepared = prepare(number);
        // All come here, whether they could prepare or not.
        start.wait();
        let began = Instant::now();
        let mut state = prepared?;
        work(&mut state, &mut worker)?;
        Ok((began, Instant::now(), worker.bytes, worker.latencies))
    };
    let results: Vec<Result<_>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|number| {
                let (rng, one) = (rng.fork(), &one);
                scope.spawn(move || one(number, rng))
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|result| result.unwrap_or_else(|_| bail!("a worker has panicked"))).collect()
    });
    let (mut bytes, mut latencies, mut begin, mut end) = (0, Histogram::default(), None, None);
    for result in results {
        let (began, ended, moved, took) = result?;
        bytes += moved;
        latencies.merge(&took);
        begin = begin.min(Some(began)).or(Some(began));
        end = end.max(Some(ended));
    }
    let begin: Instant = begin.context("no workers")?;
    let seconds = end.map_or(0.0, |end: Instant| (end - begin).as_secs_f64());
    Ok(Phase { seconds, bytes, latencies })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_workers_do_is_counted() {
        let stop = AtomicBool::new(false);
        let work = |state: &mut u64, worker: &mut Worker<'_>| {
            assert_eq!(*state, worker.number * 10);
            (0..3).try_for_each(|_| worker.moved(7, || Ok(())))?;
            worker.op(|| Ok(()))
        };
        let phase = run(5, &mut Rng::from_seed(1), &stop, |n| Ok(n * 10), work).expect("works");
        assert_eq!((phase.bytes, phase.latencies.total()), (5 * 3 * 7, 5 * 4));
        assert!(phase.seconds >= 0.0);
    }

    #[test]
    fn an_error_of_one_ends_the_phase_and_nobody_waits_for_it() {
        let stop = AtomicBool::new(false);
        let prepare = |n| if n == 1 { bail!("not this one") } else { Ok(()) };
        let failed = run(3, &mut Rng::from_seed(1), &stop, prepare, |(), _| Ok(()));
        assert_eq!(failed.expect_err("fails").to_string(), "not this one");
        let full = |(): &mut (), worker: &mut Worker<'_>| {
            worker.op(|| Err::<(), _>(std::io::ErrorKind::StorageFull.into()))
        };
        assert!(run(3, &mut Rng::from_seed(1), &stop, |_| Ok(()), full).is_err());
        stop.store(true, Ordering::Relaxed);
        let one = |(): &mut (), worker: &mut Worker<'_>| worker.op(|| Ok(()));
        let stopped = run(3, &mut Rng::from_seed(1), &stop, |_| Ok(()), one);
        assert_eq!(stopped.expect_err("fails").to_string(), "interrupted");
    }
}
