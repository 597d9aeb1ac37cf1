//! A standby takes over from a metadata server that is killed or stopped under a mount: work goes on, and
//! nothing that fsync acknowledged is lost.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files and processes"
)]

use e2e::{Administrator, Cluster, Mount, Options, has};
use rustix::process::Signal;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Files that a writer makes at least, before and after the failure.
const FEW: usize = 40;

fn content(file: usize) -> Vec<u8> {
    stdx::Buf::pattern(file as u64, 100 + file * 37 % 9000).to_vec()
}

/// Makes file after file with fsync until it is told to end, and counts those that were acknowledged.
fn write_files(dir: &Path, done: &AtomicUsize, end: &AtomicBool) {
    while !end.load(Ordering::Relaxed) {
        let n = done.load(Ordering::Relaxed);
        let mut file = std::fs::File::create(dir.join(format!("f{n}"))).expect("creates");
        file.write_all(&content(n)).expect("writes");
        file.sync_all().expect("syncs");
        // What was acknowledged under another name is checked as well.
        if n.is_multiple_of(3) {
            std::fs::rename(dir.join(format!("f{n}")), dir.join(format!("g{n}"))).expect("renames");
            std::fs::File::open(dir).and_then(|d| d.sync_all()).expect("syncs the directory");
        }
        done.store(n + 1, Ordering::Relaxed);
    }
}

fn assert_all_there(dir: &Path, count: usize) {
    for n in 0..count {
        let name = if n % 3 == 0 { format!("g{n}") } else { format!("f{n}") };
        let found = std::fs::read(dir.join(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(found == content(n), "{name} holds {} other bytes", found.len());
    }
}

/// Runs `fail` on the active server while files are written, until the other one serves and files are
/// written on. Returns the names of both.
fn fail_over(cluster: &Cluster, fail: impl Fn(&str)) -> (String, String) {
    let mount = Mount::new(cluster, "m");
    let dir = mount.point().join("dir");
    std::fs::create_dir(&dir).expect("makes");
    let (done, end) = (AtomicUsize::new(0), AtomicBool::new(false));
    let first = cluster.active_mds().expect("one serves");
    let second = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_files(&dir, &done, &end));
        let until = |count: usize| {
            while done.load(Ordering::Relaxed) < count {
                assert!(!writer.is_finished(), "the writer goes on");
                std::thread::yield_now();
            }
        };
        until(FEW);
        fail(&first);
        cluster.wait_for("another server", |status| {
            let rank = &status["fsmap"]["by_rank"][0];
            rank["status"] == "up:active" && format!("mds.{}", rank["name"].as_str().unwrap_or("")) != first
        });
        until(done.load(Ordering::Relaxed) + FEW);
        end.store(true, Ordering::Relaxed);
        cluster.active_mds().expect("the other one serves")
    });
    let count = done.load(Ordering::Relaxed);
    assert_all_there(&dir, count);
    let other = Mount::new(cluster, "other");
    assert_all_there(&other.point().join("dir"), count);
    (first, second)
}

fn is_possible() -> bool {
    Mount::is_possible() && has("ceph")
}

fn two_servers() -> Cluster {
    Cluster::start(Options { separate: true, mds: 2, ..Options::default() })
}

fn health(cluster: &Cluster) -> String {
    cluster.client("ceph", &["health", "detail"]).ok()
}

#[test]
fn a_killed_server_is_replaced_and_comes_back_as_the_standby() {
    if !is_possible() {
        return;
    }
    let cluster = two_servers();
    cluster.wait_for("standby", |status| status["fsmap"]["up:standby"] == 1);
    let (first, second) = fail_over(&cluster, |name| cluster.kill(name));
    assert_ne!(first, second);
    cluster
        .wait_for("warning", |status| status["health"]["checks"].get("MDS_INSUFFICIENT_STANDBY").is_some());
    assert!(health(&cluster).contains("have 0; want 1 more"));
    let _again = cluster.start_daemon(&first);
    cluster.wait_for("standby", |status| status["fsmap"]["up:standby"] == 1);
    assert_eq!(cluster.active_mds(), Some(second), "who has the rank keeps it");
}

#[test]
fn a_stopped_server_that_goes_on_after_its_replacement_changes_nothing() {
    if !is_possible() {
        return;
    }
    let cluster = two_servers();
    cluster.wait_for("standby", |status| status["fsmap"]["up:standby"] == 1);
    let (first, second) = fail_over(&cluster, |name| cluster.signal(name, Signal::STOP));
    let mount = Mount::new(&cluster, "before");
    std::fs::write(mount.point().join("news"), "of the successor").expect("writes");
    cluster.signal(&first, Signal::CONT);
    cluster.wait_for("standby", |status| status["fsmap"]["up:standby"] == 1);
    assert_eq!(cluster.active_mds(), Some(second.clone()));
    // What the first one had under way was refused: the second one's state is whole when it is read anew.
    cluster.client("ceph", &["mds", "fail", second.trim_start_matches("mds.")]).ok();
    cluster.wait_for("the first one again", |_| cluster.active_mds() == Some(first.clone()));
    let text = std::fs::read_to_string(mount.point().join("news")).expect("reads");
    assert_eq!(text, "of the successor");
    let count = std::fs::read_dir(mount.point().join("dir")).expect("lists").count();
    assert_all_there(&mount.point().join("dir"), count);
}

#[test]
fn the_manager_is_away_with_the_last_server_and_comes_back_with_it() {
    if !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options { separate: true, osds: 1, ..Options::default() });
    cluster.wait_for("a manager", |status| status["mgrmap"]["available"] == true);
    cluster.kill("mds.a");
    assert!(cluster.sees("MGR_DOWN").contains("no active mgr"));
    let values = [("CONF", "ceph.conf"), ("NAME", "a")];
    let _again = cluster.follows_and_starts("MGR_DOWN", "nacre mds --conf CONF --id NAME", &values);
    cluster.sees_no("MGR_DOWN");
    cluster.wait_for("a manager", |status| status["mgrmap"]["available"] == true);
}
