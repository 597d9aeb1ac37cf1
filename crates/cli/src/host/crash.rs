//! Reports of daemons that ended by a defect. They are written where `ceph-crash` has its own, also while no
//! monitor answers, and handed to the monitors (`ceph crash ls`) by the next round of [`super::care`].

use super::{Host, HostPaths};
use crate::cluster::ask_with;
use anyhow::{Context, Result};
use serde_json::json;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use stdx::Bufs;
use wire::{EntityName, Utime};

/// The status of a program that panicked, if panics do not abort it.
const PANICKED: i32 = 101;
/// Signals that the kernel sends to a program for what it did.
const BY_DEFECT: [(i32, &str); 5] = [
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
];

/// How a daemon crashed; `None` if it ended in another way: by itself with an error, or because somebody
/// killed it.
pub(super) fn cause(status: ExitStatus) -> Option<String> {
    if status.code() == Some(PANICKED) {
        return Some("panic".to_owned());
    }
    let signal = status.signal()?;
    BY_DEFECT.iter().find(|(number, _)| *number == signal).map(|(_, name)| (*name).to_owned())
}

/// Where the reports are.
fn dir(paths: &HostPaths) -> PathBuf {
    paths.lib().join("crash")
}

/// Writes the report of a crash.
pub(super) fn note(paths: &HostPaths, host: &Host, name: &EntityName, cause: &str) -> Result<()> {
    let stamp = Utime::from(runtime::now().wall).iso8601().replace("+0000", "Z");
    let id = format!("{stamp}_{name}");
    let report = json!({
        "crash_id": id,
        "timestamp": stamp,
        "entity_name": name.to_string(),
        "utsname_hostname": host.hostname,
        "process_name": "nacre",
        "ceph_version": env!("CARGO_PKG_VERSION"),
        "exit": cause,
        "backtrace": [],
        "log": "the daemon's last lines are in the log of `nacre run` (journalctl -u nacre)",
    });
    let place = dir(paths).join(&id);
    std::fs::create_dir_all(&place)
        .and_then(|()| std::fs::write(place.join("meta"), report.to_string()))
        // `ceph-crash` files reports that are complete, if it runs here too.
        .and_then(|()| std::fs::write(place.join("done"), ""))
        .with_context(|| format!("cannot write the report {}", place.display()))
}

/// Files all reports that were not filed yet. Filing one twice is harmless. One that can't be filed keeps no
/// other one from it.
pub(super) fn file_all(paths: &HostPaths, cluster: &client::Cluster) {
    let dir = dir(paths);
    let Ok(entries) = std::fs::read_dir(&dir) else { return };
    for place in entries.flatten().map(|entry| entry.path()).filter(|place| place.join("done").is_file()) {
        if let Err(error) = file(&place, &dir.join("posted"), cluster) {
            tracing::debug!("{error:#}");
        }
    }
}

fn file(place: &Path, filed: &Path, cluster: &client::Cluster) -> Result<()> {
    let Some(id) = place.file_name() else { return Ok(()) };
    ask_with(cluster, &json!({ "prefix": "crash post" }), Bufs::from(read(place)?))?;
    std::fs::create_dir_all(filed)
        .and_then(|()| std::fs::rename(place, filed.join(id)))
        .with_context(|| format!("cannot move the report {}", place.display()))
}

fn read(place: &Path) -> Result<Vec<u8>> {
    let meta = place.join("meta");
    std::fs::read(&meta).with_context(|| format!("cannot read the report {}", meta.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defects_are_crashes_and_other_ends_are_not() {
        let ended = |status: i32| cause(ExitStatus::from_raw(status));
        assert_eq!(ended(libc::SIGABRT).as_deref(), Some("SIGABRT"));
        assert_eq!(ended(libc::SIGSEGV | 0x80).as_deref(), Some("SIGSEGV"), "with a core");
        assert_eq!(ended(PANICKED << 8).as_deref(), Some("panic"));
        for other in [0, 1 << 8, libc::SIGTERM, libc::SIGKILL] {
            assert_eq!(ended(other), None, "{other}");
        }
    }
}
