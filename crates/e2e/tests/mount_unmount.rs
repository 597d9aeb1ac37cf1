//! What was written to a mount outlives its end: umount(8) with our helper, `nacre umount`, SIGTERM, and
//! sync(1) of the mounted directory.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files, processes and time"
)]

use e2e::{Cluster, Mount, Options, has, nacre_bin, run};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const OSDS: [&str; 3] = ["osd.0", "osd.1", "osd.2"];

/// A mount in the background, as `nacre mount --fork` makes it.
fn mount_at(cluster: &Cluster, name: &str) -> PathBuf {
    let at = cluster.dir().join(name);
    fs::create_dir_all(&at).expect("makes");
    let mut command = Command::new(nacre_bin());
    run(command.args(["mount", "--fork", "-c"]).arg(cluster.conf()).arg(&at)).ok();
    at
}

/// True if a process serves a mount point.
fn is_served(point: &Path) -> bool {
    let serves = |entry: fs::DirEntry| {
        // A process that has ended and was not waited for has no arguments.
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut args = line.split(|byte| *byte == 0);
        args.clone().any(|arg| arg == b"--detached")
            && args.any(|arg| arg == point.as_os_str().as_encoded_bytes())
    };
    fs::read_dir("/proc").expect("proc").flatten().any(serves)
}

fn is_mounted(point: &Path) -> bool {
    let all = fs::read_to_string("/proc/mounts").expect("proc");
    all.lines().any(|line| line.split(' ').nth(1) == point.to_str())
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// Unmounts when dropped, if the test has not.
struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        run(Command::new("umount").args(["-i", "-l"]).arg(&self.0));
    }
}

/// A process whose lines on standard error are read.
fn start(command: &mut Command) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("starts");
    let stderr = child.stderr.take().expect("piped");
    (child, BufReader::new(stderr).lines().map_while(Result::ok))
}

/// In a mount namespace in which umount(8) finds our helper: `$1` is the program, `$2` the mount point, `$3`
/// the configuration.
const WITH_HELPER: &str = r#"
mkdir kept sbin
mount --bind "$(realpath /sbin)" kept
ln -s "$PWD"/kept/* sbin/
ln -sf "$1" sbin/umount.fuse.nacre
mount --bind sbin "$(realpath /sbin)"
"$1" mount --fork -c "$3" "$2"
dd if=/dev/zero of="$2/large" bs=64k count=100 status=none
mkdir "$2/dir"
echo written > "$2/dir/small"
umount "$2"
! grep "$2" /proc/self/mounts
! grep "$2" /run/mount/utab
"#;

#[test]
fn umount_returns_when_everything_is_saved() {
    if !Mount::is_possible() || !has("unshare") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let other = Mount::new(&cluster, "other");
    let at = cluster.dir().join("at");
    fs::create_dir(&at).expect("makes");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", WITH_HELPER, "sh"]).arg(nacre_bin()).arg(&at).arg(cluster.conf());
    run(command.current_dir(cluster.dir())).ok();
    assert!(!is_served(&at), "its process has ended");
    assert_eq!(fs::read_to_string(other.point().join("dir/small")).expect("reads"), "written\n");
    assert_eq!(fs::metadata(other.point().join("large")).expect("is there").len(), 6_553_600);
}

#[test]
fn unmounting_waits_for_osds_that_do_not_answer_and_says_so() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options { separate: true, ..Options::default() });
    let at = mount_at(&cluster, "at");
    let unmount = Unmount(at.clone());
    let mut file = fs::File::create(at.join("file")).expect("creates");
    file.sync_all().expect("syncs");
    OSDS.iter().for_each(|osd| cluster.signal(osd, Signal::STOP));
    file.write_all(b"written while they stood still").expect("writes");
    drop(file);
    let helper = cluster.dir().join("umount.nacre");
    symlink(nacre_bin(), &helper).expect("makes a link");

    let (mut waits, mut says) = start(Command::new(&helper).arg(&at));
    let said = says.next().expect("it says something");
    assert!(said.starts_with("umount.nacre: ") && said.contains("waits until"), "{said}");
    assert!(is_mounted(&at) && waits.try_wait().expect("is our child").is_none());
    // Whoever does not want to wait leaves it mounted.
    let pid = rustix::process::Pid::from_raw(waits.id() as i32).expect("a process id");
    rustix::process::kill_process(pid, Signal::INT).expect("it runs");
    assert!(!waits.wait().expect("ends").success());
    assert!(is_mounted(&at));

    let (mut waits, mut says) = start(Command::new(nacre_bin()).arg("umount").arg(&at));
    let said = says.next().expect("it says something");
    assert!(said.starts_with("nacre: ") && said.contains("waits until"), "{said}");
    OSDS.iter().for_each(|osd| cluster.signal(osd, Signal::CONT));
    assert!(waits.wait().expect("ends").success(), "{:?}", says.collect::<Vec<_>>());
    assert!(!is_mounted(&at) && !is_served(&at));
    drop(unmount);
    let other = Mount::new(&cluster, "other");
    let text = fs::read_to_string(other.point().join("file")).expect("reads");
    assert_eq!(text, "written while they stood still");
}

#[test]
fn what_cannot_be_unmounted_is_told() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let at = mount_at(&cluster, "at");
    let _unmount = Unmount(at.clone());
    let umount = |args: &[&str]| {
        let ran = run(Command::new(nacre_bin()).arg("umount").args(args).arg(&at));
        (ran.code, ran.stderr)
    };
    let mut open = fs::File::create(at.join("file")).expect("creates");
    let (code, said) = umount(&[]);
    assert!(code == 1 && said.contains("programs use it"), "{said}");
    // Lazily: the file stays open, and what is written to it later is saved as well.
    open.write_all(b"before ").expect("writes");
    assert_eq!(umount(&["-l"]), (0, String::new()));
    assert!(!is_mounted(&at));
    let other = Mount::new(&cluster, "other");
    open.write_all(b"after").expect("writes");
    open.sync_all().expect("syncs");
    assert_eq!(fs::read_to_string(other.point().join("file")).expect("reads"), "before after");
    drop(open);
    let (code, said) = umount(&[]);
    assert!(code == 1 && said.contains("no mount of `nacre mount`"), "{said}");

    // A process that was killed has nothing left to wait for.
    let mut dead = Mount::new(&cluster, "dead");
    dead.kill();
    run(Command::new(nacre_bin()).arg("umount").arg(dead.point())).ok();
    assert!(!is_mounted(dead.point()));
}

#[test]
fn a_process_that_serves_another_mount_is_not_waited_for() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (at, bound) = (mount_at(&cluster, "at"), cluster.dir().join("bound"));
    let _unmount = Unmount(at.clone());
    fs::create_dir(&bound).expect("makes");
    run(Command::new("mount").arg("--bind").arg(&at).arg(&bound)).ok();
    let _unbind = Unmount(bound.clone());
    fs::write(at.join("file"), "written").expect("writes");
    let ran = run(Command::new(nacre_bin()).arg("umount").arg(&at));
    assert!(ran.code == 0 && ran.stderr.contains("mounted elsewhere"), "{ran:?}");
    assert!(!is_mounted(&at) && is_served(&at));
    assert_eq!(fs::read_to_string(bound.join("file")).expect("reads"), "written");
    run(Command::new(nacre_bin()).arg("umount").arg(&bound)).ok();
    assert!(!is_served(&at), "this was the last");
}

#[test]
fn a_file_that_is_mounted_elsewhere_is_unmounted() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let at = mount_at(&cluster, "mnt");
    let _unmount = Unmount(at.clone());
    let bound = cluster.dir().join("bound");
    fs::write(at.join("file"), "content").expect("writes");
    fs::write(&bound, "").expect("makes");
    run(Command::new("mount").arg("--bind").arg(at.join("file")).arg(&bound)).ok();
    assert!(is_mounted(&bound));
    run(Command::new(nacre_bin()).arg("umount").arg(&bound)).ok();
    assert!(!is_mounted(&bound) && is_mounted(&at));
}

#[test]
fn a_process_that_is_asked_to_end_saves_what_is_written_though_programs_use_it() {
    if !Mount::is_possible() || !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let other = Mount::new(&cluster, "other");
    for is_killed in [false, true] {
        let at = cluster.dir().join(format!("at-{is_killed}"));
        fs::create_dir(&at).expect("makes");
        let mut command = Command::new(nacre_bin());
        command.arg("mount").arg("-c").arg(cluster.conf()).arg(&at).stdout(Stdio::null());
        let (mut process, mut says) = start(&mut command);
        wait_until("it is mounted", || is_mounted(&at));
        let mut open = fs::File::create(at.join("file")).expect("creates");
        open.write_all(b"written ").expect("writes");
        let pid = rustix::process::Pid::from_raw(process.id() as i32).expect("a process id");
        rustix::process::kill_process(pid, Signal::TERM).expect("it runs");
        assert!(says.any(|line| line.ends_with("what was written is saved")));
        assert!(!is_mounted(&at));
        let file = other.point().join("file");
        if is_killed {
            process.kill().expect("it runs");
            cluster.clients_at(&format!("at-{is_killed}")).into_iter().for_each(|id| cluster.evict(id));
            assert_eq!(fs::read_to_string(&file).expect("reads"), "written ");
        } else {
            open.write_all(b"and more").expect("writes");
            drop(open);
            assert_eq!(process.wait().expect("is our child").code(), Some(0), "nobody uses it any more");
            assert_eq!(fs::read_to_string(&file).expect("reads"), "written and more");
        }
        process.wait().expect("is our child");
    }
}

#[test]
fn what_a_dead_cluster_cannot_save_is_given_up_by_the_second_signal() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options { separate: true, ..Options::default() });
    let at = cluster.dir().join("at");
    fs::create_dir(&at).expect("makes");
    let mut command = Command::new(nacre_bin());
    command.arg("mount").arg("-c").arg(cluster.conf()).arg(&at).stdout(Stdio::null());
    let (mut process, mut says) = start(&mut command);
    wait_until("it is mounted", || is_mounted(&at));
    let mut file = fs::File::create(at.join("file")).expect("creates");
    file.sync_all().expect("syncs");
    OSDS.iter().for_each(|osd| cluster.signal(osd, Signal::STOP));
    file.write_all(b"written while they stood still").expect("writes");
    drop(file);
    run(Command::new("umount").args(["-i"]).arg(&at)).ok();
    let pid = rustix::process::Pid::from_raw(process.id() as i32).expect("a process id");
    let mut signal = |expected: &str| {
        rustix::process::kill_process(pid, Signal::TERM).expect("it runs");
        let said = says.find(|line| line.contains("signal"));
        assert!(said.as_ref().is_some_and(|said| said.contains(expected)), "{said:?}");
    };
    signal("a second signal gives it up");
    assert!(process.try_wait().expect("is our child").is_none(), "it waits");
    signal("what was not saved is lost");
    assert_eq!(process.wait().expect("is our child").code(), Some(1));
    OSDS.iter().for_each(|osd| cluster.signal(osd, Signal::CONT));
}

#[test]
fn syncing_the_mounted_directory_saves_everything() {
    if !Mount::is_possible() || !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (mut mount, other) = (Mount::new(&cluster, "mount"), Mount::new(&cluster, "other"));
    let dir = mount.point().join("dir");
    fs::create_dir(&dir).expect("makes");
    for n in 0..50 {
        fs::write(dir.join(format!("f{n}")), format!("content {n}")).expect("writes");
    }
    run(Command::new("sync").arg(mount.point())).ok();
    let ids = cluster.clients_at("mount");
    mount.kill();
    ids.into_iter().for_each(|id| cluster.evict(id));
    for n in 0..50 {
        let content = fs::read_to_string(other.point().join(format!("dir/f{n}"))).expect("reads");
        assert_eq!(content, format!("content {n}"));
    }
}
