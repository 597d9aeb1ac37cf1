//! A virtual machine, and what its guest says on the serial line.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Nothing may take longer: the processor is emulated.
const PATIENCE: Duration = Duration::from_secs(600);

/// A running machine; dropping it kills it.
pub(super) struct Machine {
    child: Child,
    lines: Receiver<String>,
    /// The last lines, for whoever wants to know why.
    tail: Vec<String>,
    /// The number of the last note that is on the disk.
    noted: Arc<AtomicU64>,
}

impl Machine {
    /// Boots from an image, by QEMU's driver for images.
    pub(super) fn start(conf: &Path, image: &str) -> Result<Self, String> {
        let drive = format!("file=rbd:rbd/{image}:conf={},format=raw,if=virtio,cache=none", conf.display());
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-accel", "tcg", "-m", "512", "-nic", "none", "-display", "none", "-no-reboot"]);
        command.args(["-monitor", "none", "-serial", "stdio", "-drive", &drive]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
        let said = BufReader::new(child.stdout.take().expect("piped"));
        let (tx, lines) = channel();
        let noted = Arc::new(AtomicU64::new(0));
        let heard = noted.clone();
        std::thread::spawn(move || {
            for line in said.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                let number = line.split_once("guest: noted ").and_then(|(_, n)| n.parse().ok());
                number.into_iter().for_each(|number| heard.store(number, Ordering::Relaxed));
                if tx.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines, tail: Vec::new(), noted })
    }

    pub(super) fn noted(&self) -> u64 {
        self.noted.load(Ordering::Relaxed)
    }

    /// Takes a line of the guest; none if the machine has ended.
    fn next(&mut self, until: Instant) -> Result<Option<String>, String> {
        let line = match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => return Err(self.why("takes too long")),
        };
        self.tail.push(line.clone());
        let said = line.split_once("guest: ").map_or("", |(_, said)| said);
        if said == "failed" {
            return Err(self.why("says that it has failed"));
        }
        Ok(Some(said.to_owned()))
    }

    fn why(&self, what: &str) -> String {
        let from = self.tail.len().saturating_sub(40);
        format!("the guest {what}:\n{}", self.tail[from..].join("\n"))
    }

    fn wait_until(&mut self, what: &str, is_it: impl Fn(&str) -> bool) -> Result<String, String> {
        let until = Instant::now() + PATIENCE;
        while let Some(said) = self.next(until)? {
            if is_it(&said) {
                return Ok(said);
            }
        }
        Err(self.why(&format!("has ended before {what}")))
    }

    /// Waits until it says something that begins like this.
    pub(super) fn wait_for(&mut self, words: &str) -> Result<String, String> {
        self.wait_until(words, |said| said.starts_with(words))
    }

    /// Waits until a note is on the disk. Returns the last.
    pub(super) fn wait_for_note(&mut self, number: u64) -> Result<u64, String> {
        let told = |said: &str| said.strip_prefix("noted ").and_then(|n| n.parse::<u64>().ok());
        self.wait_until("a note", |said| told(said).is_some_and(|n| n >= number))?;
        Ok(self.noted())
    }

    /// Waits until it has switched itself off. Returns the last note.
    pub(super) fn wait_for_end(&mut self) -> Result<u64, String> {
        let until = Instant::now() + PATIENCE;
        while self.next(until)?.is_some() {}
        let status = self.child.wait().map_err(|e| e.to_string())?;
        if status.success() { Ok(self.noted()) } else { Err(self.why(&format!("ended with {status}"))) }
    }

    /// Ends it as a crash of its host would.
    pub(super) fn kill(self) {
        drop(self);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
