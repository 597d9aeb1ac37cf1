//! Unmodified clients meet a new cluster.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Cluster, Options, has};

#[test]
fn ceph_and_rados_work_with_cephx_against_separate_daemons() {
    if !has("ceph") || !has("rados") {
        return;
    }
    let cluster = Cluster::start(Options { separate: true, ..Options::default() });
    let status: serde_json::Value =
        serde_json::from_str(&cluster.client("ceph", &["-s", "-f", "json"]).ok()).expect("JSON");
    assert_eq!(status["osdmap"]["num_up_osds"], 3, "{status}");
    cluster.client("ceph", &["osd", "pool", "create", "p", "32"]).ok();
    put_and_get(&cluster, "p", &[0, 1, 4096, (4 << 20) + 1]);
}

#[test]
fn ceph_and_rados_work_without_authentication_and_data_survives_a_crash() {
    if !has("ceph") || !has("rados") {
        return;
    }
    let mut cluster = Cluster::start(Options { auth: "none", ..Options::default() });
    cluster.client("ceph", &["osd", "pool", "create", "p", "8"]).ok();
    put_and_get(&cluster, "p", &[5, 100_000]);
    cluster.kill_and_restart();
    for size in [5, 100_000] {
        assert_eq!(get(&cluster, "p", size), pattern(size), "{size} bytes after a crash");
    }
}

fn pattern(size: usize) -> Vec<u8> {
    stdx::Buf::pattern(size as u64, size).to_vec()
}

fn put_and_get(cluster: &Cluster, pool: &str, sizes: &[usize]) {
    for &size in sizes {
        let file = cluster.dir().join("in");
        std::fs::write(&file, pattern(size)).expect("writes");
        cluster.client("rados", &["-p", pool, "put", &format!("o{size}"), &file.to_string_lossy()]).ok();
    }
    for &size in sizes {
        assert_eq!(get(cluster, pool, size), pattern(size), "{size} bytes");
    }
    let listed = cluster.client("rados", &["-p", pool, "ls"]).ok();
    assert_eq!(listed.lines().count(), sizes.len(), "{listed}");
}

fn get(cluster: &Cluster, pool: &str, size: usize) -> Vec<u8> {
    let file = cluster.dir().join("out");
    cluster.client("rados", &["-p", pool, "get", &format!("o{size}"), &file.to_string_lossy()]).ok();
    std::fs::read(&file).expect("was written")
}
