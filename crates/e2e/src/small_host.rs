//! A file system that is soon full.

use crate::run::run;
use rustix::process::geteuid;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system in memory, unmounted when dropped.
pub struct SmallHost(PathBuf);

impl SmallHost {
    /// False, and says so, where nothing can be mounted; panics then if `CI=true`.
    pub fn is_possible() -> bool {
        let may = geteuid().is_root();
        if !may {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "mounting needs root");
            eprintln!("skipped: mounting needs root");
        }
        may
    }

    /// Mounts one of so many bytes (`160m`) at a directory.
    pub fn mount(at: &Path, size: &str) -> Self {
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(at)).ok();
        Self(at.to_owned())
    }

    /// Gives it another size.
    pub fn resize(&self, size: &str) {
        run(Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(&self.0)).ok();
    }
}

impl Drop for SmallHost {
    fn drop(&mut self) {
        // Lazily: an OSD may still have it open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
