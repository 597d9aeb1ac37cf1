//! Requests that a pool's PGs can't serve wait at their clients, and take no memory that another pool's
//! clients need.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Cluster, Options, has};
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn writes_that_wait_for_an_inactive_pool_go_on_later_and_hold_up_nobody_else() {
    if !has("ceph") || !has("rados") {
        return;
    }
    let cluster = Cluster::start(Options { separate: true, ..Options::default() });
    for (pool, min_size) in [("all", "3"), ("any", "1")] {
        cluster.client("ceph", &["osd", "pool", "create", pool, "8"]).ok();
        cluster.client("ceph", &["osd", "pool", "application", "enable", pool, "bench"]).ok();
        cluster.client("ceph", &["osd", "pool", "set", pool, "min_size", min_size]).ok();
    }
    cluster.kill("osd.2");
    cluster.wait_for("two OSDs", |status| status["osdmap"]["num_up_osds"] == 2);
    // Four times what an OSD reads of its clients.
    let mut bench = cluster.command("rados");
    bench.arg("-c").arg(cluster.conf());
    bench.args(["-p", "all", "bench", "3", "write", "-b", "4194304", "-t", "64", "--no-cleanup"]);
    let mut bench = bench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let began = Instant::now();
    while ["osd.0", "osd.1"].iter().any(|osd| cluster.counted(osd, "backoff_begun") == 0) {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody is asked to hold back");
        cluster.status();
    }
    let file = cluster.dir().join("content");
    std::fs::write(&file, vec![b'x'; 1 << 20]).expect("a file");
    for i in 0..20 {
        let name = format!("o{i}");
        let mut put = cluster.command("timeout");
        put.args(["20", "rados", "-c"]).arg(cluster.conf()).args(["-p", "any", "put", &name]).arg(&file);
        assert!(put.status().expect("starts").success(), "{name} is held up");
    }
    assert!(bench.try_wait().expect("a child").is_none(), "the other pool is not served");
    let again = cluster.start_daemon("osd.2");
    let bench = bench.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&bench.stdout).into_owned();
    assert!(bench.status.success(), "{said}{}", String::from_utf8_lossy(&bench.stderr));
    let made = said.lines().find_map(|l| l.strip_prefix("Total writes made:")).expect("a number");
    let made: usize = made.trim().parse().expect("a number");
    cluster.wait_for("health", |status| status["health"]["status"] == "HEALTH_OK");
    let listed = cluster.client("rados", &["-p", "all", "ls"]).ok();
    assert_eq!(
        (listed.lines().filter(|l| l.contains("_object")).count(), made >= 64),
        (made, true),
        "{said}"
    );
    drop(again);
}
