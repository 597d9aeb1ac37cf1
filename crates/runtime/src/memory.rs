//! The memory of the host, and what is returned to it.

use node::{Memory, Resident};
use std::path::Path;
use std::sync::OnceLock;

/// The function that returns memory which the program's allocator keeps.
static ALLOCATOR: OnceLock<fn()> = OnceLock::new();

/// Sets a function that each busy event loop calls about once a second. An allocator that looks for unused
/// memory only while it allocates would keep the memory of a burst of requests for ever.
pub fn give_back_by(give_back: fn()) {
    // A program has one allocator.
    let _ = ALLOCATOR.set(give_back);
}

/// Returns memory that is unused now.
pub fn give_back() {
    stdx::release_unused();
    if let Some(give_back) = ALLOCATOR.get() {
        give_back();
    }
}

/// Bytes of memory that this process may use at most: the host's, or the limit of its control group.
pub fn of_host() -> Option<u64> {
    now().map(|memory| memory.total)
}

/// The memory of the host, or of the control group that has least to spare.
pub(crate) fn now() -> Option<Memory> {
    let host = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_meminfo(&text))?;
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = of_groups(&own, |group, file| {
        std::fs::read_to_string(Path::new("/sys/fs/cgroup").join(group).join(file)).ok()
    });
    Some(groups.into_iter().fold(host, |least, group| Memory {
        total: least.total.min(group.total),
        available: least.available.min(group.available),
    }))
}

/// The memory of this process.
pub(crate) fn resident() -> Option<Resident> {
    of_status(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Bytes in a line of a file of `/proc` that tells of memory.
fn bytes_in(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The host's memory by `/proc/meminfo`.
fn of_meminfo(text: &str) -> Option<Memory> {
    let (total, available) = (bytes_in(text, "MemTotal")?, bytes_in(text, "MemAvailable"));
    Some(Memory { total, available: available.unwrap_or(0) })
}

/// A process's memory by its `status`.
fn of_status(text: &str) -> Option<Resident> {
    Some(Resident { all: bytes_in(text, "VmRSS")?, anonymous: bytes_in(text, "RssAnon")? })
}

/// How a version of control groups shows a group's memory.
struct Version {
    /// What stands before the group's path in `/proc/self/cgroup`, between the colons.
    controllers: &'static str,
    /// The directory of all groups, below `/sys/fs/cgroup`.
    dir: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Lines of `memory.stat`: what is cached of files by the group and those in it.
    files: [&'static str; 2],
}

/// Hosts have one of the two for memory, even those that have both.
const VERSIONS: [Version; 2] = [
    Version {
        controllers: "",
        dir: "",
        limit: "memory.max",
        used: "memory.current",
        files: ["inactive_file", "active_file"],
    },
    Version {
        controllers: "memory",
        dir: "memory",
        limit: "memory.limit_in_bytes",
        used: "memory.usage_in_bytes",
        files: ["total_inactive_file", "total_active_file"],
    },
];

/// The memory of a group and of those that it is in, as far as they have limits; `own` is
/// `/proc/self/cgroup`. What is on the lists of files can be taken back at once; so can pages that were
/// marked by `MADV_FREE`, which are there too.
fn of_groups(own: &str, read: impl Fn(&Path, &str) -> Option<String>) -> Vec<Memory> {
    let mut out = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let Some(version) = VERSIONS.iter().find(|v| v.controllers == controllers) else { continue };
        let group = Path::new(path.trim_start_matches('/'));
        let groups = group.ancestors().map(|group| Path::new(version.dir).join(group));
        out.extend(groups.filter_map(|group| of_group(version, &group, &read)));
    }
    out
}

fn of_group(version: &Version, group: &Path, read: impl Fn(&Path, &str) -> Option<String>) -> Option<Memory> {
    let number = |file| read(group, file)?.trim().parse::<u64>().ok();
    // `max`, and a number beyond all memory, are no limit.
    let (total, used) = (number(version.limit)?, number(version.used).unwrap_or(0));
    let stat = read(group, "memory.stat").unwrap_or_default();
    let files = stat.lines().filter_map(|line| {
        let (name, bytes) = line.split_once(' ')?;
        version.files.contains(&name).then(|| bytes.parse::<u64>().ok()).flatten()
    });
    let held = used.saturating_sub(files.sum());
    Some(Memory { total, available: total.saturating_sub(held) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_process_is_read() {
        let text = "VmPeak:\t 9 kB\nVmRSS:\t   3072 kB\nRssAnon:\t   2048 kB\nRssFile:\t 1024 kB\n";
        assert_eq!(of_status(text), Some(Resident { all: 3 << 20, anonymous: 2 << 20 }));
        assert_eq!(of_status("Name: a"), None);
        assert!(resident().is_some_and(|found| found.all >= found.anonymous && found.anonymous > 0));
    }

    #[test]
    fn a_host_tells_what_it_has_and_what_is_left() {
        let text = "MemTotal:       24689764 kB\nMemFree:  1 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(of_meminfo(text), Some(Memory { total: 24_689_764 * 1024, available: 2 << 20 }));
        assert_eq!(of_meminfo("MemFree:  1 kB\n"), None);
        let host = now().expect("this host tells");
        assert!(host.total > 1 << 20 && host.available < host.total, "{host:?}");
    }

    #[test]
    fn groups_with_a_limit_count_and_what_is_cached_of_files_is_available() {
        let files = |group: &Path, file: &str| match (group.to_str()?, file) {
            ("a.slice/b.service", "memory.max") => Some("max\n".to_owned()),
            ("a.slice", "memory.max") => Some("2147483648\n".to_owned()),
            ("a.slice", "memory.current") => Some("2147483648\n".to_owned()),
            ("a.slice", "memory.stat") => Some("anon 7\ninactive_file 1000\nactive_file 24\n".to_owned()),
            _ => None,
        };
        let found = |own| of_groups(own, files);
        assert_eq!(found("12:cpu:/x\n0::/a.slice/b.service\n"), [Memory { total: 2 << 30, available: 1024 }]);
        assert_eq!(found("0::/\n"), []);
        assert_eq!(found(""), []);
    }

    #[test]
    fn groups_of_version_1_count_too() {
        let files = |group: &Path, file: &str| match (group.to_str()?, file) {
            ("memory/docker/1", "memory.limit_in_bytes") => Some("2147483648\n".to_owned()),
            ("memory/docker/1", "memory.usage_in_bytes") => Some("1073741824\n".to_owned()),
            ("memory/docker/1", "memory.stat") => {
                Some("inactive_file 7\ntotal_inactive_file 1000\ntotal_active_file 24\n".to_owned())
            }
            ("memory/docker" | "memory/", "memory.limit_in_bytes") => {
                Some("9223372036854771712\n".to_owned())
            }
            _ => None,
        };
        let found = of_groups("9:name=systemd:/a\n4:memory:/docker/1\n0::/a\n", files);
        assert_eq!(found[0], Memory { total: 2 << 30, available: (1 << 30) + 1024 });
        assert!(found.len() == 3 && found[1..].iter().all(|none| none.available > 1 << 60), "{found:?}");
        assert_eq!(of_groups("4:memory\n", files), []);
    }
}
