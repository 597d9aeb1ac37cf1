//! The images that processes of this host serve: a file for each, which its process keeps locked.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// An image that is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mapped {
    /// POOL/IMAGE@SNAP.
    pub(crate) image: String,
    /// The socket's path, or ADDRESS:PORT.
    pub(crate) endpoint: String,
    /// The process.
    pub(crate) pid: u32,
    pub(crate) read_only: bool,
    file: PathBuf,
}

/// The record of an image that this process serves. Dropping it ends the record.
pub(crate) struct Registration {
    file: File,
    path: PathBuf,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Left behind, it would be found unlocked, which says the same.
        let _ = std::fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

/// The directory of records.
pub(crate) fn run_dir() -> PathBuf {
    let mine = || std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("nacre"));
    let uid = rustix::process::getuid();
    if uid.is_root() {
        return "/run/nacre/block".into();
    }
    mine().unwrap_or_else(|| std::env::temp_dir().join(format!("nacre-{}", uid.as_raw()))).join("block")
}

impl Registration {
    /// Records an image that this process serves.
    pub(crate) fn new(dir: &Path, image: &str, endpoint: &str, read_only: bool) -> Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let path = dir.join(format!("{}.json", std::process::id()));
        let open = || -> std::io::Result<File> {
            let mut file = File::create(&path)?;
            file.lock()?;
            let record = json!({
                "image": image,
                "endpoint": endpoint,
                "pid": std::process::id(),
                "read_only": read_only,
            });
            writeln!(file, "{record}")?;
            Ok(file)
        };
        let file = open().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { file, path })
    }
}

/// The images that are served. Records of processes that have died are removed.
pub(crate) fn list(dir: &Path) -> Vec<Mapped> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut all: Vec<Mapped> = entries.flatten().filter_map(|entry| read(&entry.path())).collect();
    all.sort_by(|a, b| (&a.image, a.pid).cmp(&(&b.image, b.pid)));
    all
}

fn read(path: &Path) -> Option<Mapped> {
    if path.extension()? != "json" {
        return None;
    }
    let mut file = File::options().read(true).write(true).open(path).ok()?;
    if file.try_lock().is_ok() {
        // Its process has died: it would hold the lock.
        let _ = std::fs::remove_file(path);
        return None;
    }
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    let record: Value = serde_json::from_str(&text).ok()?;
    Some(Mapped {
        image: record["image"].as_str()?.to_owned(),
        endpoint: record["endpoint"].as_str()?.to_owned(),
        pid: record["pid"].as_u64()?.try_into().ok()?,
        read_only: record["read_only"].as_bool()?,
        file: path.to_owned(),
    })
}

impl Mapped {
    /// True while its process lives.
    pub(crate) fn is_there(&self) -> bool {
        read(&self.file).is_some_and(|found| found == *self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_lasts_as_long_as_its_owner() {
        let dir = tempfile::tempdir().expect("a directory");
        let record = Registration::new(dir.path(), "p/i", "/s", true).expect("it is written");
        let found = list(dir.path());
        assert_eq!((found.len(), found[0].image.as_str(), found[0].endpoint.as_str()), (1, "p/i", "/s"));
        assert!(found[0].is_there());
        drop(record);
        assert!(list(dir.path()).is_empty() && !found[0].is_there());
        std::fs::write(dir.path().join("1.json"), "{}").expect("writes");
        assert!(list(dir.path()).is_empty());
    }
}
