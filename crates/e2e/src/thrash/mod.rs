//! The thrasher: a cluster of real processes is hurt at random, from a seed, while clients write what they
//! can verify. Whatever is done to it, no error may reach a client, every object must be as it was written,
//! and in the end health is good.
//!
//! What is hurt always leaves `min_size` copies: at most one OSD is away at a time but for short moments, and
//! a store is deleted only where everything else is active and clean.

mod hurt;
mod inflict;
mod load;
mod plan;
mod state;

pub use plan::{Done, Plan};

use crate::cluster::{Cluster, Options};
use crate::hosts::Hosts;
use hurt::Hurt;
use load::{Bench, start_writers};
use rustix::process::Signal;
use serde_json::Value;
use state::{POOLS, Thrasher, Wound};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};
use stdx::Rng;

/// No recovery of so little data may take longer.
const PATIENCE: Duration = Duration::from_secs(240);
/// The longest that a client's operation may wait while enough OSDs are up. An OSD that falls silent is
/// marked down after six seconds, and its successors may be hit again.
const LONGEST_WAIT_MS: u64 = 120_000;

/// Thrashes a new cluster. An error tells the failure and the state of the cluster at that time.
pub fn thrash(plan: Plan) -> Result<Done, String> {
    let mut thrasher = Thrasher::new(plan)?;
    let result = thrasher.run();
    result.map_err(|why| format!("{why}\n{}", thrasher.scene()))?;
    Ok(std::mem::take(&mut thrasher.done))
}

impl Thrasher {
    fn new(plan: Plan) -> Result<Self, String> {
        let hosts =
            Hosts::new(plan.osds).inspect_err(|why| eprintln!("no hosts, so no cut networks: {why}")).ok();
        let net = hosts.as_ref().map(Hosts::net);
        let (mons, osds) = (plan.mons, plan.osds);
        let cluster =
            Cluster::start(Options { separate: true, mons, osds, osd_size: "2G", net, ..Options::default() });
        let mut out = Self {
            rng: Rng::from_seed(plan.seed),
            plan,
            began: Instant::now(),
            daemons: BTreeMap::new(),
            cluster,
            hosts,
            wounds: Vec::new(),
            writers: None,
            bench: Bench::new(),
            done: Done::default(),
        };
        out.settle_in();
        Ok(out)
    }

    /// Moves the OSDs to their hosts and makes the pools.
    fn settle_in(&mut self) {
        for osd in 0..self.plan.osds {
            let name = format!("osd.{osd}");
            self.cluster.stop_daemon(&name);
            self.start(&name);
        }
        let up = self.plan.osds;
        self.cluster.wait_for("all OSDs on their hosts", |status| status["osdmap"]["num_up_osds"] == up);
        for pool in POOLS {
            self.ceph(&["osd", "pool", "create", pool, "16", "16"]);
            self.ceph(&["osd", "pool", "application", "enable", pool, "thrash"]);
        }
    }

    fn run(&mut self) -> Result<(), String> {
        self.wait_until_clean()?;
        self.writers = Some(start_writers(&self.cluster, POOLS[0], self.plan.seed));
        while self.began.elapsed() < self.plan.time {
            self.mend_what_is_due()?;
            self.step()?;
            self.bench.go_on(&self.cluster, POOLS[1])?;
            let pause = Duration::from_millis(self.rng.below(2500));
            self.pass(pause)?;
        }
        self.tell("the end: everything is mended");
        self.wait_until_clean()?;
        self.bench.end()?;
        let writers = self.writers.take().expect("they were started");
        self.done.writers = writers.finish(PATIENCE)?;
        self.done.benches = self.bench.runs();
        self.wait_until_healthy()?;
        self.check_stores()?;
        self.cluster.check_logs()
    }

    /// Lets time pass; an error of a client ends the run.
    fn pass(&mut self, time: Duration) -> Result<(), String> {
        let Some(writers) = &mut self.writers else { return Ok(()) };
        writers.go_on(time)?;
        if writers.waits_ms > LONGEST_WAIT_MS {
            return Err(format!("an operation of a client waits for {} ms", writers.waits_ms));
        }
        Ok(())
    }

    /// Does something bad, or waits until all is well.
    fn step(&mut self) -> Result<(), String> {
        let Some(hurt) = Hurt::choose(self) else { return Ok(()) };
        if hurt.needs_clean() {
            self.wait_until_clean()?;
        }
        *self.done.counts.entry(hurt.name()).or_default() += 1;
        self.tell(&format!("{hurt:?}"));
        hurt.inflict(self)?;
        let lasts = Duration::from_millis(hurt.lasts_ms(&mut self.rng));
        self.wounds.push(Wound { mend_at: Instant::now() + lasts, hurt });
        Ok(())
    }

    fn mend_what_is_due(&mut self) -> Result<(), String> {
        while let Some(at) = self.wounds.iter().position(|w| w.mend_at <= Instant::now()) {
            let wound = self.wounds.remove(at);
            self.tell(&format!("mended: {:?}", wound.hurt));
            wound.hurt.mend(self)?;
        }
        Ok(())
    }

    /// Mends everything and waits until all PGs are active and clean.
    fn wait_until_clean(&mut self) -> Result<(), String> {
        for wound in &mut self.wounds {
            wound.mend_at = Instant::now();
        }
        self.mend_what_is_due()?;
        let (began, osds) = (Instant::now(), self.plan.osds);
        self.wait(move |status| {
            let (pgs, map) = (&status["pgmap"], &status["osdmap"]);
            let states = pgs["pgs_by_state"].as_array().map(Vec::as_slice).unwrap_or_default();
            let is_clean = |state: &Value| {
                state["state_name"]
                    .as_str()
                    .is_some_and(|name| name.starts_with("active+clean") && !name.contains("degraded"))
            };
            map["num_up_osds"] == osds && !states.is_empty() && states.iter().all(is_clean)
        })?;
        let took = began.elapsed();
        self.tell(&format!("active and clean after {:.1} s", took.as_secs_f64()));
        self.done.longest_recovery = self.done.longest_recovery.max(took);
        Ok(())
    }

    fn wait_until_healthy(&mut self) -> Result<(), String> {
        self.wait(|status| status["health"]["status"] == "HEALTH_OK")
    }

    fn wait(&mut self, is_so: impl Fn(&Value) -> bool) -> Result<(), String> {
        let (began, mut so_far) = (Instant::now(), 0);
        // Twice in a row: the first report may be older than what was done.
        while so_far < 2 {
            so_far = if is_so(&self.cluster.status()) { so_far + 1 } else { 0 };
            self.pass(Duration::from_millis(500))?;
            if began.elapsed() > PATIENCE {
                return Err(format!("not well after {} s", began.elapsed().as_secs()));
            }
        }
        Ok(())
    }

    /// Stops the OSDs one by one and looks whether their stores are sound.
    fn check_stores(&mut self) -> Result<(), String> {
        for osd in 0..self.plan.osds {
            let name = format!("osd.{osd}");
            self.cluster.stop_daemon(&name);
            self.daemons.remove(&name);
            let block = self.cluster.dir().join(&name).join("block");
            let ran = crate::run::nacre(&["store", "check", block.to_str().expect("UTF-8")]);
            if ran.code != 0 || !ran.stdout.contains("sound") {
                return Err(format!("{name}: {}{}", ran.stdout, ran.stderr));
            }
        }
        Ok(())
    }

    /// Starts a daemon on its host.
    fn start(&mut self, name: &str) {
        let host = name.strip_prefix("osd.").and_then(|n| n.parse().ok());
        let net = self.hosts.as_ref().zip(host).map(|(hosts, host)| hosts.name(host));
        let daemon = match net {
            Some(net) => self.cluster.start_daemon_in(Some(&net), name),
            None => self.cluster.start_daemon(name),
        };
        self.daemons.insert(name.to_owned(), daemon);
    }

    /// Sends a daemon a signal. If it was started just now, its pid file may not exist yet.
    fn signal(&self, name: &str, signal: Signal) {
        match self.daemons.get(name) {
            Some(daemon) => daemon.signal(signal),
            None => self.cluster.signal(name, signal),
        }
    }

    fn ceph(&self, args: &[&str]) -> String {
        self.cluster.client("ceph", args).ok()
    }

    fn tell(&self, what: &str) {
        if self.plan.tells {
            let operations = self.writers.as_ref().map_or(0, |w| w.operations);
            eprintln!("{:7.1} s {operations:6} operations  {what}", self.began.elapsed().as_secs_f64());
        }
    }

    /// The state of the cluster, to find the cause of a failure.
    fn scene(&self) -> String {
        let mut out = format!("seed {}\n", self.plan.seed);
        for args in [&["-s"][..], &["health", "detail"], &["osd", "tree"], &["pg", "dump", "pgs_brief"]] {
            let ran = self.cluster.client("ceph", args);
            let _ = writeln!(out, "{}\n{}{}", ran.line, ran.stdout, ran.stderr);
        }
        // Logs and stores are kept if that is asked for: they show the cause.
        if let Some(dir) = std::env::var_os("NACRE_THRASH_KEEP") {
            let copied = crate::run::run(
                std::process::Command::new("cp")
                    .args(["-a", "--sparse=always"])
                    .arg(self.cluster.dir())
                    .arg(&dir),
            );
            let _ = writeln!(out, "kept in {}: {}", dir.display(), copied.code);
        }
        for osd in 0..self.plan.osds {
            for what in ["dump_pgs", "ops"] {
                let dump = self.cluster.try_admin(&format!("osd.{osd}"), what);
                let pgs = dump.as_ref().ok().and_then(|d| d.as_array().or(d["ops"].as_array()));
                for pg in pgs.into_iter().flatten().filter(|pg| pg["machine_state"] != "Clean") {
                    let _ = writeln!(out, "osd.{osd} {what}: {pg}");
                }
            }
        }
        out
    }
}
