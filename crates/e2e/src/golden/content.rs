//! What is written into a golden cluster: something of everything that is stored.

use super::common::{connected, mounted, text};
use super::objects::write_objects;
use crate::cluster::Cluster;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Writes all of it, under a name.
pub(super) fn write(cluster: &Cluster, name: &str) {
    write_rows(cluster, name);
    write_image(cluster, name);
    let client = connected(cluster);
    write_objects(&client.pool("golden"), cluster, name);
    client.shut_down().expect("ends in order");
    let mount = mounted(cluster);
    write_files(&mount.point().join(name));
}

/// What monitors keep.
fn write_rows(cluster: &Cluster, name: &str) {
    let ceph = |args: &[&str]| cluster.client("ceph", args).ok();
    let key = format!("golden/{name}");
    let value = String::from_utf8(text(name, 2000)).expect("text");
    ceph(&["config-key", "set", &key, &value]);
    let caps = ["mon", "allow r", "osd", "allow rw pool=golden", "mds", "allow r path=/first"];
    let user = format!("client.{name}");
    ceph(&[&["auth", "add", &user][..], &caps].concat());
    ceph(&["config", "set", &user, "log_file", &format!("/var/log/{name}.log")]);
    ceph(&["osd", "crush", "rule", "create-replicated", name, "default", "osd"]);
    for pool in ["golden", "rbd"] {
        ceph(&["osd", "pool", "create", pool, "8"]);
        ceph(&["osd", "pool", "application", "enable", pool, "rbd"]);
    }
}

/// A block-device image with a snapshot, and a clone of that.
fn write_image(cluster: &Cluster, name: &str) {
    let rbd = |args: &[&str]| cluster.client("rbd", args).ok();
    let file = cluster.dir().join("image");
    fs::write(&file, text(name, 900_000)).expect("writes");
    let (image, clone) = (format!("rbd/{name}"), format!("rbd/{name}-clone"));
    let snap = format!("{image}@before");
    rbd(&["import", "--no-progress", file.to_str().expect("UTF-8"), &image]);
    rbd(&["snap", "create", "--no-progress", &snap]);
    rbd(&["snap", "protect", &snap]);
    rbd(&["clone", &snap, &clone]);
    rbd(&["resize", "--no-progress", "--size", "5M", &clone]);
    rbd(&["image-meta", "set", &image, "origin", name]);
    fs::remove_file(&file).expect("removes");
}

/// A directory tree with a snapshot, and changes behind that.
fn write_files(at: &Path) {
    let deep = at.join("tree/a/b/c");
    fs::create_dir_all(&deep).expect("makes");
    fs::create_dir(at.join("many")).expect("makes");
    for n in 0..200usize {
        fs::write(at.join(format!("many/{n:03}")), text("many", n * 3)).expect("writes");
    }
    for (n, name) in ["empty", "tiny", "some", "ümlaut", &"n".repeat(255)].into_iter().enumerate() {
        fs::write(deep.join(name), text(name, n * 777)).expect("writes");
    }
    fs::write(at.join("large"), text("large", 5 << 20)).expect("writes");
    let sparse = fs::File::create(at.join("sparse")).expect("makes");
    sparse.write_all_at(b"behind a hole", 9 << 20).expect("writes");
    sparse.sync_all().expect("syncs");
    fs::hard_link(deep.join("some"), at.join("second name")).expect("links");
    symlink("tree/a/b", at.join("link")).expect("links");
    mknodat(CWD, at.join("fifo"), FileType::Fifo, Mode::from(0o640), 0).expect("makes");
    fs::set_permissions(deep.join("tiny"), fs::Permissions::from_mode(0o4711)).expect("changes");
    std::os::unix::fs::chown(deep.join("some"), Some(1234), Some(77)).expect("gives away");
    attributes(at);

    fs::create_dir(at.join(".snap/before")).expect("makes a snapshot");
    fs::write(at.join("large"), text("overwritten", 3 << 20)).expect("writes");
    fs::OpenOptions::new()
        .append(true)
        .open(at.join("sparse"))
        .and_then(|mut file| file.write_all(b" and more").and_then(|()| file.sync_all()))
        .expect("appends");
    fs::remove_file(at.join("many/042")).expect("removes");
    fs::rename(at.join("tree/a/b/c/tiny"), at.join("tree/moved")).expect("renames");
    fs::create_dir(at.join("tree/.snap/between")).expect("makes a snapshot");
    fs::remove_dir_all(at.join("tree/a/b")).expect("removes");
    fs::write(at.join("tree/later"), "later").expect("writes");
}

/// Extended attributes, a quota, a layout and a time that is over.
fn attributes(at: &Path) {
    let set = |path: &Path, name: &str, value: &[u8]| {
        setxattr(path, name, value, XattrFlags::empty()).unwrap_or_else(|e| panic!("{name}: {e}"));
    };
    set(&at.join("large"), "user.color", b"mother of pearl");
    set(&at.join("many"), "user.bytes", &(0..=255).collect::<Vec<u8>>());
    set(&at.join("tree"), "ceph.quota.max_files", b"1000");
    fs::create_dir(at.join("striped")).expect("makes");
    set(&at.join("striped"), "ceph.dir.layout.stripe_count", b"2");
    set(&at.join("striped"), "ceph.dir.layout.stripe_unit", b"65536");
    fs::write(at.join("striped/file"), text("striped", 300_000)).expect("writes");
    let then = SystemTime::UNIX_EPOCH + Duration::new(981_173_106, 789_000_000);
    let old = fs::File::create(at.join("old")).expect("makes");
    old.set_modified(then).expect("sets a time");
}
