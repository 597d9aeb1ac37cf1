//! The memory of the host, and what is returned to it.

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
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = limit_of_groups(&own, |group| {
        std::fs::read_to_string(Path::new("/sys/fs/cgroup").join(group).join("memory.max")).ok()
    });
    let all = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    all.into_iter().chain(limit).min()
}

/// `MemTotal` of `/proc/meminfo`.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The least limit of a group and those that it is in; `own` is `/proc/self/cgroup`, whose line of version 2
/// has no controllers.
fn limit_of_groups(own: &str, limit_of: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let group = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // `max` is no limit.
    Path::new(group).ancestors().filter_map(|group| limit_of(group)?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_counts() {
        assert_eq!(total("MemTotal:       24689764 kB\nMemFree:  1 kB\n"), Some(24_689_764 * 1024));
        assert_eq!(total("MemFree:  1 kB\n"), None);
        let limits = |group: &Path| match group.to_str()? {
            "a.slice/b.service" => Some("max\n".to_owned()),
            "a.slice" => Some("2147483648\n".to_owned()),
            _ => None,
        };
        assert_eq!(limit_of_groups("12:cpu:/x\n0::/a.slice/b.service\n", limits), Some(2 << 30));
        assert_eq!(limit_of_groups("0::/\n", limits), None);
        assert_eq!(limit_of_groups("", limits), None);
        assert!(of_host().is_some_and(|bytes| bytes > 1 << 20), "this host has memory");
    }
}
