//! The op tracker: the slowest recent requests with their time in each stage, and the mean latency of writes.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use stdx::Instant;

/// Age from which a waiting request is reported as slow (`osd_op_complaint_time` of Ceph's OSDs).
pub const COMPLAINT: Duration = Duration::from_secs(30);
/// Number of requests kept, of each kind (`osd_op_history_size`, `osd_op_history_slow_op_size`).
const KEPT: usize = 20;
/// Time for which they are kept (`osd_op_history_duration`).
const KEPT_FOR: Duration = Duration::from_secs(600);
/// Duration from which a request is kept as slow, regardless of its age (`osd_op_history_slow_op_threshold`).
const SLOW: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Past {
    at: Instant,
    took: Duration,
    told: Value,
}

/// Requests that were answered.
#[derive(Debug, Default)]
pub struct OpTracker {
    recent: VecDeque<Past>,
    slow: VecDeque<Past>,
    /// Number of writes since the last report, and their total commit time.
    writes: (u32, Duration),
}

impl OpTracker {
    /// Records a request that took `took` and is answered now.
    pub fn answered(&mut self, took: Duration, now: Instant, describe: impl FnOnce() -> Value) {
        while self.recent.front().is_some_and(|past| now.since(past.at) > KEPT_FOR) {
            self.recent.pop_front();
        }
        let fastest = self.recent.iter().enumerate().min_by_key(|(_, past)| past.took);
        let displaced = fastest.map(|(at, past)| (at, past.took)).filter(|_| self.recent.len() >= KEPT);
        let is_kept = displaced.is_none_or(|(_, least)| took > least);
        if !is_kept && took < SLOW {
            return;
        }
        let told = describe();
        if took >= SLOW {
            self.slow.push_back(Past { at: now, took, told: told.clone() });
            self.slow.drain(..self.slow.len().saturating_sub(KEPT));
        }
        if is_kept {
            displaced.map(|(at, _)| self.recent.remove(at));
            self.recent.push_back(Past { at: now, took, told });
        }
    }

    /// Records the commit time of a write on all members.
    pub fn replicated(&mut self, took: Duration) {
        self.writes.0 += 1;
        self.writes.1 += took;
    }

    /// The slowest requests of the last ten minutes, oldest first.
    pub fn dump(&self) -> Value {
        let ops: Vec<&Value> = self.recent.iter().map(|past| &past.told).collect();
        json!({ "size": KEPT, "duration": KEPT_FOR.as_secs(), "ops": ops })
    }

    /// The last requests that took more than ten seconds, oldest first.
    pub fn dump_slow(&self) -> Value {
        let ops: Vec<&Value> = self.slow.iter().map(|past| &past.told).collect();
        json!({ "num to keep": KEPT, "threshold to keep": SLOW.as_secs(), "Ops": ops })
    }

    /// Mean commit latency of writes since the last call, in milliseconds.
    pub fn take_commit_latency(&mut self) -> u32 {
        let (count, took) = std::mem::take(&mut self.writes);
        took.checked_div(count).map_or(0, |mean| mean.as_millis() as u32)
    }
}
