//! A file that gives privileges to whoever runs it loses them when it changes, as Linux's own file systems
//! have it: the mount is told of whom (`FUSE_HANDLE_KILLPRIV_V2`).
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files and processes"
)]

use e2e::{Cluster, Mount, Options};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// The one who is not root.
const USER: u32 = 1000;
const CAPABILITY: &str = "security.capability";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("is there").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changes the mode");
}

/// Runs a command of the shell in a directory as the user, or as root.
fn shell(dir: &Path, uid: u32, script: &str) {
    let id = uid.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "sh", "-ec", script]).current_dir(dir);
    assert!(command.status().expect("runs").success(), "{script} as {uid}");
}

/// Makes a file of the user's.
fn make(path: &Path, bits: u32) {
    fs::write(path, "content").expect("writes");
    chown(path, Some(USER), Some(USER)).expect("gives it away");
    set_mode(path, bits);
    assert_eq!(mode(path), bits);
}

#[test]
fn the_bits_go_with_changes_of_those_who_may_not_keep_them() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    set_mode(cluster.dir(), 0o755);
    let (mount, other) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    set_mode(mount.point(), 0o777);
    let changes = [
        "echo more >> f",
        "dd if=/dev/zero of=f bs=10 count=1 conv=notrunc status=none",
        ": > f",
        "truncate -s 3 f",
    ];
    for change in changes {
        // (before, after a change by the user): root keeps them.
        for (before, after) in [(0o4755, 0o755), (0o6775, 0o775), (0o2745, 0o2745), (0o6644, 0o2644)] {
            let path = mount.point().join("f");
            make(&path, before);
            shell(mount.point(), 0, change);
            assert_eq!(mode(&path), before, "{change} as root");
            shell(mount.point(), USER, change);
            assert_eq!(mode(&path), after, "{change} of {before:o}");
            // The kernel believes no older mode, and neither do others.
            assert_eq!(mode(&other.point().join("f")), after, "{change} of {before:o}, elsewhere");
        }
    }
    let path = mount.point().join("f");
    for (before, after) in [(0o6755, 0o755), (0o2745, 0o2745)] {
        make(&path, before);
        chown(&path, Some(USER + 1), None).expect("gives it away");
        assert_eq!(mode(&path), after, "also if root changes the owner");
    }
}

#[test]
fn capabilities_go_with_any_change_also_if_they_were_given_elsewhere() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let (path, elsewhere) = (one.point().join("f"), two.point().join("f"));
    // Version 2, effective: CAP_NET_RAW.
    let value = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat();
    let has = |path: &Path| match getxattr(path, CAPABILITY, &mut [0_u8; 100]) {
        Ok(len) => len > 0,
        Err(Errno::NODATA) => false,
        Err(errno) => panic!("{errno}"),
    };
    let give = |path: &Path| {
        setxattr(path, CAPABILITY, &value, XattrFlags::empty()).expect("gives it");
        assert!(has(path));
    };
    let mut file = fs::File::create(&path).expect("makes a file");
    for round in 0..3 {
        // From the second write to an open file on the kernel asks for nothing.
        file.write_all(b"some").expect("writes");
        give(if round == 1 { &path } else { &elsewhere });
        file.write_all(b"more").expect("writes");
        assert!(!has(&path) && !has(&elsewhere), "after a write in round {round}");
        give(&elsewhere);
        file.set_len(3).expect("truncates");
        assert!(!has(&path) && !has(&elsewhere), "after a truncation in round {round}");
        give(&elsewhere);
        chown(&path, Some(USER), None).expect("gives it away");
        assert!(!has(&path) && !has(&elsewhere), "after a change of the owner in round {round}");
        give(&elsewhere);
        fs::write(&path, "new").expect("writes anew");
        assert!(!has(&path) && !has(&elsewhere), "after a new content in round {round}");
    }
}
