//! The memory of the host, and what is returned to it.

use node::Memory;
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
    Some(groups.fold(host, |least, group| Memory {
        total: least.total.min(group.total),
        available: least.available.min(group.available),
    }))
}

/// The host's memory by `/proc/meminfo`.
fn of_meminfo(text: &str) -> Option<Memory> {
    let bytes = |name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(Memory { total: bytes("MemTotal")?, available: bytes("MemAvailable").unwrap_or(0) })
}

/// The memory of a group and of those that it is in, as far as they have limits; `own` is
/// `/proc/self/cgroup`, whose line of version 2 has no controllers. What is on the lists of files can be
/// taken back at once; so can pages that were marked by `MADV_FREE`, which are there too.
fn of_groups(own: &str, read: impl Fn(&Path, &str) -> Option<String>) -> impl Iterator<Item = Memory> {
    let group = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let groups = group.into_iter().flat_map(|group| Path::new(group).ancestors());
    groups.filter_map(move |group| {
        let number = |file| read(group, file)?.trim().parse::<u64>().ok();
        // `max` is no limit.
        let (total, used) = (number("memory.max")?, number("memory.current").unwrap_or(0));
        let stat = read(group, "memory.stat").unwrap_or_default();
        let files = stat.lines().filter_map(|line| {
            let (name, bytes) = line.split_once(' ')?;
            matches!(name, "inactive_file" | "active_file").then(|| bytes.parse::<u64>().ok()).flatten()
        });
        let held = used.saturating_sub(files.sum());
        Some(Memory { total, available: total.saturating_sub(held) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let found = |own| of_groups(own, files).collect::<Vec<_>>();
        assert_eq!(found("12:cpu:/x\n0::/a.slice/b.service\n"), [Memory { total: 2 << 30, available: 1024 }]);
        assert_eq!(found("0::/\n"), []);
        assert_eq!(found(""), []);
    }
}
