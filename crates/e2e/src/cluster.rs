//! A cluster of real processes in a temporary directory.

use crate::run::{Ran, nacre_bin, run};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Parameters of a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Every daemon a process of its own.
    pub separate: bool,
    /// `cephx` or `none`.
    pub auth: &'static str,
    /// Monitors.
    pub mons: u32,
    /// OSDs.
    pub osds: u32,
    /// Metadata servers.
    pub mds: u32,
    /// Size of their sparse files.
    pub osd_size: &'static str,
    /// The directory that its own is made in; otherwise the host's for temporary files.
    pub parent: Option<PathBuf>,
    /// The network that it runs in; otherwise that of the machine, on 127.0.0.1.
    pub net: Option<Net>,
    /// The first monitor's address in the machine's network; otherwise a free port of 127.0.0.1.
    pub at: Option<SocketAddr>,
}

/// A network namespace, and an address in it.
#[derive(Clone, Debug)]
pub struct Net {
    /// Its name.
    pub name: String,
    /// Address of monitors, and of OSDs that are not started elsewhere.
    pub addr: IpAddr,
}

/// A command in a network namespace, if one is given.
pub(crate) fn command_in(net: Option<&str>, program: impl AsRef<OsStr>) -> Command {
    let Some(net) = net else { return Command::new(program) };
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{net}")).arg(program);
    command
}

impl Default for Options {
    fn default() -> Self {
        let (parent, net, at) = (None, None, None);
        Self { separate: false, auth: "cephx", mons: 1, osds: 3, mds: 1, osd_size: "8G", parent, net, at }
    }
}

/// A running cluster; dropping it stops it and removes its data.
pub struct Cluster {
    dir: tempfile::TempDir,
    options: Options,
    ports: Ports,
    child: Child,
    /// From the start of the process to `nacre: ready`.
    pub ready_after: Duration,
}

/// No cluster may take longer to start. Generous: tests share the machine.
const PATIENCE: Duration = Duration::from_secs(60);

impl Cluster {
    /// Starts a new cluster and waits until it is ready.
    pub fn start(options: Options) -> Self {
        let parent = options.parent.clone().unwrap_or_else(std::env::temp_dir);
        let dir = tempfile::Builder::new().prefix("nacre-e2e-").tempdir_in(parent);
        Self::start_in(dir.expect("temporary directory"), options)
    }

    /// The same in a directory that may hold a cluster already, which goes on.
    pub fn start_in(dir: tempfile::TempDir, options: Options) -> Self {
        let ports = options.at.map_or_else(|| Ports::take(options.mons as usize), Ports::at);
        let (child, ready_after) = spawn(dir.path(), &options, ports.first);
        Self { dir, options, ports, child, ready_after }
    }

    /// Its data directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The configuration file that real clients use.
    pub fn conf(&self) -> PathBuf {
        self.dir().join("ceph.conf")
    }

    /// The monitor's port.
    pub fn port(&self) -> u16 {
        self.ports.first
    }

    /// A real client: `ceph`, `rados` … with the cluster's configuration.
    pub fn client(&self, tool: &str, args: &[&str]) -> Ran {
        let mut command = self.command(tool);
        command.arg("-c").arg(self.conf());
        if tool == "ceph" {
            command.args(["--connect-timeout", "20"]);
        }
        run(command.args(args))
    }

    /// A command in the cluster's network and directory.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = command_in(self.options.net.as_ref().map(|net| net.name.as_str()), program);
        command.current_dir(self.dir());
        command
    }

    /// Kills the whole process as a crash would, and starts it again on the same data.
    pub fn kill_and_restart(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was killed");
        self.start_again();
    }

    /// Stops it in order, and starts it again on the same data.
    pub fn stop_and_restart(&mut self) {
        assert_eq!(self.stop(), Some(0), "it ends in order");
        self.start_again();
    }

    fn start_again(&mut self) {
        (self.child, self.ready_after) = spawn(self.dir.path(), &self.options, self.ports.first);
    }

    /// The standard error of a cluster that has ended by itself.
    pub fn said_at_end(&mut self) -> Option<String> {
        self.child.try_wait().expect("it was started")?;
        let mut said = String::new();
        self.child.stderr.take()?.read_to_string(&mut said).expect("text");
        Some(said)
    }

    /// A daemon's answer on its admin socket.
    pub fn admin(&self, name: &str, prefix: &str) -> serde_json::Value {
        self.try_admin(name, prefix).unwrap_or_else(|why| panic!("{name}: {why}"))
    }

    /// The same for a daemon that may not answer.
    pub fn try_admin(&self, name: &str, prefix: &str) -> Result<serde_json::Value, String> {
        let path = self.dir().join("run").join(format!("{name}.asok"));
        let mut answer = Vec::new();
        let asked = UnixStream::connect(&path).and_then(|mut socket| {
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.write_all(format!("{{\"prefix\":\"{prefix}\"}}\0").as_bytes())?;
            socket.read_to_end(&mut answer)
        });
        asked.map_err(|e| format!("{}: {e}", path.display()))?;
        let text = answer.get(4..).ok_or("no length")?;
        serde_json::from_slice(text).map_err(|e| format!("{e}: {}", String::from_utf8_lossy(text)))
    }

    /// The sum of a daemon's counters with this prefix.
    pub fn counted(&self, name: &str, prefix: &str) -> u64 {
        let dump = self.admin(name, "perf dump");
        let counters = dump["counters"].as_object().expect("counters");
        counters.iter().filter(|(k, _)| k.starts_with(prefix)).filter_map(|(_, v)| v.as_u64()).sum()
    }

    /// The addresses that its daemons listen on, by name.
    pub fn addresses(&self) -> Vec<(String, SocketAddr)> {
        let mut out = vec![("mon.a".to_owned(), ([127, 0, 0, 1], self.ports.first).into())];
        let dump = self.client("ceph", &["osd", "dump", "-f", "json"]).ok();
        let dump: serde_json::Value = serde_json::from_str(&dump).expect("JSON");
        for osd in dump["osds"].as_array().expect("osds") {
            let addr = osd["public_addr"].as_str().and_then(|a| a.split('/').next()).expect("an address");
            out.push((format!("osd.{}", osd["osd"]), addr.parse().expect("an address")));
        }
        let stat = self.client("ceph", &["fs", "dump", "-f", "json"]).ok();
        let stat: serde_json::Value =
            serde_json::from_str(stat.lines().last().unwrap_or_default()).expect("JSON");
        for info in stat["filesystems"][0]["mdsmap"]["info"].as_object().expect("mds").values() {
            let addr = info["addr"].as_str().and_then(|a| a.split('/').next()).expect("an address");
            out.push((
                format!("mds.{}", info["name"].as_str().expect("a name")),
                addr.parse().expect("an address"),
            ));
        }
        out
    }

    /// Kills a daemon of a separate cluster as a crash would.
    pub fn kill(&self, name: &str) {
        self.signal(name, Signal::KILL);
    }

    /// Sends a daemon of a separate cluster a signal.
    pub fn signal(&self, name: &str, signal: Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid(name)).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("it runs");
    }

    /// Asks a daemon of a separate cluster to end, and waits until it has.
    pub fn stop_daemon(&self, name: &str) {
        self.signal(name, Signal::TERM);
        let (file, began) = (self.dir().join("run").join(format!("{name}.pid")), Instant::now());
        while file.exists() {
            assert!(began.elapsed() < PATIENCE, "{name} does not end");
            self.status();
        }
    }

    /// Starts a daemon again by hand.
    pub fn start_daemon(&self, name: &str) -> Daemon {
        self.start_daemon_in(self.options.net.as_ref().map(|net| net.name.as_str()), name)
    }

    /// The same in a network namespace.
    pub fn start_daemon_in(&self, net: Option<&str>, name: &str) -> Daemon {
        let (role, id) = name.split_once('.').expect("role.id");
        let log =
            std::fs::OpenOptions::new().append(true).open(self.dir().join("log").join(format!("{name}.log")));
        let mut command = command_in(net, nacre_bin());
        command.args([role, "--conf"]).arg(self.conf()).args(["--id", id]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("the log is there"));
        Daemon(command.spawn().expect("starts"))
    }

    /// The output of `ceph -s`.
    pub fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.client("ceph", &["-s", "-f", "json"]).ok()).expect("JSON")
    }

    /// The name of the metadata server that serves the file system, if there is one.
    pub fn active_mds(&self) -> Option<String> {
        let status = self.status();
        let ranks = status["fsmap"]["by_rank"].as_array()?;
        let active = ranks.iter().find(|rank| rank["status"] == "up:active")?;
        Some(format!("mds.{}", active["name"].as_str()?))
    }

    /// The ids of the clients whose mount point ends in this name.
    pub fn clients_at(&self, name: &str) -> Vec<u64> {
        let mds = self.active_mds().expect("one serves");
        let list = self.client("ceph", &["tell", &mds, "session", "ls"]).ok();
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        let sessions = list.as_array().expect("a list").iter();
        let is_its = |s: &&serde_json::Value| {
            s["client_metadata"]["mount_point"].as_str().is_some_and(|at| at.ends_with(name))
        };
        sessions.filter(is_its).map(|s| s["id"].as_u64().expect("a number")).collect()
    }

    /// Ends the session of a client, and what it had: nobody has to wait for one that was killed.
    pub fn evict(&self, id: u64) {
        let mds = self.active_mds().expect("one serves");
        self.client("ceph", &["tell", &mds, "client", "evict", &format!("id={id}")]).ok();
    }

    /// Waits until `ceph -s` satisfies `wanted`; panics with the last status after a minute.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&serde_json::Value) -> bool) {
        let began = Instant::now();
        loop {
            let status = self.status();
            if wanted(&status) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "no {what}: {status:#}");
        }
    }

    /// Fails if a daemon of a separate cluster has panicked, or met what it calls an error.
    pub fn check_logs(&self) -> Result<(), String> {
        let entries = std::fs::read_dir(self.dir().join("log")).expect("the logs are there").flatten();
        let mut bad = Vec::new();
        for entry in entries {
            let (name, text) = (entry.file_name(), std::fs::read_to_string(entry.path()).unwrap_or_default());
            let lines = text.lines().filter(|line| line.contains("panicked") || line.contains(" ERROR "));
            bad.extend(lines.take(10).map(|line| format!("{}: {line}", name.display())));
        }
        bad.sort();
        if bad.is_empty() { Ok(()) } else { Err(bad.join("\n")) }
    }

    /// The process id of a daemon of a separate cluster.
    pub fn pid(&self, name: &str) -> i32 {
        let path = self.dir().join("run").join(format!("{name}.pid"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        text.trim().parse().expect("a process id")
    }

    /// Asks it to stop, as Ctrl-C does. Returns its exit status.
    pub fn stop(&mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32)?;
        // It may have ended by itself.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        self.child.wait().ok()?.code()
    }

    /// Resident memory of the process, in bytes.
    pub fn resident(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.child.id());
        let statm = std::fs::read_to_string(path).expect("it runs");
        let pages: u64 = statm.split(' ').nth(1).and_then(|p| p.parse().ok()).expect("a number of pages");
        pages * rustix::param::page_size() as u64
    }
}

/// A daemon started by hand.
pub struct Daemon(Child);

impl Daemon {
    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_raw(self.0.id() as i32).expect("a process id");
        // It may have ended by itself.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.stop();
        if std::thread::panicking() {
            for entry in std::fs::read_dir(self.dir().join("log")).into_iter().flatten().flatten() {
                let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
                let tail: Vec<&str> = text.lines().rev().take(30).collect();
                eprintln!("--- {}", entry.path().display());
                tail.iter().rev().for_each(|line| eprintln!("{line}"));
            }
        }
    }
}

fn spawn(dir: &Path, options: &Options, port: u16) -> (Child, Duration) {
    let began = Instant::now();
    let net = options.net.as_ref();
    let mut command = command_in(net.map(|net| net.name.as_str()), nacre_bin());
    command.arg("dev").arg(dir).args(["--port", &port.to_string(), "--auth", options.auth]);
    if let Some(addr) = net.map(|net| net.addr).or(options.at.map(|at| at.ip())) {
        command.args(["--addr", &addr.to_string()]);
    }
    command.args(["--osds", &options.osds.to_string(), "--osd-size", options.osd_size]);
    command.args(["--mons", &options.mons.to_string(), "--mds", &options.mds.to_string()]);
    if options.separate {
        command.arg("--separate");
    }
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let (tx, rx) = mpsc::channel();
    let stdout = child.stdout.take().expect("piped");
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // The test may be over.
            let _ = tx.send(line);
        }
    });
    loop {
        match rx.recv_timeout(PATIENCE) {
            Ok(line) if line == "nacre: ready" => return (child, began.elapsed()),
            Ok(_) => {}
            Err(error) => {
                let _ = child.kill();
                let mut said = String::new();
                let _ = child.stderr.take().expect("piped").read_to_string(&mut said);
                let log = std::fs::read_to_string(dir.join("log/nacre.log")).unwrap_or_default();
                panic!("not ready after {:?} ({error}): {said}\n{log}", began.elapsed());
            }
        }
    }
}

/// Ports in a row that no other test has while this lives.
struct Ports {
    first: u16,
    /// Locked: tests are processes of their own.
    _held: File,
}

/// Below the range from which the kernel takes ports for outgoing connections.
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// How many a cluster may have.
const PORTS_EACH: u16 = 8;

impl Ports {
    /// The directory of locks.
    fn locks() -> PathBuf {
        let dir = std::env::temp_dir().join("nacre-e2e-ports");
        std::fs::create_dir_all(&dir).expect("makes the directory of locks");
        dir
    }

    /// A given one; waits until no other test has it.
    fn at(addr: SocketAddr) -> Self {
        let held = File::create(Self::locks().join(addr.to_string())).expect("makes a lock");
        held.lock().expect("locks");
        Self { first: addr.port(), _held: held }
    }

    fn take(count: usize) -> Self {
        assert!(count <= usize::from(PORTS_EACH), "{count} monitors");
        let dir = Self::locks();
        let blocks = usize::from(PORTS.end - PORTS.start) / usize::from(PORTS_EACH);
        // A test begins its search at a place of its own.
        let from = std::process::id() as usize;
        (0..blocks)
            .find_map(|n| {
                let first = PORTS.start + ((from + n) % blocks) as u16 * PORTS_EACH;
                let held = File::create(dir.join(first.to_string())).expect("makes a lock");
                held.try_lock().ok()?;
                // A program that is no test of ours may have one.
                let free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
                (first..first + PORTS_EACH).all(free).then_some(Self { first, _held: held })
            })
            .expect("free ports")
    }
}
