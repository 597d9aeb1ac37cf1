//! `nacre fs`: a benchmark of any mounted file system, and the comparison of two of its results.
//!
//! A measurement is rounds of shapes (`shapes`), a shape is phases (`round.rs`), and a phase is the same work
//! by all workers at the same time (`workers.rs`). Only calls that every file system takes are made.

mod args;
mod compare;
mod histogram;
mod place;
mod round;
mod shapes;
mod summary;
mod svg;
mod table;
mod workers;

pub(crate) use args::FsArgs;

use super::terminal::{Format, progress};
use anyhow::{Context, Result, bail};
use args::{BenchArgs, FsCommand, Shape};
use place::Place;
use round::Round;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stdx::Rng;
use summary::Measured;

pub(crate) fn run(args: &FsArgs) -> Result<()> {
    match &args.command {
        FsCommand::Bench(args) => {
            let stop = Arc::new(AtomicBool::new(false));
            let stopped = stop.clone();
            // Everything is removed, which may take a while.
            ctrlc::set_handler(move || stopped.store(true, Ordering::Relaxed))
                .context("cannot watch for signals")?;
            bench(args, &stop)
        }
        FsCommand::Compare(args) => compare::run(args),
    }
}

fn bench(args: &BenchArgs, stop: &AtomicBool) -> Result<()> {
    // Before it takes long.
    let mut chart = match &args.svg {
        Some(path) => {
            let file = std::fs::File::create(path);
            Some(file.with_context(|| format!("cannot write {}", path.display()))?)
        }
        None => None,
    };
    let results = measure(args, stop)?;
    let file_system = file_system(&args.dir);
    if let Some(file) = &mut chart {
        let title = format!("{} ({file_system}), {} threads", args.dir.display(), args.threads);
        file.write_all(svg::chart(&title, &results).as_bytes()).context("cannot write the chart")?;
    }
    let text = match args.format {
        Format::Plain => table::results(args, &file_system, &results),
        Format::Json => serde_json::to_string_pretty(&summary::json(args, &file_system, &results))? + "\n",
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// Measures all rounds of all shapes. Leaves nothing behind.
fn measure(args: &BenchArgs, stop: &AtomicBool) -> Result<Vec<Measured>> {
    match measure_in(Place::new(&args.dir)?, args, stop) {
        Err(_) if stop.load(Ordering::Relaxed) => bail!("interrupted: what was made is removed"),
        result => result,
    }
}

fn measure_in(place: Place, args: &BenchArgs, stop: &AtomicBool) -> Result<Vec<Measured>> {
    let bar = progress("{msg}");
    let shapes = args.shapes();
    bar.set_length(args.rounds * shapes.iter().map(|shape| shapes::phases(*shape, args.size)).sum::<u64>());
    let mut results = Vec::new();
    for number in 0..args.rounds {
        for &shape in &shapes {
            let dir = place.round(number)?;
            let rng = seeded(args.seed, number, shape);
            let mut round = Round { dir: dir.path(), args, rng, stop, bar: &bar, done: Vec::new() };
            shapes::measure(shape, &mut round)?;
            summary::add(&mut results, shape, round.done);
            dir.remove()?;
        }
    }
    bar.finish_and_clear();
    place.remove()?;
    Ok(results)
}

/// The randomness of a round: a shape has the same whatever else is measured.
fn seeded(seed: u64, round: u64, shape: Shape) -> Rng {
    let number = round * 16 + shape as u64;
    Rng::from_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The type of the file system that a directory is in, as `/proc/mounts` has it; empty if it is not known.
fn file_system(dir: &Path) -> String {
    let (Ok(dir), Ok(mounts)) = (dir.canonicalize(), std::fs::read_to_string("/proc/mounts")) else {
        return String::new();
    };
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        // A space in a path is written as \040; such a path is not found.
        let (point, kind) = (words.next()?, words.next()?);
        dir.starts_with(point).then_some((point.len(), kind))
    });
    // Of those at the same point the last one is on top.
    mounted.max_by_key(|(len, _)| *len).map_or_else(String::new, |(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests;
