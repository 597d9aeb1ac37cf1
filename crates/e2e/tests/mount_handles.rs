//! File handles, by which NFS servers name what they serve: they stay valid after Linux has forgotten what
//! they stand for, and in later mounts.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests with real files")]

use e2e::{Cluster, Mount, Options, Program, nacre, names};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A handle of name_to_handle_at(2): `struct file_handle` with the longest content.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Handle {
    len: u32,
    kind: i32,
    content: [u8; 128],
}

impl Handle {
    fn of(path: &Path) -> Self {
        let name = CString::new(path.as_os_str().as_bytes()).expect("no zero byte");
        let mut handle = Self { len: 128, kind: 0, content: [0; 128] };
        let (mut mount, out) = (0, (&raw mut handle).cast());
        // SAFETY: `out` is a `struct file_handle` with as many bytes behind it as `len` says.
        let result = unsafe { libc::name_to_handle_at(libc::AT_FDCWD, name.as_ptr(), out, &mut mount, 0) };
        assert_eq!(result, 0, "{}: {}", path.display(), io::Error::last_os_error());
        handle
    }

    fn open_for(mut self, mount: &Mount, flags: i32) -> io::Result<File> {
        let point = File::open(mount.point()).expect("is mounted");
        // SAFETY: as above.
        let fd = unsafe { libc::open_by_handle_at(point.as_raw_fd(), (&raw mut self).cast(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just opened, and nobody else knows it.
        Ok(unsafe { File::from_raw_fd(fd) })
    }

    fn open(self, mount: &Mount) -> io::Result<File> {
        self.open_for(mount, libc::O_RDONLY)
    }

    fn read(self, mount: &Mount) -> io::Result<String> {
        let mut content = String::new();
        self.open(mount)?.read_to_string(&mut content)?;
        Ok(content)
    }

    /// The place of a directory, and its names.
    fn list(self, mount: &Mount) -> io::Result<(PathBuf, Vec<String>)> {
        let dir = self.open(mount)?;
        let link = format!("/proc/self/fd/{}", dir.as_raw_fd());
        let place = fs::read_link(&link)?.strip_prefix(mount.point()).expect("in the mount").to_owned();
        Ok((place, names(Path::new(&link))))
    }

    fn assert_stale(self, mount: &Mount, why: &str) {
        let opened = self.open(mount).map(|_| ()).map_err(|error| error.raw_os_error());
        assert_eq!(opened, Err(Some(libc::ESTALE)), "{why}");
    }
}

/// Has Linux forget the names and inodes that nobody uses.
fn forget() {
    fs::write("/proc/sys/vm/drop_caches", "2").expect("forgets");
}

fn listed(place: &str, names: &[&str]) -> (PathBuf, Vec<String>) {
    (place.into(), names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn handles_stay_valid_when_linux_has_forgotten_what_they_stand_for() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (mount, other) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let (at, there) = (|name: &str| mount.point().join(name), |name: &str| other.point().join(name));
    fs::create_dir_all(at("a/b/c/d")).expect("makes");
    for name in ["a/file", "a/b/c/d/deep", "a/linked", "a/gone", "a/b/c/d/gone", "a/b/held"] {
        fs::write(at(name), name).expect("writes");
    }
    fs::hard_link(at("a/linked"), at("a/b/link")).expect("links");
    let handle = |name| Handle::of(&at(name));
    let (file, dir, deep) = (handle("a/file"), handle("a/b/c/d"), handle("a/b/c/d/deep"));
    let (link, root) = (handle("a/b/link"), handle(""));
    let (gone, gone_there, held) = (handle("a/gone"), handle("a/b/c/d/gone"), handle("a/b/held"));
    assert_eq!(link, handle("a/linked"), "it is one file");

    forget();
    assert_eq!(dir.list(&mount).expect("opens"), listed("a/b/c/d", &["deep", "gone"]));
    assert_eq!(root.list(&mount).expect("opens"), listed("", &["a"]));
    for (handle, content) in [(file, "a/file"), (deep, "a/b/c/d/deep"), (link, "a/linked")] {
        forget();
        assert_eq!(handle.read(&mount).expect("opens"), content);
    }

    // Here, and by another mount.
    fs::rename(at("a/file"), at("moved")).expect("moves");
    fs::remove_file(at("a/linked")).expect("removes one of two names");
    fs::rename(there("a/b/c"), there("a/c")).expect("moves");
    fs::remove_file(at("a/gone")).expect("removes");
    fs::remove_file(there("a/c/d/gone")).expect("removes");
    let in_use = File::open(there("a/b/held")).expect("opens");
    fs::remove_file(there("a/b/held")).expect("removes");
    forget();
    assert_eq!(file.read(&mount).expect("opens"), "a/file");
    assert_eq!(link.read(&mount).expect("opens"), "a/linked");
    assert_eq!(deep.read(&mount).expect("opens"), "a/b/c/d/deep");
    assert_eq!(dir.list(&mount).expect("opens"), listed("a/c/d", &["deep"]));
    gone.assert_stale(&mount, "removed here");
    gone_there.assert_stale(&mount, "removed elsewhere");
    held.assert_stale(&mount, "it has no name, although another has it open");
    drop(in_use);

    forget();
    let mut opened = file.open_for(&mount, libc::O_WRONLY | libc::O_TRUNC).expect("opens");
    opened.write_all(b"written by its handle").expect("writes");
    opened.sync_all().expect("syncs");
    assert_eq!(fs::read_to_string(there("moved")).expect("reads"), "written by its handle");
}

#[test]
fn handles_are_the_same_in_later_mounts() {
    if !Mount::is_possible() {
        return;
    }
    let mut cluster = Cluster::start(Options::default());
    let mut mount = Mount::new(&cluster, "one");
    let at = cluster.dir().join("one");
    fs::create_dir_all(at.join("a/b/c")).expect("makes");
    fs::write(at.join("a/b/c/file"), "content").expect("writes");
    fs::write(at.join("a/gone"), "gone").expect("writes");
    fs::hard_link(at.join("a/b/c/file"), at.join("link")).expect("links");
    let of = |name: &str| Handle::of(&at.join(name));
    let (root, dir, file, gone) = (of(""), of("a/b/c"), of("link"), of("a/gone"));
    fs::remove_file(at.join("a/gone")).expect("removes");
    for restarts in [false, true] {
        nacre(&["umount", at.to_str().expect("text")]).ok();
        drop(mount);
        if restarts {
            cluster.kill_and_restart();
        }
        mount = Mount::new(&cluster, "one");
        // Nothing has been looked up in this mount.
        assert_eq!(file.read(&mount).expect("opens"), "content");
        assert_eq!(dir.list(&mount).expect("opens"), listed("a/b/c", &["file"]));
        assert_eq!(root.list(&mount).expect("opens"), listed("", &["a", "link"]));
        gone.assert_stale(&mount, "removed before");
        assert_eq!([of(""), of("a/b/c"), of("link")], [root, dir, file]);
    }
}

#[test]
fn handles_lead_to_directories_of_the_mounted_one_only() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let whole = Mount::new(&cluster, "whole");
    for dir in ["sub/a/b", "out/c"] {
        fs::create_dir_all(whole.point().join(dir)).expect("makes");
    }
    fs::write(whole.point().join("sub/a/b/file"), "inside").expect("writes");
    let of = |name: &str| Handle::of(&whole.point().join(name));
    let (top, dir, file) = (of("sub"), of("sub/a/b"), of("sub/a/b/file"));
    let mount = Mount::of(Program::Nacre, &cluster, "/sub", "sub");
    assert_eq!(file.read(&mount).expect("opens"), "inside");
    assert_eq!(dir.list(&mount).expect("opens"), listed("a/b", &["file"]));
    assert_eq!(of("").list(&mount).expect("opens"), listed("", &["a"]), "each mount's root has that handle");
    top.assert_stale(&mount, "it has another handle in this mount");
    for outside in ["out", "out/c"] {
        of(outside).assert_stale(&mount, outside);
    }
    assert_eq!(dir.list(&mount).expect("opens"), listed("a/b", &["file"]));
    assert_eq!(names(mount.point()), ["a"]);
}

#[test]
fn handles_of_a_snapshot_s_files_are_valid_or_stale() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let mount = Mount::new(&cluster, "one");
    let at = |name: &str| mount.point().join(name);
    fs::create_dir_all(at("d/sub")).expect("makes");
    fs::write(at("d/sub/file"), "then").expect("writes");
    fs::create_dir(at("d/.snap/s")).expect("makes a snapshot");
    fs::write(at("d/sub/file"), "now").expect("writes");
    let (old, live) = (Handle::of(&at("d/.snap/s/sub/file")), Handle::of(&at("d/sub/file")));
    forget();
    assert_eq!(old.read(&mount).expect("opens"), "then");
    assert_eq!(live.read(&mount).expect("opens"), "now");
    let later = Mount::new(&cluster, "two");
    old.assert_stale(&later, "its number does not tell which snapshot it is of");
    assert_eq!(fs::read_to_string(later.point().join("d/.snap/s/sub/file")).expect("reads"), "then");
    assert_eq!(old.read(&later).expect("opens"), "then");
    fs::remove_dir(at("d/.snap/s")).expect("removes the snapshot");
    forget();
    old.assert_stale(&mount, "its snapshot is gone");
}
