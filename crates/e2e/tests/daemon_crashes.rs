//! One daemon of several is killed while clients work: they go on, and nothing is lost.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Cluster, Options, has};
use std::process::{Command, Stdio};

#[test]
fn a_killed_osd_interrupts_writers_for_less_than_ten_seconds_and_catches_up() {
    if !has("ceph") || !has("rados") {
        return;
    }
    let cluster = Cluster::start(Options { separate: true, ..Options::default() });
    cluster.client("ceph", &["osd", "pool", "create", "p", "16"]).ok();
    cluster.client("ceph", &["osd", "pool", "application", "enable", "p", "bench"]).ok();
    let mut bench = Command::new("rados");
    bench.arg("-c").arg(cluster.conf()).args([
        "-p",
        "p",
        "bench",
        "25",
        "write",
        "-b",
        "65536",
        "-t",
        "4",
        "--no-cleanup",
    ]);
    let bench = bench
        .current_dir(cluster.dir())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    cluster.wait_for("objects", |status| status["pgmap"]["num_objects"].as_u64() > Some(5));
    cluster.kill("osd.1");
    cluster.wait_for("two OSDs", |status| status["osdmap"]["num_up_osds"] == 2);
    let again = cluster.start_daemon("osd.1");
    let bench = bench.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&bench.stdout).into_owned();
    assert!(bench.status.success(), "{said}{}", String::from_utf8_lossy(&bench.stderr));
    let longest = field(&said, "Max latency(s):");
    assert!(longest < 10.0, "a write took {longest} s\n{said}");
    cluster.wait_for("health", |status| status["health"]["status"] == "HEALTH_OK");
    let read = cluster.client("rados", &["-p", "p", "bench", "30", "seq"]).ok();
    let (made, found) = (field(&said, "Total writes made:"), field(&read, "Total reads made:"));
    assert!(found >= made, "{found} of {made} objects were read\n{read}");
    let listed = cluster.client("rados", &["-p", "p", "ls"]).ok();
    let objects = listed.lines().filter(|l| l.contains("_object")).count();
    assert!(objects as f64 >= made, "{objects} of {made} objects are listed");
    drop(again);
}

fn field(text: &str, name: &str) -> f64 {
    let line =
        text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in\n{text}"));
    line.trim().parse().expect("a number")
}
