//! The thrasher of file systems: ranks are killed and their number changes, at random and from a seed, while
//! workers on two mounts change directories of which they know every name and byte, take snapshots and pin
//! directories. No error may reach them, and in the end all is as they left it.

use crate::cluster::{Cluster, Daemon, Options};
use crate::hosts::Hosts;
use crate::mount::{Mount, Program};
use crate::run::has;
use crate::workload::Workload;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};
use stdx::Rng;

/// No end of a run may take longer: everything is compared through each mount.
const PATIENCE: Duration = Duration::from_secs(300);
/// The longest that an operation may wait. A server that is killed is replaced after some seconds, and its
/// successor may be hit again.
const LONGEST_WAIT_MS: u64 = 120_000;
/// The time after which a server that was killed starts again, as a standby.
const AWAY_FOR: Duration = Duration::from_secs(3);

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct FilesPlan {
    /// Of all choices.
    pub seed: u64,
    /// Duration.
    pub time: Duration,
    /// The most ranks. There is one server more.
    pub ranks: u32,
    /// Time between two faults.
    pub pause: Duration,
    /// A program that works on the same file system, as a guest with Linux's client would. Its arguments are
    /// the duration in seconds and the mount points; it finds the cluster by `CEPH_CONF`, and the network
    /// namespace that this listens in by `NACRE_NETNS`. It must end by itself with status 0.
    pub beside: Option<PathBuf>,
    /// Prints each step on standard error.
    pub tells: bool,
}

impl Default for FilesPlan {
    fn default() -> Self {
        Self {
            seed: 1,
            time: Duration::from_secs(300),
            ranks: 3,
            pause: Duration::from_secs(30),
            beside: None,
            tells: true,
        }
    }
}

/// Results of a run.
#[derive(Debug, Default)]
pub struct FilesDone {
    /// Number of faults by name.
    pub counts: BTreeMap<&'static str, u32>,
    /// The workers' report.
    pub workers: Value,
}

impl FilesDone {
    /// In one line, as the log of runs has it.
    pub fn line(&self) -> String {
        let counts: Vec<String> = self.counts.iter().map(|(name, n)| format!("{n} {name}")).collect();
        let said = |name: &str| self.workers[name].as_u64().unwrap_or(0);
        let faults = format!("{} s: {}, {} pins", said("seconds"), counts.join(", "), said("pins"));
        let (longest, stale) = (said("longest_ms") as f64 / 1000.0, said("stale"));
        let done = format!("{} operations, longest {longest:.1} s", said("operations"));
        let rest = format!("{} snapshots, {} comparisons", said("snapshots"), said("verified"));
        format!("{faults}; {done}, {rest}; ESTALE repeated {stale} times")
    }
}

struct Thrasher {
    plan: FilesPlan,
    rng: Rng,
    began: Instant,
    /// Mounts end before their cluster.
    mounts: Vec<Mount>,
    daemons: BTreeMap<String, Daemon>,
    cluster: Cluster,
    /// The network, if it is one of its own. It is there for as long as the cluster.
    hosts: Option<Hosts>,
    /// Servers that were killed, with the times at which they start again.
    away: Vec<(Instant, String)>,
    done: FilesDone,
}

/// Thrashes a new cluster's file system. An error tells the failure and the state of the cluster at that
/// time.
pub fn thrash_files(plan: FilesPlan) -> Result<FilesDone, String> {
    let hosts = plan.beside.as_ref().map(|_| Hosts::new(0)).transpose()?;
    let net = hosts.as_ref().map(Hosts::net);
    let cluster = Cluster::start(Options { separate: true, mds: plan.ranks + 1, net, ..Options::default() });
    let mut mounts = vec![Mount::new(&cluster, "nacre")];
    if has("ceph-fuse") {
        mounts.push(Mount::by(Program::CephFuse, &cluster, "ceph-fuse"));
    }
    let mut thrasher = Thrasher {
        rng: Rng::from_seed(plan.seed),
        plan,
        began: Instant::now(),
        mounts,
        daemons: BTreeMap::new(),
        cluster,
        hosts,
        away: Vec::new(),
        done: FilesDone::default(),
    };
    let result = thrasher.run();
    result.map_err(|why| format!("{why}\n{}", thrasher.scene()))?;
    Ok(std::mem::take(&mut thrasher.done))
}

impl Thrasher {
    fn run(&mut self) -> Result<(), String> {
        let ranks = self.plan.ranks;
        self.set_ranks(ranks);
        self.wait_until_active(ranks)?;
        let mut workers = self.start_workers();
        let beside = self.start_beside();
        let mut next = Instant::now() + self.plan.pause;
        while self.began.elapsed() < self.plan.time {
            self.let_work(&mut workers)?;
            if Instant::now() >= next {
                next = Instant::now() + self.plan.pause;
                self.hurt(workers.operations);
            }
        }
        self.away.iter_mut().for_each(|(at, _)| *at = Instant::now());
        self.start_again();
        if let Some(mut beside) = beside {
            while !has_ended(&mut beside)? {
                if self.began.elapsed() > self.plan.time + PATIENCE {
                    return Err("the program beside does not end".into());
                }
                self.let_work(&mut workers)?;
            }
        }
        self.done.workers = workers.finish(PATIENCE)?;
        self.cluster.wait_for("good health", |status| status["health"]["status"] == "HEALTH_OK");
        self.cluster.check_logs()
    }

    fn let_work(&mut self, workers: &mut Workload) -> Result<(), String> {
        self.start_again();
        workers.go_on(Duration::from_millis(500))?;
        let waits = workers.waits_ms;
        if waits > LONGEST_WAIT_MS { Err(format!("an operation waits for {waits} ms")) } else { Ok(()) }
    }

    fn start_beside(&self) -> Option<Child> {
        let mut command = self.cluster.command(std::path::absolute(self.plan.beside.as_ref()?).ok()?);
        command.arg(self.plan.time.as_secs().to_string()).args(self.mounts.iter().map(Mount::point));
        let net = self.hosts.as_ref().map(Hosts::net)?;
        command.env("NACRE_NETNS", net.name).env("CEPH_CONF", self.cluster.conf());
        Some(command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}")))
    }

    fn start_workers(&self) -> Workload {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/workloads/checked_files.py");
        let mut command = self.cluster.command("python3");
        command.arg(source).args([self.plan.seed.to_string(), self.plan.ranks.to_string()]);
        command.args(self.mounts.iter().map(Mount::point));
        Workload::start(command)
    }

    /// Kills the server of a rank, or changes the number of ranks.
    fn hurt(&mut self, operations: u64) {
        let what = if self.rng.below(3) > 0 { self.kill_one() } else { self.change_ranks() };
        let Some((name, what)) = what else { return };
        *self.done.counts.entry(name).or_default() += 1;
        if self.plan.tells {
            eprintln!("{:7.1} s {operations:6} operations  {what}", self.began.elapsed().as_secs_f64());
        }
    }

    fn kill_one(&mut self) -> Option<(&'static str, String)> {
        let status = self.cluster.status();
        let ranks = status["fsmap"]["by_rank"].as_array().filter(|ranks| !ranks.is_empty())?;
        let one = &ranks[self.rng.below(ranks.len() as u64) as usize];
        let name = format!("mds.{}", one["name"].as_str()?);
        if self.away.iter().any(|(_, away)| *away == name) {
            // It is not marked failed yet.
            return None;
        }
        match self.daemons.remove(&name) {
            Some(daemon) => drop(daemon),
            None => self.cluster.kill(&name),
        }
        let what = format!("{name} is killed, rank {}, which was {}", one["rank"], one["status"]);
        self.away.push((Instant::now() + AWAY_FOR, name));
        Some(("kill -9", what))
    }

    fn change_ranks(&mut self) -> Option<(&'static str, String)> {
        let ranks = 1 + self.rng.below(u64::from(self.plan.ranks)) as u32;
        self.set_ranks(ranks);
        Some(("max_mds", format!("max_mds {ranks}")))
    }

    fn set_ranks(&self, ranks: u32) {
        let ranks = ranks.to_string();
        let set = ["fs", "set", "cephfs", "max_mds", &ranks];
        self.cluster.client("ceph", &set).ok();
    }

    fn wait_until_active(&self, count: u32) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let status = self.cluster.status();
            let ranks = status["fsmap"]["by_rank"].as_array().map_or(&[][..], Vec::as_slice);
            if ranks.iter().filter(|rank| rank["status"] == "up:active").count() == count as usize {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("not {count} active ranks: {status:#}"));
            }
        }
    }

    /// Starts servers again that have been away for long enough.
    fn start_again(&mut self) {
        for (_, name) in self.away.extract_if(.., |(at, _)| *at <= Instant::now()) {
            self.daemons.insert(name.clone(), self.cluster.start_daemon(&name));
        }
    }

    /// The state of the cluster, to find the cause of a failure.
    fn scene(&self) -> String {
        let mut out = format!("seed {}\n", self.plan.seed);
        for args in [&["-s"][..], &["health", "detail"], &["fs", "status"], &["fs", "dump"]] {
            let ran = self.cluster.client("ceph", args);
            let _ = writeln!(out, "{}\n{}{}", ran.line, ran.stdout, ran.stderr);
        }
        for letter in ('a'..).take(self.plan.ranks as usize + 1) {
            let name = format!("mds.{letter}");
            if let Ok(ops) = self.cluster.try_admin(&name, "ops") {
                let _ = writeln!(out, "{name}: {ops:#}");
            }
        }
        out + &self.cluster.check_logs().err().unwrap_or_default()
    }
}

/// True if a program has ended well.
fn has_ended(program: &mut Child) -> Result<bool, String> {
    match program.try_wait().expect("it was started") {
        None => Ok(false),
        Some(status) if status.success() => Ok(true),
        Some(status) => Err(format!("the program beside ended with {status}")),
    }
}
