//! File locks between mounts: who waits, who is interrupted, and what is left after a fail-over of the
//! metadata server.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files, processes and time"
)]

use e2e::{Cluster, Mount, Options, Program, has};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PYTHON: &str = "/usr/bin/python3";
/// Nothing that is not waiting for a lock takes as long.
const PATIENCE: Duration = Duration::from_secs(30);
/// What waits is looked at for so long.
const A_WHILE: Duration = Duration::from_millis(300);

/// A program that locks, in a process of its own.
struct Locker {
    process: Child,
    input: ChildStdin,
    said: Receiver<String>,
}

impl Locker {
    fn new(mount: &Mount) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/locker.py");
        let mut command = Command::new(PYTHON);
        command.arg(script).current_dir(mount.point()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("starts");
        let input = process.stdin.take().expect("piped");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let (tx, said) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tx.send(line)));
        let this = Self { process, input, said };
        assert_eq!(this.answer(), "ready");
        this
    }

    fn start(&mut self, call: &str) {
        writeln!(self.input, "{call}").expect("listens");
    }

    fn answer(&self) -> String {
        self.said.recv_timeout(PATIENCE).expect("it goes on")
    }

    fn call(&mut self, call: &str) -> String {
        self.start(call);
        self.answer()
    }

    fn waits(&self) -> bool {
        self.said.recv_timeout(A_WHILE).is_err()
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn is_possible() -> bool {
    Mount::is_possible() && has("ceph") && has("python3")
}

fn survive_a_fail_over(program: Program) {
    let cluster = Cluster::start(Options { separate: true, mds: 2, ..Options::default() });
    cluster.wait_for("standby", |status| status["fsmap"]["up:standby"] == 1);
    let (one, two) = (Mount::by(program, &cluster, "one"), Mount::new(&cluster, "two"));
    for name in ["f", "g"] {
        std::fs::write(one.point().join(name), "content").expect("writes");
    }
    let (mut holder, mut waiter) = (Locker::new(&one), Locker::new(&two));
    let mut third = Locker::new(&two);
    assert_eq!(holder.call("fcntl f ex 0 100"), "ok");
    assert_eq!(holder.call("flock g ex"), "ok");
    waiter.start("fcntl f sh 99 0 wait");
    assert!(waiter.waits());
    let first = cluster.active_mds().expect("one serves");
    cluster.kill(&first);
    cluster.wait_for("the other", |_| cluster.active_mds().is_some_and(|now| now != first));
    assert_eq!(third.call("fcntl f sh 0 1"), "EAGAIN", "the successor knows of it");
    assert_eq!(third.call("flock g sh"), "EAGAIN");
    assert_eq!(third.call("fcntl f sh 100 0"), "ok");
    assert!(waiter.waits());
    assert_eq!(holder.call("fcntl f un 0 0"), "ok");
    assert_eq!(waiter.answer(), "ok");
    assert_eq!(holder.call("fcntl f ex 99 1"), "EAGAIN");
    drop(holder);
    assert_eq!(third.call("flock g ex wait"), "ok", "a lock goes with its process");
}

#[test]
fn locks_survive_a_fail_over() {
    if is_possible() {
        survive_a_fail_over(Program::Nacre);
    }
}

#[test]
fn locks_of_ceph_fuse_survive_a_fail_over() {
    if is_possible() && has("ceph-fuse") {
        survive_a_fail_over(Program::CephFuse);
    }
}

fn test_for_locks(program: Program) {
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::by(program, &cluster, "one"), Mount::by(program, &cluster, "two"));
    std::fs::write(one.point().join("f"), "content").expect("writes");
    for (tester, holder) in [(&one, &one), (&one, &two)] {
        let (mut holder, mut tester) = (Locker::new(holder), Locker::new(tester));
        assert_eq!(tester.call("test f ex 0 0"), "un");
        assert_eq!(holder.call("fcntl f ex 20 0"), "ok");
        assert_eq!(holder.call("fcntl f sh 10 5"), "ok");
        assert_eq!(tester.call("test f ex 0 0"), "sh 10 5", "the first in the file");
        assert_eq!(tester.call("test f sh 0 0"), "ex 20 0", "up to the end of any file");
        assert_eq!(tester.call("test f ex 1000 1"), "ex 20 0");
        assert_eq!(tester.call("test f ex 0 10"), "un");
        assert_eq!(holder.call("test f ex 0 0"), "un", "one's own is not in the way");
    }
}

#[test]
fn a_test_tells_of_the_first_lock_in_the_way() {
    if is_possible() {
        test_for_locks(Program::Nacre);
    }
}

#[test]
fn a_test_by_ceph_fuse_tells_of_the_first_lock_in_the_way() {
    if is_possible() && has("ceph-fuse") {
        test_for_locks(Program::CephFuse);
    }
}

#[test]
fn who_waits_in_a_circle_or_is_interrupted_is_told_and_who_is_killed_dies() {
    if !is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    for name in ["f", "g"] {
        std::fs::write(one.point().join(name), "content").expect("writes");
    }
    let (mut a, mut b) = (Locker::new(&one), Locker::new(&two));
    assert_eq!(a.call("fcntl f ex 0 10"), "ok");
    assert_eq!(b.call("fcntl g ex 0 10"), "ok");
    a.start("fcntl g ex 5 1 wait");
    assert!(a.waits());
    assert_eq!(b.call("fcntl f sh 0 1 wait"), "EDEADLK");
    assert_eq!(b.call("fcntl g un 0 0"), "ok");
    assert_eq!(a.answer(), "ok");
    for lock in ["fcntl f ex 0 0", "flock g ex"] {
        assert_eq!(a.call(lock), "ok");
        assert_eq!(b.call("alarm 0.2"), "ok");
        assert_eq!(b.call(&format!("{lock} wait")), "EINTR");
        b.start(&format!("{lock} wait"));
        assert!(b.waits());
        let killed = Instant::now();
        drop(std::mem::replace(&mut b, Locker::new(&two)));
        assert!(killed.elapsed() < PATIENCE, "it died after {:?}", killed.elapsed());
    }
    drop(a);
    assert_eq!(b.call("fcntl f ex 0 0"), "ok");
    assert_eq!(b.call("flock g ex"), "ok", "nothing is left of those that did not wait on");
}

#[test]
fn processes_of_one_mount_lock_each_other_out_too() {
    if !is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let mount = Mount::new(&cluster, "m");
    std::fs::write(mount.point().join("f"), "content").expect("writes");
    let (mut a, mut b) = (Locker::new(&mount), Locker::new(&mount));
    assert_eq!([a.call("flock f sh"), b.call("flock f sh")], ["ok", "ok"]);
    a.start("flock f ex wait");
    assert!(a.waits());
    b.start("flock f ex wait");
    // Each has given its shared lock back first.
    assert_eq!(a.answer(), "ok");
    assert!(b.waits());
    drop(a);
    assert_eq!(b.answer(), "ok");
}
