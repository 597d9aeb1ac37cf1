//! Quotas of directories, set and observed by our own mount and by ceph-fuse.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files, processes and time"
)]

use e2e::{Cluster, Mount, Options, Program, has};
use rustix::fs::XattrFlags;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const EXDEV: i32 = 18;
const EDQUOT: i32 = 122;
/// Statistics move up a level in some seconds, and programs write meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

fn set(dir: &Path, name: &str, value: &str) {
    let done = rustix::fs::setxattr(dir, format!("ceph.quota{name}"), value.as_bytes(), XattrFlags::empty());
    done.unwrap_or_else(|e| panic!("{}: {name}: {e}", dir.display()));
}

fn get(dir: &Path, name: &str) -> Option<String> {
    let mut value = vec![0; 100];
    let len = rustix::fs::getxattr(dir, format!("ceph.quota{name}"), &mut value[..]).ok()?;
    value.truncate(len);
    String::from_utf8(value).ok()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// Makes files until that fails. Returns their number and the error.
fn fill(mut make: impl FnMut(u32) -> std::io::Result<()>) -> (u32, Option<i32>) {
    let began = Instant::now();
    for n in 0.. {
        if let Err(error) = make(n) {
            return (n, error.raw_os_error());
        }
        assert!(began.elapsed() < PATIENCE, "{n} were made");
    }
    unreachable!("it fails or takes too long")
}

fn quotas_are_observed(setter: Program, writer: Program) {
    if !Mount::is_possible() || !has("ceph-fuse") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::by(setter, &cluster, "one"), Mount::by(writer, &cluster, "two"));
    let (at_one, at_two) = (one.point().join("d"), two.point().join("d"));
    fs::create_dir_all(at_one.join("sub")).expect("makes");
    assert_eq!(get(&at_two, ".max_bytes"), None);
    set(&at_one, ".max_bytes", "2000000");
    assert_eq!(get(&at_one, ".max_bytes").as_deref(), Some("2000000"));
    wait_for("the other mount knows the quota", || {
        get(&at_two, "").as_deref() == Some("max_bytes=2000000 max_files=0")
    });

    // The sizes of other files become known some seconds late, and the mount is stopped then.
    let content = vec![7; 100_000];
    let (count, error) = fill(|n| {
        let mut file = fs::File::create(at_two.join(format!("sub/{n}")))?;
        file.write_all(&content)?;
        file.sync_all()
    });
    assert_eq!(error, Some(EDQUOT));
    assert!(count >= 15, "{count} files were written");
    fs::write(two.point().join("elsewhere"), &content).expect("has no quota");
    let moved = fs::rename(two.point().join("elsewhere"), at_two.join("sub/moved"));
    assert_eq!(moved.err().and_then(|e| e.raw_os_error()), Some(EXDEV));

    set(&at_one, "", "max_bytes=0 max_files=1000");
    wait_for("the other mount knows the change", || get(&at_two, ".max_files").as_deref() == Some("1000"));
    set(&at_one, ".max_files", "50");
    let (_, error) = fill(|n| fs::create_dir(at_two.join(format!("sub/dir{n}"))));
    assert_eq!(error, Some(EDQUOT));
    let error = fs::File::create(at_two.join("sub/file")).err().and_then(|e| e.raw_os_error());
    assert_eq!(error, Some(EDQUOT));
    set(&at_one, "", "0");
    wait_for("the quota is removed", || fs::File::create(at_two.join("sub/file")).is_ok());
}

#[test]
fn our_mount_observes_quotas_that_it_sets() {
    quotas_are_observed(Program::Nacre, Program::Nacre);
}

#[test]
fn our_mount_observes_quotas_that_ceph_fuse_sets() {
    quotas_are_observed(Program::CephFuse, Program::Nacre);
}

#[test]
fn ceph_fuse_observes_quotas_that_our_mount_sets() {
    quotas_are_observed(Program::Nacre, Program::CephFuse);
}

#[test]
fn one_file_stops_at_the_quota_and_the_root_has_the_size_of_its_quota() {
    if !Mount::is_possible() || !has("ceph-fuse") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let mount = Mount::new(&cluster, "one");
    let root = mount.point();
    fs::create_dir(root.join("d")).expect("makes");
    set(&root.join("d"), ".max_bytes", "20M");
    let mut file = fs::File::create(root.join("d/file")).expect("makes");
    let mib = vec![7; 1 << 20];
    let (count, error) = fill(|_| file.write_all(&mib));
    assert_eq!((count, error), (20, Some(EDQUOT)), "buffered data count at once");
    drop(file);

    set(root, ".max_bytes", "100M");
    let size = |mount: &Mount| {
        let fs = rustix::fs::statfs(mount.point()).expect("statfs");
        let bytes = |blocks| blocks * fs.f_bsize as u64;
        (bytes(fs.f_blocks), bytes(fs.f_bavail))
    };
    wait_for("what is used is subtracted", || size(&mount) == (100 << 20, 80 << 20));
    let fuse = Mount::by(Program::CephFuse, &cluster, "fuse");
    wait_for("ceph-fuse shows the same", || size(&fuse) == (100 << 20, 80 << 20));
    rustix::fs::removexattr(root, "ceph.quota.max_bytes").expect("removes");
    assert!(size(&mount).0 > 100 << 20, "that of the pool");
}
