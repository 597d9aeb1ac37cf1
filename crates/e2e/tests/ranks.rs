//! Two active ranks: a directory that is pinned moves to the other with what clients have open in it,
//! operations go over the border, and one of the ranks stops and starts again.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files, processes and time"
)]

use e2e::{Cluster, Mount, Options, Program, has, names};
use rustix::fs::XattrFlags;
use std::fs;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// The ranks that a server shows for a directory: who has it, and -2 if nobody else is to get it.
fn authority(cluster: &Cluster, path: &str) -> Option<(i64, i64)> {
    let mds = cluster.active_mds().expect("one serves");
    let list = cluster.client("ceph", &["tell", &mds, "get", "subtrees"]).ok();
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    let found = list.as_array()?.iter().find(|one| one["dir"]["path"] == path)?;
    Some((found["auth_first"].as_i64()?, found["auth_second"].as_i64()?))
}

fn wait_until_at(cluster: &Cluster, path: &str, rank: Option<i64>) {
    let (began, wanted) = (Instant::now(), rank.map(|rank| (rank, -2)));
    while authority(cluster, path) != wanted {
        assert!(began.elapsed() < PATIENCE, "{path} moves: {:?}", authority(cluster, path));
        std::thread::yield_now();
    }
}

fn pin(dir: &Path, rank: &str) {
    rustix::fs::setxattr(dir, "ceph.dir.pin", rank.as_bytes(), XattrFlags::empty()).expect("pins");
}

/// Sets the number of ranks, and waits until all of them are active and no others are there.
fn set_ranks(cluster: &Cluster, count: usize) {
    let most = count.to_string();
    cluster.client("ceph", &["fs", "set", "cephfs", "max_mds", &most]).ok();
    cluster.wait_for("so many active ranks", |status| {
        let ranks = status["fsmap"]["by_rank"].as_array();
        let is_served = |one: &serde_json::Value| one["status"] == "up:active";
        ranks.is_some_and(|all| all.len() == count && all.iter().all(is_served))
    });
}

fn a_pinned_directory_moves(program: Program) {
    if !Mount::is_possible() || !has("ceph-fuse") {
        return;
    }
    let cluster = Cluster::start(Options { mds: 2, ..Options::default() });
    set_ranks(&cluster, 2);
    let (mount, other) = (Mount::by(program, &cluster, "m"), Mount::new(&cluster, "other"));
    let dir = mount.point().join("a/d");
    fs::create_dir_all(dir.join("sub")).expect("makes");
    let mut open = fs::File::create_new(dir.join("sub/open")).expect("creates");
    open.write_all(b"before ").expect("writes");
    fs::write(dir.join("f"), "f").expect("writes");

    pin(&dir, "1");
    wait_until_at(&cluster, "/a/d", Some(1));
    open.write_all(b"after").expect("writes");
    open.sync_all().expect("syncs");
    let seen = fs::read_to_string(other.point().join("a/d/sub/open"));
    assert_eq!(seen.expect("reads"), "before after", "by another client");
    fs::write(dir.join("new"), "new").expect("writes");
    fs::remove_file(dir.join("f")).expect("removes");
    assert_eq!(names(&dir), ["new", "sub"]);

    // Over the border, and the directory above.
    fs::rename(dir.join("new"), mount.point().join("a/moved")).expect("renames");
    fs::rename(mount.point().join("a"), mount.point().join("b")).expect("renames");
    let dir = mount.point().join("b/d");
    assert_eq!(fs::read(mount.point().join("b/moved")).expect("reads"), b"new");
    wait_until_at(&cluster, "/b/d", Some(1));
    assert_eq!(names(&dir), ["sub"]);

    // And back, still open.
    pin(&dir, "0");
    wait_until_at(&cluster, "/b/d", None);
    open.write_all(b" and later").expect("writes");
    drop(open);
    let mut text = String::new();
    let mut file = fs::File::open(dir.join("sub/open")).expect("opens");
    file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("reads");
    assert_eq!(text, "before after and later");
    fs::remove_dir_all(mount.point().join("b")).expect("removes");
    assert_eq!(names(other.point()), [""; 0]);
}

#[test]
fn a_pinned_directory_moves_to_another_rank_under_nacre_mount() {
    a_pinned_directory_moves(Program::Nacre);
}

#[test]
fn a_pinned_directory_moves_to_another_rank_under_ceph_fuse() {
    a_pinned_directory_moves(Program::CephFuse);
}

fn a_rank_stops_and_starts_again(program: Program) {
    if !Mount::is_possible() || !has("ceph-fuse") {
        return;
    }
    let cluster = Cluster::start(Options { mds: 2, ..Options::default() });
    set_ranks(&cluster, 2);
    let (mount, other) = (Mount::by(program, &cluster, "m"), Mount::new(&cluster, "other"));
    let dir = mount.point().join("d");
    fs::create_dir(&dir).expect("makes");
    pin(&dir, "1");
    wait_until_at(&cluster, "/d", Some(1));
    let mut open = fs::File::create_new(dir.join("open")).expect("creates");
    open.write_all(b"before ").expect("writes");
    let mut removed = fs::File::options();
    let removed = removed.read(true).write(true).create_new(true).open(dir.join("removed"));
    let mut removed = removed.expect("creates");
    removed.write_all(b"still ").expect("writes");
    fs::remove_file(dir.join("removed")).expect("removes");
    fs::write(dir.join("linked"), "linked").expect("writes");
    fs::hard_link(dir.join("linked"), mount.point().join("link")).expect("links");
    fs::remove_file(dir.join("linked")).expect("removes");

    for count in [1, 2] {
        set_ranks(&cluster, count);
        open.write_all(b"after ").expect("writes");
        removed.write_all(b"here ").expect("writes");
        fs::write(dir.join(format!("new{count}")), "new").expect("writes");
        wait_until_at(&cluster, "/d", (count == 2).then_some(1));
    }
    open.sync_all().expect("syncs");
    let seen = fs::read_to_string(other.point().join("d/open"));
    assert_eq!(seen.expect("reads"), "before after after ", "by another client");
    assert_eq!(fs::read_to_string(other.point().join("link")).expect("reads"), "linked");
    let mut text = String::new();
    removed.rewind().and_then(|()| removed.read_to_string(&mut text)).expect("reads");
    assert_eq!(text, "still here here ", "although it has no name");
    assert_eq!(names(&dir), ["new1", "new2", "open"]);
    set_ranks(&cluster, 1);
    assert_eq!(names(&other.point().join("d")), ["new1", "new2", "open"]);
    drop((open, removed));
    fs::remove_dir_all(&dir).expect("removes");
}

#[test]
fn a_rank_stops_and_starts_again_under_nacre_mount() {
    a_rank_stops_and_starts_again(Program::Nacre);
}

#[test]
fn a_rank_stops_and_starts_again_under_ceph_fuse() {
    a_rank_stops_and_starts_again(Program::CephFuse);
}

/// Creates files in a directory until it is told to end; returns how many there are.
fn create_all_the_while(dir: &Path, ends: &AtomicBool) -> usize {
    fs::create_dir(dir).expect("makes");
    let mut count = 0;
    while !ends.load(Ordering::Relaxed) {
        fs::write(dir.join(format!("f{count}")), "x").expect("writes");
        count += 1;
    }
    count
}

fn busy_directories_move(program: Program) {
    if !Mount::is_possible() || !has("ceph-fuse") {
        return;
    }
    let cluster = Cluster::start(Options { mds: 2, ..Options::default() });
    set_ranks(&cluster, 2);
    let (mount, other) = (Mount::by(program, &cluster, "m"), Mount::new(&cluster, "other"));
    let ends = AtomicBool::new(false);
    let dirs = ["a", "b", "c", "d"];
    let at_other = |path: &&str| authority(&cluster, &format!("/{path}")) == Some((1, -2));
    std::thread::scope(|scope| {
        let writers = dirs.map(|dir| {
            let (dir, ends) = (mount.point().join(dir), &ends);
            scope.spawn(move || create_all_the_while(&dir, ends))
        });
        let began = Instant::now();
        while !dirs.iter().any(at_other) && began.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        let loads = cluster.client("ceph", &["tell", "mds.*", "dump", "loads"]).ok();
        let moved: Vec<&str> = dirs.into_iter().filter(at_other).collect();
        ends.store(true, Ordering::Relaxed);
        assert!((1..=3).contains(&moved.len()), "rank 1 has {moved:?} of four busy directories: {loads}");
        for (dir, writer) in dirs.iter().zip(writers) {
            let count = writer.join().expect("creates");
            assert_eq!(names(&other.point().join(dir)).len(), count, "files in {dir}");
        }
    });
    let loads = cluster.client("ceph", &["tell", "mds.a", "dump", "loads"]).ok();
    let loads: serde_json::Value = serde_json::from_str(&loads).expect("JSON");
    assert!(loads["mds_load"]["mds.0"]["mds_load"].is_number(), "{loads}");
    assert!(loads["mds_load"]["mds.1"]["mds_load"].is_number(), "{loads}");
}

#[test]
fn busy_directories_move_to_an_idle_rank_under_nacre_mount() {
    busy_directories_move(Program::Nacre);
}

#[test]
fn busy_directories_move_to_an_idle_rank_under_ceph_fuse() {
    busy_directories_move(Program::CephFuse);
}

/// The ranks that answer for a directory, as its authority shows them.
fn replicas(cluster: &Cluster, path: &str) -> Vec<i64> {
    let mds = cluster.active_mds().expect("one serves");
    let loads = cluster.client("ceph", &["tell", &mds, "dump", "loads"]).ok();
    let loads: serde_json::Value = serde_json::from_str(&loads).expect("JSON");
    let dirs = loads["dirfrags"].as_array().expect("a list").iter();
    let ranks = dirs.filter(|one| one["path"] == path).filter_map(|one| one["dir_rep"].as_array());
    ranks.flatten().filter_map(serde_json::Value::as_i64).collect()
}

/// Has both ranks answer for a directory, while clients read it.
fn replicate(cluster: &Cluster, path: &str, read: impl Fn()) {
    let (began, mds) = (Instant::now(), cluster.active_mds().expect("one serves"));
    while replicas(cluster, path) != [0, 1] {
        assert!(began.elapsed() < PATIENCE, "{path} gets a replica");
        // It may have to wait, or be on its way.
        cluster.client("ceph", &["tell", &mds, "replicate", "dir", &format!("/{path}")]);
        read();
    }
}

fn both_ranks_answer_for_a_directory(program: Program) {
    if !Mount::is_possible() || !has("ceph-fuse") {
        return;
    }
    let cluster = Cluster::start(Options { mds: 2, ..Options::default() });
    set_ranks(&cluster, 2);
    let (mount, other) = (Mount::by(program, &cluster, "m"), Mount::new(&cluster, "other"));
    let dir = mount.point().join("include");
    fs::create_dir(&dir).expect("makes");
    let files: Vec<String> = (0..30).map(|n| format!("h{n}")).collect();
    files.iter().for_each(|file| fs::write(dir.join(file), "0").expect("writes"));
    let at_other = other.point().join("include");
    let read_all = |dir: &Path, round: usize| {
        for file in &files {
            let text = fs::read_to_string(dir.join(file)).expect("reads");
            assert_eq!(text, round.to_string(), "{file} of {}", dir.display());
        }
        assert!(!dir.join("absent").exists());
    };
    for round in 0..4 {
        replicate(&cluster, "include", || [&dir, &at_other].into_iter().for_each(|dir| read_all(dir, round)));
        [&dir, &at_other].into_iter().for_each(|dir| read_all(dir, round));
        // One changes them, and both see it at once; so does who has had a file open.
        let mut open = fs::File::open(at_other.join("h0")).expect("opens");
        let (writes, reads) = if round % 2 == 0 { (&dir, &at_other) } else { (&at_other, &dir) };
        let next = (round + 1).to_string();
        files.iter().for_each(|file| fs::write(writes.join(file), &next).expect("writes"));
        read_all(reads, round + 1);
        let mut text = String::new();
        open.read_to_string(&mut text).expect("reads");
        assert_eq!(text, next, "as who has had it open sees it");
        fs::write(writes.join("new"), "new").expect("writes");
        assert_eq!(fs::read(reads.join("new")).expect("reads"), b"new");
        fs::remove_file(reads.join("new")).expect("removes");
        assert!(!writes.join("new").exists());
    }
    replicate(&cluster, "include", || read_all(&at_other, 4));
    fs::remove_dir_all(&dir).expect("removes");
    assert!(!at_other.exists());
}

#[test]
fn both_ranks_answer_for_a_directory_under_nacre_mount() {
    both_ranks_answer_for_a_directory(Program::Nacre);
}

#[test]
fn both_ranks_answer_for_a_directory_under_ceph_fuse() {
    both_ranks_answer_for_a_directory(Program::CephFuse);
}

/// Has a part of a directory handed over by the rank that has it.
fn export(cluster: &Cluster, path: &str, rank: &str, frag: &str) {
    let began = Instant::now();
    let by = |mds: &str| cluster.client("ceph", &["tell", mds, "export", "dir", path, rank, frag]).code == 0;
    while !["mds.a", "mds.b"].iter().any(|mds| by(mds)) {
        assert!(began.elapsed() < PATIENCE, "{path} {frag} can be handed over");
    }
}

fn shards(cluster: &Cluster, path: &str) -> Vec<(i64, i64)> {
    let mds = cluster.active_mds().expect("one serves");
    let list = cluster.client("ceph", &["tell", &mds, "get", "subtrees"]).ok();
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    let all = list.as_array().expect("a list").iter().filter(|one| one["dir"]["path"] == path);
    all.map(|one| (one["auth_first"].as_i64().expect("a rank"), one["auth_second"].as_i64().expect("a rank")))
        .collect()
}

/// Two clients make, list, rename and remove files in one directory that two ranks serve.
fn two_ranks_serve_one_directory(program: Program) {
    if !Mount::is_possible() || !has("ceph-fuse") {
        return;
    }
    let cluster = Cluster::start(Options { mds: 2, ..Options::default() });
    set_ranks(&cluster, 2);
    cluster.client("ceph", &["fs", "set", "cephfs", "balance_automate", "false"]).ok();
    let (mount, other) = (Mount::by(program, &cluster, "m"), Mount::new(&cluster, "other"));
    let (dir, same) = (mount.point().join("d"), other.point().join("d"));
    fs::create_dir(&dir).expect("makes");
    let mut open = fs::File::create_new(dir.join("open")).expect("creates");
    open.write_all(b"before ").expect("writes");
    (0..200).for_each(|file| fs::write(dir.join(format!("f{file}")), "f").expect("writes"));
    let split =
        |mds: &str| cluster.client("ceph", &["tell", mds, "dirfrag", "split", "/d", "0/0", "1"]).code == 0;
    assert!(["mds.a", "mds.b"].iter().any(|mds| split(mds)), "it can be split");
    for (frag, rank) in [("800000/1", "1"), ("0/1", "1")] {
        export(&cluster, "/d", rank, frag);
        let began = Instant::now();
        let wanted = if frag == "0/1" { 2 } else { 1 };
        while shards(&cluster, "/d") != vec![(1, -2); wanted] {
            assert!(began.elapsed() < PATIENCE, "{frag} moves: {:?}", shards(&cluster, "/d"));
        }
        open.write_all(b"after ").expect("writes");
        open.sync_all().expect("syncs");
        for file in 0..50 {
            fs::write(dir.join(format!("{rank}-{wanted}-{file}")), "here").expect("writes");
            fs::create_dir(same.join(format!("dir-{wanted}-{file}"))).expect("makes");
            fs::remove_file(same.join(format!("f{}", wanted * 50 + file))).expect("removes");
        }
        assert_eq!(fs::read(dir.join("f0")).expect("reads"), b"f");
    }
    fs::rename(dir.join("f0"), dir.join("moved")).expect("renames");
    assert_eq!(names(&dir), names(&same), "both see the same");
    assert_eq!(names(&dir).len(), 1 + 200 - 100 + 100 + 100);
    let seen = fs::read_to_string(same.join("open")).expect("reads");
    assert_eq!(seen, "before after after ");
    assert!(fs::remove_dir(&dir).is_err(), "it is not empty");
    drop(open);
    fs::remove_dir_all(&same).expect("removes");
    assert_eq!(names(mount.point()), [""; 0]);
    assert_eq!(shards(&cluster, "/d"), []);
}

#[test]
fn two_ranks_serve_one_directory_for_nacre_mount() {
    two_ranks_serve_one_directory(Program::Nacre);
}

#[test]
fn two_ranks_serve_one_directory_for_ceph_fuse() {
    two_ranks_serve_one_directory(Program::CephFuse);
}
