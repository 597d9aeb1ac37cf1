//! Snapshots of directories as ceph-fuse sees them, beside a mount of our own that writes.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files, processes and time"
)]

use e2e::{Cluster, Mount, Options, Program, has, names};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::{Duration, Instant};

/// Bytes of the data pool, once they are at most `most`: OSDs trim clones in the background.
fn wait_for_trimming(cluster: &Cluster, most: u64) {
    let began = Instant::now();
    loop {
        let said = cluster.client("ceph", &["df", "--format", "json"]).ok();
        let df: serde_json::Value = serde_json::from_str(&said).expect("json");
        let pools = df["pools"].as_array().expect("pools");
        let stored: u64 = pools
            .iter()
            .filter(|pool| pool["name"].as_str().is_some_and(|name| name.contains("data")))
            .filter(|pool| !pool["name"].as_str().is_some_and(|name| name.contains("meta")))
            .map(|pool| pool["stats"]["bytes_used"].as_u64().expect("a number"))
            .sum();
        if stored <= most {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{stored} bytes are left");
        std::thread::yield_now();
    }
}

fn snapshots_keep_what_was_there(writer: Program) {
    if !Mount::is_possible() || !has("ceph-fuse") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let fuse = Mount::by(Program::CephFuse, &cluster, "fuse");
    let other = Mount::by(writer, &cluster, "other");
    let (seen, live) = (fuse.point().join("d"), other.point().join("d"));
    fs::create_dir_all(live.join("sub")).expect("makes");
    let big: Vec<u8> = (0..9 << 20).map(|n: u32| (n / 4096) as u8).collect();
    fs::write(live.join("big"), &big).expect("writes");
    fs::write(live.join("gone"), "was here").expect("writes");
    fs::write(live.join("sub/deep"), "below").expect("writes");
    fs::hard_link(live.join("sub/deep"), live.join("link")).expect("links");
    // Open and buffered while the snapshot is made: what was written before belongs to it.
    let mut open = fs::OpenOptions::new().append(true).create(true).open(live.join("log")).expect("opens");
    open.write_all(b"before ").expect("writes");

    fs::create_dir(seen.join(".snap/one")).expect("makes a snapshot");
    open.write_all(b"after").expect("writes");
    let file = fs::OpenOptions::new().write(true).open(live.join("big")).expect("opens");
    file.write_all_at(&[0xee; 8192], 4 << 20).expect("writes");
    file.set_len(5 << 20).expect("cuts");
    drop(file);
    fs::remove_file(live.join("gone")).expect("removes");
    fs::write(live.join("new"), "new").expect("writes");
    fs::write(live.join("link"), "other content").expect("writes");
    fs::set_permissions(live.join("sub"), fs::Permissions::from_mode(0o700)).expect("changes the mode");
    fs::rename(live.join("sub"), other.point().join("moved")).expect("moves to another realm");
    drop(open);

    let snap = seen.join(".snap/one");
    assert_eq!(names(&snap), ["big", "gone", "link", "log", "sub"]);
    assert_eq!(names(&seen), ["big", "link", "log", "new"]);
    assert!(fs::read(snap.join("big")).expect("reads") == big, "the content of before");
    assert_eq!(fs::read(snap.join("gone")).expect("reads"), b"was here");
    assert_eq!(fs::read(snap.join("log")).expect("reads"), b"before ");
    assert_eq!(fs::read(snap.join("link")).expect("reads"), b"below");
    assert_eq!(fs::read(snap.join("sub/deep")).expect("reads"), b"below");
    assert_eq!(fs::metadata(snap.join("sub")).expect("is there").permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::read(seen.join("log")).expect("reads"), b"before after");
    let denied = fs::write(snap.join("big"), "x").expect_err("is read-only");
    assert_eq!(denied.raw_os_error(), Some(30), "{denied}");
    assert_eq!(names(&seen.join(".snap")), ["one"]);

    fs::create_dir(seen.join(".snap/two")).expect("makes another");
    fs::remove_file(live.join("big")).expect("removes");
    assert_eq!(fs::read(seen.join(".snap/two/big")).expect("reads").len(), 5 << 20);
    fs::remove_dir(seen.join(".snap/one")).expect("removes a snapshot");
    assert_eq!(names(&seen.join(".snap")), ["two"]);
    assert_eq!(fs::read(seen.join(".snap/two/big")).expect("reads").len(), 5 << 20);
    fs::remove_dir(seen.join(".snap/two")).expect("removes the last one");
    wait_for_trimming(&cluster, 1 << 20);
}

#[test]
fn snapshots_keep_what_ceph_fuse_wrote() {
    snapshots_keep_what_was_there(Program::CephFuse);
}

#[test]
fn snapshots_keep_what_our_mount_wrote() {
    snapshots_keep_what_was_there(Program::Nacre);
}
