//! Workloads whose every byte is known, in programs of their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A program whose output is read line by line.
pub(crate) struct Piped {
    pub child: Child,
    pub lines: Receiver<String>,
}

impl Piped {
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let (tx, lines) = mpsc::channel();
        let stdout = child.stdout.take().expect("piped");
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The reader may be gone.
                let _ = tx.send(line);
            }
        });
        Self { child, lines }
    }

    /// Its exit, with its output.
    pub fn ended(&mut self) -> Result<(), String> {
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        let status = self.child.wait().expect("it was started");
        if status.success() { Ok(()) } else { Err(said) }
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A workload. It says each second how many operations there were and how long the one waits that waits
/// longest, and at the end, when it has compared everything, what it did.
pub(crate) struct Workload {
    program: Piped,
    /// The longest time that one operation has been in flight, as last reported, in milliseconds.
    pub waits_ms: u64,
    /// Operations so far.
    pub operations: u64,
}

impl Workload {
    /// Starts it.
    pub fn start(mut command: Command) -> Self {
        // The programs import one of the source tree.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        Self { program: Piped::start(command), waits_ms: 0, operations: 0 }
    }

    /// Lets time pass; an error of its ends that.
    pub fn go_on(&mut self, time: Duration) -> Result<(), String> {
        let until = Instant::now() + time;
        loop {
            match self.program.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let mut words = line.split(' ').map(str::parse);
                    if let (Some(Ok(operations)), Some(Ok(waits))) = (words.next(), words.next()) {
                        (self.operations, self.waits_ms) = (operations, waits);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.program.ended().err().unwrap_or("the workload has ended".into()));
                }
            }
        }
    }

    /// Ends it. Returns its report on everything that was written.
    pub fn finish(mut self, patience: Duration) -> Result<serde_json::Value, String> {
        let mut stdin = self.program.child.stdin.take().expect("piped");
        stdin.write_all(b"\n").map_err(|e| e.to_string())?;
        let until = Instant::now() + patience;
        loop {
            match self.program.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with('{') => {
                    return serde_json::from_str(&line).map_err(|e| e.to_string());
                }
                Ok(line) => self.waits_ms = line.split(' ').nth(1).and_then(|w| w.parse().ok()).unwrap_or(0),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("not verified; an operation waits for {} ms", self.waits_ms));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.program.ended().err().unwrap_or("the workload has ended".into()));
                }
            }
        }
    }
}
