//! The lock that keeps a second `nacre dev` or `nacre run` off a directory.

use super::layout::advise;
use anyhow::{Result, bail};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

/// The lock, held while a cluster runs; the host releases it even if the process is killed.
pub(crate) struct DirLock(#[expect(dead_code, reason = "its life is the lock")] File);

impl DirLock {
    /// Takes the lock in `run_dir` for the command `user`, or names its holder; `dir` is what it keeps.
    pub(crate) fn take(run_dir: &Path, dir: &Path, user: &str) -> Result<Self> {
        let path = run_dir.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|e| advise("write", &path, e))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            // The process id is only for the message.
            let _ = file.read_to_string(&mut pid);
            bail!(
                "{} is in use by another `{user}` (process {}): stop that one first, \
                 or choose another directory",
                dir.display(),
                pid.trim()
            );
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|e| advise("write", &path, e))?;
        Ok(Self(file))
    }
}
