//! Large directories, which are split into fragments while clients use them, and joined when they are
//! emptied.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests with real files")]

use e2e::{Cluster, Mount, Options, has, names};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The objects of the file system's metadata whose names begin so.
fn objects(cluster: &Cluster, prefix: &str) -> Vec<String> {
    let listed = cluster.client("rados", &["-p", "cephfs_metadata", "ls"]).ok();
    let fragment = |name: &&str| name.starts_with(prefix) && !name.ends_with(".inode");
    listed.lines().filter(fragment).map(str::to_owned).collect()
}

/// The fragments of a directory, by the server.
fn fragments(cluster: &Cluster, path: &str) -> Vec<String> {
    let listed = cluster.client("ceph", &["tell", "mds.a", "dirfrag", "ls", path]).ok();
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let list = listed.as_array().expect("a list").iter();
    list.map(|frag| frag["str"].as_str().expect("a fragment").to_owned()).collect()
}

/// Looks at something until it is as it should be. A look starts a program.
fn until<T: std::fmt::Debug>(look: impl Fn() -> T, is_right: impl Fn(&T) -> bool) {
    let begun = Instant::now();
    loop {
        let seen = look();
        if is_right(&seen) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{seen:?}");
    }
}

fn make(dir: &Path, range: std::ops::Range<usize>) {
    range.for_each(|i| drop(fs::File::create(dir.join(format!("file-{i}"))).expect("makes")));
}

fn expected(range: std::ops::Range<usize>) -> BTreeSet<String> {
    range.map(|i| format!("file-{i}")).collect()
}

fn listed(dir: &Path) -> BTreeSet<String> {
    let names = names(dir);
    let set: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(set.len(), names.len(), "no name is listed twice");
    set
}

#[test]
fn every_client_sees_all_of_a_directory_that_is_split() {
    if !Mount::is_possible() || !has("rados") || !has("ceph") {
        return;
    }
    let mut cluster = Cluster::start(Options::default());
    cluster.client("ceph", &["tell", "mds.a", "config", "set", "mds_bal_split_size", "40"]).ok();
    let (a, b) = (Mount::new(&cluster, "a"), Mount::new(&cluster, "b"));
    let (at, seen) = (a.point().join("d"), b.point().join("d"));
    fs::create_dir(&at).expect("makes");
    make(&at, 0..400);
    // A listing that has begun goes on while the directory is split again.
    let mut half = fs::read_dir(&seen).expect("lists");
    let first: Vec<_> = half.by_ref().take(150).map(|entry| entry.expect("an entry").file_name()).collect();
    make(&at, 400..900);
    let rest: Vec<_> = half.map(|entry| entry.expect("an entry").file_name()).collect();
    let both: BTreeSet<String> =
        first.iter().chain(&rest).map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(both.is_superset(&expected(0..400)), "{} names of 400 and later ones", both.len());

    assert_eq!(listed(&at), expected(0..900));
    assert_eq!(listed(&seen), expected(0..900));
    until(|| objects(&cluster, "10000000000."), |objects| objects.len() >= 8);
    assert!(fragments(&cluster, "/d").len() >= 8);
    cluster.kill_and_restart();
    let fresh = Mount::new(&cluster, "c");
    assert_eq!(listed(&fresh.point().join("d")), expected(0..900));
    for i in 0..900 {
        fs::remove_file(fresh.point().join(format!("d/file-{i}"))).expect("removes");
    }
    assert_eq!(listed(&seen), BTreeSet::new());
    until(|| fragments(&cluster, "/d"), |fragments| *fragments == ["0/0"]);
    until(|| objects(&cluster, "10000000000."), |objects| *objects == ["10000000000.00000000"]);

    // By hand.
    make(&at, 0..5);
    cluster.client("ceph", &["tell", "mds.a", "dirfrag", "split", "/d", "0/0", "2"]).ok();
    until(
        || fragments(&cluster, "/d"),
        |fragments| *fragments == ["0/2", "400000/2", "800000/2", "c00000/2"],
    );
    assert_eq!(listed(&seen), expected(0..5));
    cluster.client("ceph", &["tell", "mds.a", "dirfrag", "merge", "/d", "0/0"]).ok();
    until(|| fragments(&cluster, "/d"), |fragments| *fragments == ["0/0"]);
    assert_eq!(listed(&seen), expected(0..5));
    let refused = cluster.client("ceph", &["tell", "mds.a", "dirfrag", "merge", "/d", "0/0"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    (0..5).for_each(|i| fs::remove_file(at.join(format!("file-{i}"))).expect("removes"));
    fs::remove_dir(&at).expect("removes");
}
