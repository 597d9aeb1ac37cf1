//! Mounts that are processes of their own.

use crate::cluster::Cluster;
use crate::run::{nacre_bin, run};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// No mount may take longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a mount whose test ends may take to save what it has and close its sessions.
const PARTING: Duration = Duration::from_secs(5);

/// The program that mounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// `nacre mount`.
    Nacre,
    /// `ceph-fuse`.
    CephFuse,
}

/// A mount; unmounted when dropped.
pub struct Mount {
    point: PathBuf,
    program: Program,
    /// The directory of the file system that is mounted.
    root: &'static str,
    process: Child,
}

impl Mount {
    /// Mounts at a new directory of the cluster's.
    pub fn new(cluster: &Cluster, name: &str) -> Self {
        Self::by(Program::Nacre, cluster, name)
    }

    /// Mounts with a given program.
    pub fn by(program: Program, cluster: &Cluster, name: &str) -> Self {
        Self::of(program, cluster, "/", name)
    }

    /// The same for a directory of the file system.
    pub fn of(program: Program, cluster: &Cluster, root: &'static str, name: &str) -> Self {
        let point = cluster.dir().join(name);
        std::fs::create_dir_all(&point).expect("a mount point");
        Self { process: serve(program, cluster, root, &point), program, root, point }
    }

    /// True if this machine allows mounts. Otherwise prints that the test is skipped, or fails it if
    /// `CI=true`.
    pub fn is_possible() -> bool {
        let may = Path::new("/dev/fuse").exists() && geteuid().is_root();
        if !may {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "/dev/fuse or root is missing");
            eprintln!("skipped: needs /dev/fuse and root");
        }
        may
    }

    /// The mount point.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Kills its process, which leaves a dead mount.
    pub fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it was killed");
    }

    /// Kills its process and mounts at the same place again.
    pub fn kill_and_mount_again(&mut self, cluster: &Cluster) {
        self.kill();
        self.process = serve(self.program, cluster, self.root, &self.point);
    }

    /// Sends its process a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.process.id() as i32).expect("a process id"), signal)
            .expect("it runs");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a test that failed may still have files open in it.
        let _ = Command::new("umount").arg("-l").arg(&self.point).stderr(Stdio::null()).status();
        // What a killed client had stays its own for a minute: the next mount of the test would wait for it.
        let began = Instant::now();
        while began.elapsed() < PARTING && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn serve(program: Program, cluster: &Cluster, root: &str, point: &Path) -> Child {
    if program == Program::CephFuse {
        let mut command = cluster.command("ceph-fuse");
        command.arg("-c").arg(cluster.conf()).args(["-r", root, "-f"]).arg(point).stderr(Stdio::null());
        let process = command.stdout(Stdio::null()).spawn().expect("starts");
        let began = Instant::now();
        while run(Command::new("mountpoint").arg("-q").arg(point)).code != 0 {
            assert!(began.elapsed() < PATIENCE, "ceph-fuse does not mount");
        }
        return process;
    }
    let mut command = cluster.command(nacre_bin());
    command.arg("mount").arg("-c").arg(cluster.conf()).arg(format!(":{root}")).arg(point);
    command.arg("--log").arg(cluster.dir().join("log/mount.log"));
    let mut process = command.stdout(Stdio::piped()).spawn().expect("starts");
    let mut line = String::new();
    let stdout = process.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("says something");
    assert!(line.starts_with("nacre: mounted"), "{line}");
    process
}

/// The names in a directory, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut names: Vec<String> =
        entries.map(|e| e.expect("an entry").file_name().into_string().expect("utf-8")).collect();
    names.sort();
    names
}
