//! Where time goes: what requests waited for, the slowest of late, and the mean latency of writes.

use crate::pg::request::{ClientOp, Stage};
use maps::PgId;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use stdx::{Instant, Now, Wall};

/// A request that waits longer is reported (`osd_op_complaint_time` of Ceph's OSDs).
pub const COMPLAINT: Duration = Duration::from_secs(30);
/// Requests that are kept, of each kind (`osd_op_history_size`, `osd_op_history_slow_op_size`) …
const KEPT: usize = 20;
/// … and for how long (`osd_op_history_duration`).
const KEPT_FOR: Duration = Duration::from_secs(600);
/// A request that took longer is kept as slow, whenever that was (`osd_op_history_slow_op_threshold`).
const SLOW: Duration = Duration::from_secs(10);

/// How long a request has been in each stage.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    spent: [Duration; Stage::ALL.len()],
    since: Instant,
}

impl Waits {
    /// Of a request that has come now.
    pub fn begin(now: Instant) -> Self {
        Self { spent: Default::default(), since: now }
    }

    /// For how long it has been in its stage.
    pub fn in_stage(&self, now: Instant) -> Duration {
        now.since(self.since)
    }

    /// The request leaves a stage.
    pub fn leave(&mut self, stage: Stage, now: Instant) {
        self.spent[stage as usize] += now.since(self.since);
        self.since = now;
    }

    /// What it has waited for, where it is in `stage` now.
    fn dump(&self, stage: Stage, now: Instant) -> Value {
        let mut waits = *self;
        waits.leave(stage, now);
        let spent = Stage::ALL.iter().filter(|s| !waits.spent[**s as usize].is_zero());
        spent
            .map(|s| json!({ "event": s.text(), "duration": waits.spent[*s as usize].as_secs_f64() }))
            .collect()
    }
}

/// What a request is, in words, and what it has waited for.
pub fn describe(pgid: PgId, op: &ClientOp, now: Now) -> Value {
    let age = now.mono.since(op.received);
    let codes: Vec<String> = op.request.ops.iter().map(|o| o.op.code().to_string()).collect();
    let name = String::from_utf8_lossy(&op.request.oid);
    let began = Wall(now.wall.0.saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)));
    json!({
        "description": format!("osd_op({} {pgid} {name:?} {codes:?})", op.reqid),
        "initiated_at": wire::Utime::from(began).iso8601(),
        "age": age.as_secs_f64(),
        "duration": age.as_secs_f64(),
        "type_data": { "flag_point": op.stage.text(), "events": op.waits.dump(op.stage, now.mono) },
    })
}

#[derive(Debug)]
struct Past {
    at: Instant,
    took: Duration,
    told: Value,
}

/// Requests that were answered.
#[derive(Debug, Default)]
pub struct History {
    recent: VecDeque<Past>,
    slow: VecDeque<Past>,
    /// Since the last report: writes, and how long they took together to be durable everywhere.
    writes: (u32, Duration),
}

impl History {
    /// Takes note of a request that is answered now.
    pub fn note(&mut self, pgid: PgId, op: &ClientOp, now: Now) {
        let took = now.mono.since(op.received);
        if op.stage == Stage::Replicating {
            self.writes.0 += 1;
            self.writes.1 += now.mono.since(op.waits.since);
        }
        while self.recent.front().is_some_and(|past| now.mono.since(past.at) > KEPT_FOR) {
            self.recent.pop_front();
        }
        let fastest = self.recent.iter().enumerate().min_by_key(|(_, past)| past.took);
        let displaced = fastest.map(|(at, past)| (at, past.took)).filter(|_| self.recent.len() >= KEPT);
        let is_kept = displaced.is_none_or(|(_, least)| took > least);
        if !is_kept && took < SLOW {
            return;
        }
        let told = describe(pgid, op, now);
        if took >= SLOW {
            self.slow.push_back(Past { at: now.mono, took, told: told.clone() });
            self.slow.drain(..self.slow.len().saturating_sub(KEPT));
        }
        if is_kept {
            displaced.map(|(at, _)| self.recent.remove(at));
            self.recent.push_back(Past { at: now.mono, took, told });
        }
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

    /// The mean time in which writes were made durable since this was last asked, in milliseconds.
    pub fn take_commit_latency(&mut self) -> u32 {
        let (count, took) = std::mem::take(&mut self.writes);
        took.checked_div(count).map_or(0, |mean| mean.as_millis() as u32)
    }
}
