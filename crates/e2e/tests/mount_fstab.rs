//! `mount.nacre`, by which mount(8) mounts what `/etc/fstab` says, called by mount(8) and directly.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files, processes and time"
)]

use e2e::{Cluster, Mount, Options, Ran, has, nacre, nacre_bin, names, run};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const EROFS: i32 = 30;
/// A process that was asked to end may write much back first.
const PATIENCE: Duration = Duration::from_secs(60);

/// A link to the program by the name that mount(8) looks for.
fn helper(cluster: &Cluster) -> PathBuf {
    let path = cluster.dir().join("mount.nacre");
    symlink(nacre_bin(), &path).expect("makes a link");
    path
}

/// The processes that serve a mount point, with their arguments.
fn servers(point: &Path) -> Vec<(u32, String)> {
    let point = point.to_str().expect("text");
    let process = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // A process that has ended and was not waited for has no arguments.
        let line = String::from_utf8(fs::read(entry.path().join("cmdline")).ok()?).ok()?;
        let mut args = line.split('\0');
        (args.clone().any(|arg| arg == "--detached") && args.any(|arg| arg == point)).then_some((pid, line))
    };
    fs::read_dir("/proc").expect("proc").flatten().filter_map(process).collect()
}

fn wait_until_nobody_serves(point: &Path) {
    let began = Instant::now();
    while !servers(point).is_empty() {
        assert!(began.elapsed() < PATIENCE, "{:?}", servers(point));
        std::thread::yield_now();
    }
}

/// Unmounts when dropped, if the test has not.
struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        run(Command::new("umount").arg("-l").arg(&self.0));
        wait_until_nobody_serves(&self.0);
    }
}

/// The lines of `/proc/mounts` about a mount point.
fn mounts(point: &Path) -> Vec<String> {
    let all = fs::read_to_string("/proc/mounts").expect("proc");
    let of_point = |line: &&str| line.split(' ').nth(1) == point.to_str();
    all.lines().filter(of_point).map(str::to_owned).collect()
}

/// The key of the administrator, in a file of its own.
fn secret_file(cluster: &Cluster) -> PathBuf {
    let ring = fs::read_to_string(cluster.dir().join("keyring")).expect("a keyring");
    let key = ring.lines().find_map(|line| line.trim().strip_prefix("key = ")).expect("a key");
    let path = cluster.dir().join("secret");
    fs::write(&path, format!("{key}\n")).expect("writes");
    path
}

/// What mount(8) does at the start of the system, in a mount namespace of its own: `$1` is the program.
const BOOT: &str = r#"
mkdir kept sbin
mount --bind "$(realpath /sbin)" kept
ln -s "$PWD"/kept/* sbin/
ln -sf "$1" sbin/mount.nacre
ln -sf "$1" sbin/mount.fuse.nacre
ln -sf "$1" sbin/umount.fuse.nacre
mount --bind sbin "$(realpath /sbin)"
mount -T fstab -a
mount -T fstab -a
grep "$PWD/at" /proc/self/mounts
cat at/file
mount -o remount,ro "$PWD/at"
! touch at/new
mount -o remount,rw "$PWD/at"
grep "$PWD/at .*rw,nosuid" /proc/self/mounts > remounted
echo written > at/new
umount at
! grep "$PWD/at" /proc/self/mounts
! grep "$PWD/at" /run/mount/utab
"#;

#[test]
fn mount_mounts_what_fstab_says_once() {
    if !Mount::is_possible() || !has("unshare") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let mount = Mount::new(&cluster, "whole");
    fs::create_dir(mount.point().join("dir")).expect("makes");
    fs::write(mount.point().join("dir/file"), "content\n").expect("writes");
    let at = cluster.dir().join("at");
    fs::create_dir(&at).expect("makes");
    let options = format!("conf={},_netdev,nosuid,noatime,x-some.thing=1", cluster.conf().display());
    let line = format!("admin@.cephfs=/dir {} nacre {options} 0 0\n", at.display());
    fs::write(cluster.dir().join("fstab"), line).expect("writes");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", BOOT, "sh"]).arg(nacre_bin()).current_dir(cluster.dir());
    let out = run(&mut command).ok();
    let lines: Vec<&str> = out.lines().collect();
    let [mounted, content] = lines[..] else { panic!("{out}") };
    let words: Vec<&str> = mounted.split(' ').collect();
    assert_eq!(words[..3], ["admin@.cephfs=/dir", at.to_str().expect("text"), "fuse.nacre"]);
    let set: Vec<&str> = words[3].split(',').collect();
    assert!(["rw", "nosuid", "noatime"].iter().all(|option| set.contains(option)), "{mounted}");
    assert!(!set.contains(&"nodev"), "{mounted}");
    assert_eq!(content, "content");
    assert_eq!(servers(&at), [], "umount has waited");
    assert_eq!(fs::read_to_string(mount.point().join("dir/new")).expect("reads"), "written\n");
}

#[test]
fn a_directory_is_mounted_without_a_configuration_file() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (whole, program) = (Mount::new(&cluster, "whole"), helper(&cluster));
    let dir = whole.point().join("a/b");
    fs::create_dir_all(&dir).expect("makes");
    rustix::fs::setxattr(&dir, "ceph.quota.max_bytes", b"40M", rustix::fs::XattrFlags::empty())
        .expect("sets");
    let at = cluster.dir().join("at");
    fs::create_dir(&at).expect("makes");
    let _unmount = Unmount(at.clone());
    let key = fs::read_to_string(secret_file(&cluster)).expect("reads");
    let source = format!("127.0.0.1:{}:/a/b", cluster.port());
    let options = format!("name=admin,secret={},fs=cephfs,ms_mode=secure", key.trim());
    let out = run(Command::new(&program).arg(&source).arg(&at).args(["-v", "-o", &options])).ok();
    assert_eq!(out, format!("nacre: mounted at {}\n", at.display()));
    let served = servers(&at);
    assert!(served.len() == 1 && !served[0].1.contains(key.trim()), "no key in {served:?}");
    assert!(mounts(&at)[0].starts_with(&source), "{:?}", mounts(&at));

    fs::write(at.join("one"), "1").expect("writes");
    fs::rename(at.join("one"), at.join("two")).expect("renames in the root");
    fs::create_dir(at.join("sub")).expect("makes");
    fs::rename(at.join("two"), at.join("sub/three")).expect("renames out of the root");
    fs::rename(at.join("sub/three"), at.join("four")).expect("renames into the root");
    assert_eq!(names(&at), ["four", "sub"]);
    assert_eq!(names(&dir), ["four", "sub"]);
    fs::write(dir.join("elsewhere"), "2").expect("writes");
    assert_eq!(names(&at), ["elsewhere", "four", "sub"], "it hears of what others do");
    fs::remove_file(dir.join("elsewhere")).expect("removes");
    assert!(!at.join("elsewhere").exists());
    let space = rustix::fs::statfs(&at).expect("statfs");
    assert_eq!(space.f_blocks * space.f_bsize as u64, 40 << 20, "the size is that of its quota");
    run(Command::new("umount").arg(&at)).ok();
    wait_until_nobody_serves(&at);
    assert_eq!(mounts(&at), Vec::<String>::new());

    let options = format!("secretfile={},ro,noexec,nodev", cluster.dir().join("secret").display());
    run(Command::new(&program).arg(&source).arg(&at).args(["-o", &options])).ok();
    assert_eq!(fs::read_to_string(at.join("four")).expect("reads"), "1");
    assert_eq!(fs::write(at.join("five"), "5").err().and_then(|e| e.raw_os_error()), Some(EROFS));
    let bench = nacre(&["fs", "bench", at.to_str().expect("text")]);
    assert!(bench.code == 1 && bench.stderr.contains("Read-only file system"), "{bench:?}");
    let set = mounts(&at)[0].clone();
    assert!(["ro", "noexec", "nodev"].iter().all(|option| set.contains(option)), "{set}");
}

#[test]
fn df_counts_the_files_of_the_directory_that_is_mounted() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (whole, program) = (Mount::new(&cluster, "whole"), helper(&cluster));
    fs::create_dir_all(whole.point().join("a/b")).expect("makes");
    fs::create_dir(whole.point().join("c")).expect("makes");
    for n in 0..40 {
        fs::write(whole.point().join(format!("c/f{n}")), "").expect("writes");
    }
    let at = cluster.dir().join("at");
    fs::create_dir(&at).expect("makes");
    let _unmount = Unmount(at.clone());
    let options = format!("conf={}", cluster.conf().display());
    run(Command::new(&program).arg(":/a").arg(&at).args(["-o", &options])).ok();
    for n in 0..5 {
        fs::write(at.join(format!("b/f{n}")), "").expect("writes");
    }
    // Statistics move up a level in some seconds. A directory counts itself, as other file systems do.
    let used = |dir: &Path| rustix::fs::statfs(dir).map(|s| s.f_files - s.f_ffree).expect("statfs");
    let began = Instant::now();
    while (used(&at), used(whole.point())) != (7, 49) {
        assert!(began.elapsed() < PATIENCE, "{} {}", used(&at), used(whole.point()));
        std::thread::yield_now();
    }
    let blocks = |dir: &Path| rustix::fs::statfs(dir).map(|s| s.f_blocks).expect("statfs");
    assert_eq!(blocks(&at), blocks(whole.point()), "without a quota it has all the space");
}

#[test]
fn what_cannot_be_mounted_says_why_with_the_exit_status_of_mount() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (program, at) = (helper(&cluster), cluster.dir().join("at"));
    fs::create_dir(&at).expect("makes");
    fs::write(cluster.dir().join("wrong"), "AQAAAAAAAAAAABAAAAECAwQFBgcICQoLDA0ODw==").expect("writes");
    let call = |source: &str, dir: &Path, more: &[&str]| -> Ran {
        run(Command::new(&program).arg(source).arg(dir).args(more).env_remove("CEPH_CONF"))
    };
    let conf = format!("conf={}", cluster.conf().display());
    let wrong_key = format!("{conf},secretfile={}", cluster.dir().join("wrong").display());
    let (nosuch_fs, nosuch_conf) = (format!("{conf},fs=nosuch"), "conf=/nosuch/conf");
    let nobody = "mon_addr=127.0.0.1:1,mount_timeout=1,secretfile=/dev/null";
    let port = cluster.port();
    let secret = secret_file(&cluster);
    let other_fsid = format!(
        "mon_addr=127.0.0.1:{port},secretfile={},fsid=07fe3187-00d9-42a3-814b-72a4d5e7d5be",
        secret.display()
    );
    let nosuch = cluster.dir().join("nosuch");
    for (source, dir, options, code, says) in [
        ("none", &at, "nosuch", 1, "unknown mount option `nosuch`"),
        ("none", &at, "name=", 1, "`name` needs a value"),
        ("nonsense", &at, "ro", 1, "the source `nonsense`"),
        ("none", &at, nosuch_conf, 32, "/nosuch/conf"),
        ("none", &at, &wrong_key, 32, "key"),
        ("none", &at, &nosuch_fs, 32, "no file system `nosuch`"),
        (":/nosuch/dir", &at, &conf, 32, "/nosuch/dir"),
        ("none", &nosuch, &conf, 32, "is no directory"),
        ("none", &at, &other_fsid, 32, "another fsid"),
        ("none", &at, nobody, 32, "/dev/null is no key"),
        ("none", &at, &format!("{conf},secret=nonsense"), 32, "the value of `secret` is no key"),
    ] {
        let ran = call(source, dir, &["-o", options]);
        assert!(ran.code == code && ran.stderr.contains(says), "{source} {options}: {ran:?}");
        assert_eq!(ran.stdout, "", "{source} {options}");
    }
    let ran = run(Command::new(&program).arg("none"));
    assert!(ran.code == 1 && ran.stderr.contains("usage"), "{ran:?}");
    // It would be mounted, but is not; and what is unknown is ignored if that is wanted.
    call("none", &at, &["-f", "-o", &conf]).ok();
    call("none", &at, &["-sf", "-o", "nosuch"]).ok();
    assert_eq!((mounts(&at).len(), servers(&at).len()), (0, 0));
}

#[test]
fn a_mount_that_is_to_be_secure_is_not_made_without_keys() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options { auth: "none", ..Options::default() });
    let (program, at) = (helper(&cluster), cluster.dir().join("at"));
    fs::create_dir(&at).expect("makes");
    let _unmount = Unmount(at.clone());
    let call = |options: &str| {
        let options = format!("conf={},{options}", cluster.conf().display());
        run(Command::new(&program).arg("none").arg(&at).args(["-o", &options]))
    };
    let ran = call("ms_mode=secure,mount_timeout=2");
    assert!(ran.code == 32 && ran.stderr.contains("no monitor"), "{ran:?}");
    assert_eq!(mounts(&at), Vec::<String>::new());
    call("ms_mode=crc").ok();
    assert_eq!(mounts(&at).len(), 1);
}
