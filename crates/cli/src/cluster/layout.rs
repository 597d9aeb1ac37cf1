//! The paths under a cluster's directory.

use anyhow::{Context, Result, bail};
use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use wire::EntityName;

/// The paths of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    dir: PathBuf,
}

/// The least free space for a new cluster, in bytes.
const SPACE_NEEDED: u64 = 512 << 20;

impl Layout {
    /// Makes missing directories.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(|e| advise("create", dir, e))?;
        let dir = dir.canonicalize().with_context(|| format!("cannot use {}", dir.display()))?;
        let out = Self { dir };
        for sub in [out.run_dir(), out.dir.join("log")] {
            std::fs::create_dir_all(&sub).map_err(|e| advise("create", &sub, e))?;
        }
        Ok(out)
    }

    /// Refuses a directory on a file system that is nearly full.
    pub(crate) fn check_space(&self) -> Result<()> {
        let free = self.free_space()?;
        if free < SPACE_NEEDED {
            bail!(
                "{} is on a file system with only {} MiB free, a new cluster needs {} MiB: free some \
                 space or choose another directory",
                self.dir.display(),
                free >> 20,
                SPACE_NEEDED >> 20
            );
        }
        Ok(())
    }

    /// A warning if the OSDs' sparse files may outgrow the file system that they are on.
    pub(crate) fn warn_of_growth(&self) -> Option<String> {
        let free = self.free_space().ok()?;
        let files = self.osds().ok()?.into_iter().map(|id| self.daemon(&format!("osd.{id}")).join("block"));
        let growth: u64 = files
            .filter_map(|file| std::fs::metadata(file).ok())
            .map(|file| file.len().saturating_sub(file.blocks() * 512))
            .sum();
        (growth > free).then(|| {
            format!(
                "the OSDs' files may grow by {} GiB, and {} has {} GiB left: keep it from filling up, or \
                 make a new cluster with a smaller --osd-size",
                growth >> 30,
                self.dir.display(),
                free >> 30
            )
        })
    }

    fn free_space(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(&self.dir)
            .with_context(|| format!("cannot examine {}", self.dir.display()))?;
        Ok(stat.f_bavail * stat.f_frsize)
    }

    /// The directory itself, absolute.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The configuration file that every client and daemon reads.
    pub(crate) fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    /// The administrator's keyring.
    pub(crate) fn keyring(&self) -> PathBuf {
        self.dir.join("keyring")
    }

    /// A daemon's own directory: `osd.0`.
    pub(crate) fn daemon(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Process ids and admin sockets.
    pub(crate) fn run_dir(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// The files of daemons that are processes of their own.
    pub(crate) fn place(&self) -> Place {
        Place { conf: self.conf(), run_dir: self.run_dir(), log_dir: Some(self.dir.join("log")) }
    }

    /// A daemon's log, or `nacre` for that of a whole cluster in one process.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.dir.join("log").join(format!("{name}.log"))
    }

    /// The numbers of the OSDs that have a directory, in order.
    pub(crate) fn osds(&self) -> Result<Vec<u32>> {
        let entries =
            std::fs::read_dir(&self.dir).with_context(|| format!("cannot list {}", self.dir.display()))?;
        let mut out: Vec<u32> = entries
            .flatten()
            .filter_map(|e| e.file_name().to_str()?.strip_prefix("osd.")?.parse().ok())
            .collect();
        out.sort_unstable();
        Ok(out)
    }
}

/// The files of daemons that are processes of their own.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The configuration file.
    pub(crate) conf: PathBuf,
    /// The directory of files with process ids.
    pub(crate) run_dir: PathBuf,
    /// The directory of logs; without one daemons write to this process's standard error.
    pub(crate) log_dir: Option<PathBuf>,
}

impl Place {
    /// Where a daemon's log goes.
    pub(super) fn log(&self, name: &EntityName) -> Result<Stdio> {
        let Some(dir) = &self.log_dir else { return Ok(Stdio::inherit()) };
        let path = dir.join(format!("{name}.log"));
        let log = OpenOptions::new().create(true).append(true).open(&path);
        Ok(log.with_context(|| format!("cannot write {}", path.display()))?.into())
    }
}

/// An error of the host about a path, with advice.
pub(crate) fn advise(what: &str, path: &Path, error: std::io::Error) -> anyhow::Error {
    let hint = match error.raw_os_error() {
        Some(libc::EROFS) => ": the file system is mounted read-only, choose another directory",
        Some(libc::EACCES | libc::EPERM) => ": choose a directory that you may write to",
        Some(libc::ENOSPC | libc::EDQUOT) => {
            ": the file system is full, free some space or choose another directory"
        }
        Some(libc::ENOTDIR | libc::EEXIST) => ": a file is in the way, choose another directory",
        _ => "",
    };
    anyhow::anyhow!("cannot {what} {} ({error}){hint}", path.display())
}
