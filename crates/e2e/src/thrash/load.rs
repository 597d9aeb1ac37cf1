//! The clients of a thrashed cluster: writers of known content, and `rados bench`.

use crate::cluster::Cluster;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// No run of it may take longer than this to end.
const PATIENCE: Duration = Duration::from_secs(180);

/// A program whose output is read line by line.
struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    fn start(mut command: Command) -> Self {
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
    fn ended(&mut self) -> Result<(), String> {
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        let status = self.child.wait().expect("it was started");
        if status.success() { Ok(()) } else { Err(said) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writers of known content.
pub struct Writers {
    program: Program,
    /// The longest time that one operation has been in flight, as last reported, in milliseconds.
    pub waits_ms: u64,
    /// Operations so far.
    pub operations: u64,
}

impl Writers {
    /// Starts them on a pool.
    pub fn start(cluster: &Cluster, pool: &str, seed: u64) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/thrash/checked_writes.py");
        let mut command = cluster.command("python3");
        command.arg(source).arg(cluster.conf()).args([pool, &seed.to_string()]);
        Self { program: Program::start(command), waits_ms: 0, operations: 0 }
    }

    /// Lets time pass; an error of theirs ends that.
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
                    return Err(self.program.ended().err().unwrap_or("the writers have ended".into()));
                }
            }
        }
    }

    /// Ends them. Returns their report on everything that was written.
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
                    return Err(self.program.ended().err().unwrap_or("the writers have ended".into()));
                }
            }
        }
    }
}

/// `rados bench`, one run after another: writes, then verified reads of the same objects, then deletions.
/// Each process gives its objects names of its own.
pub struct Bench {
    program: Option<Program>,
    runs: u32,
}

/// Objects of 64 KiB that it writes: as many as the devices hold easily.
const OBJECTS: &str = "1500";

impl Bench {
    /// Not started yet.
    pub fn new() -> Self {
        Self { program: None, runs: 0 }
    }

    /// Runs that have ended well.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// Starts the next run after the last one has ended.
    pub fn go_on(&mut self, cluster: &Cluster, pool: &str) -> Result<(), String> {
        if let Some(program) = &mut self.program {
            if program.child.try_wait().expect("it was started").is_none() {
                return Ok(());
            }
            self.end()?;
        }
        let mut command = cluster.command("rados");
        command.arg("-c").arg(cluster.conf()).args(["-p", pool]);
        match self.runs % 3 {
            0 => command.args([
                "bench",
                "10",
                "write",
                "-b",
                "65536",
                "--no-cleanup",
                "--max-objects",
                OBJECTS,
            ]),
            1 => command.args(["bench", "5", "seq"]),
            _ => command.arg("cleanup"),
        };
        command.args(["--run-name", "thrash", "-t", "4"]);
        self.program = Some(Program::start(command));
        Ok(())
    }

    /// Waits for the end of the present run.
    pub fn end(&mut self) -> Result<(), String> {
        let Some(mut program) = self.program.take() else { return Ok(()) };
        let (until, mut said) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            match program.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => said.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("rados bench does not end\n{}", said.join("\n")));
                }
            }
        }
        program.ended().map_err(|why| format!("rados bench: {why}\n{}", said.join("\n")))?;
        self.runs += 1;
        Ok(())
    }
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}
