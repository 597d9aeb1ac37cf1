//! The directory that everything is measured in: made for the measurement, and removed whatever happens.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// A directory of our own; removed with all that is in it when dropped.
pub(super) struct Place {
    path: PathBuf,
    is_removed: bool,
}

impl Place {
    /// Makes a directory in `dir`.
    pub(super) fn new(dir: &Path) -> Result<Self> {
        if !dir.is_dir() {
            bail!("{} is no directory: give one of the file system that is to be measured", dir.display());
        }
        for n in 0_u32.. {
            let path = dir.join(format!("nacre-fs-bench-{}-{n}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, is_removed: false }),
                // Of a process of another host, or of the same number before.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => {
                    return Err(e).with_context(|| format!("cannot make a directory in {}", dir.display()));
                }
            }
        }
        bail!("{} is full of old measurements", dir.display())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a directory in it for a round.
    pub(super) fn round(&self, number: u64) -> Result<Self> {
        let path = self.path.join(format!("round-{number}"));
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path, is_removed: false })
    }

    /// Removes it; fails if something stays.
    pub(super) fn remove(mut self) -> Result<()> {
        self.is_removed = true;
        std::fs::remove_dir_all(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_removed
            && let Err(e) = std::fs::remove_dir_all(&self.path)
        {
            eprintln!("nacre: cannot remove {}: {e}", self.path.display());
        }
    }
}
