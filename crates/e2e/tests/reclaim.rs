//! A program with libcephfs that is killed and started again, as NFS-Ganesha is: it ends its predecessor's
//! session itself, and has its lock and its file within seconds.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests with real processes and time")]

use e2e::{Cluster, Options, has, run};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Debian's, beside Ceph's libraries.
const PYTHON: &str = "/usr/bin/python3";
/// Without a reclaim it takes the session's 60 s.
const PATIENCE: f64 = 10.0;
const UUID: &str = "ganesha-e2e-0001";

fn client(cluster: &Cluster, what: &str) -> Command {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/reclaim.py");
    let mut command = cluster.command(PYTHON);
    command.arg(script).arg(cluster.conf()).args([what, UUID]);
    command
}

/// What a client that runs to its end says.
fn said(cluster: &Cluster, what: &str) -> Value {
    serde_json::from_str(&run(&mut client(cluster, what)).ok()).expect("JSON")
}

/// A client that goes on running.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn new(cluster: &Cluster, what: &str) -> Self {
        let mut command = client(cluster, what);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, stdout }
    }

    /// One that has the lock.
    fn holder(cluster: &Cluster) -> Self {
        let mut holder = Self::new(cluster, "hold");
        let said: Value = serde_json::from_str(&holder.line()).expect("JSON");
        let done = (&said["reclaimed"], &said["mounted"], &said["locked"]);
        assert_eq!(done, (&Value::from("ENOENT"), &Value::from(0), &Value::from(0)), "{said}");
        holder
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("says something");
        line
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().expect("piped").write_all(b"\n").expect("listens");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sessions that have the uuid, by their ids.
fn sessions(cluster: &Cluster) -> Vec<u64> {
    let mds = cluster.active_mds().expect("one serves");
    let list = cluster.client("ceph", &["tell", &mds, "session", "ls"]).ok();
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let has_it = |s: &&Value| s["client_metadata"]["uuid"] == UUID;
    let its = list.as_array().expect("a list").iter().filter(has_it);
    its.map(|s| s["id"].as_u64().expect("a number")).collect()
}

/// A successor has everything.
fn check(said: &Value) {
    eprintln!("the successor has everything: {said}");
    for what in ["reclaimed", "mounted", "locked"] {
        assert_eq!(said[what], 0, "{what}: {said}");
    }
}

/// A successor has everything, soon.
fn reclaim(cluster: &Cluster) {
    let said = said(cluster, "reclaim");
    check(&said);
    assert!(said["seconds"].as_f64().expect("a number") < PATIENCE, "{said}");
}

#[test]
fn a_client_that_was_killed_is_back_within_seconds() {
    if !has("ceph") || !has("python3") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let holder = Running::holder(&cluster);
    let first = sessions(&cluster);
    assert_eq!(first.len(), 1);
    let mounted = said(&cluster, "rival");
    assert_eq!(mounted["mounted"], "EPERM", "a living client keeps its uuid: {mounted}");
    drop(holder);
    assert_eq!(sessions(&cluster), first, "nobody has noticed yet: others would wait for its file");
    let listed = cluster.client("ceph", &["osd", "blocklist", "ls"]).ok();

    reclaim(&cluster);
    assert!(sessions(&cluster).is_empty(), "the successor has closed its own");
    let now = cluster.client("ceph", &["osd", "blocklist", "ls"]).ok();
    assert_eq!(now.lines().count(), listed.lines().count() + 1, "one client is refused by the OSDs: {now}");
    let after = said(&cluster, "try");
    assert_eq!((&after["locked"], &after["content"]), (&0.into(), &"NEW".into()), "{after}");
}

/// A cluster with a standby server, whose holder of a lock and of unsaved data is dead.
fn cluster_that_lost_its_holder() -> Cluster {
    let cluster = Cluster::start(Options { separate: true, mds: 2, ..Options::default() });
    cluster.wait_for("standby", |status| status["fsmap"]["up:standby"] == 1);
    drop(Running::holder(&cluster));
    cluster
}

#[test]
fn a_client_that_was_killed_is_back_after_a_fail_over_too() {
    if !has("ceph") || !has("python3") {
        return;
    }
    let cluster = cluster_that_lost_its_holder();
    let active = cluster.active_mds().expect("one serves");
    cluster.kill(&active);
    let began = Instant::now();
    cluster.wait_for("the other", |_| cluster.active_mds().is_some_and(|now| now != active));
    assert_eq!(sessions(&cluster).len(), 1, "the successor of the server still expects the dead client");
    reclaim(&cluster);
    assert!(began.elapsed() < Duration::from_secs(40), "without a reclaim it takes 45 s");
}

#[test]
fn a_client_that_waits_for_the_end_of_its_predecessor_asks_the_next_server() {
    if !has("ceph") || !has("python3") {
        return;
    }
    let cluster = cluster_that_lost_its_holder();
    let mut successor = Running::new(&cluster, "later");
    assert_eq!(successor.line(), "ready\n");
    let active = cluster.active_mds().expect("one serves");
    let log = cluster.dir().join("log").join(format!("{active}.log"));
    // Nobody is put on the blocklist meanwhile.
    cluster.signal("mon.a", Signal::STOP);
    successor.go_on();
    let began = Instant::now();
    while !std::fs::read_to_string(&log).expect("a log").contains("its successor") {
        assert!(began.elapsed() < Duration::from_secs(30), "{active} is not asked");
        std::thread::yield_now();
    }
    cluster.kill(&active);
    cluster.signal("mon.a", Signal::CONT);
    check(&serde_json::from_str(&successor.line()).expect("JSON"));
    assert!(cluster.active_mds().is_some_and(|now| now != active));
}
