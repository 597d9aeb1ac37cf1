//! Files that are written whole or not at all.

use super::layout::advise;
use anyhow::Result;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Replaces `path` by `content`, durably and at once; `mode` is that of the new file.
pub(crate) fn write(path: &Path, content: &str, mode: u32) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let temporary = path.with_file_name(format!(".{name}.new"));
    let parent = path.parent().unwrap_or(Path::new("."));
    let put = || {
        // The remains of a killed process may have another mode.
        match std::fs::remove_file(&temporary) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        File::open(parent)?.sync_all()
    };
    put().map_err(|e| advise("write", path, e))
}
