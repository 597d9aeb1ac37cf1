//! The file system that the OSDs' files are on fills up.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real processes, files and mounts"
)]

use e2e::{Cluster, Options, SmallHost, has};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const OBJECT_BYTES: usize = 16 << 20;

fn content(n: u64) -> Vec<u8> {
    stdx::Buf::pattern(n, OBJECT_BYTES).to_vec()
}

/// Puts objects until the cluster ends. Returns the number of those that were acknowledged, and what the
/// cluster said.
fn fill(cluster: &mut Cluster, file: &Path) -> (u64, String) {
    for n in 0.. {
        std::fs::write(file, content(n)).expect("writes");
        let mut put = cluster.command("rados");
        put.arg("-c").arg(cluster.conf()).args(["-p", "p", "put", &format!("o{n}")]).arg(file);
        let mut put = put.stdin(Stdio::null()).spawn().expect("runs");
        loop {
            if let Some(status) = put.try_wait().expect("it runs") {
                assert!(status.success(), "object {n} is refused while the cluster runs");
                break;
            }
            if let Some(said) = cluster.said_at_end() {
                put.kill().expect("it waits for the OSD");
                put.wait().expect("it was killed");
                return (n, said);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    unreachable!("the host has an end");
}

#[test]
fn a_full_host_ends_the_cluster_with_advice_and_loses_nothing() {
    if !has("ceph") || !has("rados") || !SmallHost::is_possible() {
        return;
    }
    let [dir, elsewhere] = [(); 2].map(|()| tempfile::tempdir().expect("temporary directory"));
    let host = SmallHost::mount(dir.path(), "700M");
    let file = elsewhere.path().join("object");
    let parent = Some(dir.path().to_owned());
    let mut cluster = Cluster::start(Options { osds: 1, osd_size: "4G", parent, ..Options::default() });
    cluster.client("ceph", &["osd", "pool", "create", "p", "8"]).ok();
    let (acknowledged, said) = fill(&mut cluster, &file);
    assert!(acknowledged > 5, "{acknowledged} objects");
    assert!(said.contains("may grow by"), "a warning at the start: {said}");
    assert!(said.contains("ENOSPC: the file system that it is on is full; make space"), "{said}");

    host.resize("2G");
    cluster.kill_and_restart();
    for n in 0..acknowledged {
        cluster.client("rados", &["-p", "p", "get", &format!("o{n}"), &file.to_string_lossy()]).ok();
        assert!(std::fs::read(&file).expect("was written") == content(n), "object {n} is as it was");
    }
}
