//! Forward scrub (`scrub start`): a walk from a path over what is stored below it. It looks whether each
//! entry can be read, whether the inode index leads to each inode, and whether a directory's statistics are
//! those of its entries. What is wrong is noted as damage; with `repair` it is put right instead.
//!
//! Clients go on meanwhile. A directory that changes while its pages are read is read again, since a sum over
//! several of its states says nothing.

mod check;
mod options;
mod walk;

pub use options::ScrubOptions;

use super::effect::Stage;
use super::env::{Env, Loaded};
use super::sessions::Sessions;
use crate::cache::Cache;
use crate::io::IoResult;
use crate::types::IoId;
use node::Level;
use serde_json::{Value, json};
use std::collections::VecDeque;
use walk::{Progress, Walk};

/// A scrub that was asked for.
#[derive(Clone, Debug)]
struct Run {
    tag: String,
    path: String,
    options: ScrubOptions,
}

impl Run {
    fn describe(&self) -> Value {
        json!({ "path": self.path, "tag": self.tag, "options": self.options.text() })
    }
}

/// Scrubs, of which one is under way at a time.
///
/// Invariants: the current run has a walk; it waits for one load or for its looks at the inode index, or goes
/// on with the next step.
#[derive(Default)]
pub(super) struct Scrub {
    current: Option<(Run, Walk)>,
    queue: VecDeque<Run>,
    is_paused: bool,
    last: Option<Value>,
}

impl Scrub {
    /// Queues a scrub.
    pub fn start(&mut self, tag: String, path: String, options: ScrubOptions) {
        self.queue.push_back(Run { tag, path, options });
    }

    /// Ends all scrubs.
    pub fn abort(&mut self) {
        self.queue.clear();
        if let Some((run, walk)) = self.current.take() {
            self.last = Some(ended(&run, &walk.progress, "aborted"));
        }
    }

    /// Stops after the present step, or goes on.
    pub fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// The state for people, with Ceph's keys; `last` is ours.
    pub fn status(&self) -> Value {
        let left = self.current.as_ref().map_or(0, |(_, walk)| walk.steps_left());
        let status = match (&self.current, self.is_paused) {
            (_, true) => format!("PAUSED ({left} inodes in the stack)"),
            (Some(_), false) => format!("scrub active ({left} inodes in the stack)"),
            (None, false) => "no active scrubs running".to_owned(),
        };
        let runs = self.current.iter().map(|(run, _)| run).chain(&self.queue);
        let scrubs: serde_json::Map<String, Value> =
            runs.map(|run| (run.tag.clone(), run.describe())).collect();
        let mut out = json!({ "status": status, "scrubs": scrubs });
        if let Some((_, walk)) = &self.current {
            out["progress"] = walk.progress.describe();
        }
        if let Some(last) = &self.last {
            out["last"] = last.clone();
        }
        out
    }

    /// True if it is walking over directories.
    pub fn is_walking(&self) -> bool {
        self.current.is_some()
    }

    /// Goes on with the walk, as far as it lacks nothing.
    pub fn advance(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        takes_changes: bool,
    ) {
        if self.is_paused || !takes_changes || env.stage() != Stage::Active {
            return;
        }
        if self.current.is_none() {
            self.current = self.queue.pop_front().map(|run| {
                let walk = Walk::new(&run.path, run.options);
                (run, walk)
            });
        }
        let Some((run, walk)) = &mut self.current else { return };
        if !walk.advance(env, cache, sessions) {
            return;
        }
        let level = if walk.progress.damaged > 0 { Level::Warn } else { Level::Info };
        let result = walk.progress.result();
        env.log(level, "scrub_ended", format!("{} ({}): {result}", run.path, run.tag));
        self.last = Some(ended(run, &walk.progress, &result));
        self.current = None;
    }

    /// A load has ended.
    pub fn loaded(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, loaded: &Loaded) {
        if let Some((_, walk)) = &mut self.current {
            walk.loaded(env, cache, sessions, loaded);
        }
    }

    /// Entries of the inode index were read.
    pub fn io_done(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        id: IoId,
        result: IoResult,
    ) {
        if let Some((_, walk)) = &mut self.current {
            walk.index_read(env, cache, sessions, id, result);
        }
    }
}

fn ended(run: &Run, progress: &Progress, result: &str) -> Value {
    let mut out = run.describe();
    out["progress"] = progress.describe();
    out["result"] = result.into();
    out
}
