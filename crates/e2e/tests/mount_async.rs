//! Creates and unlinks on our own mount wait for nobody where no other client works, and others see them.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files, processes and time"
)]

use e2e::{Cluster, Mount, Options, has, names};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const FILES: u64 = 600;

/// How many requests of a kind the metadata server has had, and how many of them were asynchronous.
fn counted(cluster: &Cluster, kind: &str) -> (u64, u64) {
    let mds = cluster.active_mds().expect("an active one");
    let dump = cluster.client("ceph", &["tell", &mds, "perf", "dump"]).ok();
    let dump: serde_json::Value = serde_json::from_str(&dump).expect("JSON");
    let counter = |name: &str| dump["mds_server"][name].as_u64().unwrap_or_else(|| panic!("{name}: {dump}"));
    (counter(&format!("req_{kind}")), counter(&format!("req_{kind}_async")))
}

fn assert_nearly_all((all, asynchronous): (u64, u64)) {
    assert!(all >= FILES && asynchronous * 10 >= all * 9, "{asynchronous} of {all}");
}

fn fill(dir: &Path) {
    for n in 0..FILES {
        fs::write(dir.join(n.to_string()), n.to_string()).expect("makes a file");
    }
}

/// Two mounts of a cluster, and the same directory, which is new, on both.
fn two_mounts(cluster: &Cluster) -> ([Mount; 2], PathBuf, PathBuf) {
    let mounts = [Mount::new(cluster, "one"), Mount::new(cluster, "two")];
    let [mine, theirs] = mounts.each_ref().map(|mount| mount.point().join("d"));
    fs::create_dir(&mine).expect("makes a directory");
    (mounts, mine, theirs)
}

#[test]
fn a_loop_of_creates_and_unlinks_is_asynchronous_and_others_see_what_it_does() {
    if !Mount::is_possible() || !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (_mounts, mine, theirs) = two_mounts(&cluster);
    fill(&mine);
    assert_nearly_all(counted(&cluster, "create"));
    assert_eq!(names(&theirs).len() as u64, FILES);
    assert_eq!(fs::read_to_string(theirs.join("17")).expect("reads"), "17");
    fs::remove_dir_all(&mine).expect("removes it");
    assert!(!theirs.exists());

    fs::create_dir(&mine).expect("makes it again");
    fill(&mine);
    let before = counted(&cluster, "unlink");
    for n in 0..FILES {
        fs::remove_file(mine.join(n.to_string())).expect("removes a file");
    }
    let after = counted(&cluster, "unlink");
    assert_nearly_all((after.0 - before.0, after.1 - before.1));
    assert!(names(&theirs).is_empty());
}

#[test]
fn directories_are_made_and_removed_asynchronously() {
    if !Mount::is_possible() || !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (_mounts, mine, theirs) = two_mounts(&cluster);
    for n in 0..FILES {
        fs::create_dir(mine.join(n.to_string())).expect("makes a directory in it");
    }
    assert_nearly_all(counted(&cluster, "mkdir"));
    fs::write(mine.join("17/f"), "x").expect("makes a file in one");
    assert_eq!(names(&theirs).len() as u64, FILES);
    assert_eq!(names(&theirs.join("17")), ["f"]);
    assert_eq!(fs::metadata(&mine).expect("stat").nlink(), FILES + 2);
    // The other has looked at all of them: this one has to have the directory for itself again.
    fs::remove_dir_all(&mine).expect("removes it");
    assert!(!theirs.exists());

    fs::create_dir(&mine).expect("makes it again");
    for n in 0..FILES {
        fs::create_dir(mine.join(n.to_string())).expect("makes a directory in it");
    }
    let before = counted(&cluster, "rmdir");
    fs::remove_dir_all(&mine).expect("removes it");
    let after = counted(&cluster, "rmdir");
    assert_nearly_all((after.0 - before.0, after.1 - before.1));
    assert!(!theirs.exists());
}
