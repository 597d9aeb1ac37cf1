//! A daemon's description of its host, under the names that Ceph's daemons use.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

/// The number of processors that may be used.
pub(super) fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Describes the host, as far as it can be found out.
pub(super) fn metadata(data: &Path) -> BTreeMap<String, String> {
    let uname = rustix::system::uname();
    let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
    let mut out = BTreeMap::new();
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            out.insert(key.to_owned(), value);
        }
    };
    put("arch", Some(text(uname.machine())));
    put("os", Some(text(uname.sysname())));
    put("kernel_version", Some(text(uname.release())));
    put("kernel_description", Some(text(uname.version())));
    put("cpu", field("/proc/cpuinfo", "model name", ':'));
    let kb = |key| field("/proc/meminfo", key, ':').map(|v| v.trim_end_matches(" kB").to_owned());
    put("mem_total_kb", kb("MemTotal"));
    put("mem_swap_kb", kb("SwapTotal"));
    let release = |key| field("/etc/os-release", key, '=').map(|v| v.trim_matches('"').to_owned());
    put("distro", release("ID"));
    put("distro_version", release("VERSION_ID"));
    put("distro_description", release("PRETTY_NAME"));
    let device = device(data);
    put("devices", Some(device.clone().unwrap_or_default()));
    let id = device.and_then(|dev| Some(format!("{dev}={}", device_id(&dev)?)));
    out.insert("device_ids".into(), id.unwrap_or_default());
    out.insert("device_paths".into(), String::new());
    out
}

/// The value of the first line `KEY<separator>VALUE`.
fn field(path: &str, key: &str, separator: char) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.lines().filter_map(|l| l.split_once(separator));
    lines.find(|(k, _)| k.trim() == key).map(|(_, v)| v.trim().to_owned())
}

/// The name of the whole disk that holds a path.
fn device(data: &Path) -> Option<String> {
    let dev = std::fs::metadata(data).ok()?.dev();
    let link = format!("/sys/dev/block/{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let mut path = std::fs::canonicalize(link).ok()?;
    if path.join("partition").exists() {
        path.pop();
    }
    Some(path.file_name()?.to_str()?.to_owned())
}

/// Vendor, model and serial number, as Ceph joins them; `None` without a serial number.
fn device_id(device: &str) -> Option<String> {
    let dir = PathBuf::from("/sys/block").join(device);
    let read = |name: &str| {
        let text = std::fs::read_to_string(dir.join(name)).ok()?;
        Some(text.trim().replace(' ', "_")).filter(|t| !t.is_empty())
    };
    let serial = read("device/serial").or_else(|| read("serial"))?;
    // A vendor that is a number names a driver, not a maker.
    let vendor = read("device/vendor").filter(|v| !v.starts_with("0x"));
    let parts = [vendor, read("device/model"), Some(serial)];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join("_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_tells_of_its_kernel_and_memory() {
        let found = metadata(Path::new("/"));
        assert_eq!(found["os"], "Linux");
        assert!(found["mem_total_kb"].parse::<u64>().is_ok_and(|kb| kb > 0), "{found:?}");
        assert!(found.contains_key("kernel_version") && found.contains_key("device_ids"));
    }
}
