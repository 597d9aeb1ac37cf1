//! Several OSDs in one process: each is an OSD of its own, and one that ends leaves the others up.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real processes and devices"
)]

use e2e::{Cluster, Daemon, Options, SmallHost, has, nacre};
use rustix::process::Signal;
use std::path::PathBuf;

const NAMES: [&str; 3] = ["osd.0", "osd.1", "osd.2"];

/// A cluster whose OSDs are stopped.
fn without_osds() -> Cluster {
    let cluster = Cluster::start(Options { separate: true, ..Options::default() });
    for name in NAMES {
        cluster.stop_daemon(name);
    }
    cluster
}

/// Starts all OSDs in one process, and waits until they serve.
fn together(cluster: &Cluster) -> Daemon {
    std::fs::write(log(cluster), "").expect("writes");
    let process = cluster.start_daemon("osd.0,1,2");
    cluster.wait_for("three OSDs with clean PGs", |status| is_clean(status, 3));
    process
}

fn log(cluster: &Cluster) -> PathBuf {
    cluster.dir().join("log/osd.0,1,2.log")
}

fn is_clean(status: &serde_json::Value, up: u64) -> bool {
    let pgs = status["pgmap"]["pgs_by_state"].as_array().map(Vec::as_slice).unwrap_or_default();
    status["osdmap"]["num_up_osds"] == up
        && !pgs.is_empty()
        && pgs.iter().all(|state| state["state_name"] == "active+clean")
}

fn rados(cluster: &Cluster, args: &[&str]) -> String {
    cluster.client("rados", &[&["-p", "cephfs_data"], args].concat()).ok()
}

#[test]
fn each_of_three_osds_in_a_process_is_its_own() {
    if !has("ceph") {
        return;
    }
    let cluster = without_osds();
    let conf = cluster.conf();
    let conf = conf.to_str().expect("UTF-8");
    let refused = |ids: &str, words: &[&str]| {
        let ran = nacre(&["osd", "--conf", conf, "--id", ids]);
        assert!(ran.code != 0 && words.iter().all(|word| ran.stderr.contains(word)), "{ids}: {}", ran.stderr);
    };
    refused("0,1,0", &["osd.0 is given twice"]);
    let copy = cluster.dir().join("osd.7");
    std::fs::create_dir(&copy).expect("creates");
    std::os::unix::fs::symlink(cluster.dir().join("osd.1/block"), copy.join("block")).expect("links");
    refused("0,1,7", &["osd.1 and osd.7 would both store on", "osd.1/block"]);

    let process = together(&cluster);
    let pid = cluster.pid("osd.0");
    assert!(NAMES.iter().all(|name| cluster.pid(name) == pid), "one process");
    let addresses = cluster.addresses();
    let mut osds: Vec<_> =
        addresses.iter().filter(|(name, _)| name.starts_with("osd.")).map(|(_, a)| a).collect();
    osds.sort();
    osds.dedup();
    assert_eq!(osds.len(), 3, "each its own address: {addresses:?}");
    for name in NAMES {
        assert_eq!(
            cluster.admin(name, "status")["whoami"].to_string(),
            name[4..],
            "each its own admin socket"
        );
    }
    rados(&cluster, &["put", "before", conf]);
    refused("1,2", &["osd.1", "in use", &format!("process {pid}"), "stop that one first"]);

    // One of them is asked to end.
    cluster.admin("osd.1", "exit");
    cluster.wait_for("two OSDs", |status| status["osdmap"]["num_up_osds"] == 2);
    assert!(cluster.try_admin("osd.1", "status").is_err(), "it has left its admin socket");
    assert!(!cluster.dir().join("run/osd.1.pid").exists(), "and its pid file");
    assert_eq!(cluster.pid("osd.0"), pid, "the others go on");
    rados(&cluster, &["put", "between", conf]);
    let config = std::fs::read_to_string(conf).expect("reads");
    assert_eq!(rados(&cluster, &["get", "before", "-"]), config);

    // It may run in another process meanwhile.
    let alone = cluster.start_daemon("osd.1");
    cluster.wait_for("three OSDs again", |status| is_clean(status, 3));
    assert_eq!(rados(&cluster, &["get", "between", "-"]), config);
    process.signal(Signal::TERM);
    cluster.wait_for("one OSD", |status| status["osdmap"]["num_up_osds"] == 1);
    drop(alone);
    let said = std::fs::read_to_string(log(&cluster)).expect("reads");
    assert!(!said.contains("ERROR"), "{said}");
}

#[test]
fn a_device_that_fails_takes_one_osd_down() {
    if !has("ceph") || !SmallHost::is_possible() {
        return;
    }
    let cluster = without_osds();
    // A device that refuses writes beyond some 160 MiB, whatever its size.
    let small = cluster.dir().join("small");
    std::fs::create_dir(&small).expect("creates");
    let _host = SmallHost::mount(&small, "160m");
    let block = cluster.dir().join("osd.2/block");
    std::fs::remove_file(&block).expect("removes");
    let device = std::fs::File::create(small.join("block")).expect("creates");
    device.set_len(8 << 30).expect("sizes");
    std::os::unix::fs::symlink(small.join("block"), &block).expect("links");

    let _process = together(&cluster);
    let pid = cluster.pid("osd.0");
    let data = cluster.dir().join("data");
    let bytes: Vec<u8> = (0..32u32 << 18).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&data, &bytes).expect("writes");
    let data = data.to_str().expect("UTF-8");
    for n in 0..8 {
        rados(&cluster, &["put", &format!("object-{n}"), data]);
    }
    cluster.wait_for("two OSDs", |status| status["osdmap"]["num_up_osds"] == 2);
    let said = std::fs::read_to_string(log(&cluster)).expect("reads");
    assert!(said.contains("has ended, the others of this process go on: osd.2: "), "{said}");
    assert_eq!(cluster.pid("osd.0"), pid);
    assert_eq!(cluster.admin("osd.0", "status")["whoami"], 0);
    let back = cluster.dir().join("back");
    for n in 0..8 {
        rados(&cluster, &["get", &format!("object-{n}"), back.to_str().expect("UTF-8")]);
        assert!(std::fs::read(&back).expect("reads") == bytes, "object-{n}");
    }
}
