//! A mount that was evicted comes back by itself within seconds: handles go on, and those of files with
//! unsaved data are told once that these are lost.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files, processes and time"
)]

use e2e::{Cluster, Mount, Options, Program, has};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// A client is back in less.
const PATIENCE: Duration = Duration::from_secs(30);
const EIO: i32 = 5;

/// Evicts a mount while something goes on there, and waits until it is back under another id.
fn evict(cluster: &Cluster, meanwhile: impl Fn()) {
    let before = cluster.clients_at("mount");
    assert_eq!(before.len(), 1);
    std::thread::scope(|scope| {
        let evicts = scope.spawn(|| cluster.evict(before[0]));
        while !evicts.is_finished() {
            meanwhile();
        }
    });
    let began = Instant::now();
    loop {
        let now = cluster.clients_at("mount");
        if now.len() == 1 && now != before {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "the mount is not back: {now:?}");
    }
}

fn errno(result: std::io::Result<()>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

fn log(cluster: &Cluster) -> String {
    fs::read_to_string(cluster.dir().join("log/mount.log")).expect("a log")
}

fn content(at: &Path) -> String {
    fs::read_to_string(at).expect("reads")
}

#[test]
fn an_evicted_mount_comes_back_and_tells_what_was_lost() {
    if !Mount::is_possible() || !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (mount, other) = (Mount::by(Program::Nacre, &cluster, "mount"), Mount::new(&cluster, "other"));
    let at = |name: &str| mount.point().join(name);
    fs::create_dir(at("d")).expect("makes a directory");
    fs::write(at("d/clean"), "clean").expect("writes");
    let mut clean = File::options().read(true).write(true).open(at("d/clean")).expect("opens");
    clean.sync_all().expect("syncs");

    // Nothing unsaved: nobody notices.
    evict(&cluster, || ());
    let mut text = String::new();
    clean.read_to_string(&mut text).expect("an open file goes on");
    assert_eq!(text, "clean");
    clean.rewind().expect("rewinds");
    clean.write_all(b"CLEAN").expect("writes");
    clean.sync_all().expect("nothing was lost");
    assert_eq!(content(&other.point().join("d/clean")), "CLEAN");
    fs::write(at("d/new"), "new").expect("writes");
    assert_eq!(content(&other.point().join("d/new")), "new");
    assert!(log(&cluster).contains("evicted"), "{}", log(&cluster));
    assert!(log(&cluster).contains("files with lost writes: 0;"), "{}", log(&cluster));

    // Unsaved data: exactly these handles say so, once.
    let (one, two) = (File::create(at("d/lost")).expect("creates"), File::open(at("d/lost")).expect("opens"));
    one.sync_all().expect("syncs");
    // It is written back some seconds later.
    evict(&cluster, || one.write_all_at(b"lost", 0).expect("writes"));
    assert_eq!([errno(one.sync_all()), errno(one.sync_all())], [Some(EIO), None]);
    assert_eq!([errno(two.sync_all()), errno(two.sync_all())], [Some(EIO), None]);
    assert_eq!(errno(clean.sync_all()), None);
    one.write_all_at(b"kept", 0).expect("writes");
    one.sync_all().expect("syncs");
    assert_eq!(content(&other.point().join("d/lost")), "kept");
    assert!(log(&cluster).contains("files with lost writes: 1;"), "{}", log(&cluster));
}

#[test]
fn a_mount_whose_address_is_put_on_the_blocklist_comes_back() {
    if !Mount::is_possible() || !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options { auth: "none", ..Options::default() });
    let mount = Mount::new(&cluster, "mount");
    fs::write(mount.point().join("f"), "content").expect("writes");
    File::open(mount.point().join("f")).expect("opens").sync_all().expect("syncs");
    let before = cluster.clients_at("mount");
    let mds = cluster.active_mds().expect("one serves");
    let list = cluster.client("ceph", &["tell", &mds, "session", "ls"]).ok();
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    let addr = list[0]["addrs"][0].as_str().expect("an address").trim_start_matches("any:").to_owned();
    cluster.client("ceph", &["osd", "blocklist", "add", &addr]).ok();
    let began = Instant::now();
    while cluster.clients_at("mount").iter().all(|id| before.contains(id)) {
        assert!(began.elapsed() < PATIENCE, "it is not back");
    }
    assert_eq!(content(&mount.point().join("f")), "content");
    fs::write(mount.point().join("f"), "more").expect("writes");
    assert_eq!(cluster.clients_at("mount").len(), 1, "the former session is gone");
}
