//! Two real builds in one cluster: three hosts get the one, the other and the one again, host after host.
//! Workers on mounts of both builds and through librados meanwhile know every byte that they have written,
//! and daemons are killed. No error may reach them.

use crate::cluster::command_in;
use crate::hosts::Hosts;
use crate::member::{ClientHost, Member};
use crate::run::{Ran, nacre_bin, run};
use crate::workload::Workload;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};
use stdx::Rng;

/// Nothing may take longer: a replacement, the last comparison.
const PATIENCE: Duration = Duration::from_secs(300);
/// The longest that an operation may wait.
const LONGEST_WAIT_MS: u64 = 120_000;
/// Active ranks: the third metadata server stands by.
const RANKS: u64 = 2;

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct UpgradePlan {
    /// The program of the former build.
    pub former: PathBuf,
    /// Of all choices.
    pub seed: u64,
    /// Duration, without what replacements take.
    pub time: Duration,
    /// Time between two kills.
    pub pause: Duration,
}

/// Results of a run.
#[derive(Debug, Default)]
pub struct UpgradeDone {
    /// Kills by role.
    pub kills: BTreeMap<&'static str, u32>,
    /// Looks at which the active ranks were of two builds, and of one.
    pub looks: [u32; 2],
    /// Feature levels before and after `nacre finalize`.
    pub levels: [u64; 2],
    /// The reports of the workers on mounts and through librados.
    pub workers: [Value; 2],
}

impl UpgradeDone {
    /// In one line.
    pub fn line(&self) -> String {
        let kills: Vec<String> = self.kills.iter().map(|(role, n)| format!("{n} {role}")).collect();
        let [mixed, same] = self.looks;
        let told = self.workers.each_ref().map(|workers| {
            let said = |name: &str| workers[name].as_u64().unwrap_or(0);
            let (operations, verified) = (said("operations"), said("verified"));
            let longest = said("longest_ms") as f64 / 1000.0;
            format!("{operations} operations, longest {longest:.1} s, {verified} comparisons")
        });
        let [files, objects] = told;
        let [from, to] = self.levels;
        format!(
            "killed: {}; ranks of two builds at {mixed} of {} looks; level {from}, then {to}; on mounts \
             {files}; through librados {objects}",
            kills.join(", "),
            mixed + same
        )
    }
}

/// A build that is installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Build {
    Former,
    This,
}

struct Run<'a> {
    plan: UpgradePlan,
    rng: Rng,
    began: Instant,
    hosts: &'a Hosts,
    /// By this build and by the former one. They end first: nobody would answer a worker in a mount whose
    /// cluster is gone.
    mounts: [ClientHost; 2],
    /// Those on mounts and those through librados, until they end.
    workers: Vec<Workload>,
    members: [Member; 3],
    builds: [Build; 3],
    done: UpgradeDone,
}

/// Upgrades a new cluster of the former build, takes it back, and upgrades it for good.
pub fn upgrade(plan: UpgradePlan) -> Result<UpgradeDone, String> {
    let hosts = Hosts::new(3)?;
    let dir = tempfile::Builder::new().prefix("nacre-upgrade-").tempdir().map_err(|e| e.to_string())?;
    let members = [0, 1, 2].map(|host| Member::new(&hosts, host, dir.path()));
    let members = start(members, &plan.former);
    let mount = |program, name| ClientHost::mount_by(program, &hosts, &members[0], &dir.path().join(name));
    let mounts = [mount(nacre_bin(), "this"), mount(&plan.former, "former")];
    mounts[0].wait_until_up(3, 3, false);
    members[0].client("ceph", &["fs", "set", "cephfs", "max_mds", &RANKS.to_string()]).ok();
    members[0].client("ceph", &["osd", "pool", "create", "checked", "16"]).ok();
    members[0].client("ceph", &["osd", "pool", "application", "enable", "checked", "test"]).ok();
    let workers = vec![
        workload("checked_files.py", &hosts, &members[0], |command| {
            command
                .args([plan.seed, RANKS].map(|n| n.to_string()))
                .args(mounts.each_ref().map(ClientHost::point));
        }),
        workload("checked_writes.py", &hosts, &members[0], |command| {
            command.arg(members[0].conf()).args(["checked", &plan.seed.to_string(), "3"]);
        }),
    ];
    let (rng, began, builds) = (Rng::from_seed(plan.seed), Instant::now(), [Build::Former; 3]);
    let done = UpgradeDone::default();
    let mut run = Run { plan, rng, began, hosts: &hosts, mounts, workers, members, builds, done };
    let result = run.all();
    result.map_err(|why| format!("{why}\n{}", run.scene()))?;
    Ok(run.done)
}

/// A cluster of the former build.
fn start(mut members: [Member; 3], former: &Path) -> [Member; 3] {
    members.iter().for_each(|member| install(member, Build::Former, former));
    let token = members[0].init();
    members[0].start();
    for member in &mut members[1..] {
        member.join(&token, &[]).ok();
        member.start();
    }
    members
}

fn workload(
    source: &str,
    hosts: &Hosts,
    member: &Member,
    args: impl FnOnce(&mut std::process::Command),
) -> Workload {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/workloads").join(source);
    let mut command = command_in(Some(&hosts.net().name), "python3");
    command.arg(source).env("CEPH_CONF", member.conf());
    args(&mut command);
    Workload::start(command)
}

/// Installs a build.
fn install(member: &Member, build: Build, former: &Path) {
    let program = if build == Build::This { nacre_bin() } else { former };
    member.install_program(program, None);
}

impl Run<'_> {
    fn all(&mut self) -> Result<(), String> {
        let part = self.plan.time / 10;
        self.work(part)?;
        self.done.levels[0] = self.level();
        for build in [Build::This, Build::Former, Build::This] {
            for host in 0..3 {
                self.replace(host, build)?;
                self.work(part)?;
            }
        }
        let said = self.members[0].nacre_client(&["finalize", "--yes"]);
        self.tell(format!("finalize: {}", said.stdout.trim()));
        self.expect(said.code == 0, &said)?;
        self.done.levels[1] = self.level();
        self.work(part)?;
        self.refuse_former()?;
        self.wait_until_well()?;
        for (report, workers) in self.done.workers.iter_mut().zip(std::mem::take(&mut self.workers)) {
            *report = workers.finish(PATIENCE)?;
        }
        self.wait_until_well()?;
        self.check_logs().map_err(|why| format!("{}\n{why}", self.done.line()))
    }

    /// Replaces the daemons of a host while the workers go on: by `nacre upgrade`, and by hand what that
    /// leaves, since some builds take others of the same version for themselves, or have no such command.
    fn replace(&mut self, host: usize, build: Build) -> Result<(), String> {
        self.wait_until_well()?;
        install(&self.members[host], build, &self.plan.former);
        let began = Instant::now();
        let knows = self.members[host].nacre_here(&["upgrade", "--dry-run"]);
        if !knows.stderr.contains("unrecognized subcommand") {
            let patience = PATIENCE.as_secs().to_string();
            let mut child = self.members[host].begin(&["upgrade", "--yes", "--timeout", &patience]);
            let ended = self.until_ended(&mut child);
            if ended.is_err() {
                drop(child.kill());
            }
            let status = child.wait().map_err(|e| e.to_string())?;
            ended?;
            if !status.success() {
                return Err(format!("h{}: `nacre upgrade` to {build:?} ended with {status}", host + 1));
            }
        }
        let mut left = 0;
        for name in daemons(host) {
            if !self.runs_what_is_installed(host, &name) {
                left += 1;
                self.wait_until_well()?;
                self.members[host].signal_daemon(&name, Signal::TERM);
                while !self.runs_what_is_installed(host, &name) {
                    self.let_work()?;
                    if began.elapsed() > PATIENCE {
                        return Err(format!("{name} does not run the program that was installed"));
                    }
                }
            }
        }
        self.builds[host] = build;
        self.wait_until_well()?;
        let (host, took) = (host + 1, began.elapsed().as_secs_f64());
        self.tell(format!("h{host} runs {build:?}, after {took:.0} s, {left} daemons by hand"));
        Ok(())
    }

    fn until_ended(&mut self, child: &mut Child) -> Result<(), String> {
        while child.try_wait().map_err(|e| e.to_string())?.is_none() {
            self.let_work()?;
        }
        Ok(())
    }

    fn runs_what_is_installed(&self, host: usize, name: &str) -> bool {
        let inode = |path: &Path| std::fs::metadata(path).map(|m| m.ino()).ok();
        let pid = self.members[host].pid(name).unwrap_or(0);
        inode(Path::new(&format!("/proc/{pid}/exe"))) == inode(&self.members[host].installed())
    }

    /// Lets time pass, in which daemons are killed.
    fn work(&mut self, time: Duration) -> Result<(), String> {
        let (until, mut next) = (Instant::now() + time, Instant::now() + self.plan.pause);
        while Instant::now() < until {
            self.let_work()?;
            if Instant::now() >= next {
                self.look();
                if self.is_well() {
                    self.kill_one();
                }
                next = Instant::now() + self.plan.pause;
            }
        }
        Ok(())
    }

    fn let_work(&mut self) -> Result<(), String> {
        for workers in &mut self.workers {
            workers.go_on(Duration::from_millis(250))?;
            if workers.waits_ms > LONGEST_WAIT_MS {
                return Err(format!("an operation waits for {} ms", workers.waits_ms));
            }
        }
        Ok(())
    }

    fn kill_one(&mut self) {
        let (host, role) = (self.rng.below(3) as usize, self.rng.below(3) as usize);
        let name = &daemons(host)[role];
        if self.members[host].pid(name).is_none() {
            return;
        }
        self.members[host].kill_daemon(name);
        *self.done.kills.entry(["mon", "mds", "osd"][role]).or_default() += 1;
        self.tell(format!("{name} is killed, of {:?}", self.builds[host]));
    }

    /// Counts whether the active ranks are of two builds.
    fn look(&mut self) {
        let builds = self.builds_of_ranks();
        if builds.len() as u64 == RANKS {
            let same = builds.windows(2).all(|two| two[0] == two[1]);
            self.done.looks[usize::from(same)] += 1;
        }
    }

    fn builds_of_ranks(&self) -> Vec<Build> {
        let status = self.mounts[0].ceph(&["status"]);
        let ranks = status["fsmap"]["by_rank"].as_array().map_or(&[][..], Vec::as_slice);
        let active = ranks.iter().filter(|rank| rank["status"] == "up:active");
        let host = |name: &str| name.strip_prefix('h').and_then(|n| n.parse::<usize>().ok());
        active.filter_map(|rank| host(rank["name"].as_str()?)).map(|host| self.builds[host - 1]).collect()
    }

    /// True if any one daemon may die.
    fn is_well(&self) -> bool {
        let status = self.mounts[0].ceph(&["status"]);
        let states = status["pgmap"]["pgs_by_state"].as_array().map_or(&[][..], Vec::as_slice);
        let clean =
            |state: &Value| state["state_name"].as_str().is_some_and(|name| name.starts_with("active+clean"));
        let fs = &status["fsmap"];
        let ranks = fs["by_rank"]
            .as_array()
            .map_or(0, |ranks| ranks.iter().filter(|rank| rank["status"] == "up:active").count());
        status["osdmap"]["num_up_osds"] == 3
            && status["quorum_names"].as_array().is_some_and(|quorum| quorum.len() == 3)
            && states.iter().all(clean)
            && ranks as u64 == RANKS
            && fs["up:standby"] == 1
    }

    fn wait_until_well(&mut self) -> Result<(), String> {
        let began = Instant::now();
        while !self.is_well() {
            self.let_work()?;
            if began.elapsed() > PATIENCE {
                return Err("the cluster does not become well".into());
            }
        }
        Ok(())
    }

    /// After `nacre finalize`: a build that can't do the level in use is refused, with what to do.
    fn refuse_former(&mut self) -> Result<(), String> {
        let [from, to] = self.done.levels;
        if from == to {
            self.tell(format!("both builds can do level {to}: nothing is refused"));
            return Ok(());
        }
        install(&self.members[2], Build::Former, &self.plan.former);
        let refused = self.members[2].nacre_here(&["upgrade", "--yes"]);
        self.tell(format!("the former build: {}", refused.stderr.trim()));
        self.expect(refused.code == 1 && refused.stderr.contains("at most"), &refused)?;
        self.members[2].kill_daemon("osd.2");
        let began = Instant::now();
        while !self.members[2].said().contains("the store of osd.2 was used at feature level") {
            self.let_work()?;
            if began.elapsed() > PATIENCE {
                return Err("the former build does not refuse the store".into());
            }
        }
        self.members[2].install(None);
        Ok(())
    }

    fn level(&self) -> u64 {
        let said = self.members[0].nacre_client(&["finalize", "--dry-run", "--format", "json"]).ok();
        let said: Value = serde_json::from_str(&said).expect("JSON");
        said["was"].as_u64().expect("a level")
    }

    fn expect(&self, is_so: bool, ran: &Ran) -> Result<(), String> {
        if is_so { Ok(()) } else { Err(format!("{ran:?}")) }
    }

    fn check_logs(&self) -> Result<(), String> {
        let bad: Vec<String> = self
            .members
            .iter()
            .flat_map(|member| {
                let said = member.said();
                let lines = said.lines().filter(|line| line.contains("panicked") || line.contains(" ERROR "));
                lines.take(10).map(|line| format!("{}: {line}", member.name)).collect::<Vec<_>>()
            })
            .collect();
        if bad.is_empty() { Ok(()) } else { Err(bad.join("\n")) }
    }

    fn tell(&self, what: String) {
        let done: Vec<String> = self.workers.iter().map(|w| format!("{:6}", w.operations)).collect();
        eprintln!("{:7.1} s {}  {what}", self.began.elapsed().as_secs_f64(), done.join(" "));
    }

    /// The state of the cluster, to find the cause of a failure.
    fn scene(&self) -> String {
        let mut out = format!("seed {}, {:?}\n", self.plan.seed, self.builds);
        let ops = ["mds.h1", "mds.h2", "mds.h3"].map(|name| ["tell", name, "ops"]);
        let asked = [&["-s"][..], &["health", "detail"], &["fs", "status"], &["versions"]];
        for args in asked.into_iter().chain(ops.iter().map(|args| &args[..])) {
            let mut command = command_in(Some(&self.hosts.net().name), "ceph");
            let ran = run(command.arg("-c").arg(self.members[0].conf()).args(args));
            out.push_str(&format!("{}\n{}{}\n", ran.line, ran.stdout, ran.stderr));
        }
        for member in &self.members {
            let said = member.said();
            let lines: Vec<&str> = said.lines().collect();
            let tail = &lines[lines.len().saturating_sub(60)..];
            out.push_str(&format!("--- {}\n{}\n", member.name, tail.join("\n")));
        }
        out
    }
}

/// The daemons of a host, by role.
fn daemons(host: usize) -> [String; 3] {
    [format!("mon.h{}", host + 1), format!("mds.h{}", host + 1), format!("osd.{host}")]
}
