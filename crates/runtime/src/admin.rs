//! A daemon's admin socket, in Ceph's form: the caller sends a JSON object ended by a NUL; the answer is a
//! big-endian u32 length and the text.

use crate::inbox::{Event, Inbox};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;

/// Longest command that is read, in bytes.
const COMMAND_MAX: usize = 64 << 10;
/// Time for a caller to send its command.
const PATIENCE: Duration = Duration::from_secs(10);

/// A bound socket; its file is removed on drop.
pub(crate) struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl AdminSocket {
    /// Binds `path`, replacing a socket that a killed process left behind.
    pub(crate) fn bind(path: &Path) -> std::io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        Ok(Self { listener: UnixListener::bind(path)?, path: path.to_owned() })
    }

    /// Serves callers until dropped.
    pub(crate) async fn serve(self, inbox: Inbox<impl Send + 'static, impl Send + 'static>) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let inbox = inbox.clone();
                    tokio::task::spawn_local(async move {
                        // A caller that breaks off is its own affair.
                        let _ = tokio::time::timeout(PATIENCE, answer(stream, inbox)).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "admin socket");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn answer<Req, Rep>(mut stream: UnixStream, inbox: Inbox<Req, Rep>) -> std::io::Result<()> {
    let mut command = Vec::new();
    let mut chunk = [0u8; 4096];
    let end = loop {
        let n = stream.read(&mut chunk).await?;
        command.extend_from_slice(&chunk[..n]);
        match command.iter().position(|b| *b == 0 || *b == b'\n') {
            Some(end) => break end,
            None if n == 0 => break command.len(),
            None if command.len() > COMMAND_MAX => return Ok(()),
            None => {}
        }
    };
    let command = String::from_utf8_lossy(&command[..end]).into_owned();
    let (tx, rx) = oneshot::channel();
    inbox.send(Event::Admin(command, tx));
    let output = match rx.await {
        Ok((0, output)) => output,
        Ok((code, output)) => format!("ERROR: ({code}) {output}\n"),
        Err(_) => "ERROR: the daemon is stopping\n".to_owned(),
    };
    let len = u32::try_from(output.len()).unwrap_or(u32::MAX);
    stream.write_all(&[&len.to_be_bytes()[..], output.as_bytes()].concat()).await
}

/// Asks the daemon behind the socket at `path`; blocking.
pub fn ask(path: &Path, command: &str) -> std::io::Result<String> {
    let mut stream = std::os::unix::net::UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(command.as_bytes())?;
    stream.write_all(&[0])?;
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let mut output = String::new();
    stream.take(u64::from(u32::from_be_bytes(len))).read_to_string(&mut output)?;
    Ok(output)
}
