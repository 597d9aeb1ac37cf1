//! Daemons' admin sockets: a JSON object ended by a NUL goes there, and a length in four bytes and the answer
//! come back.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// The time that a daemon has for an answer: one that hangs must not keep the others' from being told.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// Answers larger than that are not read: a daemon's counters are some kilobytes.
const MOST_BYTES: usize = 4 << 20;

/// A daemon's admin socket.
pub(super) struct Socket {
    /// The daemon's name: `osd.0`.
    pub daemon: String,
    path: PathBuf,
}

/// The sockets in a directory, in the order of the daemons' names; none if it can't be read.
pub(super) fn sockets(dir: &Path) -> Vec<Socket> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut all: Vec<Socket> = entries.filter_map(|entry| Socket::at(entry.path())).collect();
    all.sort_by(|a, b| a.daemon.cmp(&b.daemon));
    all
}

impl Socket {
    /// The socket at `path`, if a daemon of ours has it: `osd.0.asok`, or `ceph-osd.0.asok`.
    fn at(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_suffix(".asok")?;
        let name = name.strip_prefix("ceph-").unwrap_or(name);
        let (role, id) = name.split_once('.')?;
        let is_daemon = ["mon", "osd", "mds"].contains(&role) && !id.is_empty();
        is_daemon.then(|| Self { daemon: name.to_owned(), path: path.clone() })
    }

    /// The answer to a command; `None` if there is none in time, or it is an error.
    pub async fn ask(&self, command: &Value) -> Option<Value> {
        let exchange = tokio::time::timeout(PATIENCE, self.exchange(command)).await;
        serde_json::from_slice(&exchange.ok()?.ok()?).ok()
    }

    async fn exchange(&self, command: &Value) -> std::io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(&self.path).await?;
        stream.write_all(format!("{command}\0").as_bytes()).await?;
        let len = stream.read_u32().await? as usize;
        if len > MOST_BYTES {
            return Err(std::io::Error::other("the answer is too long"));
        }
        let mut answer = vec![0; len];
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    }
}
