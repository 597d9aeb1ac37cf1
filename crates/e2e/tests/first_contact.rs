//! Unmodified clients meet a new cluster.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Cluster, Options, has, nacre};

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

/// Keys of the type that Ceph 20.2 makes: one made here, and one that was made there.
#[test]
fn our_client_works_with_keys_of_ceph_20() {
    const TAKEN: &str = "[client.taken]\n\
        \tkey = AgC/ZQxrrdByISAAuUtY5jSCHyOMAbXV6zHFKFs3EQGL6l0ZeJEp9qMbuc4=\n\
        \tcaps mon = \"allow r\"\n\tcaps osd = \"allow r\"\n";
    if !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    cluster.client("ceph", &["osd", "pool", "create", "p", "8"]).ok();
    let path = |name: &str| cluster.dir().join(name).to_string_lossy().into_owned();
    let (made, taken, file) = (path("made"), path("taken"), path("in"));
    std::fs::write(&taken, TAKEN).expect("writes");
    std::fs::write(&file, pattern(5000)).expect("writes");
    cluster.client("ceph", &["auth", "import", "-i", &taken]).ok();
    let caps = ["mon", "allow r", "osd", "allow rw", "--key_type", "aes256k", "-o", &made];
    cluster.client("ceph", &[&["auth", "get-or-create", "client.made"], &caps[..]].concat()).ok();
    assert!(std::fs::read_to_string(&made).expect("was written").contains("key = Ag"));

    let conf = cluster.conf().to_string_lossy().into_owned();
    let rados = |name: &str, ring: &str, what: &[&str]| {
        nacre(&[&["rados", "-c", &conf, "-n", name, "-k", ring, "-p", "p"], what].concat())
    };
    rados("client.made", &made, &["put", "o", &file]).ok();
    rados("client.taken", &taken, &["get", "o", &path("out")]).ok();
    assert_eq!(std::fs::read(path("out")).expect("was written"), pattern(5000));
    assert_ne!(rados("client.taken", &taken, &["put", "o", &file]).code, 0, "it may only read");
    std::fs::write(&taken, TAKEN.replace("uUtY", "uUtZ")).expect("writes");
    assert_ne!(rados("client.taken", &taken, &["ls"]).code, 0, "another secret");
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
