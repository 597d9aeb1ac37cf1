//! A mounted file system holds what is copied into it, also when the whole cluster is killed underneath.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files and processes"
)]

use e2e::{Cluster, Mount, Options, has, run};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

/// A tree of small files, a large one, links and odd modes and times.
fn make_tree(at: &Path) {
    for d in 0..12 {
        let dir = at.join(format!("d{d}/sub"));
        std::fs::create_dir_all(&dir).expect("makes");
        for f in 0..20usize {
            let data = stdx::Buf::pattern((d * 100 + f) as u64, f * 700).to_vec();
            std::fs::write(dir.join(format!("f{f}")), data).expect("writes");
        }
        symlink(format!("sub/f{d}"), at.join(format!("d{d}/link"))).expect("links");
    }
    std::fs::write(at.join("large"), stdx::Buf::pattern(1, (9 << 20) + 5).to_vec()).expect("writes");
    std::fs::hard_link(at.join("d1/sub/f3"), at.join("second name")).expect("links");
    run(Command::new("chmod").arg("640").arg(at.join("d2/sub/f2"))).ok();
    run(Command::new("touch").args(["-d", "2001-02-03 04:05:06.789"]).arg(at.join("d3/sub/f3"))).ok();
}

/// Path, mode, owner, time and size of everything; sizes of directories are each file system's own.
fn listing(root: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir).expect("lists").map(|e| e.expect("an entry")) {
            let m = entry.path().symlink_metadata().expect("is there");
            let size = if m.is_dir() { 0 } else { m.len() };
            let name = entry.path().strip_prefix(root).expect("below it").display().to_string();
            let (mode, uid, gid) = (m.mode(), m.uid(), m.gid());
            out.push(format!("{name} {mode:o} {uid} {gid} {}.{} {size}", m.mtime(), m.mtime_nsec()));
            if m.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    out.sort();
    out
}

fn assert_same(a: &Path, b: &Path) {
    let (left, right) = (listing(a), listing(b));
    let differing: Vec<_> = left.iter().zip(&right).filter(|(l, r)| l != r).take(5).collect();
    assert!(
        left.len() == right.len() && differing.is_empty(),
        "{} {} {differing:?}",
        left.len(),
        right.len()
    );
    run(Command::new("diff").args(["-r", "--no-dereference"]).arg(a).arg(b)).ok();
}

#[test]
fn a_copied_tree_survives_the_death_of_the_cluster_and_of_the_mount() {
    if !Mount::is_possible() {
        return;
    }
    let mut cluster = Cluster::start(Options::default());
    let source = cluster.dir().join("source");
    std::fs::create_dir(&source).expect("makes");
    make_tree(&source);
    let mut mount = Mount::new(&cluster, "m1");
    let copy = mount.point().join("copy");
    run(Command::new("cp").arg("-a").arg(&source).arg(&copy)).ok();
    assert_same(&source, &copy);

    let mut open = std::fs::File::create(mount.point().join("open")).expect("creates");
    open.write_all(b"before ").expect("writes");
    let second = mount.point().join("second");
    let mut copying = Command::new("cp").arg("-a").arg(&source).arg(&second).spawn().expect("starts");
    cluster.kill_and_restart();
    assert!(copying.wait().expect("ends").success(), "cp goes on after the restart");
    open.write_all(b"after").expect("writes");
    open.sync_all().expect("syncs");
    assert_same(&source, &copy);
    assert_same(&source, &second);

    // Not `sync -f`: Linux does not tell a FUSE file system of it (docs/mount.md).
    run(Command::new("sync").arg(mount.point())).ok();
    mount.kill_and_mount_again(&cluster);
    assert_same(&source, &second);
    let text = std::fs::read_to_string(mount.point().join("open")).expect("reads");
    assert_eq!(text, "before after");
    let other = Mount::new(&cluster, "m2");
    std::fs::write(mount.point().join("news"), "from one mount").expect("writes");
    let seen = std::fs::read_to_string(other.point().join("news")).expect("reads");
    assert_eq!(seen, "from one mount", "seen by the other at once");
}

#[test]
fn a_metadata_server_whose_place_is_given_away_begins_anew() {
    if !Mount::is_possible() || !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let mount = Mount::new(&cluster, "m");
    let mut open = std::fs::File::create(mount.point().join("open")).expect("creates");
    open.write_all(b"before ").expect("writes");
    let gid = |status: &serde_json::Value| status["fsmap"]["by_rank"][0]["gid"].as_u64();
    let first = gid(&cluster.status()).expect("a server has the rank");
    cluster.client("ceph", &["mds", "fail", "a"]).ok();
    cluster.wait_for("another incarnation of mds.a", |status| {
        let rank = &status["fsmap"]["by_rank"][0];
        rank["status"] == "up:active" && gid(status).is_some_and(|gid| gid != first)
    });
    open.write_all(b"after").expect("writes");
    open.sync_all().expect("syncs");
    std::fs::create_dir(mount.point().join("dir")).expect("makes");
    let text = std::fs::read_to_string(mount.point().join("open")).expect("reads");
    assert_eq!(text, "before after");
}
