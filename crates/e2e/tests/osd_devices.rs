//! Devices for OSDs: refusals and their texts, real disks (loop devices), and that no two processes use one
//! at once.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real devices and processes"
)]

use e2e::{Cluster, Options, Ran, has, nacre, nacre_bin, run};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("temporary directory")
}

/// One line on standard error that contains each of `words`.
fn refuses(ran: Ran, words: &[&str]) {
    assert_ne!(ran.code, 0, "{}: {}", ran.line, ran.stdout);
    assert_eq!(ran.stderr.lines().count(), 1, "{}: {}", ran.line, ran.stderr);
    for word in words {
        assert!(ran.stderr.contains(word), "no `{word}` in: {}", ran.stderr);
    }
}

fn create(target: &str, more: &[&str]) -> Ran {
    nacre(&[&["osd", "create", target], more].concat())
}

fn tool(line: &str) -> String {
    let mut words = line.split(' ');
    run(Command::new(words.next().expect("a program")).args(words)).ok()
}

/// A disk: a file behind a loop device.
struct Loop {
    device: String,
    _file: tempfile::NamedTempFile,
}

impl Loop {
    /// `None`, with a printed line, if this user may not make one; if `CI=true` that fails.
    fn new(mib: u64, sector: u32) -> Option<Self> {
        let able = rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists();
        if !able {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "loop devices need root and /dev/loop-control"
            );
            eprintln!("skipped: loop devices need root and /dev/loop-control");
            return None;
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(mib << 20).expect("sizes");
        let path = file.path().to_str().expect("UTF-8");
        let device = tool(&format!("losetup --find --show --partscan --sector-size {sector} {path}"));
        Some(Self { device: device.trim().to_owned(), _file: file })
    }

    /// Some kernels read no partition tables themselves.
    fn show_partitions(&self) {
        tool(&format!("partx --update {}", self.device));
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        tool(&format!("losetup --detach {}", self.device));
    }
}

/// Unmounts at its end.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn new(device: &str, at: &'a Path) -> Self {
        tool(&format!("mount {device} {}", at.display()));
        Self(at)
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        tool(&format!("umount {}", self.0.display()));
    }
}

#[test]
fn a_file_is_allocated_in_an_empty_directory_and_anything_else_is_refused() {
    let dir = dir();
    let path = dir.path().to_str().expect("UTF-8").to_owned();
    std::fs::write(dir.path().join("letter"), "x").expect("writes");
    refuses(create(&path, &[]), &["not empty", "letter", "empty directory"]);
    std::fs::remove_file(dir.path().join("letter")).expect("removes");
    refuses(create(&path, &["--size", "1M"]), &["64 MiB"]);
    refuses(create(&path, &["--size", "1000T"]), &["cannot allocate", "--size"]);
    let block = dir.path().join("block");
    assert!(!block.exists(), "what failed leaves nothing behind");
    let said = create(&path, &["--size", "80M"]).ok();
    assert!(said.contains("ready for an OSD: 80 MiB") && said.contains("nacre osd --conf"), "{said}");
    assert!(said.contains("free space stays allocated"), "what was allocated stays so: {said}");
    let meta = std::fs::metadata(&block).expect("made");
    let taken = std::os::unix::fs::MetadataExt::blocks(&meta) * 512;
    assert!(meta.len() == 80 << 20 && taken >= 80 << 20, "{taken} bytes are allocated");

    let file = std::fs::File::options().write(true).open(&block).expect("opens");
    file.write_all_at(b"precious", (80 << 20) - 100).expect("writes");
    refuses(create(&path, &[]), &["unknown kind", "--wipe"]);
    assert!(create(&path, &["--wipe"]).ok().contains("erased: data of an unknown kind"));
    create(&path, &[]).ok();
    refuses(create("/dev/null", &[]), &["/dev/null", "neither"]);
    refuses(create("/no/such/place", &[]), &["/no/such/place"]);
}

#[test]
fn a_file_that_a_process_has_locked_is_refused_with_the_process() {
    let dir = dir();
    let path = dir.path().join("file");
    let file = std::fs::File::create(&path).expect("creates");
    file.set_len(80 << 20).expect("sizes");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockShared).expect("locks");
    let process = format!("process {}", std::process::id());
    refuses(create(path.to_str().expect("UTF-8"), &["--wipe"]), &["in use", &process, "osd_devices"]);
}

#[test]
fn what_a_disk_holds_is_named_and_erased_only_when_asked() {
    let tools = ["mkfs.ext4", "mkfs.xfs", "mkswap", "pvcreate", "cryptsetup", "sgdisk"];
    if tools.iter().any(|tool| !has(tool)) {
        return;
    }
    let Some(disk) = Loop::new(400, 512) else { return };
    let dev = &disk.device;
    let held = [
        (format!("mkfs.ext4 -q -F -L back-up {dev}"), "an ext4 file system with the label `back-up`"),
        (
            format!("mkfs.ext4 -q -F -O ^extents,^64bit,^flex_bg,^metadata_csum -L old {dev}"),
            "an ext3 file system with the label `old`",
        ),
        (format!("mkfs.xfs -q -f -L films {dev}"), "an XFS file system with the label `films`"),
        (format!("mkswap -q -L more {dev}"), "swap space with the label `more`"),
        (format!("pvcreate -q -y {dev}"), "an LVM physical volume"),
        (
            format!(
                "cryptsetup luksFormat -q --type luks2 --label secret --pbkdf-force-iterations 4 --pbkdf-memory 32 {dev} /proc/version"
            ),
            "an encrypted volume (LUKS) with the label `secret`",
        ),
        (format!("sgdisk -n 1:0:+100M -n 2:0:0 {dev}"), "a partition table (GPT) with loop"),
    ];
    for (make, what) in &held {
        tool(make);
        if make.starts_with("sgdisk") {
            disk.show_partitions();
        }
        refuses(create(dev, &[]), &[dev, what, "--wipe"]);
        let said = create(dev, &["--wipe"]).ok();
        assert!(said.contains(&format!("erased: {what}")), "{said}");
        assert!(create(dev, &[]).ok().contains("ready"), "nothing is left of {what}");
    }
    assert!(!Path::new(&format!("{dev}p1")).exists(), "the kernel has forgotten the partitions");
}

#[test]
fn what_is_in_use_is_never_erased() {
    if ["mkfs.ext4", "sgdisk"].iter().any(|tool| !has(tool)) {
        return;
    }
    let Some(disk) = Loop::new(400, 512) else { return };
    let (dev, at) = (&disk.device, dir());
    let place = at.path().to_str().expect("UTF-8");
    tool(&format!("mkfs.ext4 -q -F {dev}"));
    {
        let _mounted = Mounted::new(dev, at.path());
        refuses(create(dev, &["--wipe"]), &["is mounted at", place, "no option"]);
    }
    tool(&format!("sgdisk -Z {dev}"));
    tool(&format!("sgdisk -n 1:0:+200M -n 2:0:0 {dev}"));
    disk.show_partitions();
    let parts = [1, 2].map(|n| format!("{dev}p{n}"));
    tool(&format!("mkfs.ext4 -q -F {}", parts[0]));
    {
        let _mounted = Mounted::new(&parts[0], at.path());
        let part = parts[0].trim_start_matches("/dev/");
        refuses(create(dev, &["--wipe"]), &["has the partition", part, "is mounted at", place]);
        refuses(create(&parts[0], &["--wipe"]), &["is mounted at", place]);
        // Its neighbour is free.
        create(&parts[1], &["--wipe"]).ok();
    }
    refuses(create(&parts[0], &[]), &["an ext4 file system", "--wipe"]);
    // A file that a loop device shows.
    refuses(create(disk._file.path().to_str().expect("UTF-8"), &["--wipe"]), &[dev, "shows"]);
}

#[test]
fn an_osd_runs_on_a_disk_and_a_second_process_is_refused_with_the_name_of_the_first() {
    if !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options { separate: true, ..Options::default() });
    let conf = cluster.conf();
    let conf = conf.to_str().expect("UTF-8");
    // The OSD's own file; the second process is another user of the same directory.
    let fsid = cluster.client("ceph", &["fsid"]).ok();
    let fsid = fsid.trim();
    let first = format!("process {} (`nacre osd ", cluster.pid("osd.0"));
    let name = format!("osd.0 of cluster {fsid}");
    refuses(nacre(&["osd", "--conf", conf, "--id", "0"]), &["in use", &first, &name, "stop that one first"]);
    let block = cluster.dir().join("osd.0/block");
    refuses(create(block.to_str().expect("UTF-8"), &["--wipe"]), &["in use", &first, &name]);
    refuses(nacre(&["store", "check", block.to_str().expect("UTF-8")]), &["in use", &first, &name]);

    // A disk with large sectors becomes a fourth one.
    let Some(disk) = Loop::new(512, 4096) else { return };
    let data = cluster.dir().join("osd.3");
    std::fs::create_dir(&data).expect("creates");
    let keyring = data.join("keyring");
    let caps = ["mon", "allow profile osd", "osd", "allow *", "mgr", "allow profile osd"];
    let auth =
        [&["auth", "get-or-create", "osd.3"], &caps[..], &["-o", keyring.to_str().expect("UTF-8")]].concat();
    cluster.client("ceph", &auth).ok();
    let made = create(&disk.device, &["--data", data.to_str().expect("UTF-8")]).ok();
    assert!(made.contains("512 MiB, sectors of 4096 bytes, direct"), "{made}");
    assert!(made.contains("free space is discarded"), "{made}");
    let log = cluster.dir().join("log/osd.3.log");
    std::fs::write(&log, "").expect("creates");
    let fourth = cluster.start_daemon("osd.3");
    cluster.wait_for("four OSDs", |status| status["osdmap"]["num_up_osds"] == 4);
    // By another name of the same device, which no lock on a file knows of.
    let other = cluster.dir().join("osd.other");
    std::fs::create_dir(&other).expect("creates");
    let device = std::fs::metadata(&disk.device).expect("it is there");
    let (major, minor) = {
        let number = std::os::unix::fs::MetadataExt::rdev(&device);
        (rustix::fs::major(number), rustix::fs::minor(number))
    };
    tool(&format!("mknod {} b {major} {minor}", other.join("block").display()));
    let again = create(other.join("block").to_str().expect("UTF-8"), &["--wipe"]);
    refuses(
        again,
        &["in use", &format!("process {}", cluster.pid("osd.3")), &format!("osd.3 of cluster {fsid}")],
    );
    let started = run(Command::new(nacre_bin()).args(["osd", "--conf", conf, "--id", "3"]));
    refuses(started, &["in use", &format!("osd.3 of cluster {fsid}")]);
    cluster.stop_daemon("osd.3");
    drop(fourth);
    refuses(create(&disk.device, &[]), &[&format!("the store of osd.3 of cluster {fsid}"), "--wipe"]);
    let sound = nacre(&["store", "check", &disk.device]).ok();
    assert!(sound.contains("sound"), "{sound}");
}
