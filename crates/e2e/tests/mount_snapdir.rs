//! Snapshots that are made, read and removed through mounts of our own, beside ceph-fuse.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files, processes and time"
)]

use e2e::{Cluster, Mount, Options, Program, has, names};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const EROFS: i32 = 30;
const ESTALE: i32 = 116;

fn xattr(path: &Path, name: &str) -> Vec<u8> {
    let mut value = vec![0; 100];
    let len = rustix::fs::getxattr(path, name, &mut value[..]).unwrap_or_else(|e| panic!("{name}: {e}"));
    value.truncate(len);
    value
}

fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

/// A directory with files, of which two are open and have content that only their writers know.
struct Tree {
    at_one: PathBuf,
    big: Vec<u8>,
    /// Open through the mount that makes the snapshot, and through another.
    open: [fs::File; 2],
}

fn tree(one: &Mount, two: &Mount) -> Tree {
    let (at_one, at_two) = (one.point().join("d"), two.point().join("d"));
    fs::create_dir_all(at_one.join("sub")).expect("makes");
    let big: Vec<u8> = (0..9 << 20).map(|n: u32| (n / 4096) as u8).collect();
    fs::write(at_one.join("big"), &big).expect("writes");
    fs::write(at_one.join("gone"), "was here").expect("writes");
    fs::write(at_two.join("sub/deep"), "below").expect("writes");
    symlink("sub/deep", at_one.join("link")).expect("links");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(at_one.join("gone"), "user.colour", b"green", flags).expect("sets");
    let open = [at_one.join("log1"), at_two.join("log2")].map(|path| {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).expect("opens");
        file.write_all(b"before ").expect("writes");
        file
    });
    Tree { at_one, big, open }
}

/// Changes everything that a snapshot of the tree contains.
fn change(tree: &mut Tree) {
    let at = &tree.at_one;
    tree.open.iter_mut().for_each(|file| file.write_all(b"after").expect("writes"));
    let big = fs::OpenOptions::new().write(true).open(at.join("big")).expect("opens");
    big.write_all_at(&[0xee; 8192], 4 << 20).expect("writes");
    big.set_len(5 << 20).expect("cuts");
    big.sync_all().expect("syncs");
    fs::remove_file(at.join("gone")).expect("removes");
    fs::remove_file(at.join("link")).expect("removes");
    fs::write(at.join("new"), "new").expect("writes");
    fs::write(at.join("sub/deep"), "other content").expect("writes");
    fs::set_permissions(at.join("sub"), fs::Permissions::from_mode(0o700)).expect("changes the mode");
    fs::rename(at.join("sub"), at.join("moved")).expect("moves");
}

fn has_what_was_there(snap: &Path, tree: &Tree) {
    let shown = snap.display();
    assert_eq!(names(snap), ["big", "gone", "link", "log1", "log2", "sub"], "{shown}");
    assert!(fs::read(snap.join("big")).expect("reads") == tree.big, "{shown}: the content of before");
    for (name, content) in [("gone", "was here"), ("log1", "before "), ("log2", "before "), ("link", "below")]
    {
        assert_eq!(fs::read_to_string(snap.join(name)).expect("reads"), content, "{shown}/{name}");
    }
    assert_eq!(fs::read_link(snap.join("link")).expect("reads"), Path::new("sub/deep"));
    assert_eq!(fs::metadata(snap.join("sub")).expect("is there").mode() & 0o777, 0o755);
    assert_eq!(names(&snap.join("sub")), ["deep"]);
    assert_eq!(xattr(&snap.join("gone"), "user.colour"), b"green");
}

#[test]
fn a_snapshot_has_what_was_written_before_it_on_every_mount() {
    if !Mount::is_possible() || !has("ceph-fuse") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let fuse = Mount::by(Program::CephFuse, &cluster, "fuse");
    let mut tree = tree(&one, &two);
    fs::create_dir(tree.at_one.join(".snap/one")).expect("makes a snapshot");
    has_what_was_there(&tree.at_one.join(".snap/one"), &tree);
    change(&mut tree);
    for mount in [&one, &two, &fuse] {
        has_what_was_there(&mount.point().join("d/.snap/one"), &tree);
        assert_eq!(names(&mount.point().join("d")), ["big", "log1", "log2", "moved", "new"]);
    }
    let snap = two.point().join("d/.snap/one");
    let at_two = two.point().join("d");
    assert_eq!(fs::read_to_string(at_two.join("log1")).expect("reads"), "before after");
    assert_eq!(fs::read(at_two.join("big")).expect("reads").len(), 5 << 20);

    // What is there twice is told apart, and has the same number everywhere.
    let number = |path: PathBuf| fs::metadata(path).expect("is there").ino();
    assert_ne!(number(snap.join("big")), number(at_two.join("big")));
    assert_ne!(number(snap.clone()), number(at_two.clone()));
    assert_eq!(number(snap.join("big")), number(tree.at_one.join(".snap/one/big")));
    let made = String::from_utf8(xattr(&snap, "ceph.snap.btime")).expect("ascii");
    assert_eq!(made.as_bytes(), xattr(&fuse.point().join("d/.snap/one"), "ceph.snap.btime"));
    rustix::fs::statfs(&snap).expect("statfs");
}

#[test]
fn nothing_in_a_snapshot_can_be_changed_and_names_of_snapshots_follow_ceph() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let _tree = tree(&one, &two);
    let (snaps, seen) = (one.point().join("d/.snap"), two.point().join("d/.snap"));
    fs::create_dir(snaps.join("one")).expect("makes a snapshot");
    let snap = seen.join("one");
    assert_eq!(errno(fs::write(snap.join("gone"), "x")), Some(EROFS));
    assert_eq!(errno(fs::write(snap.join("new"), "x")), Some(EROFS));
    assert_eq!(errno(fs::create_dir(snap.join("new"))), Some(EROFS));
    assert_eq!(errno(fs::remove_file(snap.join("gone"))), Some(EROFS));
    assert_eq!(errno(fs::rename(snap.join("gone"), snap.join("new"))), Some(EROFS));
    let mode = fs::Permissions::from_mode(0o600);
    assert_eq!(errno(fs::set_permissions(snap.join("gone"), mode)), Some(EROFS));
    assert!(fs::create_dir(snaps.join("_one")).is_err(), "such names are those of snapshots above");
    assert!(fs::create_dir(snaps.join("one")).is_err(), "it exists");

    let top = fs::metadata(one.point().join("d")).expect("is there").ino();
    let inherited = two.point().join("d/sub/.snap");
    assert_eq!(names(&inherited), [format!("_one_{top}")]);
    assert!(fs::remove_dir(inherited.join(format!("_one_{top}"))).is_err(), "it is not here");
    let deep = inherited.join(format!("_one_{top}")).join("deep");
    assert_eq!(fs::read_to_string(&deep).expect("reads"), "below");
    fs::rename(snaps.join("one"), snaps.join("1")).expect("renames");
    assert_eq!((names(&snaps), names(&seen)), (vec!["1".to_owned()], vec!["1".to_owned()]));
    assert!(!snap.exists() && fs::read_to_string(seen.join("1/sub/deep")).expect("reads") == "below");
    assert_eq!(names(&inherited), [format!("_1_{top}")]);
}

#[test]
fn a_removed_snapshot_is_gone_at_once_and_its_open_files_say_so() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let mut tree = tree(&one, &two);
    let snap = two.point().join("d/.snap/one");
    fs::create_dir(tree.at_one.join(".snap/one")).expect("makes a snapshot");
    fs::create_dir(tree.at_one.join(".snap/two")).expect("makes another");
    change(&mut tree);
    assert_eq!(names(&two.point().join("d/.snap")), ["one", "two"]);
    assert_eq!(names(&snap).len(), 6);
    fs::remove_dir(tree.at_one.join(".snap/two")).expect("removes");
    assert_eq!(names(&two.point().join("d/.snap")), ["one"]);
    has_what_was_there(&snap, &tree);

    // Of this one, no page is in the kernel.
    let open = fs::File::open(snap.join("big")).expect("opens");
    fs::remove_dir(tree.at_one.join(".snap/one")).expect("removes");
    assert!(!snap.exists() && !snap.join("gone").exists() && !tree.at_one.join(".snap/one").exists());
    assert_eq!(names(&two.point().join("d/.snap")), [""; 0]);
    let began = Instant::now();
    // OSDs trim the old content in the background; until then it is what is read.
    let mut content = [0; 4096];
    let error = loop {
        match open.read_exact_at(&mut content, 4 << 20) {
            Ok(()) => assert!(content == tree.big[4 << 20..(4 << 20) + 4096]),
            Err(error) => break error,
        }
        rustix::fs::fadvise(&open, 0, None, rustix::fs::Advice::DontNeed).expect("drops pages");
        assert!(began.elapsed() < Duration::from_secs(60), "the removed snapshot can still be read");
        std::thread::yield_now();
    };
    assert_eq!(error.raw_os_error(), Some(ESTALE), "{error}");
    drop(open);
    assert_eq!(fs::read(tree.at_one.join("big")).expect("reads").len(), 5 << 20);
}

#[test]
fn a_snapshot_above_another_one_keeps_what_is_written_below_that() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let (deep, top) = (one.point().join("a/b/c"), two.point().join("a"));
    fs::create_dir_all(&deep).expect("makes");
    let file = fs::File::create(deep.join("f")).expect("makes");
    file.write_all_at(b"first!", 0).expect("writes");
    fs::create_dir(deep.join(".snap/below")).expect("makes a snapshot");
    file.write_all_at(b"second", 0).expect("writes");
    fs::create_dir(top.join(".snap/above")).expect("makes another around it");
    // The file stays open: no answer of the server tells of the realms again.
    file.write_all_at(b"third!", 0).expect("writes");
    file.sync_all().expect("syncs");
    for mount in [&one, &two] {
        let a = mount.point().join("a");
        let read = |path: PathBuf| fs::read_to_string(path).expect("reads");
        assert_eq!(read(a.join(".snap/above/b/c/f")), "second");
        assert_eq!(read(a.join("b/c/.snap/below/f")), "first!");
        assert_eq!(read(a.join("b/c/f")), "third!");
    }
}
