//! A monitor whose store was damaged while it was stopped says so when it starts, the others go on without
//! it, and following its message brings it back.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Cluster, Options, has, nacre, nacre_bin, run};
use serde_json::{Value, json};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Flips a bit of the index's root, as a device may do unnoticed.
fn damage(file: &Path) {
    let shown = nacre(&["inspect", "store", file.to_str().expect("UTF-8"), "--format", "json"]).ok();
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["log"]["end"], "closed in order", "it was asked to end: {shown:#}");
    let root = shown["superblock"]["root"].as_str().expect("where the root is");
    let block: u64 = root.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number");
    let device = std::fs::File::options().read(true).write(true).open(file).expect("opens");
    let (mut byte, at) = ([0], block * 4096 + 77);
    device.read_exact_at(&mut byte, at).expect("reads");
    device.write_all_at(&[byte[0] ^ 4], at).expect("writes");
}

#[test]
fn a_damaged_monitor_is_rebuilt_from_the_others_as_its_message_says() {
    if !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options { separate: true, mons: 3, ..Options::default() });
    let quorum = |names: Value| move |status: &Value| status["quorum_names"] == names;
    let set = |key: &str| cluster.client("ceph", &["config-key", "set", key, "value"]).ok();
    let get =
        |key: &str| assert_eq!(cluster.client("ceph", &["config-key", "get", key]).ok().trim(), "value");
    cluster.wait_for("three monitors", quorum(json!(["a", "b", "c"])));
    set("before");
    cluster.stop_daemon("mon.c");
    cluster.wait_for("two monitors", quorum(json!(["a", "b"])));
    let file = cluster.dir().join("mon.c/block");
    damage(&file);

    let conf = cluster.conf();
    let mut start = Command::new(nacre_bin());
    let started = run(start.args(["mon", "--conf"]).arg(&conf).args(["--id", "c"]));
    assert_eq!(started.code, 1, "{started:?}");
    let what = format!("`mv {0} {0}.damaged` and start mon.c again", file.display());
    assert!(started.stderr.contains("checksum") && started.stderr.contains(&what), "{}", started.stderr);
    cluster.wait_for("the others undisturbed", quorum(json!(["a", "b"])));
    set("meanwhile");

    let command = what.split('`').nth(1).expect("a command").split(' ').collect::<Vec<_>>();
    run(Command::new(command[0]).args(&command[1..])).ok();
    let _rebuilt = cluster.start_daemon("mon.c");
    cluster.wait_for("three monitors again", quorum(json!(["a", "b", "c"])));
    // It has all, and its vote counts.
    cluster.kill("mon.a");
    get("before");
    get("meanwhile");
    set("after");
}
