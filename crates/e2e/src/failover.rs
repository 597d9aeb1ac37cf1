//! Times of fail-over: the active metadata server is killed or stopped under a mount, and what every stage up
//! to the next answer takes is read from the successor's log.

use crate::{Cluster, Mount, Options};
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct FailOver {
    /// Files in the file system, all of which the mount has looked at.
    pub files: usize,
    /// Failures, by turns of one server and of the other.
    pub rounds: usize,
    /// The server is stopped instead of killed.
    pub stop: bool,
    /// Allow a standby that follows the journal.
    pub follows: bool,
    /// Memory for a server's cache, in bytes.
    pub cache: u64,
}

/// The longest time that is waited for anything.
const PATIENCE: Duration = Duration::from_secs(120);
const FILES_IN_DIR: usize = 1000;
/// Threads that make files.
const MAKERS: usize = 8;

/// The stages of a fail-over, and the event in the successor's log that tells their end.
const STAGES: [(&str, &str); 3] =
    [("rank taken", "rank_taken"), ("journal replayed", "journal_replayed"), ("active", "mds_activated")];

/// Measures, and returns the table of times.
pub fn fail_over(plan: &FailOver) -> Result<String, String> {
    let cluster = Cluster::start(Options { separate: true, mds: 2, ..Options::default() });
    let cache = plan.cache.to_string();
    cluster.client("ceph", &["config", "set", "mds", "mds_cache_memory_limit", &cache]).ok();
    if plan.follows {
        cluster.client("ceph", &["fs", "set", "cephfs", "allow_standby_replay", "true"]).ok();
    }
    let mount = Mount::new(&cluster, "m");
    let began = Instant::now();
    make(mount.point(), plan.files).map_err(|e| format!("making the files: {e}"))?;
    let mut out = format!("{} files made in {:.1} s\n", plan.files, began.elapsed().as_secs_f64());
    for round in 1..=plan.rounds {
        let first = cluster.active_mds().ok_or("nobody serves")?;
        let inodes = cluster.admin(&first, "status")["inodes"].clone();
        let journal = cluster.admin(&first, "status")["journal_bytes"].clone();
        let (at, began) = (SystemTime::now(), Instant::now());
        cluster.signal(&first, if plan.stop { Signal::STOP } else { Signal::KILL });
        std::fs::create_dir(mount.point().join(format!("after {round}"))).map_err(|e| e.to_string())?;
        let answered = began.elapsed();
        let second = cluster.active_mds().ok_or("nobody serves after the fail-over")?;
        out.push_str(&format!(
            "round {round}: {first} ({inodes} inodes, {journal} bytes of journal) to {second}: answer after \
             {:.3} s\n",
            answered.as_secs_f64()
        ));
        out.push_str(&stages(&cluster, &second, at));
        let again = match plan.stop {
            true => {
                cluster.signal(&first, Signal::CONT);
                None
            }
            false => Some(cluster.start_daemon(&first)),
        };
        let has_standby = |status: &serde_json::Value| {
            let of = |state: &str| status["fsmap"][state].as_u64().unwrap_or(0);
            of("up:standby") + of("up:standby-replay") == 1
        };
        let waited = Instant::now();
        while !has_standby(&cluster.status()) {
            if waited.elapsed() > PATIENCE {
                return Err(format!("{first} does not come back"));
            }
        }
        // It lives on with the cluster.
        std::mem::forget(again);
    }
    Ok(out)
}

/// Makes files in directories of a thousand, by several threads.
fn make(root: &Path, files: usize) -> std::io::Result<()> {
    let dirs = files.div_ceil(FILES_IN_DIR);
    let make_dir = |n: usize| -> std::io::Result<()> {
        let dir = root.join(format!("d{n}"));
        std::fs::create_dir(&dir)?;
        for file in n * FILES_IN_DIR..files.min((n + 1) * FILES_IN_DIR) {
            std::fs::File::create(dir.join(format!("f{file}")))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let part = |thread: usize| (thread..dirs).step_by(MAKERS).try_for_each(make_dir);
        let threads: Vec<_> = (0..MAKERS).map(|thread| scope.spawn(move || part(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("makes files or fails"))
    })
}

/// A line for every stage that the successor's log tells of after `at`.
fn stages(cluster: &Cluster, successor: &str, at: SystemTime) -> String {
    let path = cluster.dir().join("log").join(format!("{successor}.log"));
    let log = std::fs::read_to_string(path).unwrap_or_default();
    let day = Duration::from_secs(86_400).as_secs_f64();
    let since_midnight = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64() % day;
    let mut out = String::new();
    let mut before = 0.0;
    for (stage, event) in STAGES {
        let lines = log.lines().filter(|line| line.contains(event));
        let after = lines.filter_map(|line| {
            Some((time_of_day(line)? - since_midnight).rem_euclid(day)).filter(|after| *after < 600.0)
        });
        let Some(after) = after.reduce(f64::min) else { continue };
        out.push_str(&format!("  {stage:18} at {after:7.3} s  (+{:.3})\n", after - before));
        before = after;
    }
    out
}

/// Seconds since midnight of a log line, which begins with `2026-01-31T12:34:56.789012Z`.
fn time_of_day(line: &str) -> Option<f64> {
    let (_, clock) = line.split_whitespace().next()?.split_once('T')?;
    let mut parts = clock.trim_end_matches('Z').split(':');
    let mut next = || parts.next()?.parse::<f64>().ok();
    Some(next()? * 3600.0 + next()? * 60.0 + next()?)
}
