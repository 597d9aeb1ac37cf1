//! The number of a pool's PGs changes: while clients are at work, and by itself.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Cluster, Options, has, run};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Debian's, which has Ceph's modules.
const PYTHON: &str = "/usr/bin/python3";

fn ceph(cluster: &Cluster, line: &str) -> String {
    cluster.client("ceph", &line.split(' ').collect::<Vec<_>>()).ok()
}

fn json(cluster: &Cluster, line: &str) -> Value {
    serde_json::from_str(&ceph(cluster, &format!("{line} -f json"))).expect("JSON")
}

#[test]
fn clients_go_on_while_pgs_are_merged_and_split() {
    if ["ceph", "rados"].iter().any(|tool| !has(tool)) {
        return;
    }
    let cluster = Cluster::start(Options::default());
    ceph(&cluster, "osd pool create p 8 --autoscale-mode off");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pg_num.py");
    let said = run(Command::new(PYTHON).arg(program).arg(cluster.conf()).args(["p", "4", "6"])).ok();
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["wrong"].as_array().map(Vec::len), Some(0), "{said}");
    assert!(said["appends"].as_u64() > Some(100) && said["lists"].as_u64() > Some(1), "{said}");
    println!("{said}");
}

/// Waits until a pool has this number of PGs, all in their places.
fn wait_for(cluster: &Cluster, pool: &str, pg_num: u64) {
    let began = Instant::now();
    loop {
        let number = |var: &str| json(cluster, &format!("osd pool get {pool} {var}"))[var].as_u64();
        let now = (number("pg_num"), number("pgp_num"));
        if now == (Some(pg_num), Some(pg_num)) {
            return;
        }
        let status = || ceph(cluster, "osd pool autoscale-status");
        assert!(
            began.elapsed() < Duration::from_secs(90),
            "{pool} has {now:?} PGs, not {pg_num}\n{}",
            status()
        );
    }
}

#[test]
fn numbers_of_pgs_follow_what_pools_are_for() {
    if !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    ceph(&cluster, "config set mgr mgr/pg_autoscaler/sleep_interval 1");
    ceph(&cluster, "osd pool create few 4");
    ceph(&cluster, "osd pool create told 4 --autoscale-mode warn");
    wait_for(&cluster, "few", 32);
    ceph(&cluster, "osd pool create many 16");
    ceph(&cluster, "osd pool set many pg_num_min 5");
    wait_for(&cluster, "many", 5);
    let status = json(&cluster, "osd pool autoscale-status");
    let of = |name: &str| status.as_array().into_iter().flatten().find(|p| p["pool_name"] == name);
    let told = of("told").expect("listed");
    assert_eq!((&told["pg_autoscale_mode"], &told["would_adjust"]), (&"warn".into(), &true.into()));
    assert_eq!((&told["pg_num_target"], &told["pg_num_final"]), (&4.into(), &32.into()));
    let text = ceph(&cluster, "osd pool autoscale-status");
    assert!(text.starts_with("POOL") && text.contains("NEW PG_NUM"), "{text}");
    let health = ceph(&cluster, "health detail");
    assert!(
        health.contains("POOL_TOO_FEW_PGS") && health.contains("Pool told has 4 placement groups"),
        "{health}"
    );

    let said = |line: &str| cluster.client("ceph", &line.split(' ').collect::<Vec<_>>()).stderr;
    assert!(said("osd pool set noautoscale").contains("all pools now have autoscale off"));
    assert!(said("osd pool get noautoscale").contains("noautoscale is on"));
    ceph(&cluster, "osd pool create still 4");
    let still = json(&cluster, "osd pool autoscale-status");
    let modes: Vec<_> = still.as_array().into_iter().flatten().map(|p| &p["pg_autoscale_mode"]).collect();
    assert!(modes.len() == 6 && modes.iter().all(|mode| *mode == "off"), "{modes:?}");
    assert!(said("osd pool unset noautoscale").contains("noautoscale is unset"));
    wait_for(&cluster, "still", 32);
}
