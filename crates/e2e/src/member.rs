//! Hosts that become a cluster by `nacre init` and `nacre join`: each a directory in place of `/`, in a
//! network namespace of its own.

use crate::cluster::command_in;
use crate::hosts::Hosts;
use crate::run::{Ran, nacre_bin, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// No state may take longer to come.
const PATIENCE: Duration = Duration::from_secs(60);
/// The size of a disk.
const DISK_SIZE: &str = "512M";

/// A host that is to be a member. Its daemons end when it is dropped.
pub struct Member {
    /// Its name in the cluster.
    pub name: String,
    addr: String,
    net: String,
    root: PathBuf,
    running: Option<Child>,
}

impl Member {
    /// Host number `host` of the network, with its files in a new directory below `dir`.
    pub fn new(hosts: &Hosts, host: u32, dir: &Path) -> Self {
        let name = format!("h{}", host + 1);
        let root = dir.join(&name);
        std::fs::create_dir_all(&root).expect("makes a directory");
        let (addr, net) = (hosts.addr(host).to_string(), hosts.name(host));
        Self { name, addr, net, root, running: None }
    }

    /// Installs the program on this host, as a package would: what runs goes on with the former one. It
    /// passes for another build if one is named, by version and levels (`crates/cli/src/cluster/build.rs`).
    pub fn install(&self, build: Option<&str>) {
        self.install_program(nacre_bin(), build);
    }

    /// The same for another program.
    pub fn install_program(&self, from: &Path, build: Option<&str>) {
        let program = self.installed();
        std::fs::create_dir_all(program.parent().expect("a directory")).expect("makes directories");
        let (new, named) = (program.with_extension("new"), program.with_extension("build"));
        if std::fs::hard_link(from, &new).is_err() {
            std::fs::copy(from, &new).expect("copies");
        }
        // They may not be there yet. Two links to one file would not replace one another.
        let _ = (std::fs::remove_file(&named), std::fs::remove_file(&program));
        if let Some(build) = build {
            std::fs::write(&named, build).expect("writes");
        }
        std::fs::rename(&new, &program).expect("renames");
    }

    /// Where the program is once it is installed.
    pub fn installed(&self) -> PathBuf {
        self.root.join("usr/bin/nacre")
    }

    /// The program that this host has: the one under test if none is installed.
    fn program(&self) -> PathBuf {
        Some(self.installed()).filter(|path| path.exists()).unwrap_or_else(|| nacre_bin().to_owned())
    }

    /// A new, empty directory that can be given as a disk.
    pub fn disk(&self, name: &str) -> String {
        let path = self.root.join(name);
        std::fs::create_dir_all(&path).expect("makes a directory");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// The configuration file that joining writes.
    pub fn conf(&self) -> PathBuf {
        self.root.join("etc/ceph/ceph.conf")
    }

    /// `nacre` on this host, with `--root`.
    pub fn nacre_here(&self, args: &[&str]) -> Ran {
        run(command_in(Some(&self.net), self.program()).args(args).arg("--root").arg(&self.root))
    }

    /// `nacre` on this host, as a client of its cluster.
    pub fn nacre_client(&self, args: &[&str]) -> Ran {
        run(command_in(Some(&self.net), self.program()).args(args).arg("--conf").arg(self.conf()))
    }

    /// A client on this host, such as `ceph`, with its configuration file.
    pub fn client(&self, tool: &str, args: &[&str]) -> Ran {
        run(command_in(Some(&self.net), tool).arg("-c").arg(self.conf()).args(args))
    }

    /// Sends a daemon a signal.
    pub fn signal_daemon(&self, name: &str, with: Signal) {
        let pid = self.pid(name).unwrap_or_else(|| panic!("{name} does not run"));
        signal(pid, with);
    }

    /// Begins a cluster. Returns the token.
    pub fn init(&self) -> String {
        let disk = self.disk("disk");
        let size = ["--disk", &disk, "--disk-size", DISK_SIZE];
        let args = ["init", "--addr", &self.addr, "--hostname", &self.name];
        let said = self.nacre_here(&[&args[..], &size].concat()).ok();
        let token = said.lines().find_map(|line| line.trim().strip_prefix("nacre join "));
        token.unwrap_or_else(|| panic!("no token in: {said}")).to_owned()
    }

    /// Joins a cluster.
    pub fn join(&self, token: &str, more: &[&str]) -> Ran {
        self.join_as(&self.name, token, more)
    }

    /// The same under another name.
    pub fn join_as(&self, name: &str, token: &str, more: &[&str]) -> Ran {
        let disk = self.disk("disk");
        let args = ["join", token, "--hostname", name, "--disk", &disk, "--disk-size", DISK_SIZE];
        self.nacre_here(&[&args[..], more].concat())
    }

    /// The same with another disk.
    pub fn join_with(&self, disk: &str, token: &str) -> Ran {
        let args = ["join", token, "--hostname", &self.name, "--disk", disk, "--disk-size", DISK_SIZE];
        self.nacre_here(&args)
    }

    /// Starts its daemons, by `nacre run`.
    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.log()).expect("a log");
        let mut command = command_in(Some(&self.net), self.program());
        command.arg("run").arg("--root").arg(&self.root).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a descriptor")).stderr(log);
        self.running = Some(command.spawn().expect("starts"));
    }

    /// What `nacre run` and the daemons have said.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Begins a command of `nacre` on this host, with `--root`.
    pub fn begin(&self, args: &[&str]) -> Child {
        let mut command = command_in(Some(&self.net), self.program());
        command.args(args).arg("--root").arg(&self.root).stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().expect("starts")
    }

    fn log(&self) -> PathBuf {
        self.root.join("run.log")
    }

    /// Kills one daemon, as a crash would.
    pub fn kill_daemon(&self, name: &str) {
        self.signal_daemon(name, Signal::KILL);
    }

    /// The process id of a daemon.
    pub fn pid(&self, name: &str) -> Option<i32> {
        let path = self.root.join("run/ceph").join(format!("{name}.pid"));
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    }

    /// Kills all its processes at once, as a power cut would.
    pub fn kill(&mut self) {
        let Some(mut child) = self.running.take() else { return };
        // A stopped supervisor starts nothing again.
        signal(child.id() as i32, Signal::STOP);
        for entry in std::fs::read_dir(self.root.join("run/ceph")).expect("is there").flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "pid") {
                let pid = std::fs::read_to_string(&path).expect("a process id");
                signal(pid.trim().parse().expect("a number"), Signal::KILL);
            }
        }
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
    }

    /// Waits until `nacre run` has ended by itself.
    pub fn wait_for_end(&mut self) {
        let Some(mut child) = self.running.take() else { return };
        let began = Instant::now();
        while child.try_wait().expect("it was started").is_none() {
            assert!(began.elapsed() < PATIENCE, "{} still runs", self.name);
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut child) = self.running.take() {
            signal(child.id() as i32, Signal::TERM);
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let text = std::fs::read_to_string(self.log()).unwrap_or_default();
            let tail: Vec<&str> = text.lines().rev().take(40).collect();
            eprintln!("--- {}", self.name);
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// It may have ended by itself.
fn signal(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).expect("a process id"), signal);
}

/// A host that is none of the cluster's, with a mount.
pub struct ClientHost {
    net: String,
    conf: PathBuf,
    point: PathBuf,
    mount: Child,
}

impl ClientHost {
    /// Mounts the file system at a new directory below `dir`, by the files of a member.
    pub fn mount(hosts: &Hosts, member: &Member, dir: &Path) -> Self {
        Self::mount_by(nacre_bin(), hosts, member, &dir.join("mnt"))
    }

    /// The same with another program, at a new directory. Beside it is the log.
    pub fn mount_by(program: &Path, hosts: &Hosts, member: &Member, point: &Path) -> Self {
        use std::io::BufRead;
        let (net, conf, point) = (hosts.net().name, member.conf(), point.to_owned());
        std::fs::create_dir_all(&point).expect("a mount point");
        let mut command = command_in(Some(&net), program);
        command
            .arg("mount")
            .arg("--conf")
            .arg(&conf)
            .arg(&point)
            .arg("--log")
            .arg(point.with_extension("log"));
        let mut mount = command.stdout(Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        let stdout = mount.stdout.take().expect("piped");
        std::io::BufReader::new(stdout).read_line(&mut line).expect("says something");
        assert!(line.starts_with("nacre: mounted"), "{line}");
        Self { net, conf, point, mount }
    }

    /// The mount point.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Uses the files of another member from now on.
    pub fn follow(&mut self, member: &Member) {
        self.conf = member.conf();
    }

    /// What a command of `ceph` prints, as JSON.
    pub fn ceph(&self, args: &[&str]) -> Value {
        let mut command = command_in(Some(&self.net), "ceph");
        command.arg("-c").arg(&self.conf).args(["--connect-timeout", "20", "-f", "json"]).args(args);
        let said = run(&mut command).ok();
        let json = said.lines().last().unwrap_or_default();
        serde_json::from_str(json).unwrap_or_else(|e| panic!("{args:?}: {e}: {said}"))
    }

    /// Waits until `ceph` with these arguments prints what is `wanted`.
    pub fn wait_for(&self, what: &str, args: &[&str], wanted: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let found = self.ceph(args);
            if wanted(&found) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "no {what}: {found:#}");
        }
    }

    /// Waits until so many OSDs are up, so many monitors agree, and all PGs are clean, or `degraded`.
    pub fn wait_until_up(&self, osds: usize, mons: usize, degraded: bool) {
        self.wait_for(&format!("{osds} OSDs and {mons} monitors"), &["status"], |status| {
            let map = &status["pgmap"];
            let states = map["pgs_by_state"].as_array().cloned().unwrap_or_default();
            let clean = |s: &&Value| s["state_name"].as_str().is_some_and(|n| n.starts_with("active+clean"));
            let clean: u64 = states.iter().filter(clean).filter_map(|s| s["count"].as_u64()).sum();
            status["osdmap"]["num_up_osds"] == osds
                && status["quorum_names"].as_array().is_some_and(|q| q.len() == mons)
                && (degraded || map["num_pgs"].as_u64() == Some(clean) && clean > 0)
        });
    }
}

impl Drop for ClientHost {
    fn drop(&mut self) {
        // Lazily: a test that failed may still have files open in it.
        let _ = run(std::process::Command::new("umount").arg("-l").arg(&self.point));
        let _ = self.mount.kill();
        let _ = self.mount.wait();
    }
}
