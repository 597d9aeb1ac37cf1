//! Small files that our own mount syncs go through the metadata journal, and everybody finds their content.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files and processes"
)]

use e2e::{Cluster, Mount, Options, has};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

const FILES: usize = 100;

fn content(n: usize) -> Vec<u8> {
    stdx::Buf::pattern(n as u64, 1 + n * 131 % 16_000).to_vec()
}

fn name(n: usize) -> String {
    format!("f{n}")
}

fn sync_files(dir: &Path, from: usize) {
    for n in from..from + FILES {
        let mut file = File::create(dir.join(name(n))).expect("creates");
        file.write_all(&content(n)).expect("writes");
        file.sync_all().expect("syncs");
    }
}

fn assert_all_there(dir: &Path, count: usize) {
    for n in 0..count {
        let found = fs::read(dir.join(name(n))).unwrap_or_else(|e| panic!("{n}: {e}"));
        assert!(found == content(n), "{n} has {} other bytes", found.len());
    }
}

#[test]
fn files_that_are_synced_go_through_the_journal_and_are_there_for_others_and_after_a_crash() {
    if !Mount::is_possible() || !has("ceph") || !has("rados") {
        return;
    }
    let mut cluster = Cluster::start(Options::default());
    let mut mount = Mount::new(&cluster, "one");
    let mine = mount.point().join("d");
    fs::create_dir(&mine).expect("makes a directory");
    sync_files(&mine, 0);
    let mds = cluster.active_mds().expect("an active one");
    let dump = cluster.client("ceph", &["tell", &mds, "perf", "dump"]).ok();
    let dump: serde_json::Value = serde_json::from_str(&dump).expect("JSON");
    let taken = dump["mds_server"]["small_files_journaled"].as_u64().unwrap_or_else(|| panic!("{dump}"));
    assert!(taken as usize * 10 >= FILES * 9, "{taken} of {FILES}");

    // The last ones were just synced: they are in the journal only.
    let other = Mount::new(&cluster, "two");
    assert_all_there(&other.point().join("d"), FILES);

    sync_files(&mine, FILES);
    mount.kill();
    drop(other);
    cluster.kill_and_restart();
    let again = Mount::new(&cluster, "three");
    assert_all_there(&again.point().join("d"), 2 * FILES);
    let objects = cluster.client("rados", &["-p", "cephfs_data", "ls"]).ok();
    assert!(objects.lines().count() >= 2 * FILES, "all are in objects: {}", objects.lines().count());
}
