//! `cargo xtask sim`: runs simulated clusters, one or many.

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use sim::metadata::shifts::{Load, ShiftsSpec};
use sim::metadata::{MetadataSpec, Workload};
use sim::scale::{Phase, Report, ScaleSpec};
use sim::{Failure, Profile, Stats, run_profile, run_traced};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

#[derive(Parser)]
#[command(name = "cargo xtask sim", about = "Run simulated clusters: one SEED with its trace, or many")]
struct Args {
    /// Run this seed, twice: the two runs must agree. Its trace goes to target/sim-traces/SEED.trace.
    seed: Option<u64>,
    /// Number of seeds.
    #[arg(long, default_value_t = 100, conflicts_with = "seed")]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// Threads; 0 for one per core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Stop after this many failures.
    #[arg(long, default_value_t = 20)]
    max_failures: usize,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = Format::Plain)]
    format: Format,
    /// Add the totals to docs/sim-log.md.
    #[arg(long)]
    log: bool,
    /// The part of the cluster that runs exercise.
    #[arg(long, value_parser = profile, default_value = "any")]
    profile: Profile,
    /// Instead of seeds: start a cluster of this many OSDs at once, lose a rack, change the map, and report
    /// the cost
    #[arg(long, value_name = "OSDS", num_args = 0..=1, default_missing_value = "10000")]
    scale: Option<u32>,
    /// With `--scale`: real OSDs instead of stand-ins; for a few hundred at most.
    #[arg(long, requires = "scale")]
    real: bool,
    /// With `--scale`: PGs of the pool; by default 10 to 20 copies for each OSD.
    #[arg(long, requires = "scale")]
    pgs: Option<u32>,
    /// Instead of seeds: measure how writes scale with 1 to this many OSDs, and their cost with 1 to 5
    /// copies, on machines with modelled disks and network cards
    #[arg(long, value_name = "OSDS", num_args = 0..=1, default_missing_value = "16")]
    #[arg(conflicts_with = "scale")]
    scaling: Option<u32>,
    /// Instead of seeds: measure what each metadata server does with 1 to this many ranks, on machines with
    /// modelled processors, disks and network cards; SEED is the seed of all runs.
    #[arg(long, value_name = "RANKS", num_args = 0..=1, default_missing_value = "128")]
    #[arg(conflicts_with_all = ["scale", "scaling"])]
    metadata: Option<u32>,
    /// With `--metadata`: only this number of ranks.
    #[arg(long, requires = "metadata")]
    only: bool,
    /// With `--metadata`: one of the workloads: the paper's, by their names, or flashcrowd; or updates, the
    /// latency of one client's updates with 1 to 4 copies of the metadata; or walk, the time of one client's
    /// walk over 10,000 nested directories; or steady or shifts, a load that stays for two hours, and one
    /// that moves every two minutes.
    #[arg(long, requires = "metadata", value_parser = workload)]
    workload: Option<Measures>,
    /// With `--metadata`: clients for each rank.
    #[arg(long, requires = "metadata", default_value_t = 8)]
    clients_each: u32,
    /// With `--metadata`: each directory has one rank, however many read it.
    #[arg(long, requires = "metadata")]
    no_replicas: bool,
    /// With `--metadata`: a line for each second.
    #[arg(long, requires = "metadata")]
    each_second: bool,
    /// Plant this fault (needs the feature `mutants`).
    #[arg(long)]
    mutant: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Plain,
    Json,
}

fn profile(name: &str) -> Result<Profile, String> {
    let names = Profile::ALL.map(Profile::name).join(", ");
    Profile::ALL.into_iter().find(|p| p.name() == name).ok_or_else(|| format!("one of {names}"))
}

/// The most metadata servers of a run.
const MOST_RANKS: u32 = 128;

/// What a run with `--metadata` measures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measures {
    Throughput(Workload),
    Updates,
    Walk,
    Balance(Load, u64),
}

/// The most copies of the metadata for which updates are measured.
const MOST_COPIES: u32 = 4;

/// Directories of a walk.
const WALKED: u32 = 10_000;

fn workload(name: &str) -> Result<Measures, String> {
    match name {
        "updates" => return Ok(Measures::Updates),
        "walk" => return Ok(Measures::Walk),
        "steady" => return Ok(Measures::Balance(Load::Steady, 2 * 3600)),
        "shifts" => return Ok(Measures::Balance(Load::Shifts(120), 20 * 60)),
        _ => {}
    }
    let names = Workload::ALL.map(Workload::name).join(", ");
    let found = Workload::ALL.into_iter().find(|w| w.name() == name).map(Measures::Throughput);
    found.ok_or_else(|| format!("one of {names}, updates, walk, steady, shifts"))
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match (args.scale, args.scaling, args.seed) {
        (Some(osds), ..) => at_scale(osds, &args),
        (_, Some(osds), _) => scaling(osds, &args),
        _ if args.metadata.is_some() => metadata(&args),
        (.., Some(seed)) => one(seed, &args),
        _ => many(&args),
    };
    // No backtrace: the failure is the cluster's, and was printed.
    result.map_or_else(
        |e| {
            eprintln!("{e:#}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

/// Runs `body` with the requested mutant.
fn with_mutant<T>(args: &Args, body: impl FnOnce() -> T) -> T {
    match &args.mutant {
        #[cfg(feature = "mutants")]
        Some(name) => stdx::mutants::with(name.clone().leak(), body),
        #[cfg(not(feature = "mutants"))]
        Some(_) => {
            eprintln!("--mutant needs: cargo run -p sim --features mutants");
            std::process::exit(2)
        }
        None => body(),
    }
}

fn at_scale(osds: u32, args: &Args) -> Result<()> {
    let mut spec = ScaleSpec { real: args.real, cpu: Some(cpu_time), ..ScaleSpec::of(osds) };
    spec.pgs = args.pgs.unwrap_or(spec.pgs);
    let plain = args.format == Format::Plain;
    if plain {
        let kind = if spec.real { "real" } else { "stand-ins" };
        println!("{} OSDs ({kind}), {} monitors, {} PGs of 3 copies", spec.osds, spec.mons, spec.pgs);
    }
    let mut tell = |phase: &Phase| {
        if plain {
            println!("\n{}", Report::table(osds, phase));
        }
    };
    let report = sim::scale::run(&spec, &mut tell).map_err(anyhow::Error::msg)?;
    if !plain {
        println!("{}", report.json());
    }
    Ok(())
}

fn scaling(osds: u32, args: &Args) -> Result<()> {
    let plain = args.format == Format::Plain;
    let mut tell = |line: &str| {
        if plain {
            println!("{line}");
        }
    };
    let report = sim::scaling::Report::of(osds.max(1), &mut tell).map_err(anyhow::Error::msg)?;
    if !plain {
        println!("{}", report.json());
    }
    Ok(())
}

fn metadata(args: &Args) -> Result<()> {
    let plain = args.format == Format::Plain;
    let mut tell = |line: &str| {
        if plain {
            println!("{line}");
        }
    };
    let workloads = match args.workload {
        None => Workload::ALL.to_vec(),
        Some(Measures::Throughput(one)) => vec![one],
        Some(Measures::Updates) => {
            let seed = args.seed.unwrap_or(1);
            return sim::metadata::updates::report(MOST_COPIES, seed, &mut tell).map_err(anyhow::Error::msg);
        }
        Some(Measures::Walk) => {
            let seed = args.seed.unwrap_or(1);
            return sim::metadata::walk::report(WALKED, seed, &mut tell).map_err(anyhow::Error::msg);
        }
        Some(Measures::Balance(load, seconds)) => {
            let ranks = args.metadata.unwrap_or(1).clamp(1, MOST_RANKS);
            let spec = ShiftsSpec { load, ranks, seconds, seed: args.seed.unwrap_or(1) };
            return sim::metadata::shifts::report(spec, &mut tell).map_err(anyhow::Error::msg);
        }
    };
    let most = args.metadata.unwrap_or(1).clamp(1, MOST_RANKS);
    let sizes = (0..).map(|n| 1 << n).take_while(|ranks| *ranks < most).filter(|_| !args.only).chain([most]);
    let sizes: Vec<u32> = sizes.collect();
    let specs = workloads.into_iter().flat_map(|workload| {
        let seed = args.seed.unwrap_or(1);
        let spec = move |ranks| MetadataSpec {
            clients_each: args.clients_each.max(1),
            replicates: !args.no_replicas,
            ..MetadataSpec::of(workload, ranks, seed)
        };
        sizes.iter().copied().map(spec)
    });
    let report = sim::metadata::Report::of(specs, args.each_second, &mut tell).map_err(anyhow::Error::msg)?;
    if !plain {
        println!("{}", report.json());
    }
    Ok(())
}

fn one(seed: u64, args: &Args) -> Result<()> {
    let began = cpu_time();
    let (result, trace) = with_mutant(args, || run_traced(seed, args.profile));
    let took = cpu_time() - began;
    let dir = std::path::Path::new("target/sim-traces");
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let path = dir.join(format!("{seed}.trace"));
    std::fs::write(&path, trace.join("\n")).with_context(|| format!("cannot write {}", path.display()))?;
    match &result {
        Ok(stats) if args.format == Format::Plain => println!("{}", line(seed, stats)),
        Ok(stats) => println!("{}", stats_json(seed, stats)),
        Err(failure) if args.format == Format::Plain => println!("{failure}"),
        Err(failure) => println!("{}", failure_json(failure)),
    }
    eprintln!("trace: {} ({} lines); {:.2} CPU-seconds", path.display(), trace.len(), took.as_secs_f64());
    let again = with_mutant(args, || run_profile(seed, args.profile));
    match (&result, &again) {
        (Ok(a), Ok(b)) if a != b => bail!("seed {seed} ran differently the second time: {a:?} and {b:?}"),
        (Err(a), Err(b)) if (a.checker, &a.what) != (b.checker, &b.what) => {
            bail!("seed {seed} failed differently the second time: {b}")
        }
        (Ok(_), Err(other)) | (Err(_), Err(other)) if result.is_ok() => bail!("the second time: {other}"),
        (Err(failure), _) => bail!("seed {seed} failed: {}", failure.checker),
        _ => Ok(()),
    }
}

fn line(seed: u64, stats: &Stats) -> String {
    let faults: Vec<String> = stats.faults.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
    format!(
        "seed {seed}: passed: {} calls, {} events, {:.0} simulated seconds; {}; trace {:016x}",
        stats.calls,
        stats.events,
        stats.simulated.as_secs_f64(),
        if faults.is_empty() { "no faults".to_owned() } else { faults.join(", ") },
        stats.hash
    )
}

fn stats_json(seed: u64, stats: &Stats) -> Value {
    json!({ "seed": seed, "passed": true, "calls": stats.calls, "events": stats.events,
        "faults": stats.faults, "histories": stats.histories, "undecided": stats.undecided,
        "simulated_s": stats.simulated.as_secs_f64(), "trace": format!("{:016x}", stats.hash) })
}

fn failure_json(failure: &Failure) -> Value {
    json!({ "seed": failure.seed, "passed": false, "checker": failure.checker, "what": failure.what })
}

/// Totals of many runs.
#[derive(Default)]
struct Totals {
    passed: u64,
    calls: u64,
    histories: u64,
    undecided: u64,
    events: u64,
    simulated: Duration,
    faults: BTreeMap<&'static str, u64>,
    failures: Vec<Failure>,
    cpu: Vec<Duration>,
}

impl Totals {
    fn add(&mut self, result: Result<Stats, Box<Failure>>, cpu: Duration) {
        self.cpu.push(cpu);
        match result {
            Ok(stats) => {
                self.passed += 1;
                self.calls += stats.calls;
                self.histories += stats.histories;
                self.undecided += stats.undecided;
                self.events += stats.events;
                self.simulated += stats.simulated;
                stats.faults.iter().for_each(|(kind, n)| *self.faults.entry(kind).or_default() += n);
            }
            Err(failure) => self.failures.push(*failure),
        }
    }

    fn cpu_at(&self, percent: usize) -> f64 {
        let mut all = self.cpu.clone();
        all.sort();
        all.get((all.len().saturating_sub(1)) * percent / 100).map_or(0.0, Duration::as_secs_f64)
    }

    fn all_faults(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Reports whether more than one history in a thousand was left undecided, so that "passed" says too
    /// little. A short run may have one.
    fn is_vague(&self) -> bool {
        self.undecided > 1 && self.undecided * 1000 > self.histories
    }
}

fn many(args: &Args) -> Result<()> {
    let threads = match args.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let bar = ProgressBar::new(args.seeds);
    let style = "{bar:40} {pos}/{len} clusters, {per_sec}, {eta} left{msg}";
    bar.set_style(ProgressStyle::with_template(style).context("the progress bar's template")?);
    let next = AtomicU64::new(args.start);
    let end = args.start + args.seeds;
    let mut totals = Totals::default();
    let default_hook = std::panic::take_hook();
    // A panic is a finding like others; the replay of the seed shows its place.
    std::panic::set_hook(Box::new(|_| ()));
    std::thread::scope(|scope| {
        let (found, results) = mpsc::channel();
        for _ in 0..threads {
            let (found, next) = (found.clone(), &next);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let began = cpu_time();
                    let result = with_mutant(args, || run_profile(seed, args.profile));
                    if found.send((result, cpu_time() - began)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(found);
        for (result, cpu) in results {
            if let Err(failure) = &result
                && args.format == Format::Plain
            {
                bar.suspend(|| println!("{failure}\n"));
            }
            totals.add(result, cpu);
            bar.inc(1);
            if totals.failures.len() >= args.max_failures {
                next.store(end, Ordering::Relaxed);
            }
        }
    });
    std::panic::set_hook(default_hook);
    bar.finish_and_clear();
    report(args, &mut totals)
}

fn report(args: &Args, totals: &mut Totals) -> Result<()> {
    totals.failures.sort_by_key(|f| f.seed);
    let ran = totals.passed + totals.failures.len() as u64;
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    totals.failures.iter().for_each(|f| *kinds.entry(f.checker).or_default() += 1);
    if args.format == Format::Json {
        let failures: Vec<Value> = totals.failures.iter().map(failure_json).collect();
        println!(
            "{}",
            json!({ "seeds": ran, "start": args.start, "passed": totals.passed, "failures": failures,
                "histories": totals.histories, "undecided": totals.undecided,
                "calls": totals.calls, "events": totals.events, "faults": totals.faults,
                "simulated_s": totals.simulated.as_secs_f64(),
                "cpu_s": {
                    "median": totals.cpu_at(50), "p90": totals.cpu_at(90), "max": totals.cpu_at(100)
                } })
        );
    } else {
        println!(
            "{ran} clusters from seed {}: {} passed, {} failed; {} calls, {} events, \
             {:.0} simulated seconds, {} faults",
            args.start,
            totals.passed,
            totals.failures.len(),
            totals.calls,
            totals.events,
            totals.simulated.as_secs_f64(),
            totals.all_faults()
        );
        let faults: Vec<String> = totals.faults.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
        println!("faults: {}", faults.join(", "));
        println!("histories: {}, of which {} undecided", totals.histories, totals.undecided);
        println!(
            "CPU-seconds a cluster: median {:.2}, 90 % below {:.2}, at most {:.2}",
            totals.cpu_at(50),
            totals.cpu_at(90),
            totals.cpu_at(100)
        );
        if !kinds.is_empty() {
            let kinds: Vec<String> = kinds.iter().map(|(checker, n)| format!("{checker} {n}")).collect();
            println!("failed: {}", kinds.join(", "));
            let seeds: Vec<String> = totals.failures.iter().map(|f| f.seed.to_string()).collect();
            println!("failing seeds: {}", seeds.join(" "));
        }
    }
    if args.log {
        log(args, totals)?;
    }
    if !totals.failures.is_empty() {
        bail!("{} of {ran} clusters failed", totals.failures.len());
    }
    if totals.is_vague() {
        bail!("{} of {} histories are undecided: more than 1 in 1,000", totals.undecided, totals.histories);
    }
    Ok(())
}

const LOG: &str = "docs/sim-log.md";
const LOG_HEAD: &str = "# Simulated clusters, by commit\n\n\
    `cargo xtask sim --seeds N --log` adds a line. A commit with `+` had changes that were not committed.\n\n\
    | commit | seeds | passed | failed | calls | faults | simulated hours | median CPU-seconds \
    | histories, undecided |\n\
    |---|---|---|---|---|---|---|---|---|\n";

fn log(args: &Args, totals: &Totals) -> Result<()> {
    let git = |args: &[&str]| {
        let out = std::process::Command::new("git").args(args).output();
        out.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
    };
    let mut commit = git(&["rev-parse", "--short", "HEAD"]);
    if !git(&["status", "--porcelain", "--untracked-files=no", "crates"]).is_empty() {
        commit.push('+');
    }
    let mut text = match std::fs::read_to_string(LOG) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => LOG_HEAD.to_owned(),
        Err(e) => return Err(e).context(LOG),
    };
    let ran = totals.passed + totals.failures.len() as u64;
    let profile = match args.profile {
        Profile::Any => String::new(),
        profile => format!("{} ", profile.name()),
    };
    text.push_str(&format!(
        "| {commit} | {profile}{}..{} | {} | {} | {} | {} | {:.1} | {:.2} | {}, {} |\n",
        args.start,
        args.start + ran,
        totals.passed,
        totals.failures.len(),
        totals.calls,
        totals.all_faults(),
        totals.simulated.as_secs_f64() / 3600.0,
        totals.cpu_at(50),
        totals.histories,
        totals.undecided
    ));
    std::fs::create_dir_all("docs").and_then(|()| std::fs::write(LOG, text)).context(LOG)
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
