//! A mount that died with the cluster is waited for in the background: the cluster is ready and the other
//! mounts go on at once. Files that the dead mount was writing stay locked until it is evicted, and a mount
//! that was only frozen keeps its files.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files, processes and time"
)]

use e2e::{Cluster, Mount, Options, Program, has};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The required time.
const AT_ONCE: Duration = Duration::from_secs(2);

/// A program that has a file open, in a process of its own: a child forked by this one would wait for a
/// frozen mount when it closes its copy.
struct Writer(Child);

impl Writer {
    fn open(mount: &Mount, name: &str) -> Self {
        let script =
            r#"exec 7>"$0"; printf "$1" >&7; echo; read go; printf ' and more' >&7; sync "$0"; echo"#;
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(mount.point().join(name)).arg(name);
        let writer = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        let mut writer = Self(writer);
        writer.step();
        // A name that is not durable is lost until its client repeats it. This tells nobody the file's size.
        fs::File::open(mount.point()).and_then(|dir| dir.sync_all()).expect("syncs the directory");
        writer
    }

    fn step(&mut self) {
        let mut byte = [0];
        self.0.stdout.as_mut().expect("piped").read_exact(&mut byte).expect("goes on");
    }

    /// Writes more and syncs.
    fn go_on(&mut self) {
        self.0.stdin.as_mut().expect("piped").write_all(b"\n").expect("listens");
        self.step();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks at a file; ends when the file system answers.
fn look_at(path: &Path) -> Child {
    Command::new("stat").arg(path).stdout(Stdio::null()).spawn().expect("starts")
}

fn is_waiting(child: &mut Child) -> bool {
    child.try_wait().expect("ours").is_none()
}

/// Everything that a mount does, in a directory of its own.
fn work(at: &Path) {
    fs::create_dir(at).expect("makes a directory");
    fs::write(at.join("a"), b"some text").expect("writes");
    fs::rename(at.join("a"), at.join("b")).expect("renames");
    fs::hard_link(at.join("b"), at.join("c")).expect("links");
    fs::File::open(at.join("c")).expect("opens").sync_all().expect("syncs");
    assert_eq!(fs::read(at.join("c")).expect("reads"), b"some text");
    fs::remove_file(at.join("b")).expect("removes");
    assert_eq!(fs::read_dir(at).expect("lists").count(), 1);
}

fn others_go_on(program: Program) {
    let mut cluster = Cluster::start(Options::default());
    let other = Mount::new(&cluster, "other");
    let at = |name: &str| other.point().join(name);
    fs::write(at("old"), "old").expect("writes");
    let mut open = Writer::open(&other, "open");
    let mut dead = Mount::by(program, &cluster, "dead");
    assert_eq!(fs::read_dir(dead.point()).expect("lists").count(), 2);
    let unflushed = Writer::open(&dead, "unflushed");
    let frozen = Mount::by(program, &cluster, "frozen");
    assert_eq!(fs::read_to_string(frozen.point().join("old")).expect("reads"), "old");
    let mut kept = Writer::open(&frozen, "kept");

    dead.kill();
    frozen.signal(Signal::STOP);
    cluster.kill_and_restart();
    let ready = Instant::now();
    assert!(cluster.ready_after <= AT_ONCE, "ready after {:?}", cluster.ready_after);
    work(&at("work"));
    open.go_on();
    fs::write(at("old"), "new").expect("writes what the others have only read");
    assert!(ready.elapsed() <= AT_ONCE, "the other mount went on after {:?}", ready.elapsed());
    // In a directory of its own: the kernel blocks changes of a directory while it looks up a name in it, and
    // it looks up those names until the server knows their sizes.
    fs::create_dir(at("apart")).expect("makes a directory");
    let (mut sees_unflushed, mut sees_kept) = (look_at(&at("unflushed")), look_at(&at("kept")));
    for n in 0..200 {
        work(&at(&format!("apart/work {n}")));
    }
    assert!(
        is_waiting(&mut sees_unflushed) && is_waiting(&mut sees_kept),
        "the server can't know their sizes"
    );

    frozen.signal(Signal::CONT);
    kept.go_on();
    assert!(sees_kept.wait().expect("ends").success());
    assert_eq!(fs::read_to_string(at("kept")).expect("reads"), "kept and more");
    assert_eq!(fs::read_to_string(frozen.point().join("old")).expect("reads"), "new");
    work(&frozen.point().join("work of the frozen"));
    assert!(is_waiting(&mut sees_unflushed), "the other one is still expected");

    assert!(sees_unflushed.wait().expect("ends").success(), "the dead one is evicted");
    assert!(ready.elapsed() > Duration::from_secs(40), "after 45 s and not before: {:?}", ready.elapsed());
    fs::remove_file(at("unflushed")).expect("removes");
    assert_eq!(fs::read_to_string(at("open")).expect("reads"), "open and more");
    drop(unflushed);
}

#[test]
fn others_go_on_when_mounts_do_not_come_back() {
    if Mount::is_possible() {
        others_go_on(Program::Nacre);
    }
}

#[test]
fn others_go_on_when_mounts_of_ceph_do_not_come_back() {
    if Mount::is_possible() && has("ceph-fuse") {
        others_go_on(Program::CephFuse);
    }
}
