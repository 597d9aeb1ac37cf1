//! The clients of a thrashed cluster: writers of known content, and `rados bench`.

use crate::cluster::Cluster;
use crate::workload::{Piped, Workload};
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// No run of it may take longer than this to end.
const PATIENCE: Duration = Duration::from_secs(180);

/// Starts writers of known content on a pool.
pub(super) fn start_writers(cluster: &Cluster, pool: &str, seed: u64) -> Workload {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/workloads/checked_writes.py");
    let mut command = cluster.command("python3");
    command.arg(source).arg(cluster.conf()).args([pool, &seed.to_string()]);
    Workload::start(command)
}

/// `rados bench`, one run after another: writes, then verified reads of the same objects, then deletions.
/// Each process gives its objects names of its own.
pub struct Bench {
    program: Option<Piped>,
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
        self.program = Some(Piped::start(command));
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
