//! Names, times and numbers for people.

use fsfmt::{DentryKey, mode};
use maps::SnapId;
use wire::Utime;

/// A name or key: as it is if it can be printed, else with escapes.
pub(super) fn shown(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if !text.chars().any(|c| c.is_control() || c == '\\') => text.to_owned(),
        _ => name.escape_ascii().to_string(),
    }
}

/// Seconds are enough for a list.
pub(super) fn time(at: Utime) -> String {
    at.iso8601().chars().take(19).collect()
}

/// A snapshot's number, or `head`.
pub(super) fn snap(snap: SnapId) -> String {
    if snap == SnapId::HEAD { "head".to_owned() } else { snap.0.to_string() }
}

/// The snapshots that an entry is in, as `[first,last]`.
pub(super) fn interval(first: SnapId, key: &DentryKey) -> String {
    format!("[{},{}]", first.0, snap(key.snap))
}

/// A file's type by the number that `readdir` has for it (DT_REG …).
pub(super) fn kind(dtype: u8) -> &'static str {
    match u32::from(dtype) << 12 {
        mode::DIR => "dir",
        mode::FILE => "file",
        mode::SYMLINK => "symlink",
        0o010_000 => "fifo",
        0o020_000 => "char",
        0o060_000 => "block",
        0o140_000 => "socket",
        _ => "?",
    }
}
