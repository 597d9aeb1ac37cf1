//! Clusters that earlier builds have written, opened by this one: everything is there, and more can be
//! written. `cargo xtask golden NAME` makes one for the builds to come.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files and processes"
)]

use e2e::golden::{Golden, names};
use e2e::{Cluster, Mount, has, nacre, nacre_bin, run};
use serde_json::Value;
use std::process::Command;

/// The daemons that have stores.
const STORES: [&str; 3] = ["mon.a", "osd.0", "osd.1"];

/// Raises the feature level to what this build can do, and returns it: from here on what the former build
/// could not do is in use.
fn finalize(cluster: &Cluster) -> u64 {
    let conf = cluster.conf();
    let conf = ["--conf", conf.to_str().expect("UTF-8")];
    nacre(&[&["finalize", "--yes"][..], &conf].concat()).ok();
    let shown = nacre(&[&["finalize", "--dry-run", "--format", "json"][..], &conf].concat()).ok();
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    shown["feature_level"].as_u64().expect("a number")
}

/// A store that nobody has open, for people.
fn inspected(cluster: &Cluster, daemon: &str) -> String {
    let dir = cluster.dir().join(daemon);
    nacre(&["inspect", "store", dir.to_str().expect("UTF-8"), "--format", "json"]).ok()
}

/// A build that can't do this level opens no store, and leaves each as it is.
fn refuse_to_older_build(cluster: &Cluster, level: u64) {
    let older = cluster.dir().join("older");
    std::fs::create_dir(&older).expect("makes");
    if std::fs::hard_link(nacre_bin(), older.join("nacre")).is_err() {
        std::fs::copy(nacre_bin(), older.join("nacre")).expect("copies");
    }
    std::fs::write(older.join("nacre.build"), format!("0.0.9 1 {}\n", level - 1)).expect("writes");
    for daemon in STORES {
        let before = inspected(cluster, daemon);
        let (role, id) = daemon.split_once('.').expect("role.id");
        let mut start = Command::new(older.join("nacre"));
        let started = run(start.args([role, "--conf"]).arg(cluster.conf()).args(["--id", id]));
        let why = format!("the store of {daemon} was used at feature level {level}, and this build can do");
        assert!(started.code == 1 && started.stderr.contains(&why), "{started:?}");
        assert_eq!(inspected(cluster, daemon), before, "{daemon}");
    }
}

#[test]
fn clusters_of_earlier_builds_are_opened_read_and_written() {
    if !Mount::is_possible() || !["ceph", "rados", "rbd", "tar", "xz"].iter().all(|tool| has(tool)) {
        return;
    }
    let all = names();
    assert!(all.len() >= 2, "{all:?}");
    for name in all {
        eprintln!("golden cluster {name}");
        let mut golden = Golden::open(&name);
        golden.check();
        golden.write();
        let level = finalize(&golden.cluster);
        golden.check();
        golden.cluster.stop_and_restart();
        golden.check();
        assert_eq!(golden.cluster.stop(), Some(0), "it ends in order");
        for daemon in STORES {
            let dir = golden.cluster.dir().join(daemon);
            nacre(&["store", "check", dir.to_str().expect("UTF-8")]).ok();
        }
        golden.cluster.check_logs().expect("nothing that daemons call an error");
        refuse_to_older_build(&golden.cluster, level);
    }
}
