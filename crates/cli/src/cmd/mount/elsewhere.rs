//! Whether a file system is mounted in other places too: bound to another directory, or in the mount
//! namespace of a container.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// True if a file system is mounted in any mount namespace that can be seen. `device` is its number, as of
/// stat(2).
pub(super) fn is_mounted(device: u64) -> bool {
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    let mut namespaces = BTreeSet::new();
    for entry in entries.flatten() {
        let process = entry.path();
        // What is no process, or may not be looked at, has none.
        let Ok(namespace) = fs::read_link(process.join("ns/mnt")) else { continue };
        if namespaces.insert(namespace) && is_in(&process, &number) {
            return true;
        }
    }
    false
}

fn is_in(process: &Path, number: &str) -> bool {
    fs::read_to_string(process.join("mountinfo")).is_ok_and(|mounts| names(&mounts, number))
}

/// True if a line of a `/proc/PID/mountinfo` is about this device.
fn names(mounts: &str, number: &str) -> bool {
    mounts.lines().any(|line| line.split(' ').nth(2) == Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_known_by_their_device() {
        let mounts = "22 27 0:20 / /sys rw - sysfs sysfs rw\n48 27 0:39 /a /mnt rw - fuse.nacre nacre rw\n";
        assert!(names(mounts, "0:39") && names(mounts, "0:20"));
        assert!(!names(mounts, "0:3") && !names(mounts, "0:390") && !names("", "0:39"));
        let root = rustix::fs::stat("/proc").expect("proc").st_dev;
        assert!(is_mounted(root) && !is_mounted(libc::makedev(4095, 4242)));
    }
}
